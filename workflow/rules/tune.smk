# Which kernel serves which rows: tables beside the frontier's kernels and Triton's, measured on this
# GPU.  Operators beside the softmax have tables of their own.


rule tune:
    """Measure the frontier's kernels, and Triton's, on this GPU; write the tables they go by."""
    input:
        ancient(expand("experiments/{name}.py", name=["tune", "tune_triton"])),
    output:
        frontier=f"results/{SOURCE.name}/tune.csv",
        triton=f"results/{SOURCE.name}/tune_triton.csv",
    log:
        f"results/logs/{SOURCE.name}/tune.log",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        frontier=f"kernels/frontier/tables/{SOURCE.gpu}.json",
        triton=f"kernels/triton/tables/{SOURCE.gpu}.json",
    shell:
        "(python -m experiments.tune --out {params.frontier} --log {output.frontier}"
        " && python -m experiments.tune_triton --out {params.triton} --log {output.triton})"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


KERNELS = ("backward", "columns", "cross_entropy")


rule tune_operator:
    """Measure the frontier's kernels of logarithms, factors or a mask; write the table they go by."""
    input:
        ancient("experiments/tune.py"),
    output:
        f"results/{SOURCE.name}/tune/{{operator}}.csv",
    log:
        f"results/logs/{SOURCE.name}/tune_{{operator}}.log",
    wildcard_constraints:
        operator="|".join(KINDS),
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        table=f"kernels/frontier/tables/{{operator}}/{SOURCE.gpu}.json",
    shell:
        "python -m experiments.tune --operator {wildcards.operator} --out {params.table}"
        " --log {output} > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule tune_kernels:
    """Measure kernels of gradients, of columns or of losses; write the table they then go by."""
    input:
        ancient("experiments/tune_{kind}.py"),
    output:
        f"results/{SOURCE.name}/tune_{{kind}}.csv",
    log:
        f"results/logs/{SOURCE.name}/tune_{{kind}}.log",
    wildcard_constraints:
        kind="|".join(KERNELS),
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        table=f"kernels/frontier/tables/{{kind}}/{SOURCE.gpu}.json",
    shell:
        "python -m experiments.tune_{wildcards.kind} --out {params.table} --log {output}"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule tune_operators:
    """All of these."""
    input:
        expand(rules.tune_operator.output[0], operator=KINDS),
        expand(rules.tune_kernels.output[0], kind=KERNELS),
