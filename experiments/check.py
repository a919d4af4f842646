"""Is an output a softmax, or the largest of one?  Against float64, element by element, relatively.

Absolute tolerances are blind at large N, where every output is small: all zeros lie within 1e-2 of
a softmax of normal input over 50,257 columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.outputs import Output, TopK

# (relative, floor): |y - ref| <= max(relative * |ref|, floor).  The floors are the smallest normal
# number, below which GPUs may flush to zero, and for fp16 its smallest step.
TOLERANCE = {
    torch.float32: (2e-5, 2.0**-126),
    torch.bfloat16: (1e-2, 2.0**-126),
    torch.float16: (2e-3, 2.0**-24),
}
CHUNK_ELEMENTS = 2**26
# A reference that takes no more than 4 GiB is kept for the next output.
KEPT_ELEMENTS = 2**28


@dataclass(frozen=True)
class Verdict:
    """The largest relative error, the largest error of a row's sum, and why it is wrong, if so.

    Of a top-k the sum is that of its k values.
    """

    max_rel_err: float
    row_sum_err: float
    reason: str

    @property
    def ok(self) -> bool:
        return not self.reason


def planted(rows: int, cols: int, dtype: torch.dtype, device: str, seed: int) -> Tensor:
    """Normal input (rows, cols); in every tenth row a few values are 20 times larger.

    Without the outliers every output is near 1/cols and a wrong normaliser hides.
    """
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(rows, cols, dtype=dtype, device=device)
    x.normal_(generator=generator)
    loud = x[:: 10 if rows >= 10 else 1]
    few = min(4, cols)
    at = torch.randint(cols, (loud.shape[0], few), generator=generator, device=device)
    # Distinct columns a row: scatter of a product would depend on which duplicate came last.
    at = (at[:, :1] + torch.arange(few, device=device) * max(1, cols // few)) % cols
    loud.scatter_(1, at, loud.gather(1, at) * 20)
    return x


class Reference:
    """The float64 softmax of ``x`` (rows, cols), to compare any number of outputs with."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self._bits = _bit_sum(x)
        self._kept: list[tuple[int, Tensor]] = []
        self._kept_scaled: list[tuple[int, Tensor, Tensor]] = []

    def unchanged(self) -> bool:
        """Whether ``x`` still holds what it held at first."""
        return bool(torch.equal(self._bits, _bit_sum(self.x)))

    def check(self, y: Output) -> Verdict:
        """Compare ``y``, of the shape and dtype of ``x`` or a TopK, with the softmax."""
        if isinstance(y, TopK):
            return self._check_top(y)
        relative, floor = TOLERANCE[self.x.dtype]
        worst, worst_sum, reason = 0.0, 0.0, ""
        for start, scale, target in self._scaled(floor / relative):
            got = y[start : start + target.shape[0]]
            sums = got.sum(dim=1, dtype=torch.float64).sub_(1).abs_()
            strange = _strange_row(target, got, sums)
            if strange is not None:
                worst = torch.inf
                reason = reason or f"row {start + strange} is finite or NaN where it should not be"
            # At 2^28 elements each operation is a trip through memory.
            error = torch.mul(got, scale).sub_(target)
            # Rows that are NaN by torch's rules are NaN in both, and have no error.
            worst = max(worst, _largest_magnitude(error))
            worst_sum = max(worst_sum, _largest_magnitude(sums))
        # Roundings of N outputs add up at most to one relative tolerance of the sum, which is 1,
        # and to what falls below the floor.
        sum_bound = relative + (floor * y.shape[1] if y.dtype == torch.float16 else 0.0)
        if not reason and worst > relative:
            reason = f"relative error {worst:.3g} exceeds {relative:g}"
        if not reason and worst_sum > sum_bound:
            reason = f"a row sums to 1 with error {worst_sum:.3g}, more than {sum_bound:.3g}"
        return Verdict(worst, worst_sum, reason)

    def _check_top(self, top: TopK) -> Verdict:
        """Compare the values with the largest of the softmax, and with what stands at the indices.

        Equal probabilities may take each other's place.
        """
        relative, floor = TOLERANCE[self.x.dtype]
        worst, elsewhere, worst_sum, reason = 0.0, 0.0, 0.0, ""
        for start, ref in self._chunks():
            got, at = (t[start : start + ref.shape[0]] for t in top)
            largest = ref.topk(top.values.shape[1], dim=1).values
            if fault := _fault(ref.shape[1], largest, got, at):
                worst = torch.inf
                reason = reason or f"row {start + fault[0]} {fault[1]}"
                continue
            got = got.double()
            worst = max(worst, _relative_error(got, largest, floor / relative))
            elsewhere = max(elsewhere, _relative_error(got, ref.gather(1, at), floor / relative))
            worst_sum = max(worst_sum, _largest_magnitude((got - largest).sum(dim=1)))
        if not reason and worst > relative:
            reason = f"relative error {worst:.3g} exceeds {relative:g}"
        if not reason and elsewhere > relative:
            reason = f"a value differs by {elsewhere:.3g} from the probability at its index"
        return Verdict(max(worst, elsewhere), worst_sum, reason)

    def _scaled(self, least: float) -> Iterator[tuple[int, Tensor, Tensor]]:
        """First row of some rows at a time, 1 / max(softmax, ``least``), and softmax times that."""
        if self._kept_scaled:
            yield from self._kept_scaled
            return
        chunks = []
        for start, ref in self._chunks():
            scale = ref.clamp_min(least).reciprocal_()
            chunk = start, scale, ref * scale
            if self.x.numel() <= KEPT_ELEMENTS:
                chunks.append(chunk)
            yield chunk
        self._kept_scaled, self._kept = chunks, []

    def _chunks(self) -> Iterator[tuple[int, Tensor]]:
        """First row and softmax of some rows at a time."""
        if self._kept:
            yield from self._kept
            return
        rows, cols = self.x.shape
        step = max(1, CHUNK_ELEMENTS // max(1, cols))
        chunks = []
        for start in range(0, rows, step):
            chunk = start, torch.softmax(self.x[start : start + step].double(), dim=-1)
            if self.x.numel() <= KEPT_ELEMENTS:
                chunks.append(chunk)
            yield chunk
        self._kept = chunks  # only when whole: memory may run out on the way


def check(x: Tensor, y: Output) -> Verdict:
    """Compare ``y`` with the float64 softmax of ``x`` (both (rows, cols), one dtype), or a TopK."""
    return Reference(x).check(y)


def _bit_sum(x: Tensor) -> Tensor:
    """The sum of the elements' bit patterns: equal for equal tensors, NaN and all."""
    integers = {2: torch.int16, 4: torch.int32}[x.element_size()]
    return x.view(integers).sum(dtype=torch.int64)


def _strange_row(ref: Tensor, got: Tensor, sums: Tensor) -> int | None:
    """The first row that is finite in one and not in the other; sums tell where to look."""
    odd = ~sums.isfinite()
    odd |= ~ref[:, 0].isfinite()  # a softmax row is NaN throughout or nowhere
    rows = odd.nonzero()[:, 0]
    differs = (ref[rows].isfinite() != got[rows].isfinite()).any(dim=1)
    return int(rows[differs][0]) if bool(differs.any()) else None


def _fault(cols: int, largest: Tensor, got: Tensor, at: Tensor) -> tuple[int, str] | None:
    """The first row whose values and indices are no top-k at all, and why; None without any."""
    columns = at.sort(dim=1).values
    strange = _strange_row(largest, got, got.sum(dim=1))
    for faulty, why in (
        ((at < 0) | (at >= cols), "has an index outside of it"),
        (columns[:, 1:] == columns[:, :-1], "has an index twice"),
        (got[:, 1:] > got[:, :-1], "is not in descending order"),
    ):
        if bool(faulty.any()):
            return int(faulty.any(dim=1).nonzero()[0]), why
    return None if strange is None else (strange, "is finite or NaN where it should not be")


def _relative_error(got: Tensor, expected: Tensor, least: float) -> float:
    return _largest_magnitude((got - expected) / expected.clamp_min(least))


def _largest_magnitude(values: Tensor) -> float:
    """The largest absolute value of what is not NaN."""
    low, high = torch.aminmax(values)
    if bool(high.isnan()):
        low, high = torch.aminmax(values.nan_to_num(0.0, posinf=torch.inf, neginf=-torch.inf))
    return max(float(high), -float(low))


def check_copy(x: Tensor, y: Output) -> Verdict:
    """The ceiling must move every byte: ``y`` equals ``x`` bit for bit."""
    same = isinstance(y, Tensor) and torch.equal(x.view(torch.uint8), y.view(torch.uint8))
    return Verdict(0.0 if same else torch.inf, 0.0, "" if same else "the copy differs")
