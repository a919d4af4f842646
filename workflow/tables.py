"""Which tables a source has, as paths of the workflow."""

from collections.abc import Iterable
from pathlib import Path

from experiments import ncu, sanitizer
from experiments.family import OPERATORS
from experiments.family.counts import FILE as FAMILY_COUNTS
from experiments.hardware import gpu_of
from figures import TRANSFORMER_FIGURES
from workflow.source import DEFAULT_ARCHIVE, Source, archives, recorded

PREFIX = "archive-"
PROFILE = "profile.csv"
HARDWARE = "hardware.json"
LAYOUTS = "layouts.csv"
SANITIZER = ("sanitizer.csv", "sanitizer.log")
TRANSFORMER = tuple(TRANSFORMER_FIGURES.values())
PROFILE_FIGURES = ("dram_bytes", "frontier_bytes", "occupancy")


def tables_of(source: str, sweeps: Iterable[str]) -> dict[str, list[str]]:
    """The raw and tidy tables of ``source``: of an archive, those that it holds of ``sweeps``.

    An archive may be older than a sweep.
    """
    if source.startswith(PREFIX):
        archive = Source(source, source.removeprefix(PREFIX), local=False)
        sweeps = [name for name in sweeps if archive.measures(name)]
    folder, names = f"results/{source}", list(sweeps)
    return {
        "raw": [f"{folder}/raw/{name}.csv.gz" for name in names],
        "tidy": [f"{folder}/tidy/{name}.csv" for name in names],
    }


def outdated(run: Source, sweeps: Iterable[str]) -> list[str]:
    """The raw tables of ``run`` that the archive of its GPU lacks, or has of what was otherwise."""
    # Not above: it takes a second of every command.
    from experiments.archive import current

    kept = current(run.archive)
    return tables_of(run.name, [name for name in sweeps if name not in kept])["raw"]


def beside(source: str) -> list[Source]:
    """The archive to lay beside ``source``, if that was measured here.

    That of the same GPU, or else the default one; none where neither holds a sweep.
    """
    return [a for a in _near(source) if any(n.startswith("raw/") for n in recorded(a.gpu))][:1]


def _near(source: str) -> list[Source]:
    """The archives that a run has beside it, the one that is nearer to it first."""
    if source.startswith(PREFIX):
        return []
    known = dict.fromkeys((gpu_of(source), DEFAULT_ARCHIVE))
    return [Source(PREFIX + gpu, gpu, local=False) for gpu in known if gpu in archives()]


def archived(source: str, *names: str) -> list[str]:
    """Those tables ``names`` of the archive beside ``source``, if there is one."""
    return [f"results/{archive.name}/{name}" for archive in beside(source) for name in names]


def archived_sweep(source: str, sweep: str) -> list[str]:
    """What a figure of ``sweep`` shows beside ``source``, of the nearest archive that holds it."""
    held = [f"results/{archive.name}" for archive in _near(source) if archive.measures(sweep)]
    return [f"{folder}/{name}" for folder in held[:1] for name in (f"tidy/{sweep}.csv", HARDWARE)]


def agreement(run: Source) -> list[str]:
    """The page that sets the verdicts of ``run`` beside an archive's, if it has any beside it."""
    return [f"results/{run.name}/agreement.md" for _ in beside(run.name)]


def counted(source: str) -> list[str]:
    """The counts of ``source``, where there are any."""
    return made(source, PROFILE)


def limits(source: str) -> list[str]:
    """The page of what limits kernels on ``source``, where there are counts."""
    return [f"results/{source}/limits.md" for _ in counted(source)]


def tried_shapes(source: str) -> list[str]:
    """What tuning tried on the GPU of ``source``, where that is kept."""
    # As experiments.tried has it, which takes a second to import.
    folders = (Path(f"kernels/{kind}/tables") for kind in ("frontier", "triton"))
    paths = (folder / f"{gpu_of(source)}.tried.csv.gz" for folder in folders)
    return [str(path) for path in paths if path.exists()]


def made(source: str, *names: str) -> list[str]:
    """Those tables ``names`` that an archive holds, or that a local run has made."""
    if source.startswith(PREFIX):
        archive = Source(source, source.removeprefix(PREFIX), local=False)
        return [f"results/{source}/{name}" for name in names if archive.holds(name)]
    return [path for name in names if Path(path := f"results/{source}/{name}").exists()]


def operators_of(source: str) -> list[str]:
    """The operators beside the softmax that an archive holds, or that a local run has measured."""
    return [name for name in OPERATORS if made(source, raw_operator(name))]


def raw_operator(name: str) -> str:
    """The samples of operator ``name``, in the folder of a source."""
    return f"family/raw/{name}.csv.gz"


def tidy_operators(source: str) -> list[str]:
    """The tidy tables of those that operators_of names."""
    return [f"results/{source}/family/tidy/{name}.csv" for name in operators_of(source)]


def operator_figures(source: str, names: Iterable[str]) -> list[str]:
    """The figures of the operators ``names``."""
    return [
        f"results/{source}/family/figures/{name}.{suffix}"
        for name in names
        for suffix in ("svg", "png", "pdf")
    ]


def drawn_operators(run: Source) -> list[str]:
    """The operators that `snakemake family` draws: all on a GPU, those recorded of an archive."""
    return list(OPERATORS) if run.local else operators_of(run.name)


def counted_operators(run: Source) -> list[str]:
    """The page of what ncu counts of operators for ``run``: where it can be called, or archived."""
    can = ncu.installed() if run.local else run.holds(FAMILY_COUNTS)
    return [f"results/{run.name}/family/counts.md"] if can else []


def measured_layouts(source: str, run: Source) -> list[str]:
    """What each layout costs on ``source``: of this ``run`` it is measured if it was not yet."""
    if run.local and source == run.name:
        return [f"results/{source}/{LAYOUTS}"]
    return made(source, LAYOUTS)


def sanitized(run: Source) -> list[str]:
    """What Compute Sanitizer found for ``run``: where it can be called, or is archived."""
    can = sanitizer.installed() if run.local else all(map(run.holds, SANITIZER))
    return [f"results/{run.name}/{name}" for name in SANITIZER if can]


def transformed(run: Source) -> list[str]:
    """What the transformer gave ``run``: on a GPU it is trained, an archive may have it."""
    can = all(map(run.holds, TRANSFORMER))
    return [f"results/{run.name}/{name}" for name in TRANSFORMER if can]


def profiled(run: Source) -> str:
    """The source whose profile ``run`` draws; '' where there is none.

    Its own where ncu can be called, or else that of the archive that archived_profile names.
    """
    return run.name if run.local and ncu.installed() else archived_profile(run)


def archived_profile(run: Source) -> str:
    """The archive whose profile stands in for that of ``run``; '' where there is none.

    Of a local run it is that of the same GPU, or else the default one.
    """
    for gpu in (run.gpu, DEFAULT_ARCHIVE) if run.local else (run.gpu,):
        archive = Source(PREFIX + gpu, gpu, local=False)
        if gpu in archives() and archive.holds(PROFILE):
            return archive.name
    return ""


def unprofiled(run: Source) -> str:
    """Why the profile of ``run`` is not made, and what to do; '' where it is made."""
    if not run.local:
        return "ncu counts on a GPU, and this run takes its data from an archive"
    if not ncu.installed():
        return "ncu (Nsight Compute) is not on PATH: install it, or add its folder"
    return ""
