for _gpu, _files in RECORDED.items():

    rule:
        name:
            f"ingest_{_gpu.replace('-', '_')}"
        input:
            # Those that are there: the command names what is missing.
            [
                str(path.relative_to(ROOT))
                for path in (ROOT / "experiments/archive" / _gpu).rglob("*")
                if path.is_file()
            ],
        output:
            [f"results/archive-{{gpu}}/{name}" for name in _files],
        log:
            "results/logs/archive-{gpu}/ingest.log",
        wildcard_constraints:
            gpu=_gpu,
        conda:
            "../../environment.yml"
        params:
            folder=lambda wildcards, output: f"results/archive-{wildcards.gpu}",
        shell:
            "python -m experiments.archive ingest experiments/archive/{wildcards.gpu}"
            " {params.folder} > {log} 2>&1 || {{ cat {log}; exit 1; }}"


rule gpu_tests:
    """Run the tests that need a GPU; their report is archived with the measurements."""
    input:
        ancient("results/{source}/correctness.csv"),
    output:
        "results/{source}/gpu_tests.xml",
    log:
        "results/logs/{source}/gpu_tests.log",
    wildcard_constraints:
        source="local-[a-z0-9-]+",
    conda:
        "../../environment.yml"
    threads: workflow.cores
    resources:
        gpu=1,
    shell:
        "python -c 'import pytest, xdist' 2> {log} ||"
        " {{ echo 'the GPU tests need pytest: make test installs it'; exit 2; }};"
        # Most of the time a test waits for the CPU: for compilers, and for references.  What a file
        # compiles before its tests, its group of them compiles once.
        " python -m pytest -m gpu tests/gpu -n 8 --dist loadgroup --junitxml {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; tail -n 1 {log};"
        # The report names the machine that it was made on.
        ' sed -i -E \'s/ hostname="[^"]*"//\' {output}'


# What an archive holds beside its sweeps.
RECORDS = [
    f"results/{SOURCE.name}/correctness.csv",
    *expand(
        "results/{source}/{table}", source=SOURCE.name, table=TABLE_FIGURES.values()
    ),
    f"results/{SOURCE.name}/gpu_tests.xml",
    # Where there is no ncu, or no compute-sanitizer, the archive goes without.
    *(
        [f"results/{SOURCE.name}/profile.csv"]
        if profiled(SOURCE) == SOURCE.name
        else []
    ),
    *(sanitized(SOURCE) if SOURCE.local else []),
    # Asked for by name; what this GPU's archive has is made again, and not lost.
    *(
        path
        for path in transformed(SOURCE)
        if Path(path).name in RECORDED.get(SOURCE.gpu, [])
    ),
    # The operators that were measured, their errors, and what was counted of them.
    *made(
        SOURCE.name,
        *map(raw_operator, OPERATORS),
        *FAMILY_FIGURES.values(),
        FAMILY_COUNTS,
    ),
]


rule archive:
    """Pack this machine's finished full run into experiments/archive/<gpu>."""
    input:
        expand(
            "results/{source}/raw/{sweep}.csv.gz", source=SOURCE.name, sweep=GPU_SWEEPS
        ),
        RECORDS,
        hardware=f"results/{SOURCE.name}/hardware.json",
    log:
        "results/logs/archive.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda wildcards, input: str(Path(input.hardware).parent),
        folder=SOURCE.archive.relative_to(ROOT),
        keep="",
    shell:
        "python -m experiments.archive pack {params.keep} {params.run} {params.folder} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}; cat {log}"


use rule archive as update_archive with:
    input:
        lambda wildcards: outdated(SOURCE, GPU_SWEEPS),
        RECORDS,
        hardware=f"results/{SOURCE.name}/hardware.json",
    log:
        "results/logs/update-archive.log",
    params:
        run=lambda wildcards, input: str(Path(input.hardware).parent),
        folder=SOURCE.archive.relative_to(ROOT),
        keep="--keep",


# Where the time on a GPU is short: the next update_archive measures the rest.
use rule archive as archive_part with:
    input:
        RECORDS,
        hardware=f"results/{SOURCE.name}/hardware.json",
    log:
        "results/logs/archive-part.log",
    params:
        run=lambda wildcards, input: str(Path(input.hardware).parent),
        folder=SOURCE.archive.relative_to(ROOT),
        keep="--part",
