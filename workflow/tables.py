"""Which tables a source has, as paths of the workflow."""

from collections.abc import Iterable

from workflow.source import DEFAULT_ARCHIVE, Source, archives

PREFIX = "archive-"


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


def archived_verdicts(source: str, run: Source) -> list[str]:
    """The verdicts to lay beside those of ``source``, if it was measured here.

    Those of the archive of the same GPU, or else of the default one; none where there is none.
    """
    known = [gpu for gpu in (run.gpu, DEFAULT_ARCHIVE) if gpu in archives()]
    local = not source.startswith(PREFIX)
    return [f"results/{PREFIX}{gpu}/claims.csv" for gpu in known[:1] if local]
