"""The numbers of docs/attention.md, from what archives hold of the operator ``attention``."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pandas as pd

from experiments.family import OPERATORS
from experiments.family.archived import samples
from experiments.family.counts import FILE
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import OURS, TORCH
from experiments.family.tables import COUNTS, read_raw
from experiments.family.tidy import tidy
from experiments.markdown import STALE, head, line
from experiments.tables import read_csv, validated
from workflow.measured import _range

NAME = "attention"
# Whose speed ours is told in, and by which words.
OTHERS = {
    TORCH: "of torch's speed",
    "torch_flash": "of its FlashAttention-2's",
    "torch_efficient": "of its memory-efficient kernel's",
    "unfused": "of matmul, softmax, matmul",
}
AT_EVERY_LENGTH = "bfloat16"  # the dtype that is measured there

Archives = Mapping[str, Path]  # by what people call the GPU


def speeds(archives: Archives) -> str:
    """Ours by GPU and what is asked: ranges over dtypes and lengths."""
    lines = head(["", "", "TFLOP/s", *OTHERS.values()])
    for gpu, asked, table in _tables(archives):
        mine = _of(table, OURS)
        ratios = (_range(_of(table, other)["speedup_of_ours"]) for other in OTHERS)
        lines.append(line([gpu + _mark(table), asked, _range(mine["tflops"]), *ratios]))
    return "\n".join(lines)


def slowed(archives: Archives) -> str:
    """In how many points of all implementations the clock was lowered for some sample."""
    told = []
    for gpu, table in _measured(archives):
        timed = table[table["status"] == "ok"]
        told.append(f"{int((timed['throttled_share'] > 0).sum())} of {len(timed)} on the {gpu}")
    return ", ".join(told)


def lengths(archives: Archives) -> str:
    """Ours by the length of the sequences: the share of torch's speed, and in how many TFLOP/s."""
    known = sorted({case.cols for case in OPERATORS[NAME].cases})
    lines = head(["", "", *(f"{length:,}" for length in known)])
    for gpu, asked, table in _tables(archives):
        mine = _of(table[table["dtype"] == AT_EVERY_LENGTH], OURS).set_index("cols")
        cells = (
            f"{mine['speedup_vs_torch'][length]:.2f} ({mine['tflops'][length]:.0f})"
            for length in known
        )
        lines.append(line([gpu + _mark(table), asked, *cells]))
    return "\n".join(lines)


def counted(archives: Archives) -> str:
    """What ncu counts of ours and of torch's."""
    heads = ["", "", "", "bytes in DRAM, of the first line's", "DRAM busy"]
    lines = head([*heads, "warps wait most for", "of those that wait"])
    for gpu, folder in archives.items():
        table = validated(COUNTS, read_csv(folder / FILE))
        table = table[(table["operator"] == NAME) & (table["status"] == "ok")]
        for row in table.to_dict("records"):
            moved = (row["dram_read_bytes"] + row["dram_write_bytes"]) / row["ideal_bytes"]
            mark = STALE * (row["kernel_sha256"] != sha256_of(NAME))
            asked = f"{row['asked']}, {row['cols']:,}"
            who = "torch" if row["implementation"] == TORCH else row["implementation"]
            lines.append(line([
                gpu + mark, asked, who, f"{moved:.2f}", f"{row['dram_throughput_pct']:.0f}%",
                row["stall"], f"{row['stall_pct']:.0f}%",
            ]))  # fmt: skip
    return "\n".join(lines)


def _measured(archives: Archives) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tidy table of every archive that has one."""
    for gpu, folder in archives.items():
        if (path := folder / samples(NAME)).exists():
            yield gpu, _tidy(path)


@cache
def _tidy(path: Path) -> pd.DataFrame:
    return tidy(read_raw(path))


def _tables(archives: Archives) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The parts of it by what is asked."""
    for gpu, table in _measured(archives):
        for asked in dict.fromkeys(case.asked for case in OPERATORS[NAME].cases):
            yield gpu, asked, table[table["asked"] == asked]


def _of(table: pd.DataFrame, name: str) -> pd.DataFrame:
    return table[(table["implementation"] == name) & (table["status"] == "ok")]


def _mark(table: pd.DataFrame) -> str:
    return STALE if _of(table, OURS)["stale"].any() else ""
