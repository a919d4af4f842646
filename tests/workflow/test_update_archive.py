"""An archive takes the sweeps that were measured anew, and keeps those that are as they were."""

import json
from pathlib import Path
from shutil import copyfile, copytree

import pytest
import typer

import experiments.archive
from experiments.archive import current, pack
from experiments.hardware import environment_sha256, of_sweep
from experiments.listing import SUMS, digest, sums, verify_all
from experiments.sweeps import SWEEPS
from experiments.tables import read_raw, write_raw
from figures.page import hardware_of
from tests.experiments.raw import raw
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import forget, samples
from workflow import tables
from workflow.source import Source

ALL = ["course_shapes", "launch", "topk"]  # small ones
TABLES = ("correctness.csv", "gpu_tests.xml", "accuracy.csv", "first_call.csv", "layouts.csv")


@pytest.fixture
def archive(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of ALL, which are all that there is."""
    monkeypatch.setattr(experiments.archive, "SWEEPS", {name: SWEEPS[name] for name in ALL})
    mine = copytree(recording, tmp_path / "archive" / recording.name)
    others = [path for path in (mine / "raw").iterdir() if path.name.split(".")[0] not in ALL]
    for path in others:
        path.unlink()
    relist(mine, *sums(mine).keys() - {f"raw/{path.name}" for path in others})
    return mine


def rerun(archive: Path, results: Path, day: int, *sweeps: str) -> dict[str, object]:
    """Measure ``sweeps`` again, on another card; the facts of that run."""
    facts = {**of_sweep(json.loads((archive / "hardware.json").read_text()), "none")}
    facts |= {"gpu_id": f"card {day}", "measured_utc": f"2030-01-0{day}T00:00:00Z"}
    (results / "raw").mkdir(parents=True)
    (results / "hardware.json").write_text(json.dumps(facts))
    for name in TABLES:
        copyfile(archive / name, results / name)
    for name in sweeps:
        rows = samples(name, environment_sha256(facts))
        write_raw(raw(*rows), results / "raw" / f"{name}.csv.gz")
    return facts


def refusal(results: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> str:
    before = sums(archive)
    with pytest.raises(typer.Exit) as stopped:
        pack(results, archive, keep=True)
    assert stopped.value.exit_code == 2
    assert sums(archive) == before
    verify_all(archive)
    return capsys.readouterr().out


def test_a_recording_of_todays_code_is_current(archive: Path):
    assert current(archive) == ALL
    assert current(archive.with_name("none")) == []


def test_each_sweep_keeps_the_facts_of_its_own_run(archive: Path, tmp_path: Path):
    first = json.loads((archive / "hardware.json").read_text())
    untouched = (archive / "raw/course_shapes.csv.gz").read_bytes()
    change(archive, "topk", "launch")
    second = rerun(archive, tmp_path / "second", 2, "topk", "launch")
    pack(tmp_path / "second", archive, keep=True)
    assert current(archive) == ALL
    change(archive, "launch")
    # What is current is kept, whatever else lies there.
    third = rerun(archive, tmp_path / "third", 3, "launch", "topk")
    pack(tmp_path / "third", archive, keep=True)
    assert set(verify_all(archive)) >= {f"raw/{name}.csv.gz" for name in ALL}
    assert (archive / "raw/course_shapes.csv.gz").read_bytes() == untouched
    told = json.loads((archive / "hardware.json").read_text())
    runs = {**dict.fromkeys(ALL, first), "launch": third, "topk": second}
    for name, expected in runs.items():
        assert of_sweep(told, name) == expected
        assert "earlier" not in of_sweep(told, name)
        used = set(read_raw(archive / f"raw/{name}.csv.gz")["env_sha256"])
        assert used == {environment_sha256(expected)}
    assert environment_sha256(told) == environment_sha256(third)


def test_what_was_measured_with_other_code_is_not_kept(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rerun(archive, tmp_path / "results", 2, *(set(ALL) - {"topk", "launch"}))
    change(archive, "topk")
    assert current(archive) == [name for name in ALL if name != "topk"]
    assert "lacks raw/topk.csv.gz: finish the run first" in refusal(
        tmp_path / "results", archive, capsys
    )


def test_a_part_keeps_what_was_not_measured_again_though_it_is_stale(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    first = json.loads((archive / "hardware.json").read_text())
    change(archive, "topk", "launch")
    stale = (archive / "raw/topk.csv.gz").read_bytes()
    second = rerun(archive, tmp_path / "second", 2, "launch")
    pack(tmp_path / "second", archive, part=True)
    verify_all(archive)
    assert "stale, with other variants or points than today's: topk\n" in capsys.readouterr().out
    assert (archive / "raw/topk.csv.gz").read_bytes() == stale
    told = json.loads((archive / "hardware.json").read_text())
    assert [of_sweep(told, name) for name in ALL] == [first, second, first]
    # The next run measures it, and nothing else.
    assert current(archive) == ["course_shapes", "launch"]
    third = rerun(archive, tmp_path / "third", 3, "topk")
    pack(tmp_path / "third", archive, keep=True)
    told = json.loads((archive / "hardware.json").read_text())
    assert [of_sweep(told, name) for name in ALL] == [first, second, third]


def test_a_part_keeps_the_tables_that_were_not_made_again(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    first, again = json.loads((archive / "hardware.json").read_text()), tmp_path / "second"
    second = rerun(archive, again, 2, *ALL)
    for name in ("gpu_tests.xml", "layouts.csv"):
        (again / name).unlink()
    layouts = (archive / "layouts.csv").read_bytes()
    (archive / "benchmarks").mkdir(exist_ok=True)
    (archive / "benchmarks/prepare.tsv").write_text("s\n103\n")
    relist(archive, *sums(archive), "benchmarks/prepare.tsv")
    with pytest.raises(typer.Exit):
        pack(again, archive, keep=True)
    assert "lacks gpu_tests.xml, layouts.csv: finish the run first" in capsys.readouterr().out
    pack(again, archive, part=True)
    assert "not made again: gpu_tests.xml, layouts.csv, profile.csv" in capsys.readouterr().out
    verify_all(archive)
    assert (archive / "layouts.csv").read_bytes() == layouts
    assert (archive / "benchmarks/prepare.tsv").read_text() == "s\n103\n"
    told = archive / "hardware.json"
    assert hardware_of(archive / "layouts.csv", told) == first
    assert hardware_of(archive / "accuracy.csv", told) == second


@pytest.mark.parametrize("lost", ["variant", "point", "block", "timer"])
def test_a_sweep_that_lacks_something_is_not_current(lost: str, archive: Path):
    table = read_raw(archive / "raw/course_shapes.csv.gz")
    gone = {
        "variant": table["variant"] == "copy_torch",
        "point": table["cols"] == table["cols"].max(),
        "block": table["block"] == 0,
        "timer": table["timer"] == "call",
    }
    write_raw(table[~gone[lost]], archive / "raw/course_shapes.csv.gz")
    relist(archive)
    assert "course_shapes" not in current(archive)


def test_tables_that_a_run_has_not_made_are_said_to_be_gone(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rerun(archive, tmp_path / "results", 2)
    assert (archive / "profile.csv").exists()
    pack(tmp_path / "results", archive, keep=True)
    said = capsys.readouterr().out
    assert "kept, as measured before: course_shapes, launch, topk" in said
    assert "has none: profile.csv, sanitizer.csv, sanitizer.log" in said


@pytest.mark.parametrize("name", ["hardware.json", "raw/topk.csv.gz"])
def test_what_was_tampered_with_is_not_kept(
    name: str, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rerun(archive, tmp_path / "results", 2, "launch")
    if name == "hardware.json":
        facts = json.loads((archive / name).read_text())
        (archive / name).write_text(json.dumps({**facts, "gpu_id": "another"}))
        relist(archive)
        expected = "was measured in another environment than hardware.json tells of"
    else:
        (archive / name).write_bytes((archive / name).read_bytes()[:-10])
        expected = "topk.csv.gz differs from what was recorded"
    with pytest.raises(typer.Exit):
        pack(tmp_path / "results", archive, keep=True)
    assert expected in capsys.readouterr().out
    assert not list(archive.parent.glob(".*"))


@pytest.mark.usefixtures("gpu", "tools")
def test_only_what_the_archive_lacks_is_measured(copy: Path):
    forget(copy, "raw/topk.csv.gz")
    done = snakemake(copy, "--dry-run", "update_archive")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("rule measure:") == 1
    assert "output: results/local-test-gpu/raw/topk.csv.gz" in done.stdout
    for rule in ("gpu_tests", "layouts_table", "accuracy", "first_call", "update_archive"):
        assert f"rule {rule}:" in done.stdout, rule


def test_the_workflow_asks_for_what_the_archive_lacks(
    archive: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Source, "archive", archive)
    run = Source("local-test-gpu", "test-gpu", local=True)
    assert tables.outdated(run, ALL) == []
    (archive / "SHA256SUMS").unlink()
    assert tables.outdated(run, ["topk"]) == ["results/local-test-gpu/raw/topk.csv.gz"]


def change(archive: Path, *sweeps: str) -> None:
    """As if copy_torch had been another when ``sweeps`` were recorded."""
    for name in sweeps:
        table = read_raw(archive / f"raw/{name}.csv.gz")
        table.loc[table["variant"] == "copy_torch", "kernel_sha256"] = "b" * 64
        write_raw(table, archive / f"raw/{name}.csv.gz")
    relist(archive)


def relist(archive: Path, *names: str) -> None:
    """List ``names``, or those that were, as the files are."""
    lines = [f"{digest(archive / n)}  {n}\n" for n in sorted(names or sums(archive))]
    (archive / SUMS).write_text("".join(lines))
