# The names that a user types: each sweep, figures, smoke, archive.


rule figures:
    """Every figure of this run's source, and the resources of the build."""
    input:
        [figures_of(sweep, SOURCE.name) for sweep in GPU_SWEEPS],
        rules.resources_figure.output,
    localrule: True


for _sweep in SWEEPS:

    rule:
        name:
            _sweep
        input:
            figures_of(_sweep, "local-cpu" if _sweep == "smoke" else SOURCE.name),
        localrule: True


onstart:
    print(f"source: {SOURCE.name}")


onsuccess:
    print(f"figures of {SOURCE.name}: results/{SOURCE.name}/figures")
