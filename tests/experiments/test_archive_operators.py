"""An archive gives back the operators' samples and errors, while these are of today's code."""

import json
from pathlib import Path

import pytest

from experiments import archive
from experiments.archive import ingest, pack
from experiments.family import archived, counts
from experiments.family.archived import samples as operator_file
from experiments.hardware import environment_sha256, of_sweep
from experiments.listing import sums, verify
from experiments.tables import write_raw
from tests.experiments.family.made import counts_of, errors_of, raw_of
from tests.experiments.finished import FACTS, refusal


def measure_operator(results: Path, name: str, **changes: object) -> str:
    """Samples of operator ``name`` in a run; their file in it."""
    path = results / operator_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"env_sha256": environment_sha256(FACTS), **changes}
    write_raw(raw_of(name, **facts), path)
    return operator_file(name)


def test_operators_are_packed_where_there_are_some(results: Path, packed: Path, tmp_path: Path):
    assert not [name for name in sums(packed) if name.startswith("family/")]
    made = [measure_operator(results, name) for name in ("columns", "sample")]
    pack(results, packed)
    assert {name for name in sums(packed) if name.startswith("family/")} == set(made)
    ingest(packed, tmp_path)
    assert (tmp_path / made[0]).read_bytes() == (results / made[0]).read_bytes()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kernel_sha256": "c" * 64}, "the code of columns has changed since"),
        ({"code_commit": "a" * 40 + "-dirty"}, "expected one clean commit"),
        ({"env_sha256": "c" * 64}, "another environment"),
        ({"block": 0}, "holds 1 blocks; an archive holds 3"),
    ],
)
def test_operators_of_other_code_are_not_packed(
    changes: dict[str, object], expected: str, results: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    name = measure_operator(results, "columns", **changes)
    said = refusal(results, tmp_path, capsys)
    assert name in said
    assert expected in said


def test_a_damaged_table_of_an_operator_is_not_packed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (results / measure_operator(results, "columns")).write_bytes(b"nothing")
    assert "columns.csv.gz is not a raw table of an operator" in refusal(results, tmp_path, capsys)


def test_operators_are_kept_while_their_code_is_todays(
    results: Path, packed: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("columns", "sample", "masks"):
        measure_operator(results, name)
    pack(results, packed)
    for name in ("columns", "sample"):
        (results / operator_file(name)).unlink()
    digest = archived.sha256_of
    monkeypatch.setattr(archived, "sha256_of", lambda n: "new" if n == "sample" else digest(n))
    again = json.dumps({**FACTS, "measured_utc": "2030-01-01"})
    (results / "hardware.json").write_text(again)
    pack(results, packed, keep=True)
    held = {name for name in sums(packed) if name.startswith("family/")}
    assert held == {operator_file("columns"), operator_file("masks")}
    told = json.loads((packed / "hardware.json").read_text())
    assert "measured_utc" not in of_sweep(told, "family/columns")
    assert of_sweep(told, "family/masks")["measured_utc"] == "2030-01-01"
    # What is stale is kept where a part is packed, and what is asked for anew is not.
    pack(results, packed, keep=True)
    monkeypatch.setattr(archived, "sha256_of", lambda n: "new" if n == "columns" else digest(n))
    pack(results, packed, part=True)
    assert operator_file("columns") in sums(packed)
    assert verify(packed, operator_file("columns"))


TABLES = {
    archive.FAMILY_ACCURACY: lambda: errors_of("columns", "masks"),
    counts.FILE: counts_of,
}


def make(results: Path, name: str, **changes: object) -> None:
    """The table ``name`` of all operators in a run."""
    path = results / name
    path.parent.mkdir(parents=True, exist_ok=True)
    TABLES[name]().assign(**changes).to_csv(path, index=False)


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_all_operators_are_packed_where_there_are_some(
    name: str, results: Path, packed: Path, tmp_path: Path
):
    assert name not in sums(packed)
    pack(results, packed)
    assert name not in sums(packed)
    make(results, name)
    pack(results, packed)
    assert name in sums(packed)
    ingest(packed, tmp_path)
    assert (tmp_path / name).read_bytes() == (results / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (name, *each)
        for name in TABLES
        for each in (
            ({"kernel_sha256": "c" * 64}, "masks"),
            ({"kernel_sha256": "c" * 64}, " has changed since"),
            ({"code_commit": "a" * 40 + "-dirty"}, "expected one clean commit"),
            ({"status": "perhaps"}, "is not a table of operators' "),
        )
    ],
)
def test_tables_of_other_code_are_not_packed(
    name: str, changes: dict[str, object], expected: str, results: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    make(results, name, **changes)
    said = refusal(results, tmp_path, capsys)
    assert name in said
    assert expected in said


def test_where_ncu_might_not_count_nothing_is_packed(
    results: Path, packed: Path, capsys: pytest.CaptureFixture[str]
):
    why = {"status": "skipped", "reason": "no leave", "dram_read_bytes": None}
    make(results, counts.FILE, **why)
    pack(results, packed)
    assert counts.FILE not in sums(packed)
    assert f"{counts.FILE} counts nothing, and is left out: no leave" in capsys.readouterr().out


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_kept_while_their_code_is_todays(
    name: str, results: Path, packed: Path, monkeypatch: pytest.MonkeyPatch
):
    make(results, name)
    pack(results, packed)
    (results / name).unlink()
    (results / "hardware.json").write_text(json.dumps({**FACTS, "measured_utc": "2030-01-01"}))
    pack(results, packed, keep=True)
    assert verify(packed, name)
    told = json.loads((packed / "hardware.json").read_text())
    assert "measured_utc" not in of_sweep(told, name)
    assert of_sweep(told, "accuracy.csv")["measured_utc"] == "2030-01-01"
    digest = archive.sha256_by_name
    new = lambda n: "new" if n == "masks" else digest(n)  # noqa: E731
    monkeypatch.setattr(archive, "sha256_by_name", new)
    pack(results, packed, part=True)
    assert name in sums(packed)
    pack(results, packed, keep=True)
    assert name not in sums(packed)
