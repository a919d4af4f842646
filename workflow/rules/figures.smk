from workflow.tables import archived_sweep

STYLE = [
    *expand("figures/{name}.py", name=["look", "curves", "overlay", "page"]),
    *expand("figures/{name}.mplstyle", name=["blog", "paper"]),
]


rule figure:
    """Draw one figure of a sweep for the blog (svg, png) and the paper (pdf).

    What was measured here lies over the archive's.
    """
    input:
        STYLE,
        "figures/{figure}.py",
        tidy=lambda wildcards: (
            f"results/{wildcards.source}/tidy/{FIGURES[wildcards.figure]}.csv"
        ),
        hardware="results/{source}/hardware.json",
        archive=lambda wildcards: archived_sweep(
            wildcards.source, FIGURES[wildcards.figure]
        ),
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
        archive=lambda wildcards, input: (
            f"--archive {Path(input.archive[1]).parent}" if input.archive else ""
        ),
    shell:
        "python -m figures.{wildcards.figure} {input.tidy} --hardware {input.hardware}"
        " --stem {params.stem} {params.archive} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule table_figure:
    """Draw a table that is no sweep: errors by kind of input, first calls, layouts."""
    input:
        STYLE,
        STALENESS,
        "figures/{figure}.py",
        table=lambda wildcards: (
            f"results/{wildcards.source}/"
            f"{(TABLE_FIGURES | FAMILY_FIGURES)[wildcards.figure]}"
        ),
        hardware="results/{source}/hardware.json",
    output:
        multiext("results/{source}/figures/{figure}", ".svg", ".png", ".pdf"),
    log:
        "results/logs/{source}/figure-{figure}.log",
    wildcard_constraints:
        figure="|".join([*TABLE_FIGURES, *FAMILY_FIGURES]),
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
    shell:
        "python -m figures.{wildcards.figure} {input.table} --hardware {input.hardware}"
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


rule regimes_figure:
    """Map which of the frontier's kernels serves which shape."""
    input:
        STYLE,
        "figures/regimes.py",
        [str(path) for path in sorted(Path("kernels/frontier").glob("tables/*.json"))],
        expand("kernels/frontier/{name}.py", name=["plans", "select"]),
    output:
        multiext("results/build/figures/regimes", ".svg", ".png", ".pdf"),
    log:
        "results/logs/figure-regimes.log",
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
    shell:
        "python -m figures.regimes --stem {params.stem} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"
