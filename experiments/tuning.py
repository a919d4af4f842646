"""What tuning runs share: fractions of a ceiling's speed, and the table of the fastest shapes."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

import pandas as pd
import torch
from rich.progress import track

from experiments import tried
from experiments.hardware import commit
from experiments.pool import pool
from experiments.timer import Flush
from kernels.frontier.plans import EDGES
from kernels.launch import architecture

# Of each, and of the fastest some more: hundreds of candidates lie closer than their noise.
SAMPLES, FINALISTS, MORE_SAMPLES = 7, 6, 14
# Of a table; an entry that was measured at another time has the last two of its own.
FACTS = ("gpu", "measured_utc", "code_commit")
Key = TypeVar("Key")


class Timed(Protocol):
    """What gives a time of one call, as timers do."""

    def sample(self) -> float: ...


def fractions(ceilings: Sequence[Timed], timers: Mapping[Key, Timed]) -> dict[Key, float]:
    """The speed of each of ``timers`` over that of the fastest ceiling; sampled in turn.

    The FINALISTS are judged by other samples than those that they came so far by; the others are
    none of them faster than the last of these.
    """

    def found(keys: Sequence[Key], samples: int) -> dict[Key, float]:
        times: dict[Key, list[float]] = {key: [] for key in keys}
        ceiling = []
        for _ in range(samples):
            ceiling.append(min(each.sample() for each in ceilings))
            for key in random.sample(keys, len(keys)):
                times[key].append(timers[key].sample())
        return {key: median(ceiling) / median(some) for key, some in times.items()}

    first = found(list(timers), SAMPLES)
    fastest = sorted(first, key=first.__getitem__, reverse=True)[:FINALISTS]
    last = found(fastest, MORE_SAMPLES) if fastest else {}
    least = min(last.values(), default=0.0)
    return {key: last[key] if key in last else min(value, least) for key, value in first.items()}


def fastest_first(
    point: Mapping[str, Any], found: Mapping[Any, float], of: str = "copy"
) -> list[dict[str, Any]]:  # fmt: skip
    """The entries of a table for ``point``, by the fraction that each shape reached of ``of``."""
    return [
        {
            **point, "regime": shape.regime, "sizes": list(shape.sizes), "raw": shape.raw,
            **getattr(shape, "unusual", {}),  # Triton's shapes say all that they are
            f"fraction_of_{of}": round(value, 4),
        }
        for shape, value in sorted(found.items(), key=lambda item: -item[1])
    ]  # fmt: skip


def of_widths(
    asked: Mapping[Any, Sequence[Any]],
    compiled: Callable[..., bool],
    measure: Callable[..., dict[Any, float]],
    out: Path,
    log: Path,
    of: str = "copy",
) -> None:
    """Measure the shapes that are ``asked`` of each width: all to ``log``, the fastest to ``out``.

    All are kept beside ``out`` too, as in ``log``, with the commit. A width has ``dtype``,
    ``edges`` and ``cols``.
    """
    arch = architecture()
    with pool("cuda") as processes:
        jobs = [(shape, width, arch) for width, shapes in asked.items() for shape in shapes]
        done = dict(zip(jobs, processes.map(compiled, *zip(*jobs, strict=True)), strict=True))
    flush, entries, every = Flush("cuda"), [], []
    for width, shapes in track(asked.items(), "tuning"):
        point = {"dtype": width.dtype, "edges": EDGES[width.edges], "rows": None}
        found = measure(width, [shape for shape in shapes if done[shape, width, arch]], flush)
        every += (some := fastest_first({**point, "cols": width.cols}, found, of))
        entries += some[:1]
    log.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(every).to_csv(log, index=False)
    write_table(out, entries)
    tried.write(tried.beside(out), pd.DataFrame(every).assign(code_commit=tuned_at()))
    print(f"{len(asked)} widths, {len(every)} candidates, in {out} and {log}")


def tuned_at() -> str:
    """The commit: tables that were written before, of other rows, make no difference to it."""
    return commit(but="kernels/*/tables/*")


def write_table(
    out: Path, entries: Sequence[Mapping[str, Any]], facts: Mapping[str, str] | None = None
) -> None:
    """Write ``entries``, a line each, to ``out``, and where, when and of which code they are.

    By default here, now and of the present commit; FACTS otherwise.
    Raises ValueError where there are none, and leaves what ``out`` holds.
    """
    if not entries:
        raise ValueError(f"no candidate gave right results, so {out} is left as it is: see above")
    if facts is None:
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = (torch.cuda.get_device_properties(0).name, when, tuned_at())
        facts = dict(zip(FACTS, values, strict=True))
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    out.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps(dict(facts))[1:-1]
    out.write_text(f'{{{head}, "entries": [\n{lines}\n]}}\n')


def earlier(table: Path) -> list[dict[str, Any]]:
    """The entries of ``table``, if there is one, each with its date and commit."""
    if not table.exists():
        return []
    told = json.loads(table.read_text())
    facts = {key: told[key] for key in FACTS[1:]}
    return [{**(facts if "code_commit" not in entry else {}), **entry} for entry in told["entries"]]
