# A small transformer, trained and sampled with torch's operators and with ours.

from experiments.transformer.fingerprint import DECODED, TRAINED, sha256_now


rule transformer_tables:
    """Train the transformer with each set of operators; then time the tokens that it gives."""
    input:
        ancient("results/{source}/hardware.json"),
        [
            f"experiments/transformer/{name}.py"
            for name in (
                *("__main__", "check", "decoding", "model"),
                *("operators", "plan", "text", "training"),
            )
        ],
    output:
        training="results/{source}/training.csv",
        decoding="results/{source}/decoding.csv",
    log:
        "results/logs/{source}/transformer.log",
    benchmark:
        "results/{source}/benchmarks/transformer.tsv"
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        device=device_of,
        kernels=lambda wildcards: [
            sha256_now(operators) for operators in (TRAINED, DECODED)
        ],
    shell:
        "python -c 'import torch' 2> {log} ||"
        " {{ echo 'a transformer needs PyTorch: make smoke installs it'; exit 2; }};"
        " python -m experiments.transformer --device {params.device}"
        " --training {output.training} --decoding {output.decoding} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"


rule transformer_summary:
    """Say whether the loss curve is that of torch's operators, and what steps and tokens take."""
    input:
        STALENESS,
        [
            f"experiments/transformer/{name}.py"
            for name in ("summary", "curves", "fingerprint", "stale", "tables")
        ],
        training="results/{source}/training.csv",
        decoding="results/{source}/decoding.csv",
    output:
        csv="results/{source}/transformer.csv",
        table="results/{source}/transformer.md",
    log:
        "results/logs/{source}/transformer-summary.log",
    conda:
        "../../environment.yml"
    shell:
        "python -m experiments.transformer.summary {input.training} {input.decoding}"
        " --out {output.csv} --table {output.table} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule transformer_figure:
    """Draw what the transformer gave: training, or decoding."""
    input:
        STYLE,
        STALENESS,
        "experiments/transformer/fingerprint.py",
        "experiments/transformer/stale.py",
        "figures/transformer.py",
        "figures/{figure}.py",
        table=lambda wildcards: (
            f"results/{wildcards.source}/{TRANSFORMER_FIGURES[wildcards.figure]}"
        ),
        hardware="results/{source}/hardware.json",
    output:
        multiext("results/{source}/figures/{figure}", ".svg", ".png", ".pdf"),
    log:
        "results/logs/{source}/figure-{figure}.log",
    wildcard_constraints:
        figure="|".join(TRANSFORMER_FIGURES),
    conda:
        "../../environment.yml"
    params:
        stem=lambda wildcards, output: output[0].removesuffix(".svg"),
    shell:
        "python -m figures.{wildcards.figure} {input.table} --hardware {input.hardware}"
        " --stem {params.stem} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule transformer:
    """Train the transformer, or take the archive's; draw it, and print its table."""
    input:
        transformer_figures(SOURCE.name),
        table=f"results/{SOURCE.name}/transformer.md",
    log:
        f"results/logs/{SOURCE.name}/transformer-shown.log",
    localrule: True
    conda:
        "../../environment.yml"
    shell:
        "tee {log} < {input.table}"


rule transformer_smoke:
    """The same with a tiny one on the CPU: does the path work here?  Its times measure nothing."""
    input:
        transformer_figures("local-cpu"),
        "results/local-cpu/transformer.md",
    localrule: True
