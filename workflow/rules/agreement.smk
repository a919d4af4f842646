# A run measured here beside an archive: where their verdicts agree, and where not.
from workflow.tables import agreement, archived


rule compare:
    """Set the verdict on every claim and goal beside the archive's; that they differ is a result."""
    input:
        expand(
            "experiments/{name}.py",
            name=[
                "agreement",
                "claims",
                "goals",
                "markdown",
                "outcomes",
                "own",
                "tables",
            ],
        ),
        here=expand("results/{{source}}/{name}.csv", name=["claims", "goals"]),
        archive=lambda wildcards: archived(wildcards.source, "claims.csv", "goals.csv"),
    output:
        "results/{source}/agreement.md",
    log:
        "results/logs/{source}/agreement.log",
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        here=lambda wildcards, input: Path(input.here[0]).parent,
        archive=lambda wildcards, input: Path(input.archive[0]).parent,
    shell:
        "python -m experiments.agreement --here {params.here} --archive {params.archive}"
        " --out {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule agreement:
    """Print where the verdicts of this run and of the archive agree, and where not."""
    input:
        agreement(SOURCE),
    log:
        f"results/logs/{SOURCE.name}/agreement-shown.log",
    localrule: True
    conda:
        "../../environment.yml"
    shell:
        "tee {log} < {input}"
