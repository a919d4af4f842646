"""Reading claims.yaml, judging a source by it, and laying the archive beside."""

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from experiments.claim import BadClaims, read_claims
from experiments.claims import (
    CLAIMS,
    changed,
    evaluate,
    markdown,
    overlay,
    read_verdicts,
)
from experiments.hardware import gpu_of
from experiments.tables import BadTable, validated, write_raw
from experiments.tidy import tidy
from experiments.verdict import VERDICTS
from tests.commands import ROOT, module
from tests.experiments.judged import twice
from tests.experiments.places import place
from tests.experiments.raw import Row, blocks, raw

ARCHIVE = ROOT / "experiments" / "archive" / "nvidia-h200"
FASTER: dict[str, Any] = {
    "id": "C01",
    "publication": "S2",
    "place": "results",
    "statement": "The fused kernel is faster | or not.",
    "measure": {
        "kind": "ratio", "sweep": "vocab_scaling", "dtype": "float32", "cols": [1024, 1024],
        "variant": "triton_row", "against": "triton_online", "over": "mean",
    },
    "condition": {"above": 1},
    "carries_over": True,
}  # fmt: skip
CROSSOVER = {
    "kind": "crossover", "sweep": "vocab_scaling", "dtype": "float32",
    "variant": "triton_row", "against": "triton_online",
}  # fmt: skip
STATUS = {
    "kind": "status", "sweep": "vocab_scaling", "dtype": "float32", "variant": "triton_row",
}  # fmt: skip
TRAFFIC = {"kind": "traffic", "dtype": "float32", "variant": "triton_row", "over": "max"}
SPILLS = {
    "kind": "resource", "arch": "sm_80", "dtype": "float32", "variant": "triton_row",
    "quantity": "spill_bytes", "over": "max",
}  # fmt: skip


def changes(path: str, value: Any) -> dict[str, Any]:
    """FASTER with the value at ``path`` replaced, or taken away for None."""
    claim = deepcopy(FASTER)
    *outer, key = path.split(".")
    place = claim
    for name in outer:
        place = place[name]
    if value is None:
        del place[key]
    else:
        place[key] = value
    return claim


def written(folder: Path, *claims: Any) -> Path:
    path = folder / "claims.yaml"
    path.write_text(yaml.safe_dump(list(claims)))
    return path


def complaint(folder: Path, *claims: Any) -> str:
    with pytest.raises(BadClaims) as stopped:
        read_claims(written(folder, *claims))
    found = str(stopped.value)
    assert found.startswith(str(folder / "claims.yaml"))
    assert "\n" not in found
    return found.removeprefix(str(folder / "claims.yaml"))


def test_a_claim_is_read(tmp_path: Path):
    (claim,) = read_claims(written(tmp_path, FASTER))
    assert (claim.id, claim.carries_over, claim.because) == ("C01", True, "")
    assert (claim.measure.timer, claim.measure.cols) == ("device", (1024, 1024))
    assert not claim.condition.holds(1.0)
    assert claim.condition.holds(1.0000001)
    assert str(claim.measure) == (
        "speed of triton_row over triton_online, geometric mean, 1,024 columns, float32, "
        "vocab_scaling"
    )


@pytest.mark.parametrize(
    ("claim", "line"),
    [
        (changes("colour", "red"), ", C01: unknown key 'colour'; known: id, publication, place"),
        (changes("measure.colour", "red"), ", C01: unknown key 'colour'; known: kind, sweep"),
        (changes("measure.kind", "ratoi"), ", C01: unknown kind 'ratoi'; known: ratio, fraction"),
        (changes("measure.kind", None), ", C01: the key 'kind' is missing"),
        (changes("measure.over", None), ", C01: the key 'over' is missing"),
        (changes("measure.over", "sum"), ", C01: unknown over 'sum'; known: min, max, mean"),
        (changes("measure.cols", [1]), ", C01: cols is [1]; expected [least, most]"),
        (changes("measure.variant", "triton_rwo"), "C01: unknown variant 'triton_rwo'; known: cop"),
        (changes("measure.against", "cuda"), ", C01: unknown variant 'cuda'; known: copy_torch"),
        (changes("measure.variant", "cuda_warp_row"), "unknown variant of vocab_scaling 'cuda_w"),
        (changes("measure.sweep", "vocab"), ", C01: unknown sweep 'vocab'; known: vocab_scaling"),
        (changes("measure.sweep", "smoke"), ", C01: unknown sweep 'smoke'; known: vocab_scaling"),
        (changes("measure.dtype", "float8"), ", C01: unknown dtype 'float8'; known: float32"),
        (changes("measure.timer", "call"), "unknown timer of vocab_scaling 'call'; known: device"),
        (changes("measure.cols", [3, 5]), "no point of vocab_scaling lies in its rows and cols"),
        # 2^29 bytes of float16, and not of float32, are 262,144 rows of 1024.
        (changes("measure.rows", [262_144, 262_144]), "no point of vocab_scaling lies in its rows"),
        (changes("condition", {}), ", C01: condition is {}; expected one of above, below"),
        (changes("condition", {"over": 1}), "unknown key 'over'; known: above, below, between, is"),
        (changes("condition", {"above": "1"}), ", C01: above is '1'; expected a number"),
        (changes("condition", {"between": [2, 1]}), "between is [2, 1]; expected [least, most]"),
        (changes("condition", {"is": "ok"}), "'is: ok' says nothing of a ratio; known: above"),
        (changes("carries_over", False), ", C01: the key 'because' is missing"),
        (changes("publication", "S6"), ", C01: unknown publication 'S6'; known: S1, S2"),
        (changes("id", "one"), ", one: id is 'one'; expected C and two digits"),
        ({**FASTER, "measure": CROSSOVER, "condition": {"is": "ok"}}, "is: always', 'is: never'"),
        ({**FASTER, "measure": STATUS}, "'above: 1' says nothing of a status; known: 'is: ok'"),
        ({**FASTER, "measure": {**SPILLS, "arch": "sm_1"}}, "unknown arch 'sm_1'; known: sm_80"),
        ({**FASTER, "measure": {**TRAFFIC, "sweep": "topk"}}, ", C01: unknown key 'sweep'; "),
        ({**FASTER, "measure": {**TRAFFIC, "against": "cuda"}}, ", C01: unknown variant 'cuda'; "),
        ("C01", ", entry 1: it is 'C01'; expected "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_lists_what_is_known(claim: Any, line: str, tmp_path: Path):
    assert line in complaint(tmp_path, claim)


def test_an_id_is_given_once(tmp_path: Path):
    assert complaint(tmp_path, FASTER, FASTER) == ", C01: this id is taken"


@pytest.mark.parametrize("text", ["", "- id: [", "a: 1"])
def test_what_is_no_list_of_claims_is_named(text: str, tmp_path: Path):
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with pytest.raises(BadClaims, match=r"claims\.yaml") as stopped:
        read_claims(path)
    assert "\n" not in str(stopped.value)


def test_every_shipped_claim_has_a_verdict_on_the_archive():
    claims = read_claims()
    build, profile = ROOT / "results" / "build", ARCHIVE / "profile.csv"
    table = evaluate(claims, ARCHIVE / "raw", "archive-nvidia-h200", build, profile=profile)
    assert table["id"].tolist() == [claim.id for claim in claims]
    assert set(table["publication"]) == {"S1", "S2", "S3", "S4", "S5", "arXiv:1805.02867"}
    judged = table["verdict"].isin(["supported", "refuted", "inconclusive", "stale"])
    assert table.loc[judged, ["value", "low", "high"]].notna().all(axis=None)
    assert (table.loc[judged, "low"] <= table.loc[judged, "high"]).all()
    assert (table["reason"] != "").all()
    assert judged[table["kind"] == "traffic"].all()
    assert markdown(table).count("\n") == len(claims) + 4


def rows(ns: float) -> list[Row]:
    """triton_row in ``ns`` and triton_online in 100 ns."""
    where = {"sweep": "vocab_scaling", "cols": 1024}
    mine = blocks("triton_row", ns, ns, ns, **where)
    other = blocks("triton_online", 100, 100, 100, **where)
    return [*mine, *other, *twice(cols=(1024,), sweep="vocab_scaling")]


def measured(folder: Path, ns: float) -> Path:
    """A folder of raw files that holds one sweep."""
    folder.mkdir()
    write_raw(raw(*rows(ns)), folder / "vocab_scaling.csv.gz")
    return folder


def judged(folder: Path, ns: float, source: str, *claims: Any) -> pd.DataFrame:
    found = read_claims(written(folder, *(claims or (FASTER,))))
    return evaluate(found, measured(folder / f"raw{ns}", ns), source, folder)


def test_a_source_is_judged(tmp_path: Path):
    small = {**FASTER, "id": "C02", "measure": {**FASTER["measure"], "sweep": "batch_scaling"}}
    never = {**FASTER, "id": "C03", "measure": CROSSOVER, "condition": {"is": "never"}}
    spills = {**FASTER, "id": "C04", "measure": SPILLS}
    table = judged(tmp_path, 200, "local-test-gpu", FASTER, small, never, spills)
    assert table["verdict"].tolist() == [
        "refuted", "not applicable", "inconclusive", "not applicable",
    ]  # fmt: skip
    assert table["value"].tolist()[::2] == [0.5, math.inf]
    assert table["reason"].tolist()[1::2] == [
        "batch_scaling was not measured", "not built for sm_80",
    ]  # fmt: skip
    assert set(table["source"]) == {"local-test-gpu"}


def test_a_tidy_table_says_the_same_as_tidying(tmp_path: Path):
    anew = judged(tmp_path, 50, "local-test-gpu")
    tidy(raw(*rows(50))).to_csv(tmp_path / "vocab_scaling.csv", index=False)
    claims = read_claims(tmp_path / "claims.yaml")
    kept = evaluate(claims, tmp_path / "raw50", "local-test-gpu", tmp_path, tmp_path)
    pd.testing.assert_frame_equal(anew, kept)


@pytest.mark.parametrize(
    ("source", "gpu"),
    [
        ("local-nvidia-h200", "nvidia-h200"),
        ("local-nvidia-h200-quick", "nvidia-h200"),
        ("archive-nvidia-a100-sxm4-80gb", "nvidia-a100-sxm4-80gb"),
    ],
)
def test_the_gpu_of_a_source(source: str, gpu: str):
    assert gpu_of(source) == gpu


@pytest.mark.parametrize(
    ("archived_ns", "here_ns", "here", "gone"),
    [
        (50, 200, "local-test-gpu", ["C01"]),
        (50, 200, "local-test-gpu-quick", ["C01"]),
        (50, 200, "local-other-gpu", []),
        (50, 50, "local-test-gpu", []),
        (200, 50, "local-test-gpu", []),
        (200, 200, "local-test-gpu", []),
        (50, 100, "local-test-gpu", ["C01"]),
    ],
)
def test_what_the_archive_supports_and_this_gpu_refutes(
    archived_ns: float, here_ns: float, here: str, gone: list[str], tmp_path: Path
):
    (tmp_path / "archive").mkdir()
    archived = judged(tmp_path / "archive", archived_ns, "archive-test-gpu")
    table = judged(tmp_path, here_ns, here)
    assert changed(table, archived) == gone
    assert overlay(table, archived)["archived"].tolist() == archived["verdict"].tolist()


@pytest.mark.parametrize("verdict", VERDICTS)
def test_only_a_refuted_claim_is_lost(verdict: str, tmp_path: Path):
    table = judged(tmp_path, 50, "local-test-gpu")
    archived = table.assign(source="archive-test-gpu")
    assert changed(table.assign(verdict=verdict), archived) == ["C01"] * (verdict == "refuted")


def test_a_thinner_grid_loses_nothing(tmp_path: Path):
    table = judged(tmp_path, 200, "local-test-gpu")
    archived = table.assign(source="archive-test-gpu", verdict="supported")
    assert changed(table, archived) == ["C01"]
    assert changed(table, archived.assign(n_points=7)) == []


def test_a_claim_that_the_archive_lacks_has_no_archived_verdict(tmp_path: Path):
    (tmp_path / "archive").mkdir()
    archived = judged(tmp_path / "archive", 50, "archive-test-gpu")
    both = judged(tmp_path, 200, "local-test-gpu", FASTER, {**FASTER, "id": "C02"})
    assert changed(both, archived) == ["C01"]
    assert overlay(both, archived)["archived"].tolist() == ["supported", ""]


def command(folder: Path, source: str, ns: float, *more: str | Path) -> tuple[int, list[str]]:
    """Exit code and lines of the command on a source where triton_row takes ``ns``."""
    folder.mkdir()
    done = module(
        "experiments.claims", "--raw-dir", measured(folder / "raw", ns), "--source", source,
        "--claims", written(folder, FASTER), "--build-dir", folder,
        "--out", folder / "claims.csv", "--table", folder / "claims.md", *more,
    )  # fmt: skip
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout.splitlines()


def test_the_command_ends_with_1_where_a_verdict_is_lost(tmp_path: Path):
    first = command(tmp_path / "archive", "archive-test-gpu", 50)
    assert first == (0, ["1 claim on archive-test-gpu: 1 supported."])
    against = ("--against", tmp_path / "archive" / "claims.csv")

    code, lines = command(tmp_path / "same", "local-test-gpu", 200, *against)
    sentence = "supported by the archive and refuted here, on the same GPU: C01"
    assert (code, lines[-1]) == (1, sentence)
    table = read_verdicts(tmp_path / "same" / "claims.csv")
    assert table[["verdict", "archived"]].to_numpy().tolist() == [["refuted", "supported"]]
    text = (tmp_path / "same" / "claims.md").read_text()
    assert text.endswith(f"{sentence}\n")
    assert "| archive-test-gpu |" in text
    assert r"faster \| or not." in text

    assert command(tmp_path / "other", "local-other-gpu", 200, *against)[0] == 0
    assert command(tmp_path / "kept", "local-test-gpu", 50, *against)[0] == 0


def test_the_command_names_what_it_cannot_use(tmp_path: Path):
    code, lines = command(tmp_path / "one", "local-test-gpu", 50, "--against", __file__)
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith(__file__)
    claims = written(tmp_path, changes("measure.variant", "none"))
    code, lines = command(tmp_path / "two", "local-test-gpu", 50, "--claims", claims)
    assert (code, len(lines)) == (2, 1)
    assert not (tmp_path / "two" / "claims.csv").exists()


def test_a_damaged_raw_file_is_named(tmp_path: Path):
    claims = read_claims(written(tmp_path, FASTER))
    path = measured(tmp_path / "raw", 50) / "vocab_scaling.csv.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadTable, match=f"{path} is not a table"):
        evaluate(claims, path.parent, "local-test-gpu", tmp_path)


def test_the_table_comes_back_as_it_was(tmp_path: Path):
    table = judged(tmp_path, 50, "local-test-gpu")
    table.to_csv(tmp_path / "claims.csv", index=False)
    pd.testing.assert_frame_equal(read_verdicts(tmp_path / "claims.csv"), table)
    with pytest.raises(BadTable, match="verdict"):
        validated(CLAIMS, table.assign(verdict="perhaps"))
    assert set(table["verdict"]) <= set(VERDICTS)


def test_our_own_claims_stand_below_those_of_the_publications(tmp_path: Path):
    table = pd.DataFrame([place("met"), place("missed")])
    table.to_csv(tmp_path / "goals.csv", index=False)
    code, lines = command(tmp_path / "it", "local-test-gpu", 50, "--goals", tmp_path / "goals.csv")
    published = "1 claim on local-test-gpu: 1 supported."
    mine = "1 claim of our own on local-test-gpu: 1 refuted."
    assert (code, lines) == (0, [published, mine])
    text = (tmp_path / "it" / "claims.md").read_text()
    assert text.startswith(published)
    assert f"\n\n{mine}\n\n| id |" in text
    assert "| G1.1 | own, goal 1 |" in text
    kept = read_verdicts(tmp_path / "it" / "claims.csv")
    assert kept["publication"].tolist() == ["S2", "own"]
    # Lost as the publications' are, where the archive supports it.
    pd.DataFrame([place("met")] * 2).to_csv(tmp_path / "better.csv", index=False)
    command(tmp_path / "there", "archive-test-gpu", 50, "--goals", tmp_path / "better.csv")
    code, lines = command(
        tmp_path / "again", "local-test-gpu", 50, "--goals", tmp_path / "goals.csv",
        "--against", tmp_path / "there" / "claims.csv",
    )  # fmt: skip
    assert (code, lines[-1]) == (
        1, "supported by the archive and refuted here, on the same GPU: G1.1"
    )  # fmt: skip
    code, lines = command(tmp_path / "odd", "local-test-gpu", 50, "--goals", __file__)
    assert (code, len(lines)) == (2, 1)
