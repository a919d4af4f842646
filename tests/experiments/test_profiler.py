"""From outcomes and counts to the table; and the whole command with a stand-in for ncu."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from experiments import counts
from experiments.counts import POINTS
from experiments.ncu import BadReport, read
from experiments.profiler import AGAIN, UNSEEN, refused, table
from experiments.sweeps import SWEEPS, Point
from experiments.tables import PROFILE, BadTable, read_csv, useful_bytes, validated
from kernels.registry import BY_NAME
from tests.commands import module
from tests.experiments.counted import COMMIT, PROFILER, counted, launch
from tests.experiments.raw import fingerprint
from tests.experiments.test_ncu import FORBIDDEN, REPORT

POINT = Point("float32", 2048, 8192)
NAMES = ("torch_eager", "torch_naive", "triton_row", "cuda_float4", "cuda_split_reread",
         "torch_compile", "copy_memcpy")  # fmt: skip
READS = (67_176_192, 67_136_768, 67_118_336, 67_172_608, 67_138_048)  # torch_naive's


def told(*names: str, status: str = "ok", reason: str = "") -> pd.DataFrame:
    rows = [{"variant": n, **POINT._asdict(), "status": status, "reason": reason} for n in names]
    return pd.DataFrame(rows)


def one(made: pd.DataFrame, name: str) -> pd.Series:
    (at,) = made.index[made["variant"] == name]
    return made.loc[at]


def test_a_real_report_becomes_a_table():
    made = table(told(*NAMES), read(REPORT), PROFILER, COMMIT)
    assert made["variant"].tolist() == list(NAMES)
    naive = one(made, "torch_naive")
    # Five kernels: five reads of the tensor, three writes less what stays in the L2.
    assert naive["launches"] == 5
    assert naive["dram_read_bytes"] == sum(READS)
    assert naive["dram_write_bytes"] / naive["ideal_bytes"] == pytest.approx(0.97, abs=0.01)
    assert naive["duration_us"] == pytest.approx(24.256 + 49.696 + 32.640 + 23.456 + 52.064)
    # The shape and the registers of the division, which lasts longest.
    assert (naive["block_size"], naive["grid_size"], naive["registers"]) == (128, 65_536, 19)
    assert naive["ideal_bytes"] == useful_bytes(2048, 8192, "float32")
    assert naive["framework"] == "torch"
    assert naive["kernel_sha256"] == fingerprint("torch_naive")
    assert set(made["profiler"]) == {PROFILER}
    assert set(made["code_commit"]) == {COMMIT}


def test_percentages_are_weighted_with_time():
    kernels = [
        launch(duration_us=30.0, occupancy_pct=100.0, dram_throughput_pct=10.0),
        launch(duration_us=10.0, occupancy_pct=20.0, dram_throughput_pct=90.0),
    ]
    made = one(table(told("liger"), {("liger", POINT): kernels}, PROFILER, COMMIT), "liger")
    assert (made["occupancy_pct"], made["dram_throughput_pct"]) == (80.0, 30.0)


def test_a_copy_that_is_no_kernel_is_a_row_with_its_reason():
    made = one(table(told(*NAMES), read(REPORT), PROFILER, COMMIT), "copy_memcpy")
    assert (made["status"], made["reason"], made["launches"]) == ("skipped", UNSEEN, 0)
    assert pd.isna(made["dram_read_bytes"])


@pytest.mark.parametrize("status", ["wrong", "skipped"])
def test_what_is_not_ok_keeps_its_reason_and_has_no_counts(status: str):
    outcomes = told("torch_eager", status=status, reason="because")
    kernels = {("torch_eager", POINT): [launch()]}  # watched until it failed
    made = one(table(outcomes, kernels, PROFILER, COMMIT), "torch_eager")
    assert (made["status"], made["reason"], made["launches"]) == (status, "because", 0)
    assert pd.isna(made["duration_us"])


def test_kernels_of_a_call_that_nobody_tells_of_are_refused():
    with pytest.raises(BadReport, match=r"kernels of liger at .*cols=8192.*, which never ran"):
        table(told("quack"), {("liger", POINT): [launch()]}, PROFILER, COMMIT)


def test_a_table_survives_its_file(tmp_path: Path):
    made = counted()
    made.to_csv(tmp_path / "profile.csv", index=False)
    again = validated(PROFILE, read_csv(tmp_path / "profile.csv"))
    pd.testing.assert_frame_equal(made, again)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "fine"), ("dram_read_bytes", -1.0), ("dram_read_bytes", None),
        ("occupancy_pct", 250.0), ("registers", 0), ("kernel_sha256", "abc"), ("dtype", "float8"),
    ],
)  # fmt: skip
def test_a_bad_value_is_rejected(column: str, value: object):
    made = table(told("torch_eager"), read_only("torch_eager"), PROFILER, COMMIT)
    with pytest.raises(BadTable):
        validated(PROFILE, made.astype({column: object}).assign(**{column: value}))


def test_a_variant_is_counted_once_a_point():
    made = table(told("torch_eager"), read_only("torch_eager"), PROFILER, COMMIT)
    with pytest.raises(BadTable, match="unique"):
        validated(PROFILE, pd.concat([made, made], ignore_index=True))


def read_only(name: str) -> dict:
    return {call: kernels for call, kernels in read(REPORT).items() if call[0] == name}


def test_points_are_timed_by_a_sweep_and_larger_than_any_l2():
    timed = {p for name in ("vocab_scaling", "batch_scaling") for p in SWEEPS[name].points("full")}
    assert set(counts.watched()) <= timed
    assert [p.cols for p in POINTS if p.dtype == "float32"] == list(counts.COLS)
    assert all(useful_bytes(*p[1:], p.dtype) / 2 > 256e6 for p in counts.watched())
    assert len(counts.FRONTIER_POINTS) == 2 * len(counts.FRONTIER_COLS)
    assert all("frontier" in names for names in counts.watched().values())


def stand_in(folder: Path, report: str, outcomes: str | None) -> None:
    """An ncu that writes ``report``, and ``outcomes`` in place of the program that it is given."""
    program = folder / "ncu"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from pathlib import Path\n"
        "words = sys.argv[1:]\n"
        "if words == ['--version']:\n"
        "    print('Version 2025.3.1.0 (build 1)')\n"
        "    sys.exit()\n"
        f"Path(words[words.index('--log-file') + 1]).write_text({report!r})\n"
        f"outcomes = {outcomes!r}\n"
        "if outcomes is None:\n"
        "    sys.exit(1)\n"
        "Path(words[words.index('--out') + 1]).write_text(outcomes)\n"
    )
    program.chmod(0o755)


def test_the_command_writes_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stand_in(tmp_path, REPORT, told(*NAMES).to_csv(index=False))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = module("experiments.profiler", "--out", tmp_path / "out" / "profile.csv")
    assert (done.returncode, done.stdout) == (0, "6 ok, 1 skipped\n")
    made = validated(PROFILE, read_csv(tmp_path / "out" / "profile.csv"))
    assert set(made["profiler"]) == {"Nsight Compute 2025.3.1.0"}
    assert one(made, "cuda_split_reread")["launches"] == 2


@pytest.mark.parametrize("outcomes", [None, told(*NAMES).to_csv(index=False)])
def test_where_ncu_may_not_count_every_row_says_so(
    outcomes: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in(tmp_path, FORBIDDEN, outcomes)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = module("experiments.profiler", "--out", tmp_path / "profile.csv")
    assert done.returncode == 0
    assert "(ERR_NVGPUCTRPERM): run as root, or load the driver" in done.stdout
    assert f"then: {AGAIN}; until then the archive's table is drawn instead" in done.stdout
    made = validated(PROFILE, read_csv(tmp_path / "profile.csv"))
    assert len(made) == sum(map(len, counts.watched().values()))
    assert set(made["status"]) == {"skipped"}
    assert made["reason"].str.contains("ERR_NVGPUCTRPERM").all()


@pytest.mark.parametrize(
    ("report", "outcomes", "said"),
    [
        ("==PROF== Connected\n", None, "did not come to its end under ncu: exit 1"),
        ("==ERROR== The application returned an error code (1).\n", None, "error code (1)\n"),
        (REPORT, told("liger").to_csv(index=False), "which never ran"),
    ],
)
def test_what_went_wrong_is_one_line_and_leaves_no_table(
    report: str, outcomes: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in(tmp_path, report, outcomes)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = module("experiments.profiler", "--out", tmp_path / "profile.csv")
    assert done.returncode == 1
    assert done.stdout.startswith("no profile from ncu's report: ")
    assert said in done.stdout
    assert done.stdout.count("\n") == 1
    assert not (tmp_path / "profile.csv").exists()


def test_without_ncu_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = module("experiments.profiler", "--out", tmp_path / "profile.csv")
    assert done.returncode == 2
    assert done.stdout == "ncu (Nsight Compute) is not on PATH: install it, or add its folder\n"


def test_a_refusal_has_a_row_for_every_variant_and_point():
    rows = refused("no")
    assert len(rows.drop_duplicates(["variant", "dtype", "rows", "cols"])) == len(rows)
    assert set(rows["variant"]) == {name for name, v in BY_NAME.items() if not v.k}
