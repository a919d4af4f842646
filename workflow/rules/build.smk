rule build:
    """Compile what kernels/resources/ does not know, for one architecture; needs no GPU."""
    input:
        KERNELS,
        known="kernels/resources/{arch}.csv",
    output:
        "results/build/{arch}/resources.csv",
    log:
        "results/logs/build-{arch}.log",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    shell:
        "python -m kernels.build --arch {wildcards.arch} --out results/build/{wildcards.arch}"
        " --known {input.known} > {log} 2>&1 || {{ cat {log}; exit 1; }}; cat {log}"


rule registers:
    """Set registers, spills and occupancy of S5's kernels beside what S5 prints by hand."""
    input:
        expand("experiments/{name}.py", name=["registers", "markdown"]),
        "kernels/occupancy.py",
        printed="experiments/printed_registers.yaml",
        tables=expand("results/build/{arch}/resources.csv", arch=ARCHITECTURES),
    output:
        csv="results/build/registers.csv",
        table="results/build/registers.md",
    log:
        "results/logs/registers.log",
    conda:
        "../../environment.yml"
    params:
        build=subpath(output.csv, parent=True),
    shell:
        "python -m experiments.registers --build {params.build} --out {output.csv}"
        " --table {output.table} > {log} 2>&1 || {{ cat {log}; exit 1; }}"
