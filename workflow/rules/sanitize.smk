# What Compute Sanitizer finds in the frontier's kernels: memcheck, racecheck, synccheck.
from experiments.sanitizer import OPERATORS as WATCHED


rule sanitizer_table:
    """Watch every regime and operator under every tool; what is found is a result, and does not fail."""
    input:
        ancient("results/{source}/correctness.csv"),
        [
            f"experiments/{name}"
            for name in (
                "sanitize.py",
                "sanitized.py",
                "sanitizer.py",
                "launches.py",
                "layout.py",
                "placed.py",
                "wrapped.py",
                "planted_faults.cu",
                "watched/case.py",
                "watched/guarded.py",
                "watched/rows.py",
                "watched/columns.py",
                "watched/backward.py",
                "watched/cross_entropy.py",
                "watched/choice.py",
            )
        ],
    output:
        table="results/{source}/sanitizer.csv",
        said="results/{source}/sanitizer.log",
    log:
        "results/logs/{source}/sanitizer.log",
    benchmark:
        "results/{source}/benchmarks/sanitizer.tsv"
    wildcard_constraints:
        source="local-(?!cpu/)[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        kernels=lambda wildcards: sha256_by_name("frontier"),
        operators=lambda wildcards: [sha256_by_name(name) for name in WATCHED],
    shell:
        "python -m experiments.sanitize --out {output.table} --log {output.said} > {log} 2>&1"
        # Written last: where it is, the exit code speaks of what was found.
        " || test -s {output.table} || {{ cat {log}; exit 1; }}"


rule sanitize:
    """Print what the tools found; fail where that is anything, or a run did not end."""
    input:
        script="experiments/findings.py",
        table=sanitized(SOURCE)[:1],
    log:
        f"results/logs/{SOURCE.name}/sanitizer-shown.log",
    localrule: True
    conda:
        "../../environment.yml"
    shell:
        "set -o pipefail; python -m experiments.findings {input.table} 2>&1 | tee {log}"
