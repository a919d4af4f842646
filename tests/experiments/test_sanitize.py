"""What is watched, what is made of it, and the whole command with a stand-in for the tool."""

import re
import sys
from collections.abc import Iterable
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import pandas as pd
import pytest
import torch
import typer

from experiments import placed, sanitize
from experiments.family.fingerprint import sha256_of
from experiments.launches import Case, Gpu, chosen, widest_dealt
from experiments.layout import BY_NAME, LAYOUTS, Layout
from experiments.sanitize import Run, judged
from experiments.sanitized import FAULTS, FAULTS_FILE, cases, named, widest
from experiments.sanitizer import FEW, FILTERS, NAMES, OPERATORS, PLANTED, RINGS, TOOLS
from experiments.tables import SANITIZER, read_csv, validated
from experiments.wrapped import turns
from kernels.cuda_compiler import program
from kernels.frontier.plans import ALIKE, APART, NONE, REGIMES, VECTOR_BYTES
from kernels.frontier.select import DEFAULT, MANY, table
from kernels.registry import DTYPES, ELEMENT_BYTES
from tests.commands import module
from tests.experiments.raw import fingerprint
from tests.experiments.test_sanitizer import RACE
from tests.experiments.watched import FOUND, SILENT

MOST_FILLED = 0.75  # of a ring, on average over all blocks: fewer fill none again

H200 = Gpu(DEFAULT, 90, 132)
A100 = Gpu("nvidia-a100", 80, 108)


def test_every_threshold_of_the_table_is_watched_from_both_sides():
    asked = {(c.dtype, c.cols) for c in of_regimes()}
    shapes = {(c.dtype, c.shape) for c in of_regimes()}
    for (dtype, edges, rows), entries in table(DEFAULT).items():
        step = 1 if edges else 16 // ELEMENT_BYTES[dtype]
        for entry, wider in pairwise(entries):
            if entry.shape != wider.shape:
                # What few rows take is watched once, not at each number of them.
                assert (dtype, entry.shape) in shapes, entry
                if rows == MANY:
                    assert {(dtype, entry.cols + away * step) for away in (-1, 0, 1)} <= asked


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        ("float32", "contiguous"), ("float16", "contiguous"), ("float32", "sliced input"),
        ("bfloat16", "sliced input"),
    ],
)  # fmt: skip
def test_both_sides_of_the_widest_row_that_is_dealt_out_are_watched(dtype: str, layout: str):
    widest, step = widest_dealt(dtype, BY_NAME[layout], H200)
    for name, cols in ((RINGS, widest), ("stream", widest + step)):
        (found,) = (
            c for c in named(name, H200)
            if isinstance(c, Case) and (c.dtype, c.layout.name, c.cols) == (dtype, layout, cols)
        )  # fmt: skip
        assert (found.rows, found.shape.regime) == (1, name if name == "stream" else "chunks")


def test_every_shape_of_the_table_is_watched_in_every_dtype_that_it_serves():
    some = {(c.dtype, c.shape) for c in of_regimes()}
    for (dtype, _, _), entries in table(DEFAULT).items():
        assert {(dtype, entry.shape) for entry in entries} <= some


def test_every_regime_is_watched_in_every_dtype_and_kind_of_memory():
    for regime in REGIMES:
        some = list(cases(regime, H200))
        assert {c.dtype for c in some} == set(DTYPES), regime
        assert all(c.shape.regime == regime for c in some)
        alone = {*widest(regime, H200)}
        assert regime == "grid" or all(c.rows > 1 for c in some if c not in alone)
        apart = {c.layout.contiguous for c in some}
        assert apart == ({True} if regime == "tile" else {False, True}), regime
        kinds = {ALIKE} if regime == "tile" else {ALIKE, APART}
        assert kinds <= {c.plan.edges for c in some}, regime
        assert {c.shape.invariant for c in some} == {False, True}, regime
    all_cases = of_regimes()
    assert {c.layout for c in all_cases} == set(LAYOUTS)
    assert len(set(all_cases)) == len(all_cases)
    # racecheck follows every element: with 2.8e8 of them all runs took 257 s on an H200.
    alone = set(widest("stream", H200))
    assert sum(c.rows * c.cols for c in all_cases if c not in alone) < 3e8
    assert sum(c.rows * c.cols for c in (*alone, *widest("chunks", H200))) < 8e7


@cache
def of_regimes(every: bool = False) -> tuple[Case, ...]:
    """All that an H200 launches of them."""
    return tuple(chain.from_iterable(cases(name, H200, every) for name in REGIMES))


def missing(dtype: str, some: Iterable[Case]) -> list[tuple[int, int, int]]:
    """Edges, rows and columns beside thresholds of ``dtype`` at which ``some`` lack the launch.

    Of two hundred thresholds at least.
    """
    launched = {(c.cols, c.shape) for c in some if c.dtype == dtype}
    steps = {NONE: VECTOR_BYTES // ELEMENT_BYTES[dtype], ALIKE: 1, APART: 1}
    found, thresholds = [], 0
    for (one, kind, rows), entries in table(DEFAULT).items():
        for entry, wider in pairwise(entries if one == dtype else ()):
            if entry.shape == wider.shape:
                continue
            thresholds += 1
            for cols in (entry.cols - steps[kind], entry.cols, entry.cols + steps[kind]):
                shapes = {
                    chosen(layout, dtype, rows, cols, H200) for layout in LAYOUTS
                    if layout.edges(cols, ELEMENT_BYTES[dtype]) == kind
                }  # fmt: skip
                if not any((cols, shape) in launched for shape in shapes):
                    found.append((kind, rows, cols))
    assert thresholds > 200
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_threshold_can_be_asked_for_before_at_and_after_it(dtype: str):
    assert missing(dtype, of_regimes(every=True)) == []


@pytest.mark.parametrize(("name", "dtype"), FEW.items())
def test_every_threshold_is_watched_before_at_and_after_it(name: str, dtype: str):
    few, others = [c for c in named(name, H200) if isinstance(c, Case)], of_regimes()
    assert len(missing(dtype, others)) > 100  # which few are for
    assert missing(dtype, [*others, *few]) == []
    assert {c.dtype for c in few} == {dtype}
    assert len(set(few)) == len(few)
    assert not set(few) & set(others)
    # racecheck follows every element: 7e7 of clusters took 168 s on an H200, of a run's 480.
    assert sum(c.rows * c.cols for c in few) < 1.2e8


def test_rows_that_fill_all_rings_are_watched_where_rings_fill_again():
    """Racecheck reports such chunks as they are shipped: it follows one lane of a warp."""
    some = list(widest("chunks", H200))
    assert some
    assert set(some) <= {*named(RINGS, H200)}
    assert not set(some) & {*cases("chunks", H200)}
    blocks = H200.multiprocessors
    assert min(turns(case, blocks) for case in some) > MOST_FILLED
    assert max(turns(case, blocks) for case in cases("chunks", H200)) < MOST_FILLED


def test_a_gpu_before_hopper_has_the_regimes_that_it_can_run():
    found = {regime for regime in REGIMES if list(cases(regime, A100))}
    assert found == {"warp", "block", "grid", "stream"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_tensors_lie_as_their_layout_says(layout: Layout):
    made = placed.placed(layout, 3, 16, torch.float32, "cpu", seed=1)
    starts = [(t.data_ptr() + i * t.stride(0) * 4) % 16 for t in (made.x, made.out) for i in (0, 1)]
    assert (not any(starts)) == (layout.edges(16, 4) == NONE)
    assert made.x.is_contiguous() == (layout.gap_x == 0)
    assert (made.x.data_ptr() == made.out.data_ptr()) == layout.in_place
    assert bool(made.x.isfinite().all())
    # Memory ends with the last row.
    last = made.x.storage_offset() + 2 * made.x.stride(0) + 16
    assert last == made.memory[0].numel()
    assert made.surroundings_untouched()
    if layout.before_x:
        made.memory[0][0] = 0.0
        assert not made.surroundings_untouched()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_guard_stands_on_both_sides_and_tells_of_reads_and_writes(layout: Layout):
    guard, dtype = 64, torch.bfloat16

    def made() -> placed.Placed:
        return placed.placed(layout, 3, 40, dtype, "cpu", 1, guard)

    bare = placed.placed(layout, 3, 40, dtype, "cpu", 1)
    assert torch.equal(made().x, bare.x)
    assert made().surroundings_untouched()
    for which, memory in enumerate(made().memory):
        assert memory.numel() == bare.memory[which].numel() + 2 * guard
        # The input lies among NaN; the output among what is none.
        beside = memory[[0, guard - 1, -guard, -1]]
        assert bool((beside.isnan() if which == 0 else beside == placed.UNTOUCHED).all())
        # Lines of memory are where they were.
        assert guard * memory.element_size() % 128 == 0
        for at in (0, guard - 1, -guard, -1):
            touched = made()
            touched.memory[which][at] = 0.5
            assert not touched.surroundings_untouched()
    if layout.gap_x:
        between = made()
        last = between.x.storage_offset() + 40
        assert bool(between.memory[0][last : last + layout.gap_x].isnan().all())


def word_of(told: str) -> str:
    """The part of a kernel's name that a filter lets through."""
    return told.removeprefix("kns=")


def test_faults_are_kernels_that_the_filter_lets_through():
    _, symbols, _ = program(FAULTS_FILE, "sm_90", [f"softmax<{f}>" for f in FAULTS.values()])
    assert len(set(symbols.values())) == len(TOOLS)
    mine = [each for each in FILTERS if all(word_of(each) in s for s in symbols.values())]
    # Whichever of several filters a tool took alone, this would be another.
    assert FILTERS[0] not in mine
    assert FILTERS[-1] not in mine
    assert mine


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_run_says(tool: str):
    def told(regime: str, log: str, output: str = "", code: int | None = 0) -> tuple[str, str]:
        made = judged(Run(tool, regime, log, output, code, 1.0))
        return made["status"], made["reason"]

    assert told("block", SILENT[tool]) == ("ok", "")
    status, reason = told("block", FOUND[tool])
    assert status == "wrong"
    assert reason in FOUND[tool]
    assert told(PLANTED, FOUND[tool], code=1) == ("ok", "")
    assert told(PLANTED, SILENT[tool]) == ("wrong", "the planted fault was not found")
    lines = "float32 2 x 3: block\nfloat32 2 x 4: block: wrong: a row sums to 0\nlast\n"
    wrong = ("wrong", "float32 2 x 4: block: wrong: a row sums to 0")
    assert told("block", SILENT[tool], lines, code=1) == wrong
    status, reason = told("block", "", code=None)
    assert (status, "stopped after" in reason) == ("skipped", True)


def stand_in(folder: Path, findings: dict[str, str]) -> None:
    """A compute-sanitizer that finds these in each tool's fault, and ``findings`` elsewhere."""
    tool = folder / "compute-sanitizer"
    tool.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "from pathlib import Path\n"
        "words = sys.argv[1:]\n"
        "if words == ['--version']:\n"
        "    print('NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.1.0 (build 1)')\n"
        "    sys.exit()\n"
        f"found, other = {FOUND!r}, { {**SILENT, **findings}!r}\n"
        "name, log = words[1], Path(words[words.index('--log-file') + 1])\n"
        f"log.write_text((found if {PLANTED!r} in words else other)[name])\n"
        "print('launched', words[words.index('--') + 4], os.environ.get('SOFTMAX_DEFINES'))\n"
    )
    tool.chmod(0o755)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitize, "present", lambda: H200)
    monkeypatch.setattr(sanitize, "compile_all", lambda watched: None)


@pytest.mark.usefixtures("gpu")
def test_a_clean_run_has_a_row_for_every_tool_and_regime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in(tmp_path, {})
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    out, log = tmp_path / "out" / "sanitizer.csv", tmp_path / "out" / "sanitizer.log"
    sanitize.main(out, log)
    made = validated(SANITIZER, read_csv(out))
    assert list(zip(made["tool"], made["regime"], strict=True)) == [
        (tool, name) for tool in TOOLS for name in (*NAMES, PLANTED)
    ]
    assert set(made["status"]) == {"ok"}
    kept = made[made["regime"] != PLANTED]
    assert (kept["errors"] == 0).all()
    assert (kept["launches"] > 10).all()
    assert (made.loc[made["regime"] == PLANTED, "errors"] > 0).all()
    by_name = made.drop_duplicates("regime").set_index("regime")[["variant", "kernel_sha256"]]
    codes = {str(name): tuple(told) for name, told in by_name.iterrows()}
    of_frontier = {codes[name] for name in (*REGIMES, RINGS, *FEW, PLANTED)}
    assert of_frontier == {("frontier", fingerprint("frontier"))}
    assert all(codes[name] == (name, sha256_of(name)) for name in OPERATORS)
    assert set(made["sanitizer"]) == {"Compute Sanitizer 2025.3.1.0"}
    assert log.read_text().count("SUMMARY") > len(made)
    launched = re.findall("launched (.*)", log.read_text())
    assert sorted(launched) == sorted(
        f"{name} None"  # as it is shipped
        for tool in TOOLS
        for name in (*NAMES, PLANTED)
    )


@pytest.mark.usefixtures("gpu")
def test_what_is_found_is_kept_and_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    stand_in(tmp_path, {"racecheck": RACE})
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    out, log = tmp_path / "sanitizer.csv", tmp_path / "sanitizer.log"
    with pytest.raises(typer.Exit) as stopped:
        sanitize.main(out, log)
    assert stopped.value.exit_code == 1
    made = validated(SANITIZER, read_csv(out))
    bad = made[made["status"] == "wrong"]
    assert set(bad["tool"]) == {"racecheck"}
    assert set(bad["regime"]) == set(NAMES)
    assert pd.Series(bad["warnings"]).tolist() == [2] * len(NAMES)
    assert "racecheck, chunks, wrong: Error: Race reported between" in capsys.readouterr().out
    assert RACE in log.read_text()


def test_a_name_that_is_none_is_refused_with_those_that_are():
    done = module("experiments.sanitized", "rows")
    assert done.returncode == 2
    known = ", ".join((*NAMES, PLANTED))
    assert done.stdout == f"unknown regime or operator 'rows'; known: {known}\n"


def test_without_the_tool_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    out, log = tmp_path / "sanitizer.csv", tmp_path / "sanitizer.log"
    done = module("experiments.sanitize", "--out", out, "--log", log)
    assert done.returncode == 2
    said = "compute-sanitizer is not on PATH: install the CUDA toolkit, or add its bin folder\n"
    assert done.stdout == said
    assert not out.exists()
