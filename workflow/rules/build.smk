rule build:
    """Compile every variant for one architecture; needs no GPU."""
    input:
        KERNELS,
    output:
        "results/build/{arch}/resources.csv",
    log:
        "results/logs/build-{arch}.log",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    shell:
        "python -m kernels.build --arch {wildcards.arch} --out results/build/{wildcards.arch}"
        " > {log} 2>&1 || {{ cat {log}; exit 1; }}; cat {log}"
