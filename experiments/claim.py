"""What a claim is: a sentence of a publication, what is measured for it, and when it holds.

claims.yaml holds the claims; workflow/schemas/claims.schema.yaml says which keys each kind takes.

    ratio      speed of a variant over another's, summarised over a region of rows and columns
    fraction   the same over copy, the faster ceiling of each block
    bandwidth  useful GB/s, summarised over a region
    flatness   best useful bandwidth of a region over its worst: 1 is a plateau
    growth     useful bandwidth at the last point of a region over that at its first
    crossover  the fewest columns (or rows) from which on a variant is faster than another
    status     whether a variant is ok, wrong or skipped throughout a region
    error      largest relative error of a variant in a region, or that over another's
    resource   registers or spilled bytes a thread, from the build: needs no GPU
    traffic    bytes that ncu counted to and from DRAM over 2MN, or over another variant's

A region is summarised by its least (min), its most (max) or its geometric mean (mean): a mean of
ratios that names the same winner whichever variant is the denominator.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from experiments.sweeps import SWEEPS
from experiments.tables import DEVICE_TIMERS
from kernels.registry import ARCHITECTURES, BY_NAME, DTYPES

CLAIMS_FILE = Path(__file__).with_name("claims.yaml")
SCHEMA = Path(__file__).parents[1] / "workflow" / "schemas" / "claims.schema.yaml"
# A status is measured as the share of points that have it; a crossover that all points lie
# beyond is one from 0 columns on, and one that none does from infinitely many on.
WORDS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "status": dict.fromkeys(("ok", "wrong", "skipped"), (1.0, 1.0)),
    "crossover": {"always": (0.0, 0.0), "never": (math.inf, math.inf)},
}
EVERY_POINT = ("flatness", "crossover", "status", "error")
OVER = {"min": "least", "max": "most", "mean": "geometric mean"}


class BadClaims(ValueError):
    """A file of claims cannot be used; the message says what came and what is known."""


@dataclass(frozen=True)
class Condition:
    """The values that bear a claim out, from ``low`` to ``high``, both included."""

    text: str
    low: float = -math.inf
    high: float = math.inf
    word: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Any], kind: str) -> "Condition":
        """From its one key in claims.yaml, for a measure of ``kind``; raises BadClaims."""
        ((name, bound),) = given.items()
        words = WORDS.get(kind, {})
        numbers = "" if kind == "status" else "above, below or between"
        if bound not in words if name == "is" else not numbers:
            known = [*filter(None, [numbers]), *(f"'is: {word}'" for word in words)]
            raise BadClaims(
                f"'{name}: {bound}' says nothing of a {kind}; known: {', '.join(known)}"
            )
        if name == "is":
            return cls(f"is {bound}", *words[bound], word=bound)
        if name == "between":
            low, high = bound
            if low > high:
                raise BadClaims(f"between is [{low:,}, {high:,}]; expected [least, most]")
            return cls(f"{low:,} to {high:,}", low, high)
        # The next number after the bound: what is above 1 is not 1.
        if name == "above":
            return cls(f"above {bound:,}", low=math.nextafter(bound, math.inf))
        return cls(f"below {bound:,}", high=math.nextafter(bound, -math.inf))

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def admits(self, low: float, high: float) -> bool:
        """Whether some value from ``low`` to ``high`` holds."""
        return low <= self.high and high >= self.low


@dataclass(frozen=True)
class Measure:
    """What is measured: the keys of claims.yaml, with the defaults of those left out."""

    kind: str
    variant: str
    dtype: str
    sweep: str = ""
    arch: str = ""
    timer: str = "device"
    rows: tuple[float, float] = (0, math.inf)
    cols: tuple[float, float] = (0, math.inf)
    against: str = ""
    over: str = ""
    along: str = "cols"
    quantity: str = ""

    def names(self, ceilings: tuple[str, ...]) -> tuple[str, ...]:
        """The variants that it takes, with ``ceilings`` where a fraction needs them."""
        others = ceilings if self.kind == "fraction" else (self.against,)
        return tuple(filter(None, (self.variant, *others)))

    @property
    def of_every_point(self) -> bool:
        """Whether each point of the region counts for itself: one alone can turn the result."""
        return self.over in ("min", "max") or self.kind in EVERY_POINT

    def covers(self, rows: int, cols: int) -> bool:
        """Whether a tensor of ``rows`` x ``cols`` lies in the region."""
        return self.rows[0] <= rows <= self.rows[1] and self.cols[0] <= cols <= self.cols[1]

    def __str__(self) -> str:
        axes = {"rows": "rows", "cols": "columns"}
        what = {
            "ratio": f"speed of {self.variant} over {self.against}",
            "fraction": f"{self.variant}, fraction of copy",
            "bandwidth": f"{self.variant}, GB/s",
            "flatness": f"{self.variant}, best bandwidth over worst",
            "growth": f"{self.variant}, last bandwidth over first",
            "crossover": f"{axes[self.along]} from which on {self.variant} beats {self.against}",
            "status": f"{self.variant}, status",
            "error": f"largest relative error of {self.variant}"
            + (f" over that of {self.against}" if self.against else ""),
            "resource": f"{self.variant}, {self.quantity.replace('_', ' ')}",
            "traffic": f"DRAM bytes of {self.variant} over "
            + (f"those of {self.against}" if self.against else "2MN"),
        }
        region = [
            f"{low:,}" + ("" if low == high else f" to {high:,}") + f" {axes[axis]}"
            for axis, (low, high) in (("rows", self.rows), ("cols", self.cols))
            if math.isfinite(high)
        ]
        timer = f"{self.timer} time" if self.timer != "device" else ""
        over = OVER.get(self.over, "")
        place = "ncu" if self.kind == "traffic" else self.sweep or self.arch
        parts = (what[self.kind], over, *region, self.dtype, timer, place)
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class Claim:
    """One claim; ``gpu`` is a part of the only GPU's slug for which it is made, if any."""

    id: str
    publication: str
    place: str
    statement: str
    measure: Measure
    condition: Condition
    carries_over: bool
    because: str = ""
    gpu: str = ""


def read_claims(path: Path = CLAIMS_FILE) -> tuple[Claim, ...]:
    """The claims in ``path``.  Raises BadClaims with the first thing that is not right."""
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BadClaims(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    schema = yaml.safe_load(SCHEMA.read_text())
    if error := next(jsonschema.Draft202012Validator(schema).iter_errors(entries), None):
        raise BadClaims(f"{path}{_place(entries, error)}: {_complaint(error)}")
    claims: list[Claim] = []
    for entry in entries:
        try:
            claims.append(_claim(entry))
            if [c.id for c in claims].count(entry["id"]) > 1:
                raise BadClaims("this id is taken")
        except BadClaims as error:
            raise BadClaims(f"{path}, {entry['id']}: {error}") from error
    return tuple(claims)


def _place(entries: Any, error: jsonschema.ValidationError) -> str:
    if not error.absolute_path:
        return ""
    number = int(error.absolute_path[0])
    entry = entries[number]
    named = isinstance(entry, dict) and entry.get("id")
    return f", {named}" if named else f", entry {number + 1}"


def _complaint(error: jsonschema.ValidationError) -> str:
    key = next((k for k in reversed(error.absolute_path) if isinstance(k, str)), "it")
    schema: Any = error.schema
    found: Any = error.instance
    match error.validator:
        case "additionalProperties":
            known = schema["properties"]
            odd = next(k for k in found if k not in known)
            return f"unknown key '{odd}'; known: {', '.join(known)}"
        case "required":
            missing = next(k for k in schema["required"] if k not in found)
            return f"the key '{missing}' is missing"
        case "enum":
            return f"unknown {key} '{found}'; known: {', '.join(schema['enum'])}"
    return f"{key} is {found!r}; expected {schema.get('description', error.message)}"


def _claim(entry: Mapping[str, Any]) -> Claim:
    given = entry["measure"]
    ranges = {axis: tuple(given[axis]) for axis in ("rows", "cols") if axis in given}
    measure = Measure(**{**given, **ranges})
    condition = Condition.read(entry["condition"], measure.kind)
    _known("variant", measure.variant, BY_NAME)
    _known("dtype", measure.dtype, DTYPES)
    if measure.against:
        _known("variant", measure.against, BY_NAME)
    if measure.kind == "resource":
        _known("arch", measure.arch, ARCHITECTURES)
    elif measure.kind != "traffic":
        _check_sweep(measure)
    return Claim(**{**entry, "measure": measure, "condition": condition})


def _known(what: str, name: str, known: Any) -> None:
    if name not in known:
        raise BadClaims(f"unknown {what} '{name}'; known: {', '.join(known)}")


def _check_sweep(measure: Measure) -> None:
    """Raise BadClaims unless a full run of the sweep measures what is asked for."""
    measured = {name: sweep for name, sweep in SWEEPS.items() if "host" not in sweep.timers}
    _known("sweep", measure.sweep, measured)
    sweep = measured[measure.sweep]
    for name in filter(None, (measure.variant, measure.against)):
        _known(f"variant of {measure.sweep}", name, sweep.variants)
    timers = ["device" if timer in DEVICE_TIMERS else timer for timer in sweep.timers]
    _known(f"timer of {measure.sweep}", measure.timer, timers)
    _known(f"dtype of {measure.sweep}", measure.dtype, sweep.dtypes)
    points = [p for p in sweep.points("full") if p.dtype == measure.dtype]
    if not any(measure.covers(point.rows, point.cols) for point in points):
        raise BadClaims(f"no point of {measure.sweep} lies in its rows and cols")
