"""A verdict for every claim of the five publications and of our own, from one source.

    python -m experiments.claims --raw-dir results/archive-nvidia-h200/raw \
        --goals results/archive-nvidia-h200/goals.csv \
        --source archive-nvidia-h200 --out claims.csv --table claims.md

Exits with 1, after writing both files, where the archive (--against its claims.csv) supports a
claim that the same GPU model refutes here.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pandera.pandas as pa
import typer

from experiments.claim import CLAIMS_FILE, BadClaims, Claim, read_claims
from experiments.counts import read_counts, whole
from experiments.estimate import Beside, Estimate
from experiments.hardware import gpu_of
from experiments.markdown import head, line
from experiments.outcomes import between, read_outcomes
from experiments.own import KIND, PUBLICATION, own
from experiments.recorded import recorded_sweep
from experiments.tables import BadTable, read_judged, reading, validated
from experiments.verdict import VERDICTS, assess
from kernels.registry import ARCHITECTURES

_text = pa.Column(str, coerce=True)
_real = pa.Column(float, coerce=True, nullable=True)
_count = pa.Column(int, pa.Check.ge(0), coerce=True)

# One row a claim: results/<source>/claims.csv.  A crossover of 0 columns is one for all of a
# sweep, an infinite one is for none of it.  Of our own claims (experiments/own.py) the value is
# that of the place nearest to a miss, from low to high are those of all places, points are places.
CLAIMS = pa.DataFrameSchema(
    {
        "source": _text,
        "id": pa.Column(str, unique=True, coerce=True),
        "publication": _text,
        "place": _text,
        "statement": _text,
        "kind": _text,
        "measured": _text,
        "condition": _text,
        "carries_over": pa.Column(bool, coerce=True),
        "value": _real,
        "low": _real,
        "high": _real,
        "noise": _real,
        "n_points": _count,
        "n_asked": _count,
        "n_blocks": _count,
        "verdict": pa.Column(str, pa.Check.isin(VERDICTS), coerce=True),
        "reason": _text,
        "archived": pa.Column(str, pa.Check.isin(("", *VERDICTS)), coerce=True),
    },
    strict=True,
    ordered=True,
)
BUILD = Path("results/build")
NOTHING = Estimate(
    value=math.nan, low=math.nan, high=math.nan, near=(math.nan, math.nan), noise=math.nan,
    n_points=0, n_asked=0, note="",
)  # fmt: skip


def evaluate(
    claims: Iterable[Claim],
    raw_dir: Path,
    source: str,
    build_dir: Path = BUILD,
    tidy_dir: Path | None = None,
    profile: Path | None = None,
) -> pd.DataFrame:
    """The CLAIMS table of ``source``; ``tidy_dir`` spares tidying the raw files again.

    ``profile`` is what ncu counted, if it did.

    Raises BadTable, which names the file that is none of this project.
    """
    claims = tuple(claims)
    sweeps = sorted({c.measure.sweep for c in claims if c.measure.sweep})
    recorded = {sweep: recorded_sweep(sweep, raw_dir, tidy_dir) for sweep in sweeps}
    beside = Beside(_resources(build_dir), _counts(profile) if profile else None)
    rows = []
    for claim in claims:
        verdict = assess(claim, recorded.get(claim.measure.sweep), beside, gpu_of(source))
        found = verdict.estimate or NOTHING
        rows.append(
            {
                "source": source, "id": claim.id, "publication": claim.publication,
                "place": claim.place, "statement": claim.statement,
                "kind": claim.measure.kind, "measured": str(claim.measure),
                "condition": claim.condition.text, "carries_over": claim.carries_over,
                "value": found.value, "low": found.low, "high": found.high,
                "noise": found.noise, "n_points": found.n_points, "n_asked": found.n_asked,
                "n_blocks": found.n_blocks,
                "verdict": verdict.verdict, "reason": verdict.reason, "archived": "",
            }
        )  # fmt: skip
    return validated(CLAIMS, pd.DataFrame(rows))


def _resources(build_dir: Path) -> pd.DataFrame | None:
    paths = [build_dir / arch / "resources.csv" for arch in ARCHITECTURES]
    tables = [pd.read_csv(path) for path in paths if path.exists()]
    return pd.concat(tables, ignore_index=True) if tables else None


def _counts(path: Path) -> pd.DataFrame:
    with reading(path):
        return whole(read_counts(path))


def read_verdicts(path: Path) -> pd.DataFrame:
    """The CLAIMS table in ``path``.  Raises BadTable where it is none."""
    return read_judged(path, CLAIMS, "verdicts")


def overlay(table: pd.DataFrame, archive: pd.DataFrame) -> pd.DataFrame:
    """``table`` with the verdicts of ``archive``, another CLAIMS table, in the column archived."""
    verdicts = archive.set_index("id")["verdict"]
    return table.assign(archived=table["id"].map(verdicts).fillna(""))


def changed(table: pd.DataFrame, archive: pd.DataFrame) -> list[str]:
    """The claims that ``archive`` supports and ``table`` refutes, if of one GPU model.

    Only of those measured at as many points: a quick run's thinner grid asks another question.
    """
    if {gpu_of(s) for s in table["source"]} != {gpu_of(s) for s in archive["source"]}:
        return []
    over = overlay(table, archive)
    gone = (over["archived"] == "supported") & (over["verdict"] == "refuted")
    gone &= over["id"].map(archive.set_index("id")["n_points"]) == over["n_points"]
    return over.loc[gone, "id"].tolist()


def by_author(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of the publications' claims and those of our own, each with words for whose."""
    mine = table["publication"] == PUBLICATION
    yield from ((whose, some) for whose, some in (("", table[~mine]), (" of our own", table[mine]))
                if len(some))  # fmt: skip


def markdown(table: pd.DataFrame, archive_source: str = "") -> str:
    """A CLAIMS table for people; ``archive_source`` names whose verdicts stand beside it."""
    parts = (_lines(some, whose, archive_source) for whose, some in by_author(table))
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _lines(table: pd.DataFrame, whose: str, archive_source: str) -> list[str]:
    heads = ["id", "from", "claim", "measured", "holds if", "value", "verdict"]
    heads += [archive_source] if archive_source else []
    lines = [_sum(table, whose), "", *head(heads)]
    for row in table.to_dict("records"):
        publication = f"{row['publication']}, {row['place']}"
        cells = [row["id"], publication, row["statement"], row["measured"], row["condition"]]
        cells += [value_text(row), verdict_text(row)]
        lines.append(line(cells + ([row["archived"]] if archive_source else [])))
    return lines


def _sum(table: pd.DataFrame, whose: str) -> str:
    counts = table["verdict"].value_counts()
    told = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if v in counts)
    noun = "claim" if len(table) == 1 else "claims"
    return f"{len(table)} {noun}{whose} on {table['source'].iloc[0]}: {told}."


def verdict_text(row: dict[str, Any]) -> str:
    """The verdict, and why there is none or at how few points; of our own at which places."""
    verdict = f"**{row['verdict']}**"
    if row["verdict"] not in ("supported", "refuted") or row["kind"] == KIND:
        verdict += f": {row['reason']}"
    elif row["n_points"] < row["n_asked"]:
        verdict += f" at {row['n_points']} of {row['n_asked']} points"
    return verdict


def value_text(row: dict[str, Any]) -> str:
    """The value and its interval, as '1.027 [1.025, 1.030]'; of our own those of all places."""
    if row["kind"] == KIND:
        return between(row["low"], row["high"])
    value, low, high = (_number(row[k], row["kind"]) for k in ("value", "low", "high"))
    return f"{value} [{low}, {high}]" if row["low"] < row["high"] else value


def _number(value: float, kind: str) -> str:
    if math.isnan(value):
        return "–"
    if kind == "crossover" and value in (0, math.inf):
        return "never" if value else "always"
    if 0 < value < 0.001:
        return f"{value:.1e}"
    return f"{value:,.0f}" if value >= 100 or value.is_integer() else f"{value:.3f}"


def main(
    raw_dir: Annotated[Path, typer.Option(help="folder of <sweep>.csv.gz")],
    source: Annotated[str, typer.Option(help="as in local-nvidia-h200 or archive-nvidia-h200")],
    out: Annotated[Path, typer.Option(help="the verdicts as CSV")],
    table: Annotated[Path, typer.Option(help="the verdicts as Markdown")],
    build_dir: Annotated[Path, typer.Option(help="folder of <arch>/resources.csv")] = BUILD,
    tidy_dir: Annotated[Path | None, typer.Option(help="folder of <sweep>.csv, if made")] = None,
    profile: Annotated[Path | None, typer.Option(help="profile.csv, if counted")] = None,
    goals: Annotated[Path | None, typer.Option(help="goals.csv, for our own claims")] = None,
    against: Annotated[Path | None, typer.Option(help="claims.csv of an archive")] = None,
    claims: Annotated[Path, typer.Option(help="what is claimed")] = CLAIMS_FILE,
) -> None:
    """Judge every claim on one source."""
    try:
        verdicts = evaluate(read_claims(claims), raw_dir, source, build_dir, tidy_dir, profile)
        if goals:
            rows = pd.DataFrame(own(read_outcomes(goals)))
            verdicts = validated(CLAIMS, pd.concat([verdicts, rows], ignore_index=True))
        archive = read_verdicts(against) if against else None
    except (BadClaims, BadTable) as error:
        print(error)
        raise typer.Exit(2) from error
    gone: list[str] = []
    if archive is not None:
        verdicts, gone = overlay(verdicts, archive), changed(verdicts, archive)
    text = markdown(verdicts, archive["source"].iloc[0] if archive is not None else "")
    sentence = f"supported by the archive and refuted here, on the same GPU: {', '.join(gone)}"
    if gone:
        text += f"\n{sentence}\n"
    for path in (out, table):
        path.parent.mkdir(parents=True, exist_ok=True)
    verdicts.to_csv(out, index=False)
    table.write_text(text)
    print(*(_sum(some, whose) for whose, some in by_author(verdicts)), sep="\n")
    if gone:
        print(sentence)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
