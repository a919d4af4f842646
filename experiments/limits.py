"""What limits the project's own kernels, and those beside them, where a goal is missed or near?

python -m experiments.limits results/archive-nvidia-h200/profile.csv --out limits.md
"""

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments.counts import NEAR_LIMITS_NAMES, read_counts
from experiments.layout import BY_NAME, CONTIGUOUS
from experiments.markdown import head, line
from experiments.tables import PLACE, BadTable, reading
from kernels.registry import DTYPES

HEADS = [
    *("where", "variant", "µs", "read / MN", "written / MN", "DRAM %", "occupancy %", "waves"),
    *("issue slots %", "most warps wait for", "% of those that wait"),
]
WORDS = (
    "One call a line, from empty caches. MN is the input once; what the L2 still holds at the end "
    "of a kernel has not been written. DRAM, occupancy and issue slots are in percent of the most "
    "that there can be; waves are blocks over those that the multiprocessors hold at once; the "
    "times are no measurements."
)
STALE = "†"


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a PROFILE table that are told of, by place and then by variant."""
    orders = {
        "dtype": DTYPES.index,
        "layout": list(BY_NAME).index,
        "variant": NEAR_LIMITS_NAMES.index,
    }
    return table[table["variant"].isin(NEAR_LIMITS_NAMES)].sort_values(
        ["dtype", "cols", "rows", "layout", "variant"],
        key=lambda column: column.map(orders[column.name]) if column.name in orders else column,
    )


def told(table: pd.DataFrame) -> str:
    """A PROFILE table, and whether each row is ``stale``, as Markdown."""
    mine = chosen(table)
    done = mine[mine["status"] == "ok"]
    lines = ["# What limits it, by Nsight Compute", ""]
    if done.empty:
        why = mine["reason"].iloc[0] if len(mine) else "no row of these kernels"
        return "\n".join([*lines, f"Nothing was counted: {why}.", ""])
    lines += [f"{WORDS} Counted by {done['profiler'].iloc[0]}.", "", *head(HEADS)]
    lines += [line(_cells(row)) for row in done.to_dict("records")]
    if done["stale"].any():
        lines += ["", f"{STALE} counted with earlier code"]
    others = mine[mine["status"] != "ok"].to_dict("records")
    if others:
        lines += ["", "Not counted:", "", *head(["where", "variant", "", "why"])]
        lines += [line([_where(r), r["variant"], r["status"], r["reason"]]) for r in others]
    return "\n".join([*lines, ""])


def _cells(row: dict[str, Any]) -> list[str]:
    once = row["ideal_bytes"] / 2
    return [
        _where(row), row["variant"] + STALE * bool(row["stale"]), f"{row['duration_us']:,.4g}",
        f"{row['dram_read_bytes'] / once:.3f}", f"{row['dram_write_bytes'] / once:.3f}",
        *(f"{row[name]:.0f}" for name in ("dram_throughput_pct", "occupancy_pct")),
        f"{row['waves']:.2f}", f"{row['issue_pct']:.0f}", row["stall"].replace("_", " ") or "–",
        f"{row['stall_pct']:.0f}" if row["stall"] else "–",
    ]  # fmt: skip


def _where(row: dict[str, Any]) -> str:
    dtype, rows, cols, layout = (row[key] for key in PLACE)
    place = f"{dtype} {rows:,} x {cols:,}"
    return place if layout == CONTIGUOUS else f"{place}, {layout}"


def main(
    path: Annotated[Path, typer.Argument(help="profile.csv")],
    out: Annotated[Path, typer.Option(help="the page, Markdown")],
) -> None:
    """Write what limits which kernel where."""
    try:
        with reading(path, "a profile"):
            table = read_counts(path)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(told(table))


if __name__ == "__main__":
    typer.run(main)
