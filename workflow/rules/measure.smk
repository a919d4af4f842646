# Smoke runs on the CPU; everything else on this machine's GPU, one job at a time.


def mode_of(wildcards):
    return "smoke" if wildcards.source == "local-cpu" else config["mode"]


def blocks_of(wildcards):
    count = MODES[mode_of(wildcards)]
    return [
        f"results/{wildcards.source}/blocks/{wildcards.sweep}/block-{i}.csv.gz" for i in range(count)
    ]


rule hardware:
    """Write down the machine: GPU, driver, versions, commit."""
    output:
        "results/{source}/hardware.json",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    log:
        "results/logs/{source}/hardware.log",
    params:
        mode=mode_of,
    shell:
        "{PYTHON} experiments.hardware --source {wildcards.source} --mode {params.mode}"
        " --out {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule correctness:
    """Check every variant on awkward inputs before anything is timed."""
    input:
        KERNELS,
        expand("results/build/{arch}/resources.csv", arch=ARCHITECTURES),
        "kernels/launch.py",
        "experiments/correctness.py",
        "experiments/check.py",
    output:
        "results/{source}/correctness.csv",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    log:
        "results/logs/{source}/correctness.log",
    params:
        device=lambda wildcards: "cpu" if wildcards.source == "local-cpu" else "cuda",
    threads: workflow.cores
    resources:
        gpu=1,
    shell:
        "{PYTHON} experiments.correctness --device {params.device} --out {output}"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; cat {log}"


rule warm:
    """Compile what a sweep will run, in parallel, before its first block."""
    input:
        "results/{source}/correctness.csv",
        "experiments/warm.py",
        "experiments/sweeps/{sweep}.py",
    output:
        touch("results/{source}/warm/{sweep}"),
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    log:
        "results/logs/{source}/warm-{sweep}.log",
    benchmark:
        "results/{source}/benchmarks/warm-{sweep}.tsv"
    params:
        mode=mode_of,
    threads: workflow.cores
    resources:
        gpu=1,
    shell:
        "{PYTHON} experiments.warm --sweep {wildcards.sweep} --mode {params.mode}"
        " --workers {threads} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule block:
    """Measure one block: a fresh process, all variants of a sweep interleaved."""
    input:
        lambda wildcards: [] if wildcards.source == "local-cpu" else [
            f"results/{wildcards.source}/warm/{wildcards.sweep}"
        ],
        "results/{source}/correctness.csv",
        "experiments/measure.py",
        "experiments/timer.py",
        "experiments/sweeps/{sweep}.py",
        hardware="results/{source}/hardware.json",
    output:
        "results/{source}/blocks/{sweep}/block-{block}.csv.gz",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    log:
        "results/logs/{source}/{sweep}-{block}.log",
    benchmark:
        "results/{source}/benchmarks/{sweep}-{block}.tsv"
    params:
        mode=mode_of,
        device=lambda wildcards: "cpu" if wildcards.source == "local-cpu" else "cuda",
        seed=config["seed"],
    threads: workflow.cores
    resources:
        gpu=1,
    shell:
        "{PYTHON} experiments.measure --sweep {wildcards.sweep} --block {wildcards.block}"
        " --mode {params.mode} --device {params.device} --seed {params.seed}"
        " --hardware {input.hardware} --out {output} --log {log}"


rule gather:
    """Join the blocks of a sweep into its raw file."""
    input:
        blocks_of,
    output:
        "results/{source}/raw/{sweep}.csv.gz",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    log:
        "results/logs/{source}/gather-{sweep}.log",
    shell:
        "{PYTHON} experiments.gather --out {output} {input} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"
