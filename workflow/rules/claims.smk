# A verdict for every claim of experiments/claims.yaml and of our own, and an outcome for every goal.
from workflow.tables import (
    archived,
    counted,
    made,
    measured_layouts,
    tables_of,
)


rule verdicts:
    """Judge every claim on one source; a verdict that differs is a result, and does not fail."""
    input:
        [
            f"experiments/{name}.py"
            for name in (
                "claims",
                "claim",
                "counts",
                "estimate",
                "outcomes",
                "own",
                "recorded",
                "verdict",
                "tidy",
                "tables",
                "markdown",
            )
        ],
        "workflow/schemas/claims.schema.yaml",
        # A claim is judged by the points that a full run has.
        expand("experiments/sweeps/{sweep}.py", sweep=["sweep", *SWEEPS]),
        expand("results/build/{arch}/resources.csv", arch=ARCHITECTURES),
        lambda wildcards: tables_of(wildcards.source, GPU_SWEEPS)["raw"],
        lambda wildcards: tables_of(wildcards.source, GPU_SWEEPS)["tidy"],
        claims="experiments/claims.yaml",
        goals="results/{source}/goals.csv",
        profile=lambda wildcards: counted(wildcards.source),
        archive=lambda wildcards: archived(wildcards.source, "claims.csv"),
    output:
        csv="results/{source}/claims.csv",
        table="results/{source}/claims.md",
    log:
        "results/logs/{source}/claims.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        folder=subpath(output.csv, parent=True),
        profile=lambda wildcards, input: " ".join(
            f"--profile {path}" for path in input.profile
        ),
        against=lambda wildcards, input: " ".join(
            f"--against {path}" for path in input.archive
        ),
    shell:
        "python -m experiments.claims --claims {input.claims} --source {wildcards.source}"
        " --raw-dir {params.folder}/raw --tidy-dir {params.folder}/tidy --goals {input.goals}"
        " {params.profile} {params.against}"
        " --out {output.csv} --table {output.table} > {log} 2>&1"
        # Written last: where it is, the exit code speaks of the verdicts, which are complete.
        " || test -s {output.table} || {{ cat {log}; exit 1; }}"


rule claims:
    """Print the verdicts of this run's source; fail where the archive's are lost on its GPU."""
    input:
        f"results/{SOURCE.name}/claims.md",
    log:
        f"results/logs/{SOURCE.name}/claims-shown.log",
    localrule: True
    conda:
        "../../environment.yml"
    shell:
        "tee {log} < {input}; ! grep -q '^supported by the archive and refuted here' {input}"


rule outcomes:
    """Say of every goal of the project's own where it is met; one that is not does not fail."""
    input:
        STALENESS,
        [
            f"experiments/{name}.py"
            for name in (
                "goals",
                "findings",
                "outcomes",
                "goal",
                "attempts",
                "tried",
                "estimate",
                "counts",
                "layout",
                "recorded",
                "tidy",
                "tables",
                "markdown",
            )
        ],
        # A goal is judged at the points that a full run has.
        expand("experiments/sweeps/{sweep}.py", sweep=["sweep", *SWEEPS]),
        lambda wildcards: tables_of(wildcards.source, GPU_SWEEPS)["raw"],
        lambda wildcards: tables_of(wildcards.source, GPU_SWEEPS)["tidy"],
        "experiments/family/tables.py",
        # A goal of an operator is judged at its cases.
        expand("experiments/family/{operator}.py", operator=["operator", *OPERATORS]),
        expand(
            "experiments/transformer/{name}.py",
            name=["summary", "curves", "fingerprint", "stale", "tables"],
        ),
        # Counting, sanitizing, training and the operators are asked for by name.
        lambda wildcards: made(
            wildcards.source,
            "profile.csv",
            "sanitizer.csv",
            "training.csv",
            "decoding.csv",
        ),
        lambda wildcards: tidy_operators(wildcards.source),
        lambda wildcards: tried_shapes(wildcards.source),
        layouts=lambda wildcards: measured_layouts(wildcards.source, SOURCE),
        hardware=ancient("results/{source}/hardware.json"),
    output:
        csv="results/{source}/goals.csv",
        table="results/{source}/goals.md",
    log:
        "results/logs/{source}/goals.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        folder=subpath(output.csv, parent=True),
        gpu=lambda wildcards: gpu_of(wildcards.source),
    shell:
        "(python -m experiments.goals --source {wildcards.source} --folder {params.folder}"
        " --out {output.csv} --table {output.table}"
        " && python -m experiments.attempts {output.csv} --gpu {params.gpu}"
        " --hardware {input.hardware} >> {output.table})"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule goals:
    """Print where the project's own goals are met, by this run's source, and where not."""
    input:
        f"results/{SOURCE.name}/goals.md",
    log:
        f"results/logs/{SOURCE.name}/goals-shown.log",
    localrule: True
    conda:
        "../../environment.yml"
    shell:
        "tee {log} < {input}"
