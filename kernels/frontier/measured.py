"""The fastest shapes by width of kernels that have a table of their own, tables/<folder>/."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache

from kernels.frontier import select
from kernels.frontier.plans import HOPPERS, Shape
from kernels.registry import ELEMENT_BYTES

# By bytes of an element, and whether rows have edges: columns and shapes, in order of columns.
Table = Mapping[tuple[int, bool], tuple[tuple[int, Shape], ...]]


@cache
def table(folder: str, gpu: str) -> Table:
    """What was measured on ``gpu`` (a slug); empty where nothing was."""
    path = select.TABLES / folder / f"{gpu}.json"
    entries = json.loads(path.read_text())["entries"] if path.exists() else []
    found: dict[tuple[int, bool], list[tuple[int, Shape]]] = {}
    for e in entries:
        key = ELEMENT_BYTES[e["dtype"]], e["edges"] != "none"
        found.setdefault(key, []).append((e["cols"], select.shape_of(e)))
    return {key: tuple(sorted(some, key=lambda e: e[0])) for key, some in found.items()}


def shape(folder: str, gpu: str, arch: int, cols: int, size: int, edges: int) -> Shape | None:
    """The shape that was fastest at the next width that was measured; None beyond the last.

    A GPU of HOPPERS without a table goes by DEFAULT's; ``arch`` is 90 for sm_90.
    """
    known = table(folder, gpu) or (table(folder, select.DEFAULT) if arch in HOPPERS else {})
    entries = known.get((size, edges > 0), ())
    index = bisect_left([width for width, _ in entries], cols)
    return entries[index][1] if index < len(entries) else None
