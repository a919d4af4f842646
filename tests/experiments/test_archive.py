"""An archive gives back what was packed, or names the file that does not."""

import hashlib
import json
from pathlib import Path

import pytest
import typer
from pandas.testing import assert_frame_equal

from experiments import archive
from experiments.archive import ingest, pack
from experiments.hardware import environment_sha256
from experiments.listing import BadArchive, sums, verify
from experiments.profiler import refused, table
from experiments.sanitizer import OPERATORS
from experiments.tables import PROFILE, read_csv, validated, write_raw
from tests.commands import module
from tests.experiments.counted import COMMIT, PROFILER, counted
from tests.experiments.finished import FACTS, OTHERS, RAW_FILES, refusal, samples
from tests.experiments.raw import raw
from tests.experiments.trained import decoded, trained
from tests.experiments.watched import sanitized


def test_what_is_packed_comes_back(results: Path, packed: Path, tmp_path: Path):
    names = [*RAW_FILES, *OTHERS, "benchmarks/small_batch-0.tsv"]
    assert sorted(sums(packed)) == sorted(names)
    for name in names:
        assert verify(packed, name).read_bytes() == (results / name).read_bytes()
    ingest(packed, tmp_path / "out")
    for name in set(names) - {"hardware.json"}:
        assert (tmp_path / "out" / name).read_bytes() == (results / name).read_bytes()


def test_ingested_facts_say_that_they_come_from_an_archive(packed: Path, tmp_path: Path):
    ingest(packed, tmp_path)
    facts = json.loads((tmp_path / "hardware.json").read_text())
    assert facts == {**FACTS, "source": "archive-test-gpu"}
    assert environment_sha256(facts) == environment_sha256(FACTS)


def test_the_listing_is_what_sha256sum_reads(packed: Path):
    for line in (packed / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((packed / name).read_bytes()).hexdigest() == digest


def test_packing_again_replaces_what_was_there(results: Path, packed: Path):
    (packed / "left-over").write_text("from an earlier run")
    (results / "correctness.csv").write_text("variant,status\n")
    pack(results, packed)
    assert not (packed / "left-over").exists()
    assert verify(packed, "correctness.csv").read_text() == "variant,status\n"
    assert [path.name for path in packed.parent.iterdir()] == ["test-gpu"]


def flip_a_byte(path: Path) -> str:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x01
    path.write_bytes(content)
    return "differs from what was recorded"


def cut_off(path: Path) -> str:
    path.write_bytes(path.read_bytes()[:-10])
    return "its compressed data are cut off or damaged"


def remove(path: Path) -> str:
    path.unlink()
    return "is missing, though SHA256SUMS lists it"


def unlist(path: Path) -> str:
    listing = path.parents[1] / "SHA256SUMS"
    lines = listing.read_text().splitlines(keepends=True)
    listing.write_text("".join(line for line in lines if path.name not in line))
    return "is not listed in"


@pytest.mark.parametrize("damage", [flip_a_byte, cut_off, remove, unlist])
def test_a_damaged_file_is_named(damage, packed: Path, tmp_path: Path):
    name = RAW_FILES[0]
    expected = damage(packed / name)
    with pytest.raises(BadArchive, match=expected) as raised:
        verify(packed, name)
    assert str(packed / name) in str(raised.value)
    for other in RAW_FILES[1:]:
        verify(packed, other)


@pytest.mark.parametrize("damage", [flip_a_byte, cut_off, remove, unlist])
def test_the_commands_name_it_in_one_line(damage, packed: Path, tmp_path: Path):
    damage(packed / RAW_FILES[0])
    for arguments in (["verify", packed], ["ingest", packed, tmp_path / "out"]):
        done = module("experiments.archive", *arguments)
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 1
        assert str(packed / RAW_FILES[0]) in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_whole_archive_is_counted(packed: Path):
    done = module("experiments.archive", "verify", packed)
    assert (done.returncode, done.stdout) == (
        0,
        f"{packed}: {len(sums(packed))} files as recorded\n",
    )


@pytest.mark.parametrize(
    "text",
    ["", "one word\n", "abc  short.csv\n", f"{'a' * 64} one-space.csv\n"],
    ids=["nothing", "words", "digest", "space"],
)
def test_a_malformed_listing_is_named(text: str, packed: Path):
    (packed / "SHA256SUMS").write_text(text)
    with pytest.raises(BadArchive, match="SHA256SUMS is malformed: expected lines of"):
        verify(packed, RAW_FILES[0])


def test_a_missing_listing_is_named(packed: Path):
    (packed / "SHA256SUMS").unlink()
    with pytest.raises(BadArchive, match="has no SHA256SUMS"):
        verify(packed, RAW_FILES[0])


@pytest.mark.parametrize("mode", ["quick", "smoke"])
def test_only_full_runs_are_packed(
    mode: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (results / "hardware.json").write_text(json.dumps({**FACTS, "mode": mode}))
    assert f"is a {mode} run; an archive holds full runs" in refusal(results, tmp_path, capsys)


@pytest.mark.parametrize("commit", ["a" * 40 + "-dirty", "unknown"])
def test_a_run_of_uncommitted_code_is_not_packed(
    commit: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_raw(raw(*samples(code_commit=commit)), results / RAW_FILES[1])
    said = refusal(results, tmp_path, capsys)
    assert commit in said
    assert RAW_FILES[1] in said


def test_blocks_of_two_commits_are_not_packed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = samples()
    rows[-1]["code_commit"] = "d" * 40
    write_raw(raw(*rows), results / RAW_FILES[0])
    assert "expected one clean commit" in refusal(results, tmp_path, capsys)


def test_an_unfinished_sweep_is_not_packed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_raw(raw(*(r for r in samples() if r["block"] < 3)), results / RAW_FILES[0])
    assert f"{RAW_FILES[0]} holds 3 blocks" in refusal(results, tmp_path, capsys)


def test_another_environment_is_not_packed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (results / "hardware.json").write_text(json.dumps({**FACTS, "gpu": "Other GPU"}))
    assert "another environment" in refusal(results, tmp_path, capsys)


def test_stale_measurements_are_not_packed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_raw(raw(*samples(kernel_sha256="c" * 64)), results / RAW_FILES[0])
    assert "the code of copy_torch, torch_eager has changed" in refusal(results, tmp_path, capsys)


@pytest.mark.parametrize("name", [RAW_FILES[2], *OTHERS[1:]])
def test_what_is_not_finished_is_named(
    name: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (results / name).unlink()
    assert f"lacks {name}: finish the run first" in refusal(results, tmp_path, capsys)


@pytest.mark.parametrize("name", [RAW_FILES[2], *OTHERS[1:]])
def test_a_part_of_a_run_is_packed_and_told_what_it_lacks(
    name: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    pack(results, tmp_path / "whole")
    (results / name).unlink()
    pack(results, tmp_path / "new", part=True)
    assert sums(tmp_path / "new").keys() == sums(tmp_path / "whole").keys() - {name}
    assert f"not measured, and left out: {name}\n" in capsys.readouterr().out
    (results / "hardware.json").unlink()
    with pytest.raises(typer.Exit):
        pack(results, tmp_path / "new", part=True)
    assert "hardware.json is missing; measure first" in capsys.readouterr().out


def test_a_profile_is_packed_where_there_is_one(results: Path, packed: Path, tmp_path: Path):
    assert "profile.csv" not in sums(packed)
    counted().to_csv(results / "profile.csv", index=False)
    pack(results, packed)
    assert "profile.csv" in sums(packed)
    ingest(packed, tmp_path)
    assert (tmp_path / "profile.csv").read_bytes() == (results / "profile.csv").read_bytes()


def test_what_a_missing_library_has_not_counted_again_is_kept(
    results: Path, packed: Path, capsys: pytest.CaptureFixture[str]
):
    before, gone = counted(), "quack"
    before.to_csv(results / "profile.csv", index=False)
    pack(results, packed)
    now = counted(without=gone).assign(code_commit="b" * 40)
    skipped = now["variant"] == gone
    assert (set(before.loc[skipped, "status"]), set(now.loc[skipped, "status"])) == (
        {"ok"}, {"skipped"},
    )  # fmt: skip
    now.to_csv(results / "profile.csv", index=False)
    capsys.readouterr()
    pack(results, packed, part=True)
    assert f"kept as counted before: {gone}\n" in capsys.readouterr().out
    found = validated(PROFILE, read_csv(packed / "profile.csv"))
    assert_frame_equal(found[skipped], before[skipped])
    assert_frame_equal(found[~skipped], now[~skipped])
    listing, recorded = packed / "SHA256SUMS", sums(packed)["profile.csv"]
    found.assign(kernel_sha256="c" * 64).to_csv(packed / "profile.csv", index=False)
    changed = hashlib.sha256((packed / "profile.csv").read_bytes()).hexdigest()
    listing.write_text(listing.read_text().replace(recorded, changed))
    pack(results, packed, part=True)  # what other code did is not kept
    assert set(read_csv(packed / "profile.csv")["code_commit"]) == {"b" * 40}


def test_a_profile_that_counts_nothing_is_left_out_and_named(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    made = table(refused("ncu may not count"), {}, PROFILER, COMMIT)
    made.to_csv(results / "profile.csv", index=False)
    pack(results, tmp_path / "archive" / "test-gpu")
    assert "profile.csv" not in sums(tmp_path / "archive" / "test-gpu")
    said = capsys.readouterr().out
    assert "profile.csv counts nothing, and is left out: ncu may not count" in said


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"code_commit": "a" * 40 + "-dirty"}, "expected one clean commit"),
        ({"kernel_sha256": "c" * 64}, "has changed since"),
        ({"status": "fine"}, "is not a profile"),
    ],
)
def test_a_profile_of_other_code_is_not_packed(
    changes: dict[str, str], expected: str, results: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    counted().assign(**changes).to_csv(results / "profile.csv", index=False)
    assert expected in refusal(results, tmp_path, capsys)


def test_what_the_sanitizer_found_is_packed_with_its_log(
    results: Path, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert "sanitizer.csv" not in sums(packed)
    found = sanitized()
    found.to_csv(results / "sanitizer.csv", index=False)
    (results / "sanitizer.log").write_text("ERROR SUMMARY: 0 errors\n")
    pack(results, packed)
    assert {"sanitizer.csv", "sanitizer.log"} <= set(sums(packed))
    found.assign(kernel_sha256="c" * 64).to_csv(results / "sanitizer.csv", index=False)
    names = ", ".join(sorted(("frontier", *OPERATORS)))
    assert f"the code of {names} has changed since" in refusal(results, tmp_path / "again", capsys)


@pytest.mark.parametrize(
    ("told", "packed_as"),
    [
        ("at /srv/me/clone-2/tests/gpu/test_api.py:297: a", "at tests/gpu/test_api.py:297: a"),
        ("│ /r/experiments/sanitized.py:166 in", "│ experiments/sanitized.py:166 in"),
        ("in /r/tests/experiments/tests/a.py", "in tests/experiments/tests/a.py"),
        ("(/opt/v/lib/python3.12/site-packages/torch/a.so)", "(site-packages/torch/a.so)"),
        ("0x7f in /opt/v/bin/python)", "0x7f in bin/python)"),
        ("kept: /usr/bin/env, /lib/tests/libc.so, kernels/a/tests/b, 1/2",) * 2,
    ],
)
def test_reports_are_packed_without_folders_of_their_machine(
    told: str, packed_as: str, results: Path, packed: Path
):
    (results / "gpu_tests.xml").write_text(f"<a>{told}</a>{told}\n")
    pack(results, packed)
    assert verify(packed, "gpu_tests.xml").read_text() == f"<a>{packed_as}</a>{packed_as}\n"


def test_the_transformer_is_packed_where_there_are_both_tables(
    results: Path, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trained().to_csv(results / "training.csv", index=False)
    pack(results, packed)
    assert "training.csv" not in sums(packed)
    decoded().to_csv(results / "decoding.csv", index=False)
    pack(results, packed)
    assert set(archive.TRANSFORMER) <= set(sums(packed))
    decoded().assign(code_commit=f"{COMMIT}-dirty").to_csv(results / "decoding.csv", index=False)
    assert "decoding.csv was measured at commit" in refusal(results, tmp_path / "dirty", capsys)
    decoded().assign(kernel_sha256="a" * 64).to_csv(results / "decoding.csv", index=False)
    said = refusal(results, tmp_path / "earlier", capsys)
    assert "decoding.csv was measured with earlier code: measure again" in said
    (results / "decoding.csv").write_text("a\n1\n")
    said = refusal(results, tmp_path / "other", capsys)
    assert "decoding.csv is not what the transformer gives: missing or unknown columns" in said


def test_a_large_archive_is_refused(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
):
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    said = refusal(results, tmp_path, capsys)
    assert "bytes to archive; at most 1,000 are allowed" in said
