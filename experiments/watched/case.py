"""A launch of an operator's kernels that is watched, and the widths that are worth one."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from torch import Tensor

from experiments.family import exact
from experiments.family.operator import in_rows
from kernels.frontier.plans import Plan

# racecheck follows every access to shared memory: columns up to which thresholds are straddled,
# and elements of a tensor, about.
NARROW, ELEMENTS = 20_000, 2**13
# Of a logarithm, whose sum float32 has rounded: torch's is as far off.
NEAR_LOG = 5e-5


@dataclass(frozen=True)
class Case:
    """Something asked of ``rows`` rows of ``cols`` elements of ``dtype``, by the kernels ``plans``.

    ``what`` names the rest, for people.  ``launch`` makes the tensors on a device from a seed,
    launches, and says what is wrong with the results, or the memory around them; '' if nothing is.
    On the CPU torch computes them.
    """

    what: str
    dtype: str
    rows: int
    cols: int
    plans: tuple[Plan, ...]
    launch: Callable[[str, int], str]

    def run(self, seed: int, device: str = "cuda") -> str:
        """What is wrong; '' if nothing is."""
        return self.launch(device, seed)

    def __str__(self) -> str:
        labels = ", ".join(dict.fromkeys(plan.label for plan in self.plans))
        return f"{self.what}, {self.dtype} {self.rows} x {self.cols:,}: {labels}"


def astride(
    shape_of: Callable[[int], Hashable], step: int = 1, most: int = NARROW
) -> list[int]:  # fmt: skip
    """The widths before, at and after each threshold of ``shape_of``: multiples of ``step``."""
    known = {cols: shape_of(cols) for cols in range(step, most + step + 1, step)}
    ends = [cols for cols in known if cols <= most and known[cols] != known.get(cols + step)]
    ends = [cols for cols in ends if cols + step in known]
    return sorted({cols + away * step for cols in ends for away in (-1, 0, 1)} & known.keys())


def rows_of(cols: int, least: int = 2, most: int = 24) -> int:
    """As many rows of ``cols`` as make a small tensor."""
    return max(least, min(most, ELEMENTS // cols))


def softmax_fault(given: Tensor, got: Tensor, dtype: str, log: bool, factor: float = 1.0) -> str:
    """What is wrong with ``factor`` * softmax(``given``), or its logarithm; '' if nothing is."""
    case = in_rows("", dtype, *exact.flat(got).shape)
    if not log:
        return exact.softmax_error(case, given, got, factor).reason
    found = exact.log_softmax_error(case, given, got.double() / factor)
    return replace(found, most=max(found.most, NEAR_LOG)).reason


def differs(what: str, got: Tensor, exact: Tensor, relative: float, absolute: float) -> str:
    """Where ``got`` is not near ``exact`` (float64), NaN beside NaN; '' where it is."""
    wide = got.double()
    odd = ~wide.isclose(exact, rtol=relative, atol=absolute, equal_nan=True)
    if not bool(odd.any()):
        return ""
    at = tuple(int(i) for i in odd.nonzero()[0])
    found = f"{wide[at].item():.6g} where float64 has {exact[at].item():.6g}"
    return f"{int(odd.sum())} of {odd.numel()} {what} are wrong; the first, {at}, is {found}"
