# The operators beside the softmax: measured when asked for by name, drawn where they are recorded.
from experiments.family.counts import WATCHED as COUNTED
from experiments.family.warm import WAITING

FAMILY = [
    f"experiments/family/{name}.py"
    for name in ("measure", "block", "exact", "operator", "others")
]


checkpoint family_warm:
    """Compile what the operators' cases will run."""
    input:
        ancient("results/{source}/hardware.json"),
        ancient("experiments/family/warm.py"),
    output:
        "results/{source}/family/warm.csv",
    log:
        "results/logs/{source}/family-warm.log",
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        mode=mode_of,
        kernels=fingerprints_of_operators,
    shell:
        "python -m experiments.family.warm --mode {params.mode} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


checkpoint family_once:
    """Compile what a peer compiles once for all cases of an operator: minutes, up to fifteen."""
    input:
        ancient("results/{source}/family/warm.csv"),
        ancient("experiments/family/warm.py"),
    output:
        "results/{source}/family/once/{operator}.csv",
    log:
        "results/logs/{source}/family-once-{operator}.log",
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
        operator="|".join(WAITING),
    # What does not wait for it is measured before.
    priority: -1
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        mode=mode_of,
    shell:
        "echo 'what a peer compiles once for {wildcards.operator} takes minutes, up to fifteen';"
        " python -m experiments.family.warm --mode {params.mode} --once {wildcards.operator}"
        " --out {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule family_measure:
    """Measure an operator: every implementation checked, then timed in turns, in fresh processes."""
    input:
        FAMILY,
        "experiments/timer.py",
        "experiments/family/{operator}.py",
        hardware=ancient("results/{source}/hardware.json"),
        warm=warmed,
    output:
        "results/{source}/family/raw/{operator}.csv.gz",
    log:
        "results/logs/{source}/family-{operator}.log",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        mode=mode_of,
        device=device_of,
        seed=config["seed"],
        kernels=lambda wildcards: sha256_by_name(wildcards.operator),
        # No output: Snakemake would remove finished blocks with a run that is cut off.
        parts="results/{source}/blocks/family-{operator}",
    shell:
        "python -c 'import torch' 2> {log} ||"
        " {{ echo 'running kernels needs PyTorch: make smoke installs it'; exit 2; }};"
        " python -m experiments.family.measure --operator {wildcards.operator}"
        " --mode {params.mode} --device {params.device} --seed {params.seed}"
        " --hardware {input.hardware} --out {output} --parts {params.parts} --log {log}"


rule family_tidy:
    """Medians, in-block ratios and intervals of an operator."""
    input:
        KERNELS,
        "experiments/family/tidy.py",
        "experiments/family/tables.py",
        raw="results/{source}/family/raw/{operator}.csv.gz",
    output:
        "results/{source}/family/tidy/{operator}.csv",
    log:
        "results/logs/{source}/family-tidy-{operator}.log",
    conda:
        "../../environment.yml"
    shell:
        "python -m experiments.family.tidy --raw {input.raw} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; cat {log}"


rule family_accuracy:
    """Compare every operator, ours and torch's, with float64 on several kinds of input, in ulps."""
    input:
        ancient("results/{source}/hardware.json"),
        expand(
            "experiments/{name}.py",
            name=[
                "accuracy",
                "check",
                "family/accuracy",
                "family/attempt",
                "family/exact",
            ],
        ),
        expand("experiments/family/{operator}.py", operator=["operator", *OPERATORS]),
    output:
        "results/{source}/family/accuracy.csv",
    log:
        "results/logs/{source}/family-accuracy.log",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        device=device_of,
        kernels=fingerprints_of_operators,
    shell:
        "python -c 'import torch' 2> {log} ||"
        " {{ echo 'running kernels needs PyTorch: make smoke installs it'; exit 2; }};"
        " python -m experiments.family.accuracy --device {params.device} --out {output}"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule family_counts:
    """Let ncu watch one call of every operator, ours and torch's, at a case or two."""
    input:
        ancient("results/{source}/hardware.json"),
        FAMILY,
        expand(
            "experiments/{name}.py",
            name=[
                "ncu",
                "profiled",
                "profiler",
                "family/counts",
                "family/profiled",
                "family/profiler",
            ],
        ),
        expand("experiments/family/{operator}.py", operator=COUNTED),
    output:
        "results/{source}/family/counts.csv",
    log:
        "results/logs/{source}/family-counts.log",
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        kernels=lambda wildcards: {name: sha256_by_name(name) for name in COUNTED},
    shell:
        "python -m experiments.family.profiler --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; tail -n 2 {log}"


rule family_limits:
    """Say what operators move, over what they must, and what their kernels wait for."""
    input:
        KERNELS,
        sorted(map(str, Path("kernels/frontier").rglob("*.json"))),
        expand(
            "experiments/{name}.py",
            name=["family/limits", "family/tables", "limits", "tables", "markdown"],
        ),
        table="results/{source}/family/counts.csv",
    output:
        "results/{source}/family/counts.md",
    log:
        "results/logs/{source}/family-limits.log",
    wildcard_constraints:
        source="(archive|local)-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    shell:
        "python -m experiments.family.limits {input.table} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"


rule family_figure:
    """Draw an operator's table for the blog (svg, png) and the paper (pdf)."""
    input:
        STYLE,
        "figures/family.py",
        lambda wildcards: f"figures/{OPERATOR_FIGURES[wildcards.operator]}.py",
        table="results/{source}/family/tidy/{operator}.csv",
        hardware="results/{source}/hardware.json",
    output:
        multiext("results/{source}/family/figures/{operator}", ".svg", ".png", ".pdf"),
    log:
        "results/logs/{source}/family-figure-{operator}.log",
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
        script=lambda wildcards: OPERATOR_FIGURES[wildcards.operator],
    shell:
        "python -m figures.{params.script} {input.table} --hardware {input.hardware}"
        " --stem {params.stem} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule family:
    """Every operator beside the softmax: measured on a GPU, or as an archive holds it, and drawn."""
    input:
        operator_figures(SOURCE.name, drawn_operators(SOURCE)),
        family_figures(SOURCE),
        counted_operators(SOURCE),
    localrule: True


rule family_smoke:
    """The same path on tiny shapes without a GPU; its times are a CPU's."""
    input:
        operator_figures("local-cpu", OPERATORS),
        family_figures(Source("local-cpu", "", local=True)),
    localrule: True
