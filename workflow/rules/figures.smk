STYLE = [
    f"figures/{name}"
    for name in ("look.py", "curves.py", "page.py", "blog.mplstyle", "paper.mplstyle")
]


rule figure:
    """Draw one figure of a sweep for the blog (svg, png) and the paper (pdf)."""
    input:
        STYLE,
        "figures/{figure}.py",
        tidy=lambda wildcards: (
            f"results/{wildcards.source}/tidy/{FIGURES[wildcards.figure]}.csv"
        ),
        hardware="results/{source}/hardware.json",
    output:
        multiext("results/{source}/figures/{figure}", ".svg", ".png", ".pdf"),
    log:
        "results/logs/{source}/figure-{figure}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
    shell:
        "python -m figures.{wildcards.figure} {input.tidy} --hardware {input.hardware}"
        " --stem {params.stem} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule accuracy_figure:
    """Draw the errors of every variant by kind of input."""
    input:
        STYLE,
        "figures/accuracy.py",
        table="results/{source}/accuracy.csv",
        hardware="results/{source}/hardware.json",
    output:
        multiext("results/{source}/figures/accuracy", ".svg", ".png", ".pdf"),
    log:
        "results/logs/{source}/figure-accuracy.log",
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
    shell:
        "python -m figures.accuracy {input.table} --hardware {input.hardware}"
        " --stem {params.stem} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule resources_figure:
    """Draw registers and spills against the columns held, for every architecture."""
    input:
        STYLE,
        "figures/resources.py",
        tables=expand("results/build/{arch}/resources.csv", arch=ARCHITECTURES),
    output:
        multiext("results/build/figures/resources", ".svg", ".png", ".pdf"),
    log:
        "results/logs/figure-resources.log",
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
    shell:
        "python -m figures.resources {input.tables} --stem {params.stem} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"
