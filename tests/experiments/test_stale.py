"""A row is stale where other code is launched at its place; what callers wait for, by all of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from experiments import launched, limits, stale
from experiments.goal import goals
from experiments.goals import Evidence
from experiments.launched import NAME, launched_sha256
from experiments.layout import CONTIGUOUS, Place
from experiments.recorded import recorded_sweep
from experiments.tables import BadTable, write_raw
from experiments.tidy import main, tidy
from figures import page, profiled
from kernels.frontier.select import select
from paper.blog.inputs import BadPage, Inputs
from paper.facts import BadFact, found
from tests.experiments.counted import counted
from tests.experiments.raw import Row, raw, row, stopped
from tests.experiments.recorded_launches import (
    EARLIER,
    ENVIRONMENT,
    FACTS,
    PLACES,
    lines,
)

Made = Callable[..., Path]
EVERYWHERE = dict.fromkeys(PLACES, False)


def at(place: Place, **changes: Any) -> Row:
    """A sample of earlier code's frontier."""
    told = {"kernel_sha256": EARLIER, "env_sha256": ENVIRONMENT, **changes}
    return row("frontier", dtype=place.dtype, rows=place.rows, cols=place.cols, **told)


def of_places(**changes: Any) -> dict[str, bool]:
    """By regime, whether the sample of it is stale."""
    table = raw(*(at(place, **changes) for place in PLACES.values()))
    return dict(zip(PLACES, stale.stale(table), strict=True))


@pytest.mark.parametrize("timer", ["graph", "events"])
def test_the_same_launch_is_current(timer: str, archives: Made):
    archives(lines(*PLACES.values()))
    assert of_places(timer=timer) == EVERYWHERE


@pytest.mark.parametrize(
    "changes",
    [
        {"timer": "call"}, {"timer": "host"}, {"kernel_sha256": "d" * 64},
        {"env_sha256": "e" * 64}, {"dtype": "float16"}, {"rows": 7}, {"cols": 320},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_else_is_stale(changes: dict[str, Any], archives: Made):
    archives(lines(*PLACES.values()))
    place = PLACES["warp"]
    rows = [row("triton_row", kernel_sha256=EARLIER), {**at(place), **changes}]
    rows.append(stopped("frontier", "skipped", "no room", kernel_sha256=EARLIER))
    assert stale.stale(raw(*rows, at(place))).tolist() == [True, True, True, False]


def test_without_a_record_all_of_the_code_counts(archives: Made):
    assert of_places() == dict.fromkeys(PLACES, True)
    now = raw(row("frontier"), row("triton_row"))
    assert not stale.stale(now).any()


def test_an_edited_regime_makes_its_own_places_stale(archives: Made, edit):
    archives(lines(*PLACES.values()))
    edit("chunks.cu", "__device__ int more;")
    assert of_places() == {**EVERYWHERE, "chunks": True}


def test_another_choice_makes_its_place_stale(archives: Made, monkeypatch: pytest.MonkeyPatch):
    archives(lines(*PLACES.values()))
    launched_sha256.cache_clear()

    def other(asked, gpu):
        shape = select(asked, gpu)
        if shape.regime != "cluster":
            return shape
        return replace(shape, sizes=(*shape.sizes[:-1], shape.sizes[-1] + 1))

    monkeypatch.setattr(launched, "select", other)
    assert of_places() == {**EVERYWHERE, "cluster": True}


def test_a_row_is_judged_by_the_archive_of_its_own_gpu(archives: Made):
    table = lines(*PLACES.values())
    archives(table)
    other = {**FACTS, "gpu": "NVIDIA H100", "multiprocessors": 114}
    archives(table, other, "nvidia-h100")  # where something else is launched
    assert of_places() == EVERYWHERE
    assert of_places(env_sha256=stale.environment_sha256(other)) == dict.fromkeys(PLACES, True)


def test_tables_that_name_no_environment_are_of_a_gpu(archives: Made):
    warp = PLACES["warp"]
    archives(lines(warp, warp._replace(layout="sliced input")))
    told = {"kernel_sha256": EARLIER, "variant": "frontier", "status": "ok", **warp._asdict()}
    table = pd.DataFrame(
        [{**told, "layout": name} for name in (CONTIGUOUS, "sliced input", "in place")]
    )
    assert stale.stale(table, "nvidia-h200").tolist() == [False, False, True]
    assert stale.stale(table).all()
    assert stale.stale(table, "nvidia-a100").all()
    assert not stale.stale(table.iloc[:1].drop(columns="layout"), "nvidia-h200").any()
    assert stale.stale(table.assign(status="skipped"), "nvidia-h200").all()
    assert stale.stale(table.assign(first_ms=1.0), "nvidia-h200").all()
    assert stale.stale(table[["variant", "kernel_sha256"]], "nvidia-h200").all()


def test_a_tidy_row_is_stale_where_a_sample_of_it_is(archives: Made):
    warp, chunks = PLACES["warp"], PLACES["chunks"]
    archives(lines(warp))
    table = tidy(raw(
        *(at(warp, block=block, timer=t) for block in (0, 1) for t in ("graph", "call")),
        at(chunks), row("frontier", block=1, rows=chunks.rows, cols=chunks.cols),
        *(row("copy_torch", rows=p.rows, cols=p.cols) for p in (warp, chunks)),
    ))  # fmt: skip
    mine = table[table["variant"] == "frontier"].set_index(["timer", "cols"])["stale"].to_dict()
    assert mine == {
        ("device", warp.cols): False, ("call", warp.cols): True, ("device", chunks.cols): True,
    }  # fmt: skip
    assert not table.loc[table["variant"] == "copy", "stale"].any()


def test_the_command_says_how_many_rows_are(archives: Made, tmp_path: Path, capsys):
    archives(lines(PLACES["warp"]))
    write_raw(raw(*map(at, PLACES.values())), tmp_path / "raw.csv.gz")
    main(tmp_path / "raw.csv.gz", tmp_path / "tidy.csv")
    assert capsys.readouterr().out == (
        "stale, measured with earlier code: frontier (2 of 3 rows)\n"
    )


def table_of(folder: Path) -> Path:
    """Rows of two places on an H200 in ``folder``, as errors and layouts have them."""
    (folder / "hardware.json").write_text('{"gpu": "NVIDIA H200"}')
    told = {"kernel_sha256": EARLIER, "variant": "frontier", "status": "ok", "max_ulps": 1.0}
    rows = [{**told, **PLACES[name]._asdict()} for name in ("warp", "chunks")]
    pd.DataFrame(rows).to_csv(folder / "accuracy.csv", index=False)
    return folder / "accuracy.csv"


def test_figures_and_the_paper_go_by_launches(archives: Made, tmp_path: Path):
    archives(lines(PLACES["warp"]))
    path = table_of(tmp_path)
    said = page.outdated(pd.read_csv(path), FACTS)
    assert said == ["stale, measured with earlier code: frontier (1 of 2 rows)"]
    told = {"table": "accuracy.csv", "column": "max_ulps", "take": "only", "as": "ratio"}
    wanted = {name: {**told, "where": {"cols": PLACES[name].cols}} for name in ("warp", "chunks")}
    facts = found(wanted, tmp_path)
    assert {name: fact["stale"] for name, fact in facts.items()} == {"warp": False, "chunks": True}


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:-4])


def twice(path: Path) -> None:
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")


def emptied(path: Path) -> None:
    path.write_text("")


def alone(path: Path) -> None:
    path.with_name("hardware.json").unlink()


def untold(path: Path) -> None:
    path.with_name("hardware.json").write_text('{"gpu": "NVIDIA H200"}')


@pytest.mark.parametrize("damage", [cut, twice, emptied, alone, untold])
def test_a_damaged_record_is_named_in_one_line(
    damage: Callable[[Path], None], archives: Made, tmp_path: Path, capsys
):
    folder = archives(lines(*PLACES.values()))
    damage(folder / NAME)
    write_raw(raw(*map(at, PLACES.values())), tmp_path / "raw.csv.gz")
    with pytest.raises(typer.Exit) as stopped:
        main(tmp_path / "raw.csv.gz", tmp_path / "tidy.csv")
    said = capsys.readouterr().out
    assert stopped.value.exit_code == 2
    assert len(said.splitlines()) == 1
    assert str(folder) in said
    path = table_of(tmp_path)
    with pytest.raises(page.BadInput, match=str(folder)):
        page.outdated(pd.read_csv(path), FACTS)
    wanted = {"table": "accuracy.csv", "column": "max_ulps", "take": "max", "as": "ratio"}
    with pytest.raises(BadFact, match=str(folder)):
        found({"it": {**wanted, "where": {"variant": "frontier"}}}, tmp_path)
    (tmp_path / "frontier.csv.gz").write_bytes((tmp_path / "raw.csv.gz").read_bytes())
    with pytest.raises(BadTable, match=f"^{folder}"):  # and of no other file
        recorded_sweep("frontier", tmp_path, None)
    counted().assign(kernel_sha256=EARLIER).to_csv(tmp_path / "profile.csv", index=False)
    with pytest.raises(BadTable, match=f"^{folder}"):
        Evidence.of(tmp_path, goals())
    with pytest.raises(typer.Exit):
        limits.main(tmp_path / "profile.csv", tmp_path / "limits.md")
    assert capsys.readouterr().out.startswith(str(folder))
    with pytest.raises(page.BadInput, match=f"^{folder}"):
        profiled.read(tmp_path / "profile.csv")
    with pytest.raises(BadPage, match=f"^{folder}"):
        _ = Inputs(tmp_path, tmp_path, tmp_path / "profile.csv", {}).counts


@pytest.mark.parametrize("text", ["{", "[]", '{"gpu": 1}'])
def test_a_hardware_json_that_is_none_is_named(text: str, tmp_path: Path):
    path = table_of(tmp_path)
    path.with_name("hardware.json").write_text(text)
    with pytest.raises(BadTable, match=f"^{path.with_name('hardware.json')} is not "):
        stale.gpu_beside(path)
