"""What a variant of the frontier launches at a place, as a fingerprint, and an archive's record.

    python -m experiments.launched experiments/archive/nvidia-h200

A variant's whole fingerprint (kernels/fingerprint.py) changes with every edit of any of its
regimes.  That of a launch changes where something else is launched at one place.  The command
writes ARCHIVE/launched.csv, and lists it: a line for every place of a row that this code measured.
Lines of other code stay as long as a row carries its fingerprint.  At the commit that measured it
gives the same bytes; an older one needs this file beside its own.
"""

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pandera.pandas as pa
import typer

from experiments.layout import BY_NAME as LAYOUTS
from experiments.layout import CONTIGUOUS, Place
from experiments.listing import SUMS, BadArchive, digest, sums
from experiments.sweeps.sweep import AGAIN
from experiments.tables import PLACE, BadTable, validated
from kernels.cuda_compiler import C_TYPES, PTXAS_OPTIONS, STANDARD, program
from kernels.fingerprint import _cuda, _unparsed, python_sources, sha256_now
from kernels.frontier.plans import LINE, VECTOR_BYTES
from kernels.frontier.select import Request, select
from kernels.names import slug
from kernels.registry import BY_NAME, DTYPES, ELEMENT_BYTES, ROOT

NAME = "launched.csv"
DIGITS = 16
# Whose rows have a place; a first call (first_call.csv) waits for a compiler too.
TABLES = ("accuracy.csv", "layouts.csv", "profile.csv")
# They choose a shape, which counts itself, and hand what frontier.py asks for to program(), and
# keep it.
NOT_LAUNCHING = ("select.py", "compiler.py")
KEY = ["kernel_sha256", "variant", "layout", "dtype", "rows", "cols"]
_text: dict[str, Any] = {"coerce": True, "nullable": False}
LAUNCHED = pa.DataFrameSchema(
    {
        "kernel_sha256": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{64}$"), **_text),
        "variant": pa.Column(str, **_text),
        "layout": pa.Column(str, **_text),
        "dtype": pa.Column(str, pa.Check.isin(DTYPES), **_text),
        "rows": pa.Column(int, pa.Check.ge(1), coerce=True),
        "cols": pa.Column(int, pa.Check.ge(1), coerce=True),
        "launched_sha256": pa.Column(
            str, pa.Check.str_matches(rf"^[0-9a-f]{{{DIGITS}}}$"), **_text
        ),
    },
    unique=KEY,
    strict=True,
    ordered=True,
)


class BadRecord(BadTable):
    """An archive's record of launches is none; the message names the file and what to do."""


class Gpu(NamedTuple):
    """What shapes are chosen for; ``name`` is a slug, ``arch`` 90 for sm_90."""

    name: str
    arch: int
    multiprocessors: int


def gpu_of(facts: Mapping[str, Any]) -> Gpu | None:
    """The GPU of a hardware.json; None where that does not tell."""
    if not {"gpu", "compute_capability", "multiprocessors"} <= set(facts):
        return None
    known = facts["gpu"], facts["compute_capability"], facts["multiprocessors"]
    if not all(known):  # nor of a CPU, nor where NVML did not say
        return None
    major, minor = facts["compute_capability"]
    return Gpu(slug(facts["gpu"]), 10 * major + minor, facts["multiprocessors"])


def places_its_launch(name: str) -> bool:
    """Whether what variant ``name`` launches at a place can be told without a GPU."""
    return name in BY_NAME and BY_NAME[name].framework == "frontier"


@cache
def launched_sha256(name: str, place: Place, gpu: Gpu) -> str:
    """The first digits of a SHA-256 of what variant ``name`` launches at ``place`` on ``gpu``.

    Empty where nothing is launched.  It takes in where rows lie, the shape and its plan, the name
    and the code of the kernel, how it is compiled, and the Python that makes a launch of these:
    the grid, the arguments and how a row is dealt out follow from them.  The tables and the rules
    that chose the shape are left out, since the shape tells what they chose, and so are the cache
    of compiled code and the compiler's version: rows name the environment that they come from.
    What only a caller waits for is not in it.
    """
    if not places_its_launch(name) or place.layout not in LAYOUTS:
        return ""
    variant = BY_NAME[name]
    asked = request(place, gpu, bool(dict(variant.options).get("invariant")))
    try:
        shape = select(asked, gpu.name)
    except ValueError:  # more columns than the sums of an invariant request hold
        return ""
    plan = shape.plan(asked.cols, asked.size, asked.edges)
    told = (
        variant.options, *place[:3], asked.edges, asked.contiguous, asked.lines, gpu.arch,
        gpu.multiprocessors, plan, plan.expression(C_TYPES[asked.dtype]), STANDARD, PTXAS_OPTIONS,
    )  # fmt: skip
    parts = (*map(repr, told), _device_code(plan.file), _host_code(variant.path), _compiling())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def request(place: Place, gpu: Gpu, invariant: bool = False) -> Request:
    """What kernels/frontier/frontier.py asks for at ``place``; torch's memory starts on a line."""
    dtype, rows, cols, name = place
    layout = LAYOUTS[name]
    if rows == 1:  # has no distance to a next one
        layout = replace(layout, gap_x=0, gap_out=0)
    starts = (layout.before_x | cols + layout.gap_x) * ELEMENT_BYTES[dtype]
    return Request(
        dtype, rows, cols, layout.edges(cols, ELEMENT_BYTES[dtype]), layout.contiguous,
        lines=starts % (LINE * VECTOR_BYTES) == 0, arch=gpu.arch,
        multiprocessors=gpu.multiprocessors, invariant=invariant,
    )  # fmt: skip


# Hundreds of places share a few texts.


@cache
def _device_code(path: Path) -> str:
    return _cuda(path)


@cache
def _host_code(path: Path) -> str:
    own = [p for p in python_sources(path) if p.name not in NOT_LAUNCHING]
    return "\n".join(_unparsed(p.read_text()) for p in (*own, ROOT / "prepared.py"))


@cache
def _compiling() -> str:
    return _unparsed(inspect.getsource(program))


def read(path: Path) -> pd.DataFrame:
    """The record in ``path``.  Raises BadRecord."""
    try:
        return validated(LAUNCHED, pd.read_csv(path, dtype={"launched_sha256": str}))
    except (OSError, ValueError) as error:
        why = str(error).strip().splitlines()[0].rstrip(".")
        raise BadRecord(
            f"{path} is no record of launches: {why}: check the archive out again"
        ) from error


def record(folder: Path, earlier: Path | None = None) -> pd.DataFrame:
    """The record of the archive ``folder``: what the file ``earlier`` has of its rows stays.

    What else today's code measured is told by what it launches.  A fingerprint of the whole leaves
    out the Python that all variants share, so that today's is no reason to tell an old row anew.
    Raises BadRecord.
    """
    rows = _measured(folder)
    gpu = gpu_of(json.loads((folder / "hardware.json").read_text()))
    mine = rows["variant"].map(sha256_now) == rows["kernel_sha256"]
    now = rows[mine].assign(launched_sha256=[
        launched_sha256(r.variant, Place(r.dtype, r.rows, r.cols, r.layout), gpu) if gpu else ""
        for r in rows[mine].itertuples()
    ])  # fmt: skip
    known = [now[now["launched_sha256"] != ""]]
    if earlier and earlier.exists():
        known.insert(0, read(earlier).merge(rows, on=KEY))
    table = pd.concat(known)[list(LAUNCHED.columns)].drop_duplicates(KEY)
    return table.sort_values(KEY)


def _refuse_unless_the_same(table: pd.DataFrame, folder: Path) -> None:
    """Raise BadRecord where ``table`` has another launch than what this code tells of a row."""
    told = table.merge(record(folder), on=KEY)
    if other := int((told["launched_sha256_x"] != told["launched_sha256_y"]).sum()):
        raise BadRecord(
            f"{folder / NAME} has other launches than this code's at {other} of {len(told)} places "
            "that it measured: it stays as it is; run the commit that measured, or measure again"
        )


def _measured(folder: Path) -> pd.DataFrame:
    """Fingerprint, variant and place of the frontier's rows in ``folder``, each once."""
    every = pd.concat([pd.DataFrame(columns=KEY), *_places(folder)])
    return every.drop_duplicates().astype({"rows": int, "cols": int})


def _places(folder: Path) -> Iterator[pd.DataFrame]:
    for path in (*sorted(folder.glob("raw/*.csv.gz")), *(folder / name for name in TABLES)):
        if path.exists():
            table = pd.read_csv(path, usecols=lambda name: name in KEY)
            if {"kernel_sha256", *PLACE[:3]} <= set(table):
                table["variant"] = table["variant"].str.removesuffix(AGAIN)
                mine = table[table["variant"].map(places_its_launch)]
                yield (mine if "layout" in mine else mine.assign(layout=CONTIGUOUS))[KEY]


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write a record into the archive ``folder``."""
    table.to_csv(folder / NAME, index=False)


def main(folder: Annotated[Path, typer.Argument(help="experiments/archive/<gpu>")]) -> None:
    """Write into an archive what this code launched where it was measured, and list it."""
    try:
        listed = sums(folder)
        table = record(folder, folder / NAME)
        _refuse_unless_the_same(table, folder)
    except (BadArchive, BadRecord, OSError) as error:
        print(error)
        raise typer.Exit(2) from error
    mine = int((table["variant"].map(sha256_now) == table["kernel_sha256"]).sum())
    if table.empty:
        print(f"{folder} has no row of the frontier's that this code measured")
        raise typer.Exit(2)
    write(table, folder)
    listed[NAME] = digest(folder / NAME)
    (folder / SUMS).write_text("".join(f"{sha}  {name}\n" for name, sha in listed.items()))
    print(f"{folder / NAME}: {len(table)} lines, {mine} of them of this code")


if __name__ == "__main__":
    typer.run(main)
