# Which kernel serves which rows: tables beside the frontier's kernels and Triton's, measured on this
# GPU.  Operators beside the softmax have tables of their own.


rule tune_rows:
    """Measure the frontier's kernels at these numbers of rows: many, few or batches."""
    input:
        ancient("experiments/tune.py"),
    output:
        table=f"results/{SOURCE.name}/tune_{{numbers}}.json",
        tried=f"results/{SOURCE.name}/tune_{{numbers}}.tried.csv.gz",
        log=f"results/{SOURCE.name}/tune_{{numbers}}.csv",
    log:
        f"results/logs/{SOURCE.name}/tune_{{numbers}}.log",
    wildcard_constraints:
        numbers="|".join(NUMBERS),
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    shell:
        "python -m experiments.tune --numbers {wildcards.numbers} --out {output.table}"
        " --log {output.log} > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule tune_table:
    """Write the table that the frontier's kernels go by, once all its parts are measured."""
    input:
        tables=expand(rules.tune_rows.output.table, numbers=NUMBERS),
        tried=expand(rules.tune_rows.output.tried, numbers=NUMBERS),
    output:
        f"results/{SOURCE.name}/tune.csv",
    log:
        f"results/logs/{SOURCE.name}/tune.log",
    conda:
        "../../environment.yml"
    params:
        table=f"kernels/frontier/tables/{SOURCE.gpu}.json",
    shell:
        "python -m experiments.tune_joined {input.tables} --out {params.table} --log {output}"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule tune_triton:
    """Measure Triton's kernels by width; write the table they then go by."""
    input:
        ancient("experiments/tune_triton.py"),
    output:
        f"results/{SOURCE.name}/tune_triton.csv",
    log:
        f"results/logs/{SOURCE.name}/tune_triton.log",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    params:
        table=f"kernels/triton/tables/{SOURCE.gpu}.json",
    shell:
        "python -m experiments.tune_triton --out {params.table} --log {output}"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; tail -n 1 {log}"


rule tune:
    """Measure the frontier's kernels, and Triton's, on this GPU; write the tables they go by."""
    input:
        rules.tune_table.output[0],
        rules.tune_triton.output[0],


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
