"""Raw samples to one row a (implementation, case): medians, in-block ratios, intervals.

    python -m experiments.family.tidy --raw family/raw/backward.csv.gz --out tidy/backward.csv

As experiments/tidy.py: a block's median stands for the block, ratios are formed between medians of
one block, and intervals are over blocks.  Fractions are of bandwidths, each of the bytes that its
own question moves at least, so that what moves more bytes may take longer.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from experiments.family.backward import ADD
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import OURS, PLAIN, TORCH
from experiments.family.others import COPIES
from experiments.family.tables import CASE, TIDY, read_raw
from experiments.nvml import SLOWING
from experiments.tables import ELEMENT_BYTES, BadTable, gbps, validated
from experiments.tidy import interval

COPY = "copy"
KEYS = ["implementation", *CASE]
PLACE = [*CASE, "block"]


def tidy(raw: pd.DataFrame) -> pd.DataFrame:
    """The TIDY table of a RAW one.  Adds ``copy``: the faster of each block's copies."""
    # Wrong in one block is wrong, and has no times.
    wrong = raw.loc[raw["status"] == "wrong", KEYS].drop_duplicates()
    timed = raw[raw["status"] == "ok"].merge(wrong, how="left", indicator=True)
    timed = timed[timed.pop("_merge") == "left_only"].copy()
    timed["throttled"] = (timed["throttle_mask"].fillna(0).astype(int) & SLOWING) != 0
    timed["contended"] = timed["other_processes"].fillna(0) > 0
    timed = pd.concat([timed, _best_copy(timed)], ignore_index=True)
    stopped = raw[raw["status"] != "ok"].sort_values("status", ascending=False, kind="stable")
    stopped = stopped.drop_duplicates(KEYS)  # wrong first
    done = timed[KEYS].drop_duplicates().merge(stopped, how="right", indicator=True)
    stopped = done[done.pop("_merge") == "right_only"]
    table = pd.concat([_summaries(timed), _unmeasured(stopped)], ignore_index=True)
    operator = str(raw["operator"].iloc[0])
    sizes = table["dtype"].map(ELEMENT_BYTES) * table["rows"] * table["cols"]
    mine = table["implementation"].isin([OURS, PLAIN])
    table = table.assign(
        operator=operator,
        ceiling=ADD if ADD in set(raw["implementation"]) else _copied(raw),
        extra_share=table["extra_bytes"] / sizes,
        kernel_sha256=raw["kernel_sha256"].iloc[0],
        stale=mine & (set(raw["kernel_sha256"]) != {sha256_of(operator)}),
    )
    table = table.sort_values(KEYS).reindex(columns=list(TIDY.columns))
    return validated(TIDY, table.reset_index(drop=True))


def _copied(raw: pd.DataFrame) -> str:
    return COPY if raw["implementation"].isin(COPIES).any() else ""


def _best_copy(timed: pd.DataFrame) -> pd.DataFrame:
    """The samples of whichever copy has the lower median in its block, under the name copy."""
    copies = timed[timed["implementation"].isin(COPIES)]
    medians = copies.groupby([*PLACE, "implementation"])["time_ns"].median().reset_index()
    best = medians.loc[medians.groupby(PLACE)["time_ns"].idxmin(), [*PLACE, "implementation"]]
    return copies.merge(best, on=[*PLACE, "implementation"]).assign(implementation=COPY)


def _summaries(timed: pd.DataFrame) -> pd.DataFrame:
    samples = timed.groupby([*KEYS, "block"])
    blocks = samples.agg(
        block_ns=("time_ns", "median"), ideal_bytes=("ideal_bytes", "first"),
        flops=("flops", "first"),
    ).reset_index()  # fmt: skip
    blocks["speed"] = blocks["ideal_bytes"] / blocks["block_ns"]
    blocks["rate"] = 1 / blocks["block_ns"]
    blocks["tflops"] = blocks["flops"] / blocks["block_ns"] / 1e3
    ceiling = ADD if (blocks["implementation"] == ADD).any() else COPY
    for name, against, of in (
        ("fraction_of_ceiling", ceiling, "speed"),
        ("fraction_of_plain", PLAIN, "speed"),
        ("speedup_vs_torch", TORCH, "rate"),
        ("speedup_of_ours", OURS, "block_ns"),
    ):
        other = blocks.loc[blocks["implementation"] == against, [*PLACE, of]]
        blocks = blocks.merge(other.rename(columns={of: "other"}), on=PLACE, how="left")
        blocks[name] = blocks[of] / blocks.pop("other")
    samples = timed.groupby(KEYS)
    columns = {
        "timer": samples["timer"].first(),
        "error": samples["error"].max(),
        "tolerance": samples["tolerance"].max(),
        "extra_bytes": samples["extra_bytes"].max(),
        "n_blocks": samples["block"].nunique(),
        "n_samples": samples.size(),
        "throttled_share": samples["throttled"].mean(),
        "contended_share": samples["contended"].mean(),
    }
    grouped = blocks.groupby(KEYS)
    columns |= _interval(grouped["block_ns"], ("median_us", "ci_low_us", "ci_high_us"), 1e3)
    ratios = "fraction_of_ceiling", "fraction_of_plain", "speedup_vs_torch", "speedup_of_ours"
    for name in ("tflops", *ratios):
        columns |= _interval(grouped[name], (name, f"{name}_low", f"{name}_high"))
    columns["gbps"] = pd.Series(
        gbps(grouped["ideal_bytes"].first(), columns["median_us"])  # pyright: ignore[reportArgumentType]
    )
    return pd.DataFrame(columns).reset_index().assign(status="ok", reason="")


def _interval(grouped, names: tuple[str, ...], over: float = 1.0) -> dict[str, pd.Series]:
    """Median, low and high end of one value a block, by the three ``names``."""

    def found(some: pd.Series) -> tuple[float, ...]:
        return interval(some.dropna().to_numpy(np.float64))

    values = grouped.agg(found)
    return {name: values.str[i].astype(float) / over for i, name in enumerate(names)}


def _unmeasured(stopped: pd.DataFrame) -> pd.DataFrame:
    table = stopped[[*KEYS, "timer", "status", "reason", "error", "tolerance"]]
    return table.assign(n_blocks=0, n_samples=0, extra_bytes=np.nan)


def main(
    raw: Annotated[Path, typer.Option()],
    out: Annotated[Path, typer.Option()],
) -> None:
    """Write the tidy table of a raw file."""
    try:
        table = tidy(read_raw(raw))
    except BadTable as error:
        print(
            f"{raw} is not a raw table of an operator: {error}. Make it with: "
            "python -m experiments.family.measure"
        )
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
    if table["stale"].any():
        print(f"stale, measured with earlier code: {table['operator'].iloc[0]}")


if __name__ == "__main__":
    typer.run(main)
