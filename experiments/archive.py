"""The archive: recorded runs, an input of the workflow.  Pack one, verify one, take it out.

python -m experiments.archive pack results/local-nvidia-h200 experiments/archive/nvidia-h200
python -m experiments.archive pack --keep ...  (what is as it was recorded)
python -m experiments.archive pack --part ...  (and what was not measured again)
python -m experiments.archive verify experiments/archive/nvidia-h200
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pandas as pd
import pandera.pandas as pa
import typer

from experiments import launched, listing
from experiments.anonymous import copied
from experiments.family import archived, counts
from experiments.family.fingerprint import sha256_by_name
from experiments.family.tables import ACCURACY, COUNTS
from experiments.hardware import environment_sha256, of_sweep
from experiments.sweeps import MODES, SWEEPS
from experiments.sweeps.sweep import AGAIN
from experiments.tables import (
    PLACE,
    POINT,
    PROFILE,
    SANITIZER,
    BadTable,
    read_csv,
    read_raw,
    validated,
)
from experiments.transformer.fingerprint import DECODED, TRAINED
from experiments.transformer.stale import complete, other_code
from experiments.transformer.tables import DECODING, TRAINING
from figures import FAMILY_FIGURES, TABLE_FIGURES
from kernels.fingerprint import sha256_now

MOST_BYTES = 20_000_000
# What an archive holds beside sweeps; and what it may hold.
RECORDS = ("correctness.csv", "gpu_tests.xml", *TABLE_FIGURES.values())
# Of the transformer: the table's columns, and what serves it.
TRANSFORMER = {
    "training.csv": (TRAINING, TRAINED),
    "decoding.csv": (DECODING, DECODED),
}
FAMILY_ACCURACY = FAMILY_FIGURES["operator_accuracy"]
# Of all operators together: the table's columns, and what it is.
FAMILY = {
    FAMILY_ACCURACY: (ACCURACY, "table of operators' errors"),
    counts.FILE: (COUNTS, "table of operators' counts"),
}
OPTIONAL = ("profile.csv", "sanitizer.csv", "sanitizer.log", *TRANSFORMER, *FAMILY)
app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def verify(folder: Path) -> None:
    """Compare every file of an archive with its SHA256SUMS."""
    print(f"{folder}: {len(_verified(folder))} files as recorded")


@app.command()
def ingest(folder: Path, out: Path) -> None:
    """Copy every file of an archive to the folder OUT, if all are as recorded."""
    for name in _verified(folder):
        copy = out / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if name == "hardware.json":
            facts = json.loads((folder / name).read_text())
            facts["source"] = f"archive-{folder.name}"
            copy.write_text(json.dumps(facts, indent=2) + "\n")
        else:
            shutil.copyfile(folder / name, copy)


def _verified(folder: Path) -> list[str]:
    try:
        return listing.verify_all(folder)
    except listing.BadArchive as error:
        print(error)
        raise typer.Exit(2) from error


@app.command()
def pack(
    results: Path,
    folder: Path,
    keep: Annotated[
        bool, typer.Option(help="keep the sweeps of FOLDER whose variants and points are today's")
    ] = False,
    part: Annotated[
        bool,
        typer.Option(
            help="keep, beside those, what RESULTS has not measured, though stale; what neither "
            "has is left out"
        ),
    ] = False,
) -> None:
    """Pack a finished full run in RESULTS into the archive FOLDER, replacing what is there."""
    if not (results / "hardware.json").exists():
        _refuse(f"{results} holds no run: hardware.json is missing; measure first")
    facts = json.loads((results / "hardware.json").read_text())
    if facts["mode"] != "full":
        _refuse(f"{results} is a {facts['mode']} run; an archive holds full runs")
    kept = _kept(folder) if keep or part else {}
    stale = _stale(results, folder, kept) if part else {}
    kept |= stale
    tables = _others(results, folder) if part else _kept_of_family(results, folder) if keep else {}
    operators = _kept_operators(folder, results, stale=part) if keep or part else {}
    sweeps = [name for name in SWEEPS if name != "smoke" and name not in kept]
    names = [f"raw/{name}.csv.gz" for name in sweeps]
    names += ["hardware.json", *(name for name in RECORDS if name not in tables)]
    missing = [name for name in names if not (results / name).exists()]
    if missing and not part:
        _refuse(f"{results} lacks {', '.join(missing)}: finish the run first")
    names = [name for name in names if name not in missing]
    names += sorted(str(p.relative_to(results)) for p in results.glob("benchmarks/*.tsv"))
    for name in (n for n in names if n.startswith("raw/")):
        _refuse_unless_whole(results / name, facts)
    for name in archived.measured(results):
        if fault := archived.fault(results / archived.samples(name), name, facts):
            _refuse(fault)
        names.append(archived.samples(name))
    names += ["profile.csv"] if _counted(results / "profile.csv", PROFILE) else []
    sanitized = _counted(results / "sanitizer.csv", SANITIZER)
    names += ["sanitizer.csv", "sanitizer.log"] if sanitized else []
    names += _trained(results)
    names += [name for name, of in FAMILY.items() if _counted(results / name, *of)]
    paths = {name: results / name for name in names}
    kept |= operators
    earlier = kept | tables
    recorded = listing.sums(folder) if earlier else {}
    for name in earlier:
        paths |= {file: folder / file for file in _files(name) if file in recorded}
    for name in (n for n in recorded if part and n.startswith("benchmarks/")):
        paths.setdefault(name, folder / name)  # that of a table has its rule's name
    size = sum(path.stat().st_size for path in paths.values())
    if size > MOST_BYTES:
        _refuse(f"{results} holds {size:,} bytes to archive; at most {MOST_BYTES:,} are allowed")

    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}"))
    for name, path in paths.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        copied(path, new / name)
    as_before = _keep_counts(new, folder) if part else []
    if earlier:
        told = json.dumps({**facts, "earlier": earlier}, indent=2)
        (new / "hardware.json").write_text(told + "\n")
    names = [*paths, *_launched(new, folder)]
    lines = [f"{listing.digest(new / name)}  {name}\n" for name in names]
    (new / listing.SUMS).write_text("".join(lines))
    new.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    print(f"{folder}: {len(names)} files, {size:,} bytes")
    if kept:
        print(f"kept, as measured before: {', '.join(kept)}")
    if stale:
        print(f"stale, with other variants or points than today's: {', '.join(stale)}")
    if as_before:
        print(f"skipped now, and kept as counted before: {', '.join(as_before)}")
    if tables:
        print(f"not made again: {', '.join(tables)}")
    if missing:
        print(f"not measured, and left out: {', '.join(missing)}")
    if gone := sorted(recorded.keys() - {*names}):
        print(f"no longer in the archive, since {results} has none: {', '.join(gone)}")


def _keep_counts(new: Path, folder: Path) -> list[str]:
    """Keep what ``folder`` counted of variants that the profile in ``new`` skips; their names.

    A library that is not installed leaves what was counted of the same code, with its commit.
    """
    path, before = new / "profile.csv", folder / "profile.csv"
    if not (path.exists() and before.exists()):
        return []
    key = ["variant", *PLACE, "kernel_sha256"]
    table, earlier = (validated(PROFILE, read_csv(each)).set_index(key) for each in (path, before))
    counted = earlier[earlier["status"] != "skipped"]
    again = table.index[table["status"] == "skipped"].intersection(counted.index)
    if again.empty:
        return []
    whole = pd.concat([table.drop(again), counted.loc[again]]).loc[table.index].reset_index()
    validated(PROFILE, whole[list(PROFILE.columns)]).to_csv(path, index=False)
    return sorted(set(again.get_level_values("variant")))


def _launched(new: Path, folder: Path) -> list[str]:
    """Write what the rows in ``new`` launched, of what ``folder`` knows too; the file, if any."""
    try:
        table = launched.record(new, folder / launched.NAME)
    except launched.BadRecord as error:
        shutil.rmtree(new)
        _refuse(str(error))
    if table.empty:
        return []
    launched.write(table, new)
    return [launched.NAME]


def current(folder: Path) -> list[str]:
    """The sweeps of the archive ``folder`` that a full run would not measure otherwise today.

    Those that have every block, today's points and timers, and today's variants as their code is
    today; how many samples a block takes does not count.  Raises BadArchive where a file is not
    what was recorded.
    """
    names = listing.sums(folder) if (folder / listing.SUMS).exists() else {}
    known = [sweep for sweep in SWEEPS if f"raw/{sweep}.csv.gz" in names]
    return [sweep for sweep in known if _is_current(folder, sweep)]


def _is_current(folder: Path, name: str) -> bool:
    try:
        raw = read_raw(listing.verify(folder, f"raw/{name}.csv.gz"))
    except BadTable:  # of an earlier schema
        return False
    sweep, variants = SWEEPS[name], raw["variant"].str.removesuffix(AGAIN)
    measured = set(zip(variants, raw["kernel_sha256"], strict=True))
    points = set(raw[POINT].itertuples(index=False, name=None))
    timers = set(raw.loc[raw["status"] == "ok", "timer"].replace("events", "graph"))
    return (
        measured == {(variant, sha256_now(variant)) for variant in sweep.variants}
        and points == {tuple(point) for point in sweep.points("full")}
        and timers == set(sweep.timers)
        and raw["block"].nunique() == MODES["full"]
    )


def _files(name: str) -> tuple[str, ...]:
    """What an archive may hold of a sweep, of another table, or of an operator by its key."""
    stem = Path(name).stem
    return f"raw/{name}.csv.gz", name, archived.samples(stem), f"benchmarks/{stem}.tsv"


def _kept(folder: Path) -> dict[str, dict[str, Any]]:
    """The facts of each sweep that the archive ``folder`` keeps."""
    if not (found := _kept_sweeps(folder)):
        return {}
    facts = json.loads((folder / "hardware.json").read_text())
    kept = {sweep: of_sweep(facts, sweep) for sweep in found}
    for sweep, told in kept.items():
        _refuse_unless_whole(folder / f"raw/{sweep}.csv.gz", told)
    return kept


def _kept_operators(folder: Path, results: Path, stale: bool) -> dict[str, dict[str, Any]]:
    try:
        return archived.kept(folder, results, stale)
    except listing.BadArchive as error:
        _refuse(str(error))


def _stale(results: Path, folder: Path, kept: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The facts of the other sweeps of the archive ``folder`` that ``results`` lacks."""
    names = _verified(folder) if folder.exists() else []
    raws = {sweep: f"raw/{sweep}.csv.gz" for sweep in SWEEPS if sweep not in kept}
    found = [s for s, raw in raws.items() if raw in names and not (results / raw).exists()]
    facts = json.loads((folder / "hardware.json").read_text()) if found else {}
    return {sweep: of_sweep(facts, sweep) for sweep in found}


def _others(results: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """The facts of the other tables of the archive ``folder`` that ``results`` lacks."""
    names = _verified(folder) if folder.exists() else []
    found = [n for n in (*RECORDS, *OPTIONAL) if n in names and not (results / n).exists()]
    facts = json.loads((folder / "hardware.json").read_text()) if found else {}
    return {name: of_sweep(facts, name) for name in found}


def _kept_sweeps(folder: Path) -> list[str]:
    try:
        if found := current(folder):
            listing.verify_all(folder)
    except listing.BadArchive as error:
        _refuse(str(error))
    return found


def _refuse_unless_whole(path: Path, facts: dict[str, Any]) -> None:
    """An archived table holds every block, of one commit, in the environment of hardware.json."""
    raw = read_raw(path)
    if (blocks := raw["block"].nunique()) != MODES["full"]:
        _refuse(f"{path} holds {blocks} blocks; an archive holds {MODES['full']}: finish the run")
    _refuse_unless_current(path, raw.assign(variant=raw["variant"].str.removesuffix(AGAIN)))
    if set(raw["env_sha256"]) != {environment_sha256(facts)}:
        _refuse(f"{path} was measured in another environment than hardware.json tells of")


def _counted(path: Path, schema: pa.DataFrameSchema, what: str = "") -> bool:
    """Whether there are counts to archive; refuses a table that is none, or of other code.

    ``what`` the table is, if its file's name does not say so.
    """
    if not path.exists():
        return False
    try:
        table = validated(schema, read_csv(path))
    except (BadTable, OSError, ValueError) as error:
        what = what or path.stem
        _refuse(f"{path} is not a {what}: {error}: remove it, and make it again")
    if not (table["status"] == "ok").any():
        print(f"{path} counts nothing, and is left out: {table['reason'].iloc[0]}")
        return False
    _refuse_unless_current(path, table.rename(columns={"operator": "variant"}))
    return True


def _kept_of_family(results: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """The facts of each table of FAMILY in the archive ``folder`` that is of today's code."""
    found = {name: facts for name, facts in _others(results, folder).items() if name in FAMILY}
    for name in tuple(found):
        table = read_csv(folder / name)
        if (table["operator"].map(sha256_by_name) != table["kernel_sha256"]).any():
            del found[name]
    return found


def _trained(results: Path) -> list[str]:
    """The tables of the transformer, where there are both; refuses those of other code."""
    names = list(TRANSFORMER)
    if not all((results / name).exists() for name in names):
        return []
    for name, (schema, operators) in TRANSFORMER.items():
        try:
            table = complete(schema, read_csv(results / name))
        except (BadTable, OSError, ValueError) as error:
            _refuse(f"{results / name} is not what the transformer gives: {error}: make it again")
        _refuse_unless_clean(results / name, table)
        if code := other_code(table, operators):
            _refuse(f"{results / name} was measured with {code}: measure again")
    return names


def _refuse_unless_clean(path: Path, table: pd.DataFrame) -> None:
    commits = set(table["code_commit"])
    if len(commits) != 1 or not re.fullmatch(r"[0-9a-f]{40}", min(commits)):
        found = ", ".join(sorted(commits))
        _refuse(f"{path} was measured at commit {found}; expected one clean commit: measure again")


def _refuse_unless_current(path: Path, table: pd.DataFrame) -> None:
    """What is archived was measured at one clean commit, with the variants as they are now."""
    _refuse_unless_clean(path, table)
    measured = set(zip(table["variant"], table["kernel_sha256"], strict=True))
    if stale := sorted({name for name, sha in measured if sha256_by_name(name) != sha}):
        _refuse(f"{path}: the code of {', '.join(stale)} has changed since: measure again")


def _refuse(message: str) -> NoReturn:
    print(message)
    raise typer.Exit(2)


if __name__ == "__main__":
    app()
