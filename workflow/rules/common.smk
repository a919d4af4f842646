# What several rules share.


def mode_of(wildcards):
    return "smoke" if wildcards.source == "local-cpu" else config["mode"]


def blocks_of(wildcards):
    count = MODES[mode_of(wildcards)]
    return [
        f"results/{wildcards.source}/blocks/{wildcards.sweep}/block-{i}.csv.gz"
        for i in range(count)
    ]


def figures_of(sweep, source):
    return [
        f"results/{source}/figures/{figure}.{suffix}"
        for figure, drawn in FIGURES.items()
        if drawn == sweep
        for suffix in ("svg", "png", "pdf")
    ]
