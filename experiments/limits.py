"""What limits the project's own kernels, and those beside them, where a goal is missed or near?

python -m experiments.limits results/archive-nvidia-h200/profile.csv --out limits.md
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from experiments.counts import NEAR_LIMITS_NAMES, read_counts
from experiments.layout import BY_NAME, Place
from experiments.markdown import STALE, head, line
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
    return page("What limits it, by Nsight Compute", HEADS, WORDS, chosen(table), _named, _counts)


def page(
    title: str,
    heads: list[str],
    words: str,
    table: pd.DataFrame,
    named: Callable[[dict[str, Any]], list[str]],
    counted: Callable[[dict[str, Any]], list[str]],
) -> str:
    """``table`` as Markdown: a line a row that was counted, and why others were not.

    ``named`` gives a row's first cells, the last of which says whose it is; ``counted`` the rest.
    """
    done = table[table["status"] == "ok"]
    lines = [f"# {title}", ""]
    if done.empty:
        why = table["reason"].iloc[0] if len(table) else "no row of these kernels"
        return "\n".join([*lines, f"Nothing was counted: {why}.", ""])
    lines += [f"{words} Counted by {done['profiler'].iloc[0]}.", "", *head(heads)]
    for row in done.to_dict("records"):
        *where, whose = named(row)
        lines.append(line([*where, whose + STALE * bool(row["stale"]), *counted(row)]))
    if done["stale"].any():
        lines += ["", f"{STALE} counted with earlier code"]
    others = table[table["status"] != "ok"].to_dict("records")
    if others:
        names = heads[: len(named(others[0]))]
        lines += ["", "Not counted:", "", *head([*names, "", "why"])]
        lines += [line([*named(row), row["status"], row["reason"]]) for row in others]
    return "\n".join([*lines, ""])


def _named(row: dict[str, Any]) -> list[str]:
    return [Place(*(row[key] for key in PLACE)).told, row["variant"]]


def _counts(row: dict[str, Any]) -> list[str]:
    return counts(row, row["ideal_bytes"] / 2)


def counts(row: dict[str, Any], unit: float) -> list[str]:
    """The cells of HEADS from the time on; bytes are told in units of ``unit`` bytes.

    Of some launches of clusters ncu gives infinite waves: a dash.
    """
    waves = f"{row['waves']:.2f}" if math.isfinite(row["waves"]) else "–"
    return [
        f"{row['duration_us']:,.4g}",
        f"{row['dram_read_bytes'] / unit:.3f}", f"{row['dram_write_bytes'] / unit:.3f}",
        *(f"{row[name]:.0f}" for name in ("dram_throughput_pct", "occupancy_pct")),
        waves, f"{row['issue_pct']:.0f}", row["stall"].replace("_", " ") or "–",
        f"{row['stall_pct']:.0f}" if row["stall"] else "–",
    ]  # fmt: skip


def main(
    path: Annotated[Path, typer.Argument(help="profile.csv")],
    out: Annotated[Path, typer.Option(help="the page, Markdown")],
) -> None:
    """Write what limits which kernel where."""
    write(path, "a profile", read_counts, told, out)


def write(
    path: Path,
    what: str,
    read: Callable[[Path], pd.DataFrame],
    told: Callable[[pd.DataFrame], str],
    out: Path,
) -> None:
    """Write the page of the table in ``path``; exits with 2 where that is not ``what``."""
    try:
        with reading(path, what):
            table = read(path)
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(told(table))


if __name__ == "__main__":
    typer.run(main)
