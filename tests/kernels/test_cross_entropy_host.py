"""The cross-entropy's kernels, run by this machine's compiler: right against float64, anywhere."""

import ctypes
import shutil
import struct
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels.cuda_compiler import C_TYPES
from kernels.frontier.cross_entropy import Terms, edges_of
from kernels.frontier.cross_entropy_plans import (
    SCALE,
    TARGETS,
    CrossEntropyPlan,
    plan_of,
)
from kernels.frontier.plans import ALIKE, APART, NONE, VECTOR_BYTES, Shape
from kernels.registry import ELEMENT_BYTES
from tests.kernels.frontier_host import HERE, KINDS, in_cpp, layouts
from tests.kernels.host import library

ROWS = 11
NEAR = {"float32": 2e-5, "bfloat16": 8e-3}  # of gradients; losses are float32 of both
SHAPES = {
    "warp": (Shape("warp", (32, 64)), (1, 7, 64, 250)),
    "block": (Shape("block", (64, 1)), (63, 256, 900)),
    "cluster": (Shape("cluster", (32, 4, 1)), (63, 1024)),
    "stream": (Shape("stream", (64, 1)), (63, 1024, 1003)),
    "stream in a cluster": (Shape("stream", (32, 4)), (63, 1024)),
}
LOSSES_ALONE = ("warp", "stream")  # the regimes that can go without a gradient
CALL = """extern "C" void call{number}(
        int blocks, int threads, const {t} *x, {t} *grad, const void *targets, const float *weight,
        float *loss, float *lse, long long x_stride, long long grad_stride, int cols,
        long long rows, Terms *terms) {{
    launch(blocks, threads, [=] {{
        {kernel}(x, grad, ({index} *)targets, weight, loss, lse, x_stride, grad_stride, cols, rows,
                 *terms);
    }});
}}
"""
IGNORED = -100
TERMS = (
    Terms(IGNORED, 0.0, 0.0, False),
    Terms(IGNORED, 0.1, 0.0, True),
    Terms(IGNORED, 0.0, 1e-2, True),
    Terms(0, 0.25, 1e-3, False),
)


class Row(NamedTuple):
    """What a launch gives, in float64, and what its gradients may be off by."""

    loss: Tensor
    lse: Tensor
    grad: Tensor


def exact(x: Tensor, target: Tensor, weight: Tensor | None, terms: Terms) -> Row:
    """By torch; where the target is no class, NaN."""
    wide, cols = x.double().requires_grad_(), x.shape[1]
    ignored = target == terms.ignore_index
    wrong = ~ignored & ((target < 0) | (target >= cols))
    loss = functional.cross_entropy(
        wide, target.long().masked_fill(wrong, -1).masked_fill(ignored, -1),
        ignore_index=-1, reduction="none", label_smoothing=terms.label_smoothing,
    )  # fmt: skip
    lse = torch.logsumexp(wide, -1)
    if terms.z_loss:
        loss = loss + torch.where(ignored, 0.0, terms.z_loss * lse.square())
    factors = torch.ones(len(x)) if weight is None else weight.expand(len(x))
    (grad,) = torch.autograd.grad(loss, wide, factors.double())
    grad[wrong] = torch.nan
    grad[ignored] = 0.0
    loss = loss.detach().masked_fill(wrong, torch.nan)
    lse = lse.detach() if terms.every else lse.detach().masked_fill(ignored, 0.0)
    return Row(loss, lse, grad)


def targets(cols: int, index: torch.dtype, terms: Terms) -> Tensor:
    """Classes at both ends, one that does not count, and two that are none."""
    found = torch.randint(cols, (ROWS,))
    found[:5] = torch.tensor([0, cols - 1, terms.ignore_index, cols, -7])
    return found.to(index)


def hostile(x: Tensor) -> None:
    """Rows with -inf, of -inf alone, with NaN and +inf, and far from 0."""
    x[5, ::2] = -torch.inf
    x[6] = -torch.inf
    x[7, -1] = torch.nan
    x[8, 0] = torch.inf
    x[9] += 4096.0
    x[2, -1] = torch.nan  # of a target that does not count


class Kernels:
    """Kernels of one file for elements of ``kind``, compiled in ``folder``."""

    def __init__(self, plans: list[CrossEntropyPlan], kind: str, folder: Path):
        self.numbers = {plan: number for number, plan in enumerate(dict.fromkeys(plans))}
        calls = "".join(
            CALL.format(
                number=number, t=C_TYPES[kind], index=plan.index,
                kernel=plan.expression(C_TYPES[kind]),
            )
            for plan, number in self.numbers.items()
        )  # fmt: skip
        self.code = compiled(plans[0], calls, folder)

    def run(
        self, plan: CrossEntropyPlan, x: Tensor, grad: Tensor | None, target: Tensor,
        weight: Tensor | None, terms: Terms,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The losses and lses of ``x``; gradients into ``grad``."""
        rows, cols = x.shape
        loss, lse = (torch.full((rows + 2,), 7.0) for _ in range(2))
        to = x if grad is None else grad
        blocks = rows * plan.blocks
        if plan.shape.regime == "warp":
            blocks = -(-rows * plan.shape.sizes[0] // plan.threads)
        packed = struct.pack(
            "<qqffi", terms.ignore_index, int(weight is not None and weight.dim()),
            terms.label_smoothing, terms.z_loss, terms.every,
        )  # fmt: skip
        for _ in range(1 + (plan.blocks > 1)):  # exchange_on_the_host.cuh
            self.code[f"call{self.numbers[plan]}"](
                blocks, plan.threads, *(ctypes.c_void_p(t.data_ptr()) for t in (x, to, target)),
                ctypes.c_void_p(0 if weight is None else weight.data_ptr()),
                *(ctypes.c_void_p(t.data_ptr() + 4) for t in (loss, lse)),
                *(ctypes.c_longlong(t.stride(0)) for t in (x, to)),
                ctypes.c_int(cols), ctypes.c_longlong(rows), ctypes.create_string_buffer(packed),
            )  # fmt: skip
        for each in (loss, lse):
            assert each[0] == each[-1] == 7.0
        return loss[1:-1], lse[1:-1]

    def misaligned(self) -> int:
        return ctypes.c_int.in_dll(self.code, "misaligned").value


def compiled(plan: CrossEntropyPlan, calls: str, folder: Path) -> ctypes.CDLL:
    """The kernel's file with functions that launch it."""
    made = in_cpp(plan.file.stem, folder)
    if plan.blocks > 1:
        stand_in = Path(__file__).with_name("exchange_on_the_host.cuh")
        shutil.copy(stand_in, folder / "exchange.cuh")
    return library(made, calls, folder)


def test_the_kernels_lie_where_the_frontiers_do():
    assert CrossEntropyPlan(TARGETS, 0, NONE).file.parent == HERE


def close(mine: Tensor, right: Tensor, near: float, what: object) -> None:
    torch.testing.assert_close(
        mine.double(), right, rtol=near, atol=near, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHAPES)
def test_losses_and_gradients_are_right_in_any_memory(name: str, kind: str, tmp_path: Path):
    torch.manual_seed(0)
    shape, widths = SHAPES[name]
    dtype, size = getattr(torch, kind), ELEMENT_BYTES[kind]
    plans: dict[tuple[int, int, bool, bool], CrossEntropyPlan] = {}
    kinds: tuple[bool, ...] = (True, False) if shape.regime in LOSSES_ALONE else (True,)
    for (cols, edges), gradient, smooth in product(
        list(product(widths, (NONE, ALIKE, APART))), kinds, (False, True)
    ):
        if (edges or cols * size % VECTOR_BYTES == 0) and (gradient or edges < APART):
            index = "int32" if (cols + smooth) % 2 else "int64"
            plans[cols, edges, gradient, smooth] = plan_of(
                shape, cols, size, edges, gradient, smooth, index
            )
    kernels = Kernels(list(plans.values()), kind, tmp_path)
    clusters = next(iter(plans.values())).blocks > 1
    weights = (None, torch.tensor(0.25), torch.rand(ROWS))
    for cols in widths:
        for n, (x, out, around, memory) in enumerate(layouts(ROWS, cols, dtype)):
            if n > (1 if clusters else 3) and n % 5:
                continue
            hostile(x)
            before = around.clone()
            for i, terms in enumerate(TERMS):
                weight, smooth = weights[(n + i) % 3], terms.label_smoothing > 0
                if n and (n + i) % 4 > 1:
                    continue
                # A cluster's blocks run one after the other here: what the first one writes, the
                # others would take for the target's logit. Theirs goes elsewhere.
                places: list[Tensor | None] = [out] if clusters else [out, x]
                places += [None] * (False in kinds)
                for grad in places:
                    edges = edges_of(x, x if grad is None else grad)
                    plan = plans[cols, edges, grad is not None, smooth]
                    index = torch.int32 if plan.index == "int" else torch.int64
                    target = targets(cols, index, terms)
                    right = exact(x, target, weight, terms)
                    if grad is not None and grad is not x:
                        grad.fill_(torch.nan)
                    what = (plan.label, cols, terms, n)
                    loss, lse = kernels.run(plan, x, grad, target, weight, terms)
                    close(loss, right.loss, 2e-5, what)
                    close(lse, right.lse, 2e-5, what)
                    if grad is not None:
                        close(grad, right.grad, NEAR[kind], what)
                    x.copy_(before.as_strided(x.shape, x.stride(), x.storage_offset()))
                    assert torch.equal(around.nan_to_num(), before.nan_to_num()), what
                out.fill_(7.0)
                assert bool((memory == 7.0).all()), (cols, n)
    assert kernels.misaligned() == 0


def test_a_row_that_does_not_count_is_not_read(tmp_path: Path):
    for name, gradient in (("warp", True), ("block", True), ("stream", True), ("stream", False)):
        shape, (cols, *_) = SHAPES[name]
        folder = tmp_path / f"{name} {gradient}"
        folder.mkdir()
        plan = plan_of(shape, cols, 4, ALIKE, gradient, False, "int64")
        kernels = Kernels([plan], "float32", folder)
        x, grad = torch.full((3, cols), torch.nan), torch.full((3, cols), 7.0)
        x[1] = torch.randn(cols)
        target = torch.tensor([IGNORED, 0, IGNORED])
        loss, lse = kernels.run(plan, x, grad if gradient else None, target, None, TERMS[0])
        assert loss[[0, 2]].tolist() == lse[[0, 2]].tolist() == [0.0, 0.0]
        close(loss[1:2], exact(x[1:2], target[1:2], None, TERMS[0]).loss, 2e-5, name)
        if gradient:
            assert not grad[[0, 2]].any()


@pytest.mark.parametrize("index", ["int", "long long"])
def test_targets_are_counted_and_the_first_wrong_one_is_found(index: str, tmp_path: Path):
    plan = CrossEntropyPlan(Shape("targets", (64,)), 0, NONE, (), index)
    calls = f"""extern "C" void call(const void *t, float *weight, long long *wrong, long long rows,
                                     long long cols, long long ignored) {{
        launch(1, 64, [=] {{
            {plan.expression("float")}(({index} *)t, weight, wrong, rows, cols, ignored);
        }});
    }}"""
    code = compiled(plan, calls, tmp_path)
    dtype = torch.int32 if index == "int" else torch.int64
    for rows in (0, 1, 63, 64, 65, 511, 513, 3000):
        for wrong in ((), (rows - 1,), (rows // 2, rows // 3)):
            target = torch.randint(50, (rows,)).to(dtype)
            target[::3] = IGNORED
            wrong = [place for place in wrong if 0 <= place < rows]
            target[wrong] = 50
            count = int((target != IGNORED).sum())
            weight, place = torch.zeros(1), torch.zeros(1, dtype=torch.int64)
            code["call"](
                *(ctypes.c_void_p(t.data_ptr()) for t in (target, weight, place)),
                *map(ctypes.c_longlong, (rows, 50, IGNORED)),
            )
            assert place.item() == min(wrong, default=-1)
            torch.testing.assert_close(weight[0], torch.tensor(1.0) / count)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_scaled_where_they_are_unless_by_one(kind: str, tmp_path: Path):
    plan = replace(CrossEntropyPlan(SCALE, 0, ALIKE), shape=Shape("scale", (64,)))
    calls = f"""extern "C" void call(int blocks, {C_TYPES[kind]} *x, const float *factor,
                                     long long stride, int cols, long long rows) {{
        launch(blocks, 64, [=] {{
            {plan.expression(C_TYPES[kind])}(x, factor, stride, cols, rows, blocks);
        }});
    }}"""
    code = compiled(plan, calls, tmp_path)
    for cols, blocks in product((1, 63, 256, 1003), (1, 3, ROWS)):
        for x, out, _, memory in layouts(ROWS, cols, getattr(torch, kind)):
            for by in (1.0, -0.375, 0.0):
                factor = torch.tensor(by)
                out.copy_(x)
                code["call"](
                    blocks, *(ctypes.c_void_p(t.data_ptr()) for t in (out, factor)),
                    ctypes.c_longlong(out.stride(0)), ctypes.c_int(cols), ctypes.c_longlong(ROWS),
                )  # fmt: skip
                assert torch.equal(out, (x.float() * by).to(x.dtype))
                out.fill_(7.0)
                assert bool((memory == 7.0).all())
    assert ctypes.c_int.in_dll(code, "misaligned").value == 0
