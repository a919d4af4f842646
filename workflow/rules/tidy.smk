rule tidy:
    """Medians, in-block ratios and intervals of a sweep."""
    input:
        STALENESS,
        "experiments/tidy.py",
        "experiments/tables.py",
        raw="results/{source}/raw/{sweep}.csv.gz",
    output:
        "results/{source}/tidy/{sweep}.csv",
    log:
        "results/logs/{source}/tidy-{sweep}.log",
    conda:
        "../../environment.yml"
    shell:
        "python -m experiments.tidy --raw {input.raw} --out {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; cat {log}"
