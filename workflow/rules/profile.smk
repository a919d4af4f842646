# Bytes, throughput and occupancy of every variant, counted by Nsight Compute (ncu).


rule profile_table:
    """Let ncu watch one call of every variant at a few points."""
    input:
        ancient("results/{source}/correctness.csv"),
        [f"experiments/{name}.py" for name in ("profiler", "profiled", "placed", "ncu")],
    output:
        "results/{source}/profile.csv",
    log:
        "results/logs/{source}/profile.log",
    benchmark:
        "results/{source}/benchmarks/profile.tsv"
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        kernels=fingerprints,
    shell:
        "python -m experiments.profiler --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; tail -n 2 {log}"


rule profile_figure:
    """Draw what ncu counted, or what the archive has where it may not count."""
    input:
        STYLE,
        STALENESS,
        "figures/profiled.py",
        "figures/{figure}.py",
        table="results/{source}/profile.csv",
        hardware="results/{source}/hardware.json",
        archive=archived_counts,
    output:
        multiext("results/{source}/figures/{figure}", ".svg", ".png", ".pdf"),
    log:
        "results/logs/{source}/figure-{figure}.log",
    wildcard_constraints:
        figure="|".join(PROFILE_FIGURES),
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
        archive=lambda wildcards, input: (
            f"--archive {Path(input.archive[0]).parent}" if input.archive else ""
        ),
    shell:
        "python -m figures.{wildcards.figure} {input.table} --hardware {input.hardware}"
        " --stem {params.stem} {params.archive} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule limits_page:
    """Say what limits the project's kernels where a goal is missed or near, by ncu's counts."""
    input:
        STALENESS,
        [
            f"experiments/{name}.py"
            for name in ("limits", "counts", "tables", "markdown")
        ],
        table="results/{source}/profile.csv",
    output:
        "results/{source}/limits.md",
    log:
        "results/logs/{source}/limits.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    shell:
        "python -m experiments.limits {input.table} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"


rule profile:
    """Count every variant's bytes, or take the archive's counts without ncu; draw and list them."""
    input:
        profile_figures(profiled(SOURCE)),
        [f"results/{source}/limits.md" for source in [profiled(SOURCE)] if source],
    localrule: True
