"""Raw samples to one row a (variant, timer, point): medians, in-block ratios, intervals.

A block's median stands for the block; ratios are formed between medians of one block, so that
what a whole process shares (clocks, memory placement) cancels; the median over blocks is reported
with a 95% percentile bootstrap over blocks (Kalibera and Jones 2013: repeat where chance enters).

    python -m experiments.tidy --raw raw/vocab_scaling.csv.gz --out tidy/vocab_scaling.csv
"""

import math
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from experiments.launched import BadRecord
from experiments.nvml import SLOWING
from experiments.stale import labelled, stale
from experiments.sweeps.sweep import AGAIN
from experiments.tables import (
    DEVICE_TIMERS,
    ELEMENT_BYTES,
    POINT,
    TIDY,
    BadTable,
    gbps,
    read_raw,
    top_bytes,
    useful_bytes,
    validated,
)
from kernels.registry import BY_NAME

CEILINGS = tuple(v.name for v in BY_NAME.values() if v.ceiling)
BASELINE = "torch_eager"
RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)
MOST_RANKED = 5  # blocks of a full run: 120 orders
KEYS = ["variant", "timer", *POINT]


def tidy(raw: pd.DataFrame) -> pd.DataFrame:
    """The TIDY table of a RAW one.  Adds the variant ``copy``: each block's faster ceiling."""
    # Wrong in one block is wrong: its times in the others are no measurement of a softmax.
    wrong = raw.loc[raw["status"] == "wrong", ["variant", *POINT]].drop_duplicates()
    timed = raw[raw["status"] == "ok"].merge(wrong, how="left", indicator=True)
    timed = timed[timed.pop("_merge") == "left_only"].copy()
    timed["timer"] = timed["timer"].replace(dict.fromkeys(DEVICE_TIMERS, "device"))
    timed["throttled"] = (timed["throttle_mask"].fillna(0).astype(int) & SLOWING) != 0
    timed["contended"] = timed["other_processes"].fillna(0) > 0
    timed = pd.concat([timed, _best_ceiling(timed)], ignore_index=True)
    stopped = raw[raw["status"] != "ok"].sort_values(
        "status", ascending=False, kind="stable"
    )  # wrong first
    stopped = stopped.drop_duplicates(["variant", *POINT])
    # What one block skipped and others timed counts as timed, in fewer blocks.
    done = timed[["variant", *POINT]].drop_duplicates().merge(stopped, how="right", indicator=True)
    stopped = done[done.pop("_merge") == "right_only"]
    table = pd.concat([_summaries(timed), _unmeasured(stopped)], ignore_index=True)
    table = table.sort_values(["variant", "timer", *POINT])
    table.insert(0, "sweep", raw["sweep"].iloc[0])
    table = table.merge(_stale(raw), on=KEYS, how="left")
    return validated(TIDY, table[list(TIDY.columns)].reset_index(drop=True))


def _best_ceiling(timed: pd.DataFrame) -> pd.DataFrame:
    """The samples of whichever ceiling has the lower median in its block, under the name copy."""
    group = ["timer", *POINT, "block"]
    ceilings = timed[timed["variant"].isin(CEILINGS)]
    medians = ceilings.groupby([*group, "variant"])["time_ns"].median().reset_index()
    best = medians.loc[medians.groupby(group)["time_ns"].idxmin(), [*group, "variant"]]
    return ceilings.merge(best, on=[*group, "variant"]).assign(variant="copy")


def _summaries(timed: pd.DataFrame) -> pd.DataFrame:
    blocks = timed.groupby([*KEYS, "block"])["time_ns"].median().rename("block_ns").reset_index()
    place = ["timer", *POINT, "block"]
    times = blocks.rename(columns={"variant": "reference", "block_ns": "reference_ns"})
    for name, reference in (("fraction", lambda _: "copy"), ("speedup", baseline)):
        blocks["reference"] = blocks["variant"].map(reference)
        blocks = blocks.merge(times, on=["reference", *place], how="left")
        blocks[name] = blocks.pop("reference_ns") / blocks["block_ns"]
        del blocks["reference"]

    samples = timed.groupby(KEYS)
    columns = {
        "framework": samples["framework"].first(),
        "max_rel_err": samples["max_rel_err"].max(),
        "tuned": samples["tuned"].agg(lambda choices: " or ".join(sorted(set(choices)))),
        "p20_us": samples["time_ns"].quantile(0.2) / 1e3,
        "p80_us": samples["time_ns"].quantile(0.8) / 1e3,
        "n_blocks": samples["block"].nunique(),
        "n_samples": samples.size(),
        "throttled_share": samples["throttled"].mean(),
        "contended_share": samples["contended"].mean(),
    }
    grouped = blocks.groupby(KEYS)
    for column, names in (
        ("block_ns", ("median_us", "ci_low_us", "ci_high_us")),
        ("fraction", ("fraction_of_copy", "fraction_low", "fraction_high")),
        ("speedup", ("speedup_vs_torch", "speedup_low", "speedup_high")),
    ):
        lists = grouped[column].agg(list)
        values = lists.map(lambda some: interval(np.array([v for v in some if not math.isnan(v)])))
        for i, name in enumerate(names):
            columns[name] = values.str[i] / (1e3 if name.endswith("_us") else 1)
    table = pd.DataFrame(columns).reset_index()
    table["status"], table["reason"] = "ok", ""
    table["useful_gbps"] = [
        gbps(useful_bytes(r.rows, r.cols, r.dtype, r.variant), r.median_us)
        for r in table.itertuples()
    ]
    table["moved_gbps"] = [
        gbps(_moved_bytes(r.variant, r.rows, r.cols, r.dtype), r.median_us)
        for r in table.itertuples()
    ]
    return table


def baseline(name: str) -> str:
    """What torch offers for the output that variant ``name`` gives."""
    known = BY_NAME.get(name.removesuffix(AGAIN))
    return f"torch_topk_{known.k}" if known and known.k else BASELINE


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Median of one value a block, and the 95% percentile bootstrap interval of that median.

    NaN thrice where no block has a value; a single block has no interval but itself.
    """
    if not len(values):
        return float("nan"), float("nan"), float("nan")
    order = np.argsort(values, kind="stable")
    if len(values) <= MOST_RANKED and len(values) % 2 and (ends := _ends(tuple(order))):
        middle, low, high = values[order[[len(values) // 2, *ends]]]
    else:
        medians = np.median(values[_resamples(len(values))], axis=1)
        middle, (low, high) = np.median(values), np.percentile(medians, PERCENTILES)
    return float(middle), float(low), float(high)


@cache
def _ends(order: tuple[int, ...]) -> tuple[int, int] | None:
    """The ranks of the interval's ends, for values that ascend in this ``order``.

    The median of an odd number of values is one of them, so the order decides which.  None where a
    percentile lies between two.
    """
    ranks = np.argsort(order)[_resamples(len(order))]
    medians = np.sort(np.median(ranks, axis=1))
    ends = np.percentile(medians, PERCENTILES)
    within = np.isin(ends, medians).all()
    return (int(ends[0]), int(ends[1])) if within else None


@cache
def _resamples(count: int) -> np.ndarray:
    """The same for every row: equal data give equal intervals, on every machine."""
    return np.random.default_rng(0).integers(count, size=(RESAMPLES, count))


def _moved_bytes(name: str, rows: int, cols: int, dtype: str) -> float:
    known = BY_NAME.get(name.removesuffix(AGAIN))
    passes = known.passes(cols) if known else 2
    return passes * rows * cols * ELEMENT_BYTES[dtype] + top_bytes(rows, dtype, name)


def _unmeasured(stopped: pd.DataFrame) -> pd.DataFrame:
    table = stopped[["variant", "framework", "timer", *POINT, "status", "reason", "max_rel_err"]]
    return table.assign(n_blocks=0, n_samples=0, tuned="")


def _stale(raw: pd.DataFrame) -> pd.DataFrame:
    """Whether any sample of a row is stale, by KEYS; of copy, any of a ceiling."""
    old = raw[KEYS].assign(stale=stale(raw))
    old["timer"] = old["timer"].replace(dict.fromkeys(DEVICE_TIMERS, "device"))
    old = pd.concat([old, old[old["variant"].isin(CEILINGS)].assign(variant="copy")])
    return old.groupby(KEYS, as_index=False)["stale"].any()


def main(
    raw: Annotated[Path, typer.Option()],
    out: Annotated[Path, typer.Option()],
) -> None:
    """Write the tidy table of a raw file."""
    try:
        table = tidy(read_raw(raw))
    except BadRecord as error:
        print(error)
        raise typer.Exit(2) from error
    except BadTable as error:
        print(f"{raw} is not a raw table of this project: {error}. Measure or ingest it again.")
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
    for share in ("throttled_share", "contended_share"):
        if flagged := int((table[share] > 0).sum()):
            print(f"{flagged} of {len(table)} rows hold samples that count in {share}")
    if old := labelled(table["stale"], table["variant"]):
        told = ", ".join(name + part for name, part in old.items())
        print(f"stale, measured with earlier code: {told}")


if __name__ == "__main__":
    typer.run(main)
