# Smoke runs on the CPU; everything else on this machine's GPU, one job at a time.
#
# Kernels and what is built from them are ancient() inputs: their fingerprints, which comments and
# dates do not change, are parameters instead and ask for a new measurement.
#
# What others have as ancient() is a checkpoint: after it Snakemake looks anew at what there is to do.
# Else it would leave out, until it is called again, what waits for a job and has a reason of its own
# to run (https://github.com/snakemake/snakemake/issues/4166).


checkpoint hardware:
    """Write down the machine: GPU, driver, versions, commit."""
    output:
        "results/{source}/hardware.json",
    log:
        "results/logs/{source}/hardware.log",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    params:
        mode=mode_of,
        seed=config["seed"],
    shell:
        "python -m experiments.hardware --source {wildcards.source} --mode {params.mode}"
        " --seed {params.seed} --out {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


checkpoint prepare:
    """Check every variant on awkward inputs, compile what the sweeps will run."""
    input:
        "experiments/correctness.py",
        "experiments/check.py",
        "experiments/examine.py",
        ancient("results/{source}/hardware.json"),
    output:
        "results/{source}/correctness.csv",
    log:
        "results/logs/{source}/prepare.log",
    benchmark:
        "results/{source}/benchmarks/prepare.tsv"
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        device=device_of,
        mode=mode_of,
        kernels=fingerprints,
    shell:
        "python -c 'import torch' 2> {log} ||"
        " {{ echo 'running kernels needs PyTorch: make smoke installs it'; exit 2; }};"
        " python -m experiments.prepare --device {params.device} --mode {params.mode}"
        " --out {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 40 {log}"


rule accuracy:
    """Compare every variant with float64 on several kinds of input, in units of the last place."""
    input:
        ancient("results/{source}/correctness.csv"),
        "experiments/accuracy.py",
        "experiments/check.py",
        "experiments/examine.py",
    output:
        "results/{source}/accuracy.csv",
    log:
        "results/logs/{source}/accuracy.log",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        device=device_of,
        kernels=fingerprints,
    shell:
        "python -m experiments.accuracy --device {params.device} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; cat {log}"


rule first_call:
    """Time the first calls of new widths, with nothing compiled before."""
    input:
        ancient("results/{source}/correctness.csv"),
        "experiments/first_call.py",
    output:
        "results/{source}/first_call.csv",
    log:
        "results/logs/{source}/first_call.log",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        device=device_of,
        kernels=fingerprints,
    shell:
        "python -m experiments.first_call --device {params.device} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"


rule layouts_table:
    """Time the frontier's rows in every layout of memory, beside copy."""
    input:
        ancient("results/{source}/correctness.csv"),
        [
            f"experiments/{name}.py"
            for name in ("layouts", "layout", "launches", "placed", "timer")
        ],
    output:
        "results/{source}/layouts.csv",
    log:
        "results/logs/{source}/layouts.log",
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        kernels=lambda wildcards: [sha256_by_name("frontier")],
    shell:
        "python -m experiments.layouts --out {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule measure:
    """Measure a sweep: its blocks in fresh processes, all variants interleaved in each."""
    input:
        ancient("results/{source}/correctness.csv"),
        [
            f"experiments/{name}.py"
            for name in ("measure", "block", "timer", "examine", "check", "nvml")
        ],
        "experiments/sweeps/{sweep}.py",
        hardware=ancient("results/{source}/hardware.json"),
    output:
        "results/{source}/raw/{sweep}.csv.gz",
    log:
        "results/logs/{source}/{sweep}.log",
    benchmark:
        "results/{source}/benchmarks/{sweep}.tsv"
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
        kernels=fingerprints_of,
        # No output: Snakemake would remove finished blocks with a run that is cut off.
        blocks="results/{source}/blocks/{sweep}",
    shell:
        "python -m experiments.measure --sweep {wildcards.sweep} --mode {params.mode}"
        " --device {params.device} --seed {params.seed} --hardware {input.hardware}"
        " --out {output} --blocks {params.blocks} --log {log}"
