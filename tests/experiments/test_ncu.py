"""A real report of ncu on an H200 is read as it is; what is none is refused with its reason."""

import math
import os
from itertools import pairwise
from pathlib import Path

import pytest

from experiments import ncu
from experiments.layout import LAYOUTS, Place
from experiments.ncu import METRICS, STALLS, BadReport, Launch, Refused, label, read, stall

# Of calls at float32 (2048, 8192); the columns of the device's attributes are cut out.  Waves
# follow from grid and block; issue slots and stalls were put there by hand: cuda_float4 has no
# stalls, and triton_row lacks a few.
REPORT = Path(__file__).with_name("ncu_report.csv").read_text()
PLACE = Place("float32", 2048, 8192)
N_BYTES = 2048 * 8192 * 4
FORBIDDEN = (
    "==PROF== Connected to process 12 (python)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0. For instructions on enabling permissions and to "
    "get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
    "==WARNING== No kernels were profiled.\n"
)


def test_every_kernel_is_in_the_range_of_its_call():
    launches = read(REPORT)
    assert {name: len(kernels) for (name, _), kernels in launches.items()} == {
        "torch_eager": 1, "torch_naive": 5, "triton_row": 1, "cuda_float4": 1,
        "cuda_split_reread": 2, "torch_compile": 1,
    }  # fmt: skip
    assert {place for _, place in launches} == {PLACE}


def test_counts_are_bytes_microseconds_and_percentages():
    (eager,) = read(REPORT)["torch_eager", PLACE]
    assert {column: eager[column] for column in METRICS} == {
        "dram_read_bytes": 67_127_296, "dram_write_bytes": 46_640_384,
        "duration_us": pytest.approx(69.6), "dram_throughput_pct": 34.0, "occupancy_pct": 49.12,
        "waves": 15.52, "issue_pct": 20.5, "registers": 37, "block_size": 1024, "grid_size": 2048,
    }  # fmt: skip


def test_kernels_read_their_input_once_from_empty_caches():
    for kernels in read(REPORT).values():
        for kernel in kernels:
            assert N_BYTES < kernel["dram_read_bytes"] < 1.01 * N_BYTES


@pytest.mark.parametrize(
    ("unit", "instead", "value"),
    [("byte", "Kbyte", 67_127_296e3), ("byte", "Mbyte", 67_127_296e6)],
)
def test_a_unit_is_heeded(unit: str, instead: str, value: float):
    (eager,) = read(REPORT.replace(f'"{unit}"', f'"{instead}"'))["torch_eager", PLACE]
    assert eager["dram_read_bytes"] == value


def test_columns_are_found_by_name():
    head, *_ = (line for line in REPORT.splitlines() if not line.startswith("=="))
    swapped = head.replace("dram__bytes_read.sum", "x").replace(
        "dram__bytes_write.sum", "dram__bytes_read.sum"
    )
    swapped = swapped.replace('"x"', '"dram__bytes_write.sum"')
    (eager,) = read(REPORT.replace(head, swapped))["torch_eager", PLACE]
    assert eager["dram_read_bytes"] == 46_640_384


@pytest.mark.parametrize("layout", [layout.name for layout in LAYOUTS])
def test_a_label_comes_back(layout: str):
    place = Place("float16", 1, 2, layout)
    text = REPORT.replace("torch_eager float32 2048 8192 contiguous", label("liger", place))
    assert ("liger", place) in read(text)


def launch_of(text: str, name: str) -> Launch:
    return read(text)[name, PLACE][0]


def test_the_largest_stall_is_named_with_its_share():
    told = dict.fromkeys(STALLS, 0.1) | {
        "barrier": 11.0, "long_scoreboard": 6.0, "wait": 1.5, "not_selected": 0.8,
        "short_scoreboard": 0.7,
    }  # fmt: skip
    eager = launch_of(REPORT, "torch_eager")
    assert {reason: eager[reason] for reason in STALLS} == told
    assert stall(eager) == ("barrier", pytest.approx(100 * 11.0 / sum(told.values())))


def test_a_reason_that_is_not_told_counts_nothing():
    row = launch_of(REPORT, "triton_row")
    assert set(STALLS) - set(row) == {"imc_miss", "misc", "membar"}  # '', nan, n/a
    reason, share = stall(row)
    assert reason == "long_scoreboard"
    assert row["long_scoreboard"] == 1012.4
    assert share == pytest.approx(100 * 1012.4 / (1012.4 + 1.5 + 0.5 + 0.8 + 10 * 0.1))


def test_counts_do_without_stalls():
    text = REPORT
    for metric in STALLS.values():
        text = text.replace(f'"{metric}"', '"something_else"')
    for some, name in ((text, "torch_eager"), (REPORT, "cuda_float4")):
        launch = launch_of(some, name)
        assert set(launch) == set(METRICS)
        reason, share = stall(launch)
        assert reason == ""
        assert math.isnan(share)


@pytest.mark.parametrize("unit", ["", "warp", "a unit of tomorrow"])
def test_the_unit_of_a_stall_does_not_matter(unit: str):
    assert launch_of(REPORT.replace('"inst"', f'"{unit}"'), "torch_eager")["barrier"] == 11.0


@pytest.mark.parametrize("metric", METRICS.values())
def test_a_missing_metric_is_named(metric: str):
    with pytest.raises(BadReport, match=f"lacks {metric}"):
        read(REPORT.replace(f'"{metric}"', '"something_else"'))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"byte"', '"nibble"', "dram__bytes_read.sum is in 'nibble'; known units: %"),
        ('"67,127,296"', '"n/a"', "dram__bytes_read.sum is 'n/a' where a number was expected"),
        (
            "torch_eager float32 2048 8192 contiguous",
            "warm-up",
            "in the range '.*warm-up.*'; expected that",
        ),
    ],
)
def test_what_is_not_understood_is_quoted(old: str, new: str, message: str):
    with pytest.raises(BadReport, match=message):
        read(REPORT.replace(old, new))


def test_forbidden_counters_are_refused_with_what_to_do():
    with pytest.raises(Refused, match=r"ERR_NVGPUCTRPERM.*: run as root, or load the driver with"):
        read(FORBIDDEN)


def test_another_error_without_kernels_is_refused_in_its_words():
    text = "==ERROR== Profiling failed because a driver resource was unavailable.\n"
    with pytest.raises(Refused, match=r"could not count: Profiling failed because .* unavailable$"):
        read(text)


@pytest.mark.parametrize("text", ["", "==PROF== Connected\n", "\n".join(REPORT.split("\n")[:5])])
def test_a_report_without_kernels_is_none(text: str):
    with pytest.raises(BadReport, match="it holds no kernel"):
        read(text)


def test_the_call_changes_no_clock_and_empties_the_caches(tmp_path: Path):
    words = ncu.command(tmp_path / "report", ["python", "-c", "1"])
    assert words[0] == "ncu"
    assert words[-3:] == ["python", "-c", "1"]
    pairs = dict(pairwise(words))
    assert pairs["--clock-control"] == "none"
    assert pairs["--cache-control"] == "all"
    assert pairs["--profile-from-start"] == "off"
    assert pairs["--print-units"] == "base"
    assert set(pairs["--metrics"].split(",")) == {*METRICS.values(), *STALLS.values()}
    assert not any("_selected_" in metric for metric in STALLS.values() if "not_" not in metric)


def test_ncu_is_installed_where_path_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not ncu.installed()
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\necho 'Version 2025.3.1.0 (build 1) (public-release)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert ncu.installed()
    assert ncu.version() == "Nsight Compute 2025.3.1.0"
