rule build:
    """Compile every variant for one architecture; needs no GPU."""
    input:
        KERNELS,
        "kernels/registry.py",
        "kernels/build.py",
    output:
        "results/build/{arch}/resources.csv",
    log:
        "results/logs/build-{arch}.log",
    threads: workflow.cores
    shell:
        "{PYTHON} kernels.build --arch {wildcards.arch} --out results/build/{wildcards.arch}"
        " --workers {threads} > {log} 2>&1 || {{ cat {log}; exit 1; }}; cat {log}"
