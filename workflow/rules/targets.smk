# The names that a user types: each sweep, figures, smoke, archive.


rule figures:
    """Every figure of this run's source, and the resources of the build beside S5's numbers."""
    input:
        DRAWN,
        rules.registers.output,
    localrule: True


for _sweep in SWEEPS:

    rule:
        name:
            _sweep
        input:
            figures_of(_sweep, "local-cpu" if _sweep == "smoke" else SOURCE.name),
        localrule: True


# Snakemake would say 'no rule to produce vocab_scalling', and not what there is.
check_targets(
    sys.argv, [r.name for r in workflow.rules if not r.has_wildcards()], SOURCE
)


onstart:
    try:
        # Kept in a name of the module: closing the file would end the lock.
        globals()["LOCK"] = acquire(ROOT / ".snakemake" / "run.lock")
    except Busy as error:
        raise WorkflowError(str(error))
    print(f"source: {SOURCE.name}")
    if instead := stand_in(sys.argv, SOURCE):
        print(instead)
    if SOURCE.local and (about := expected_minutes()):
        print(
            f"a {config['mode']} run measures for about {about:.0f} minutes (H200)"
        )


onsuccess:
    for table in sorted(Path("results/build").glob("*/resources.csv")):
        if failed := failures(table):
            print(
                f"failed to compile for {table.parent.name}: {', '.join(failed)} ({table})"
            )
    folder = Path("results") / SOURCE.name / "figures"
    places = {
        f"figures of {SOURCE.name}": folder,
        "of its operators": folder.with_name("family") / "figures",
        "of the build": Path("results/build/figures"),
    }
    for name, place in places.items():
        if place.exists():
            print(f"{name}: {place}")
    for name, file in {
        "verdicts": "claims.md",
        "goals": "goals.md",
        "limits by Nsight Compute": "limits.md",
        "verdicts beside the archive's": "agreement.md",
        "paper": "paper.pdf",
        "post": "blog.html",
        "report": "report.html",
    }.items():
        if (path := folder.with_name(file)).exists():
            print(f"{name}: {path}")
    if (smoke := Path("results/local-cpu/figures")).exists():
        print(f"figures of the smoke run, no measurements: {smoke}")
