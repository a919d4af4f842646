"""What is launched at a place has a fingerprint, and an archive's record says which."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
import torch
import typer

from experiments import launched
from experiments.archive import pack
from experiments.hardware import environment_sha256
from experiments.launched import KEY, NAME, launched_sha256, read, request
from experiments.layout import BY_NAME, Place
from experiments.listing import sums, verify
from experiments.tables import write_raw
from kernels.fingerprint import sha256_now
from kernels.frontier import frontier
from kernels.frontier.select import select
from kernels.registry import DTYPES
from tests.commands import ROOT, module
from tests.experiments.finished import FACTS as UNTOLD
from tests.experiments.finished import RAW_FILES, samples
from tests.experiments.raw import blocks, raw
from tests.experiments.recorded_launches import (
    EARLIER,
    FACTS,
    H200,
    PLACES,
    lines,
)

pytestmark = pytest.mark.usefixtures("looked_up_again")
TODAY = sha256_now("frontier")


@dataclass(frozen=True)
class Lying:
    """A tensor's place in memory."""

    dtype: torch.dtype
    shape: tuple[int, int]
    strides: tuple[int, int]
    first: int

    def data_ptr(self) -> int:
        return self.first

    def element_size(self) -> int:
        return self.dtype.itemsize

    def stride(self) -> tuple[int, int]:
        return self.strides

    def get_device(self) -> int:
        return 0


def of_code() -> dict[str, str]:
    """What the frontier launches at each of PLACES."""
    return {regime: launched_sha256("frontier", place, H200) for regime, place in PLACES.items()}


@pytest.mark.parametrize("layout", BY_NAME.values(), ids=str)
def test_a_place_is_what_the_kernels_are_asked_for(layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frontier, "gpu", lambda index: H200)
    for dtype, rows, cols, invariant in product(
        DTYPES, (1, 2, 300), (1, 31, 1000, 1024, 4096, 4097), (False, True)
    ):
        kind: torch.dtype = getattr(torch, dtype)
        made = [
            Lying(kind, (rows, cols), (cols + gap, 1), 2**20 + before * kind.itemsize)
            for before, gap in (
                (layout.before_x, layout.gap_x), (layout.before_out, layout.gap_out)
            )
        ]  # fmt: skip
        x, out = cast(list[Any], made)
        asked = frontier._request(x, out, invariant)
        assert request(Place(dtype, rows, cols, layout.name), H200, invariant) == asked


def test_the_places_here_are_those_of_their_regimes():
    found = {select(request(place, H200), H200.name).regime: r for r, place in PLACES.items()}
    assert found == {regime: regime for regime in PLACES}


def test_an_edit_of_a_regime_changes_its_own_launches(edit: Callable[[str, str], None]):
    before = of_code()
    edit("chunks.cu", "// a word more")
    assert of_code() == before
    edit("chunks.cu", "__device__ int more;")
    after = of_code()
    assert {regime for regime in PLACES if after[regime] != before[regime]} == {"chunks"}
    edit("reduce.cuh", "__device__ int more_yet;")  # all include it
    assert not set(of_code().values()) & set(after.values())


def test_another_choice_is_another_launch(monkeypatch: pytest.MonkeyPatch):
    before = of_code()
    launched_sha256.cache_clear()

    def narrower(asked, gpu):
        shape = select(asked, gpu)
        return replace(shape, early=not shape.early) if shape.regime == "warp" else shape

    monkeypatch.setattr(launched, "select", narrower)
    after = of_code()
    assert {regime for regime in PLACES if after[regime] != before[regime]} == {"warp"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STANDARD", "c++20"), ("PTXAS_OPTIONS", ["-O1"]), ("_host_code", lambda path: ""),
        ("_compiling", lambda: ""),
    ],
)  # fmt: skip
def test_host_code_and_options_are_part_of_every_launch(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
):
    before = of_code()
    launched_sha256.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(launched, name, value)
        after = of_code()
    assert not set(after.values()) & set(before.values())


def test_host_code_is_what_launches_and_not_what_chooses():
    text = launched._host_code(Path(str(frontier.__file__)))
    for name in ("prepare", "deal", "tile_rows", "scratch", "as_rows", "relaxed"):
        assert f"def {name}(" in text, name
    for name in ("select", "possible", "compile_plan", "plan_key"):
        assert f"def {name}(" not in text, name


def test_variants_and_gpus_launch_something_else():
    place = PLACES["cluster"]
    told = [
        launched_sha256(name, place, gpu)
        for name in ("frontier", "frontier_invariant")
        for gpu in (H200, H200._replace(multiprocessors=114))
    ]
    assert len(set(told)) == 4
    assert all(len(sha) == launched.DIGITS for sha in told)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("triton_row", PLACES["warp"]), ("gone", PLACES["warp"]),
        ("frontier", PLACES["warp"]._replace(layout="upside down")),
        ("frontier_invariant", Place("float32", 1, 2**24)),
    ],
)  # fmt: skip
def test_of_some_there_is_nothing_to_tell(name: str, place: Place):
    assert launched_sha256(name, place, H200) == ""


@pytest.mark.parametrize(
    "folder", [path.parent for path in (ROOT / "experiments/archive").glob(f"*/{NAME}")], ids=str
)
def test_every_row_of_an_archive_has_its_line(folder: Path, tmp_path: Path):
    table = launched.record(folder, folder / NAME)
    table.to_csv(tmp_path / NAME, index=False)
    assert (tmp_path / NAME).read_bytes() == (folder / NAME).read_bytes()
    rows = launched._measured(folder)
    assert len(rows.merge(table, on=KEY)) == len(rows)


# --- Packed -----------------------------------------------------------------------------------


def measured(results: Path, facts: dict[str, Any] = FACTS, **changes: Any) -> None:
    """Make ``results`` a run of ``facts`` in which one sweep has the frontier at PLACES."""
    (results / "hardware.json").write_text(json.dumps(facts))
    told = {"env_sha256": environment_sha256(facts)}
    for name in RAW_FILES:
        rows = samples(sweep=name[4:-7], **told)
        if name == RAW_FILES[0]:
            for dtype, m, n, _ in PLACES.values():
                place = {"dtype": dtype, "rows": m, "cols": n, "sweep": name[4:-7]}
                rows += blocks("frontier", *[100.0] * 5, **told, **place, **changes)
        write_raw(raw(*rows), results / name)


def test_packing_records_what_was_launched(results: Path, packed: Path, capsys):
    measured(results)
    pack(results, packed)
    table = read(verify(packed, NAME))
    assert set(table["kernel_sha256"]) == {TODAY}
    expected = lines(*PLACES.values(), sha=TODAY)
    pd.testing.assert_frame_equal(table, expected.sort_values(KEY, ignore_index=True))
    assert f"{len(sums(packed))} files" in capsys.readouterr().out
    done = module("experiments.archive", "verify", packed)
    assert done.returncode == 0, done.stdout


def test_a_gpu_that_is_not_told_of_has_no_record(results: Path, packed: Path):
    measured(results, UNTOLD)
    pack(results, packed)
    assert NAME not in sums(packed)


def test_packing_keeps_the_lines_of_rows_that_stay(results: Path, packed: Path, capsys):
    measured(results)
    pack(results, packed)
    rows = raw(*blocks(
        "frontier", *[100.0] * 5, dtype="float32", rows=8, cols=1024, kernel_sha256=EARLIER,
        env_sha256=environment_sha256(FACTS), sweep=RAW_FILES[1][4:-7],
    ))  # fmt: skip
    write_raw(rows, packed / RAW_FILES[1])
    kept = lines(Place("float32", 8, 1024))
    gone = lines(Place("float32", 8, 2048), Place("float32", 8, 4096), sha="d" * 64)
    pd.concat([read(packed / NAME), kept, gone]).to_csv(packed / NAME, index=False)
    relist(packed)
    (results / RAW_FILES[1]).unlink()
    pack(results, packed, part=True)
    table = read(verify(packed, NAME))
    assert set(table["kernel_sha256"]) == {TODAY, EARLIER}
    assert len(table) == len(PLACES) + 1
    assert kept["launched_sha256"][0] in set(table["launched_sha256"])
    assert "no longer in the archive" not in capsys.readouterr().out
    (packed / NAME).write_text("kernel_sha256,variant\n")
    relist(packed)
    before = sums(packed)
    with pytest.raises(typer.Exit):
        pack(results, packed, part=True)
    assert f"{packed / NAME} is no record of launches" in capsys.readouterr().out
    assert sums(packed) == before
    assert not list(packed.parent.glob(".*"))


def relist(folder: Path) -> None:
    names = list(sums(folder))
    told = "".join(f"{launched.digest(folder / name)}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text(told)


def test_the_command_adds_what_this_code_measured(results: Path, packed: Path):
    measured(results)
    pack(results, packed)
    expected = (packed / NAME).read_bytes()
    (packed / NAME).unlink()
    listing = (packed / "SHA256SUMS").read_text().splitlines(keepends=True)
    (packed / "SHA256SUMS").write_text("".join(line for line in listing if NAME not in line))
    for _ in range(2):  # the second finds what the first has written
        done = module("experiments.launched", packed)
        assert done.returncode == 0, done.stdout
        assert done.stdout == f"{packed / NAME}: 3 lines, 3 of them of this code\n"
        assert verify(packed, NAME).read_bytes() == expected


def test_a_line_is_not_told_anew_by_code_that_launches_otherwise(results: Path, packed: Path):
    measured(results)
    pack(results, packed)
    table = read(packed / NAME)
    table.loc[1, "launched_sha256"] = "0" * launched.DIGITS  # as other code would have it
    table.to_csv(packed / NAME, index=False)
    relist(packed)
    done = module("experiments.launched", packed)
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert "other launches than this code's at 1 of 3 places" in done.stdout
    pack(results, packed)
    pd.testing.assert_frame_equal(read(verify(packed, NAME)), table)


@pytest.mark.parametrize("untold", ["gpu", "compute_capability", "multiprocessors"])
def test_hardware_that_does_not_tell_its_gpu(untold: str):
    facts = {"gpu": "NVIDIA H200", "compute_capability": [9, 0], "multiprocessors": 132}
    assert launched.gpu_of(facts) == H200
    assert launched.gpu_of({**facts, untold: None}) is None
    assert launched.gpu_of({k: v for k, v in facts.items() if k != untold}) is None


def test_the_command_says_in_one_line_what_it_lacks(packed: Path, tmp_path: Path):
    for folder, said in (
        (packed, "has no row of the frontier's that this code measured"),
        (tmp_path, "has no SHA256SUMS"),
    ):
        done = module("experiments.launched", folder)
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 1
        assert said in done.stdout
