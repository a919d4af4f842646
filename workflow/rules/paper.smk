# The paper: text, figures and what it states in numbers, of one source.


rule paper_pdf:
    """Set the paper; what its text asks for and the tables lack stops the build, by name."""
    input:
        expand(
            "paper/{name}",
            name=[
                "build.py",
                "complete.py",
                "facts.py",
                "facts.yaml",
                "paper.typ",
                "look.typ",
                "references.bib",
            ],
        ),
        "workflow/artifact.py",
        "workflow/schemas/facts.schema.yaml",
        lambda wildcards: tables_of(wildcards.source, GPU_SWEEPS)["tidy"],
        lambda wildcards: rules.figures.input,
        "results/{source}/claims.csv",
        "results/{source}/goals.csv",
    output:
        pdf="results/{source}/paper.pdf",
        stated="results/{source}/paper.json",
    log:
        "results/logs/{source}/paper.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        folder=subpath(output.pdf, parent=True),
    shell:
        "python -m paper.build --folder {params.folder} --out {output.pdf} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; cat {log}"


rule paper:
    input:
        f"results/{SOURCE.name}/paper.pdf",
    localrule: True
