# What several rules share.
from paper.blog import contents
from workflow.reported import caption, category, labels


def mode_of(wildcards):
    return "smoke" if wildcards.source == "local-cpu" else config["mode"]


def device_of(wildcards):
    return "cpu" if wildcards.source == "local-cpu" else "cuda"


def warmed(wildcards):
    """On a GPU what an operator runs is compiled first."""
    if wildcards.source == "local-cpu":
        return []
    folder, operator = f"results/{wildcards.source}/family", wildcards.operator
    once = [f"{folder}/once/{operator}.csv"] if operator in WAITING else []
    return [ancient(path) for path in (f"{folder}/warm.csv", *once)]


def figures_of(sweep, source):
    return [
        f"results/{source}/figures/{figure}.{suffix}"
        for figure, drawn in FIGURES.items()
        if drawn == sweep
        for suffix in ("svg", "png", "pdf")
    ]


def table_figures(source):
    return [
        f"results/{source.name}/figures/{figure}.{suffix}"
        for figure, table in TABLE_FIGURES.items()
        if source.holds(table)
        for suffix in ("svg", "png", "pdf")
    ]


def family_figures(source):
    """Those of the operators' errors: a GPU makes the table, an archive may hold it."""
    return [
        f"results/{source.name}/figures/{figure}.{suffix}"
        for figure, table in FAMILY_FIGURES.items()
        if source.holds(table)
        for suffix in ("svg", "png", "pdf")
    ]


def transformer_figures(source):
    return [
        f"results/{source}/figures/{figure}.{suffix}"
        for figure in TRANSFORMER_FIGURES
        for suffix in ("svg", "png", "pdf")
    ]


def profile_figures(source):
    return [
        f"results/{source}/figures/{figure}.{suffix}"
        for figure in PROFILE_FIGURES
        for suffix in ("svg", "png", "pdf")
        if source
    ]


def shown(figure):
    """A figure as a report shows it: with its caption, under its heading."""
    name = Path(figure).stem
    return report(
        figure, caption=caption(name), category=category(name), labels=labels(name)
    )


def post_figures(source):
    """The figures of the blog post: the source's own, the build's, and those of the counts."""
    folders = {
        **dict.fromkeys(PROFILE_FIGURES, profiled(SOURCE) or source),
        **dict.fromkeys(("resources", "regimes"), "build"),
    }
    return [
        f"results/{folders.get(name, source)}/figures/{name}.svg"
        for name in contents.figures()
    ]


def archived_counts(wildcards):
    """The table and the hardware that a local figure shows where ncu may not count."""
    mine = SOURCE.local and wildcards.source == SOURCE.name
    folder = archived_profile(SOURCE) if mine else ""
    names = ("profile.csv", "hardware.json") if folder else ()
    return [f"results/{folder}/{name}" for name in names]


# Whether a row is stale follows from what the kernels are, and from what archives know of launches.
STALENESS = [
    *KERNELS,
    *sorted(map(str, Path("kernels/frontier").glob("tables/*.json"))),
    "experiments/stale.py",
    "experiments/launched.py",
    *(
        f"experiments/archive/{gpu}/launched.csv"
        for gpu, files in RECORDED.items()
        if "launched.csv" in files
    ),
]


# A kernel's code decides whether it is measured again, not the date of its file or a comment.
# Read where a job asks for it: that of all kernels takes a second, and an archive's jobs need none.


def fingerprints(wildcards):
    return {name: sha256_by_name(name) for name in BY_NAME}


def fingerprints_of(wildcards):
    return [sha256_by_name(name) for name in SWEEPS[wildcards.sweep].variants]


def fingerprints_of_operators(wildcards):
    return {name: sha256_by_name(name) for name in OPERATORS}


def expected_minutes():
    """About how long measuring takes on an H200; 0 where no archive tells."""
    # A quick run is not archived: as it was timed once.
    return 5 if config["mode"] == "quick" else full_run(ARCHIVES / DEFAULT_ARCHIVE)
