"""From outcomes and counts of operators to their table; and the command with a stand-in for ncu."""

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.family import OPERATORS
from experiments.family.counts import Watched, call_of, label, watched
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import OURS, TORCH
from experiments.family.profiler import refused, table
from experiments.family.tables import COUNTS
from experiments.ncu import BadReport, launches
from experiments.profiler import UNSEEN
from experiments.tables import BadTable, read_csv, validated
from tests.commands import module
from tests.experiments.counted import COMMIT, PROFILER, launch
from tests.experiments.family.made import counts_of
from tests.experiments.test_ncu import FORBIDDEN, REPORT
from tests.experiments.test_profiler import READS, stand_in

MASKS, MASKS_OF_TORCH = Watched("masks", OURS, 0), Watched("masks", TORCH, 0)
TOKENS = Watched("sample", TORCH, 0)
# As if the kernels of the recorded report were those of operators.
CALLS = {
    "triton_row": MASKS, "torch_naive": MASKS_OF_TORCH, "cuda_split_reread": TOKENS,
    "torch_eager": Watched("columns", TORCH, 1), "cuda_float4": Watched("columns", OURS, 1),
    "torch_compile": Watched("attention", OURS, 0),
}  # fmt: skip


def relabelled() -> str:
    text = REPORT
    for name, call in CALLS.items():
        text = text.replace(f"{name} float32 2048 8192 contiguous", label(call))
    return text


def told(*calls: Watched, status: str = "ok", reason: str = "") -> pd.DataFrame:
    return pd.DataFrame([{**c._asdict(), "status": status, "reason": reason} for c in calls])


def one(made: pd.DataFrame, call: Watched) -> pd.Series:
    mine = (made["operator"] == call.operator) & (made["implementation"] == call.implementation)
    (at,) = made.index[mine & (made["asked"] == call.case.asked)]
    return made.loc[at]


def test_a_real_report_becomes_a_table():
    calls = tuple(CALLS.values())
    made = table(told(*calls), launches(relabelled(), call_of), PROFILER, COMMIT)
    assert made["operator"].tolist() == [call.operator for call in calls]
    assert set(made["status"]) == {"ok"}
    steps = one(made, MASKS_OF_TORCH)
    assert steps["launches"] == 5
    assert steps["dram_read_bytes"] == sum(READS)
    # The shape and the registers of the longest.
    assert (steps["block_size"], steps["grid_size"], steps["registers"]) == (128, 65_536, 19)
    assert (steps["asked"], steps["dtype"], steps["shape"]) == (
        "causal", "bfloat16", "256x16x256x256",
    )  # fmt: skip
    assert (steps["rows"], steps["cols"]) == (MASKS.case.rows, MASKS.case.cols)
    assert one(made, TOKENS)["launches"] == 2
    for call in calls:
        row = one(made, call)
        assert row["ideal_bytes"] == OPERATORS[call.operator].n_bytes(call.case)
        assert row["kernel_sha256"] == sha256_of(call.operator)
    assert set(made["profiler"]) == {PROFILER}
    assert set(made["code_commit"]) == {COMMIT}


def test_a_call_without_a_kernel_is_a_row_with_its_reason():
    made = one(table(told(MASKS), {}, PROFILER, COMMIT), MASKS)
    assert (made["status"], made["reason"], made["launches"]) == ("skipped", UNSEEN, 0)
    assert pd.isna(made["dram_read_bytes"])


@pytest.mark.parametrize("status", ["wrong", "skipped"])
def test_what_is_not_ok_keeps_its_reason_and_has_no_counts(status: str):
    outcomes = told(MASKS, status=status, reason="because")
    made = one(table(outcomes, {MASKS: [launch()]}, PROFILER, COMMIT), MASKS)
    assert (made["status"], made["reason"], made["launches"]) == (status, "because", 0)
    assert pd.isna(made["duration_us"])


def test_kernels_of_a_call_that_nobody_tells_of_are_refused():
    with pytest.raises(BadReport, match=r"kernels of masks, torch: causal, .*, which never ran"):
        table(told(MASKS), {MASKS: [launch()], MASKS_OF_TORCH: [launch()]}, PROFILER, COMMIT)


def test_a_table_survives_its_file(tmp_path: Path):
    made = pd.concat([counts_of(), table(told(TOKENS), {}, PROFILER, COMMIT)]).drop_duplicates(
        ["operator", "implementation", "asked", "shape"], keep="last", ignore_index=True
    )
    assert len(made) == len(watched())
    made.to_csv(tmp_path / "counts.csv", index=False)
    again = validated(COUNTS, read_csv(tmp_path / "counts.csv"))
    pd.testing.assert_frame_equal(made, again)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "fine"), ("dram_read_bytes", -1.0), ("dram_read_bytes", None),
        ("occupancy_pct", 250.0), ("ideal_bytes", 0), ("kernel_sha256", ""), ("shape", "3 x 4"),
        ("dtype", "float8"),
    ],
)  # fmt: skip
def test_a_bad_value_is_rejected(column: str, value: Any):
    made = counts_of()
    with pytest.raises(BadTable):
        validated(COUNTS, made.astype({column: object}).assign(**{column: value}))
    with pytest.raises(BadTable, match="unique"):
        validated(COUNTS, pd.concat([made, made], ignore_index=True))


def test_a_refusal_has_a_row_for_every_call():
    rows = refused("no")
    assert [Watched(*row) for row in rows[[*Watched._fields]].itertuples(index=False)] == watched()
    assert set(table(rows, {}, PROFILER, COMMIT)["reason"]) == {"no"}


def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, report: str, outcomes: str | None
) -> tuple[int, str]:
    """Exit code and output where ncu gives ``report``, and the process ``outcomes``."""
    stand_in(folder, report, outcomes)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    done = module("experiments.family.profiler", "--out", folder / "family" / "counts.csv")
    return done.returncode, done.stdout


def test_the_command_writes_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    outcomes = told(*CALLS.values(), Watched("factors", OURS, 0)).to_csv(index=False)
    assert command(tmp_path, monkeypatch, relabelled(), outcomes) == (0, "6 ok, 1 skipped\n")
    made = validated(COUNTS, read_csv(tmp_path / "family" / "counts.csv"))
    assert set(made["profiler"]) == {"Nsight Compute 2025.3.1.0"}
    assert one(made, TOKENS)["launches"] == 2


@pytest.mark.parametrize("outcomes", [None, told(*CALLS.values()).to_csv(index=False)])
def test_where_ncu_may_not_count_every_row_says_so(
    outcomes: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code, said = command(tmp_path, monkeypatch, FORBIDDEN, outcomes)
    assert code == 0
    out = tmp_path / "family" / "counts.csv"
    assert "(ERR_NVGPUCTRPERM): run as root, or load the driver" in said
    assert f"then: snakemake --cores 1 {out} -R family_counts\n" in said
    made = validated(COUNTS, read_csv(out))
    assert len(made) == len(watched())
    assert set(made["status"]) == {"skipped"}
    assert made["reason"].str.contains("ERR_NVGPUCTRPERM").all()


@pytest.mark.parametrize(
    ("report", "outcomes", "said"),
    [
        ("==PROF== Connected\n", None, "family.profiled did not come to its end under ncu: exit 1"),
        ("==PROF== Connected\n", told(MASKS).to_csv(index=False), "it holds no kernel"),
        (REPORT, told(MASKS).to_csv(index=False), "expected that of a call"),
        (relabelled(), told(MASKS).to_csv(index=False), "which never ran"),
    ],
)
def test_what_went_wrong_is_one_line_and_leaves_no_table(
    report: str, outcomes: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code, output = command(tmp_path, monkeypatch, report, outcomes)
    assert code == 1
    assert output.startswith("no profile from ncu's report: ")
    assert said in output
    assert output.count("\n") == 1
    assert not (tmp_path / "family").exists()


def test_without_ncu_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = module("experiments.family.profiler", "--out", tmp_path / "counts.csv")
    assert done.returncode == 2
    assert done.stdout == "ncu (Nsight Compute) is not on PATH: install it, or add its folder\n"
