"""From outcomes and counts to the table; and the whole command with a stand-in for ncu."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from experiments import counts
from experiments.counts import NEAR_LIMITS, PLACED, POINTS
from experiments.launched import gpu_of, request
from experiments.layout import CONTIGUOUS, Place, points
from experiments.ncu import BadReport, read
from experiments.profiler import AGAIN, UNSEEN, refused, table
from experiments.stale import ARCHIVES
from experiments.sweeps import SWEEPS, Point
from experiments.tables import PROFILE, BadTable, read_csv, useful_bytes, validated
from kernels.frontier.select import select
from kernels.registry import BY_NAME, variant
from tests.commands import module
from tests.experiments.counted import COMMIT, PROFILER, counted, launch
from tests.experiments.raw import fingerprint
from tests.experiments.test_ncu import FORBIDDEN, REPORT

PLACE = Place("float32", 2048, 8192)
NAMES = ("torch_eager", "torch_naive", "triton_row", "cuda_float4", "cuda_split_reread",
         "torch_compile", "copy_memcpy")  # fmt: skip
READS = (67_176_192, 67_136_768, 67_118_336, 67_172_608, 67_138_048)  # torch_naive's


def told(*names: str, status: str = "ok", reason: str = "") -> pd.DataFrame:
    rows = [{"variant": n, **PLACE._asdict(), "status": status, "reason": reason} for n in names]
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
        launch(duration_us=30.0, occupancy_pct=100.0, dram_throughput_pct=10.0, issue_pct=50.0),
        launch(duration_us=10.0, occupancy_pct=20.0, dram_throughput_pct=90.0, issue_pct=10.0),
    ]
    made = one(table(told("liger"), {("liger", PLACE): kernels}, PROFILER, COMMIT), "liger")
    assert (made["occupancy_pct"], made["dram_throughput_pct"]) == (80.0, 30.0)
    assert made["issue_pct"] == 40.0


def test_waves_and_stalls_are_those_of_the_longest():
    kernels = [
        launch(duration_us=10.0, waves=9.0, barrier=50.0),
        launch(duration_us=30.0, waves=0.5, wait=3.0, drain=1.0),
    ]
    made = one(table(told("liger"), {("liger", PLACE): kernels}, PROFILER, COMMIT), "liger")
    assert (made["waves"], made["stall"], made["stall_pct"]) == (0.5, "wait", 75.0)


def test_where_no_stall_is_told_it_is_empty(tmp_path: Path):
    made = table(told(*NAMES), read(REPORT), PROFILER, COMMIT)
    made.to_csv(path := tmp_path / "profile.csv", index=False)
    for some in (made, validated(PROFILE, read_csv(path))):
        assert one(some, "cuda_float4")["stall"] == ""
        assert pd.isna(one(some, "cuda_float4")["stall_pct"])
        assert one(some, "copy_memcpy")["stall"] == ""
        assert one(some, "torch_eager")["stall"] == "barrier"


def test_a_layout_has_counts_of_its_own():
    places = [PLACE, PLACE._replace(layout="sliced input")]
    asked = pd.DataFrame(
        [{"variant": "frontier", **p._asdict(), "status": "ok", "reason": ""} for p in places]
    )
    seen = {("frontier", p): [launch(waves=float(i))] for i, p in enumerate(places)}
    made = table(asked, seen, PROFILER, COMMIT)
    assert list(zip(made["layout"], made["waves"], strict=True)) == [
        ("contiguous", 0.0), ("sliced input", 1.0)
    ]  # fmt: skip
    with pytest.raises(BadReport, match=r"frontier at .*layout='sliced input'.*, which never ran"):
        table(asked[:1], seen, PROFILER, COMMIT)


def test_a_copy_that_is_no_kernel_is_a_row_with_its_reason():
    made = one(table(told(*NAMES), read(REPORT), PROFILER, COMMIT), "copy_memcpy")
    assert (made["status"], made["reason"], made["launches"]) == ("skipped", UNSEEN, 0)
    assert pd.isna(made["dram_read_bytes"])


@pytest.mark.parametrize("status", ["wrong", "skipped"])
def test_what_is_not_ok_keeps_its_reason_and_has_no_counts(status: str):
    outcomes = told("torch_eager", status=status, reason="because")
    kernels = {("torch_eager", PLACE): [launch()]}  # watched until it failed
    made = one(table(outcomes, kernels, PROFILER, COMMIT), "torch_eager")
    assert (made["status"], made["reason"], made["launches"]) == (status, "because", 0)
    assert pd.isna(made["duration_us"])


def test_kernels_of_a_call_that_nobody_tells_of_are_refused():
    with pytest.raises(BadReport, match=r"kernels of liger at .*cols=8192.*, which never ran"):
        table(told("quack"), {("liger", PLACE): [launch()]}, PROFILER, COMMIT)


def test_a_table_survives_its_file(tmp_path: Path):
    made = counted()
    made.to_csv(tmp_path / "profile.csv", index=False)
    again = validated(PROFILE, read_csv(tmp_path / "profile.csv"))
    pd.testing.assert_frame_equal(made, again)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "fine"), ("dram_read_bytes", -1.0), ("dram_read_bytes", None),
        ("occupancy_pct", 250.0), ("issue_pct", 250.0), ("stall_pct", -1.0), ("waves", -1.0),
        ("registers", 0), ("kernel_sha256", "abc"), ("dtype", "float8"),
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
    sweeps = ("frontier", "batch_scaling", "few_rows")
    timed = {p for name in sweeps for p in SWEEPS[name].points("full")}
    asked = {p.point for p in counts.watched() if p.layout == CONTIGUOUS}
    assert asked - {*counts.STREAMED, *counts.NARROW} <= timed
    assert [p.cols for p in POINTS if p.dtype == "float32"] == list(counts.COLS)
    large = (*POINTS, *counts.FRONTIER_POINTS)
    assert all(useful_bytes(*p[1:], p.dtype) / 2 > 256e6 for p in large)
    assert len(counts.FRONTIER_POINTS) == 2 * len(counts.FRONTIER_COLS)
    assert all("frontier" in names for names in counts.watched().values())


def test_where_a_goal_is_near_the_same_four_are_counted():
    watched = counts.watched()
    assert len(NEAR_LIMITS) == len(set(NEAR_LIMITS)) == 2 * 10 + 3 + 10 + 15 + 12
    for point in NEAR_LIMITS:
        assert set(counts.NEAR_LIMITS_NAMES) <= set(watched[Place(*point)])
    # Those that more variants are counted at keep them.
    assert watched[Place("bfloat16", 2048, 131_072)] == counts.FRONTIER_NAMES
    assert watched[Place("float32", 1, 2**20)] == counts.NEAR_LIMITS_NAMES
    assert {p.rows for p in NEAR_LIMITS if p.cols == 32_000} == {256, 1024, 32_768}
    # What no archive has counted is no place of a goal.
    assert not set(counts.LEAD) & set(counts.FEW_ROWS)


def test_what_no_goal_judges_is_counted_in_triton_and_beside_it():
    watched = counts.watched()
    assert {p.cols for p in counts.UNJUDGED} == {32, 63, 65, 127, 129, 100_003, 2**22}
    assert not {Place(*p) for p in counts.UNJUDGED} & {Place(*p) for p in NEAR_LIMITS}
    for point in counts.UNJUDGED:
        assert watched[Place(*point)] == ("frontier", "triton_frontier")


@pytest.mark.parametrize(
    ("points", "regime", "names"),
    [
        (counts.TILED, "tile", counts.NEAR_LIMITS_NAMES),
        (counts.STREAMED, "stream", counts.STREAMED_NAMES),
    ],
)
def test_tiles_and_streams_are_counted_where_they_serve(
    points: tuple[Point, ...], regime: str, names: tuple[str, ...]
):
    (point,) = points
    assert counts.watched()[Place(*point)] == names
    assert "frontier" in names
    for facts in sorted(ARCHIVES.glob("*/hardware.json")):
        gpu = gpu_of(json.loads(facts.read_text()))
        assert gpu is not None
        assert select(request(Place(*point), gpu), gpu.name).regime == regime
    # No variant that takes fewer columns is asked.
    if regime == "stream":
        assert not [name for name in names if variant(name).refusal(point.dtype, point.cols)]


def test_layouts_are_counted_of_the_frontier_where_they_are_measured():
    assert len(PLACED) == 10
    assert {p.point for p in PLACED} <= set(points())
    assert {counts.watched()[p] for p in PLACED} == {("frontier",)}
    assert {p.layout for p in PLACED if p.cols == 1000} == {
        "stride N + 1", "stride N + 8", "one element off"
    }  # fmt: skip


def test_figures_and_claims_see_contiguous_rows_of_large_tensors():
    seen = counts.whole(counted())
    assert set(seen["layout"]) == {CONTIGUOUS}
    asked = {*POINTS, *counts.FRONTIER_POINTS}
    assert set(seen[["dtype", "rows", "cols"]].itertuples(index=False, name=None)) == asked
    # No variant is there twice at one width of one dtype, but at S1's own rows.
    assert not seen.duplicated(["variant", "dtype", "cols"]).any()


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
    assert len(rows.drop_duplicates(["variant", "dtype", "rows", "cols", "layout"])) == len(rows)
    assert set(rows["variant"]) == {name for name, v in BY_NAME.items() if not v.k}
