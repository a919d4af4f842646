"""Every operator that is registered keeps PyTorch's rules, and every public function says its own.

Here by torch's reference path, without a GPU; by kernels in tests/gpu.
"""

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

import kernels
from kernels import attention_api, cross_entropy_ops, operators, ops, sampling, topk
from kernels.registry import ROOT


def some(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


TARGET, TERMS = torch.tensor([4, -100, 0]), (-100, 0.1, 1e-2, True)
OPERATORS: dict[Any, Callable[[], tuple[Any, ...]]] = {
    ops.softmax: lambda: (some(3, 5), 0, torch.float32, True),
    ops.softmax_backward: lambda: (some(3, 5), some(3, 5), 1, torch.float64),
    operators.softmax_operator: lambda: (
        some(3, 5), some(5), -1, None, True, 0.5, 2.0, False, False
    ),
    operators.softmax_operator_backward: lambda: (
        some(3, 5), some(3, 5), 0, torch.float64, False, 0.5, 2.0, True
    ),
    cross_entropy_ops.cross_entropy: lambda: (some(3, 5), TARGET, *TERMS),
    cross_entropy_ops.cross_entropy_grad: lambda: (some(3, 5), TARGET, some(3), *TERMS),
    cross_entropy_ops.cross_entropy_targets: lambda: (TARGET, 5, -100),
    topk.operator: lambda: (some(3, 5), 2, True),
    sampling.operator: lambda: (some(3, 5), 0.7, 3, 0.9, -5, 6),
    sampling.operator_of_tensors: lambda: (
        some(3, 5), number(0.7), None, number(0.9), torch.tensor(7), 6
    ),
    attention_api.operator: lambda: (*torch.randn(3, 1, 2, 4, 8), True, None),
}  # fmt: skip


def test_no_operator_is_left_out():
    names = {str(operator.name()) for operator in OPERATORS}
    registered = torch._C._dispatch_get_all_op_names()
    assert names == {name for name in registered if name.startswith("roofline::")}


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_operators_keep_pytorchs_rules(operator: Any):
    opcheck(operator, OPERATORS[operator]())


@pytest.mark.parametrize("name", kernels.__all__)
def test_a_public_function_says_what_it_takes_raises_and_moves(name: str):
    told = getattr(kernels, name).__doc__
    missing = [word for word in ("Raises", "bytes", "float16", "torch") if word not in told]
    assert missing == []


@pytest.mark.parametrize(
    ("missing", "told"), [("torch", "make smoke"), ("kernels.api", "^no api$")]
)
def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch, missing: str, told: str):
    def absent(name: str) -> None:
        raise ModuleNotFoundError("no api", name=missing)

    monkeypatch.setattr(kernels, "import_module", absent)
    monkeypatch.delitem(vars(kernels), "softmax", raising=False)
    with pytest.raises(ModuleNotFoundError, match=told) as raised:
        kernels.softmax  # noqa: B018
    assert raised.value.name == missing


@pytest.mark.filterwarnings("ignore:.*goes through|.*computes it:UserWarning")
def test_the_pages_example_gives_what_it_says():
    """docs/operators.md begins with it; a comment begins with the shapes of what its line gives."""
    page = (ROOT.parent / "docs/operators.md").read_text()
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found
    known: dict[str, Any] = {}
    told = 0
    for line in found[1].splitlines():
        statement, _, comment = line.partition("  # ")
        for node in ast.parse(statement).body:
            if isinstance(node, ast.Expr):
                given = eval(statement, known)
            else:
                exec(statement, known)
                names = (
                    ast.unparse(node.targets[0]).strip("()") if isinstance(node, ast.Assign) else ""
                )
                given = [known[name] for name in names.split(", ") if name]
            shapes = re.match(r"(\([\d, ]*\)(?:, )?)+(?=:|$)", comment)
            if shapes:
                results = given if isinstance(given, list | tuple) else [given]
                assert [tuple(y.shape) for y in results] == list(eval(f"[{shapes[0]}]")), line
                told += 1
    assert told == 6
    assert set(kernels.__all__) <= set(known)
