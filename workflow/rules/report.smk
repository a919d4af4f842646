# What `snakemake --report` shows: every figure of the run's source, verdicts, goals, registers.
from workflow.reported import CAPTIONS, PAGES, caption

# Every figure of this run.
DRAWN = [
    *(path for sweep in GPU_SWEEPS for path in figures_of(sweep, SOURCE.name)),
    *table_figures(SOURCE),
    # Counting is asked for by name: it takes ncu, and minutes.
    *([] if SOURCE.local else profile_figures(archived_profile(SOURCE))),
    # So is training.
    *(
        transformer_figures(SOURCE.name)
        if transformed(SOURCE) and not SOURCE.local
        else []
    ),
    # So are the operators.
    *operator_figures(SOURCE.name, [] if SOURCE.local else operators_of(SOURCE.name)),
    *([] if SOURCE.local else family_figures(SOURCE)),
    *rules.resources_figure.output,
    *rules.regimes_figure.output,
]


report: str(CAPTIONS / "workflow.rst")


rule webpage:
    """A Markdown table as a page that a browser shows."""
    input:
        "workflow/webpage.py",
        table="results/{folder}/{table}.md",
    output:
        "results/{folder}/pages/{table}.html",
    log:
        "results/logs/{folder}/page-{table}.log",
    wildcard_constraints:
        folder="[a-z0-9-]+",
        table="|".join(PAGES),
    conda:
        "../../environment.yml"
    shell:
        "python -m workflow.webpage {input.table} {output} > {log} 2>&1"
        " || {{ cat {log}; exit 1; }}"


rule reported:
    """Everything that a report shows: snakemake --report FILE takes it from here."""
    input:
        [shown(path) for path in DRAWN if path.endswith(".svg")],
        [
            report(
                f"results/{folder}/pages/{name}.html",
                caption=caption(name),
                category="Verdicts",
                labels={"table": name},
            )
            for folder, name in (
                (SOURCE.name, "claims"),
                (SOURCE.name, "goals"),
                *[(SOURCE.name, "limits") for _ in limits(SOURCE.name)],
                *[(SOURCE.name, "agreement") for _ in agreement(SOURCE)],
                ("build", "registers"),
            )
        ],
    localrule: True


rule report:
    """One page with every figure, its caption, the verdicts and the workflow that made them."""
    input:
        rules.reported.input,
    output:
        f"results/{SOURCE.name}/report.html",
    log:
        f"results/logs/{SOURCE.name}/report.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=lambda wildcards: " ".join(f"{k}={v}" for k, v in config.items()),
    shell:
        # Without a network: the page's scripts come with the package.
        "python -m snakemake --cores 1 --report {output} --config {params.config} -- reported"
        " > {log} 2>&1 || {{ tail -n 3 {log}; exit 1; }}"
