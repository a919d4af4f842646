# Which of the frontier's kernels serves which width: a table beside them, measured on this GPU.


rule tune:
    """Measure the frontier's kernels at every width on this GPU; write the table it selects by."""
    input:
        ancient("experiments/tune.py"),
    output:
        f"results/{SOURCE.name}/tune.csv",
    log:
        f"results/logs/{SOURCE.name}/tune.log",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        table=f"kernels/frontier/tables/{SOURCE.gpu}.json",
    shell:
        "python -m experiments.tune --out {params.table} --log {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; tail -n 1 {log}"
