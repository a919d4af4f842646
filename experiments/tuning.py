"""What tuning runs share: fractions of a ceiling's speed, and the table of the fastest shapes."""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from experiments.hardware import commit
from experiments.timer import DeviceTimer

SAMPLES = 7
Key = TypeVar("Key")


def fractions(
    ceilings: Sequence[DeviceTimer], timers: Mapping[Key, DeviceTimer]
) -> dict[Key, float]:  # fmt: skip
    """The speed of each of ``timers`` over that of the fastest ceiling; sampled in turn."""
    times: dict[Key, list[float]] = {key: [] for key in timers}
    ceiling = []
    for _ in range(SAMPLES):
        ceiling.append(min(each.sample() for each in ceilings))
        for key in random.sample(list(timers), len(timers)):
            times[key].append(timers[key].sample())
    return {key: median(ceiling) / median(some) for key, some in times.items()}


def fastest_first(
    point: Mapping[str, Any], found: Mapping[Any, float], of: str = "copy"
) -> list[dict[str, Any]]:  # fmt: skip
    """The entries of a table for ``point``, by the fraction that each shape reached of ``of``."""
    return [
        {
            **point, "regime": shape.regime, "sizes": list(shape.sizes), "raw": shape.raw,
            f"fraction_of_{of}": round(value, 4),
        }
        for shape, value in sorted(found.items(), key=lambda item: -item[1])
    ]  # fmt: skip


def write_table(out: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write ``entries``, a line each, to ``out``, and where, when and of which code they are.

    Raises ValueError where there are none, and leaves what ``out`` holds.
    """
    if not entries:
        raise ValueError(f"no candidate gave right results, so {out} is left as it is: see above")
    gpu = torch.cuda.get_device_properties(0)
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    facts = {"gpu": gpu.name, "measured_utc": when, "code_commit": commit()}
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    out.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps(facts)[1:-1]
    out.write_text(f'{{{head}, "entries": [\n{lines}\n]}}\n')


def earlier(table: Path) -> list[dict[str, Any]]:
    """The entries of ``table``, if there is one, each with its date and commit."""
    if not table.exists():
        return []
    told = json.loads(table.read_text())
    facts = {key: told[key] for key in ("measured_utc", "code_commit")}
    return [{**(facts if "code_commit" not in entry else {}), **entry} for entry in told["entries"]]
