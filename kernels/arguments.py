"""What is wrong with an argument, in a sentence: what came, what was expected, what to do."""

from __future__ import annotations

import reprlib
import sys
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

NUMBERS, INTEGERS = (Real, torch.SymFloat, torch.SymInt), (int, Integral, torch.SymInt)
MOST = sys.float_info.max
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def told(given: Any) -> str:
    """``given`` in a few words, on one line."""
    if isinstance(given, Tensor):
        return f"a tensor of shape {tuple(given.shape)}"
    return " ".join(reprlib.repr(given).split())


def either(caller: str, x: Any, input: Any) -> Any:
    """The tensor, which is ``x`` or by torch's name ``input``.  Raises TypeError for both."""
    if input is None:
        return x
    if x is not None:
        raise TypeError(f"{caller} takes one tensor, as x or by torch's name input; got both")
    return input


def check_tensor(caller: str, name: str, given: Any, jagged: bool = False) -> None:
    """Raise TypeError for what is no tensor of strides; ``jagged``: nested ones may pass."""
    if given is None:  # most often an argument that is not there
        raise TypeError(
            f"{caller} expects a torch.Tensor for {name}; got None: pass a tensor as {name}"
        )
    if not isinstance(given, Tensor):
        raise TypeError(
            f"{caller} expects a torch.Tensor for {name}; got {type(given).__name__}: pass "
            f"torch.as_tensor({name})"
        )
    if given.is_nested:
        if not jagged:
            raise TypeError(
                f"{caller} expects rows of one length in {name}; got a nested tensor: pass "
                f"{name}.to_padded_tensor(...)"
            )
        if given.layout != torch.jagged:
            raise TypeError(
                f"{caller} expects nested tensors of layout torch.jagged; got {given.layout} for "
                f"{name}: make it with layout=torch.jagged"
            )
    elif given.layout != torch.strided:
        raise TypeError(
            f"{caller} expects a strided tensor for {name}; got {given.layout}: pass "
            f"{name}.to_dense()"
        )


def check_floating(caller: str, dtype: torch.dtype, cast: str) -> None:
    """Raise TypeError for a dtype that torch has no softmax of; ``cast`` is what to pass.

    That is a tensor's cast, as "x.float()", or another argument.
    """
    if dtype not in FLOATS:
        if dtype.is_complex:
            name, dot, _ = cast.partition(".float()")
            real = "{0}.real or {0}.abs()"
            cast = real.format(name) if dot else f"{real.format('x')}, or of real numbers {cast}"
        raise TypeError(
            f"{caller} takes float16, bfloat16, float32 and float64; got {dtype}: pass {cast}"
        )


def check_flags(caller: str, **flags: Any) -> None:
    """Raise TypeError for what is neither True nor False."""
    for name, given in flags.items():
        if not isinstance(given, bool):
            raise TypeError(
                f"{caller} expects True or False for {name}; got {told(given)}: pass a bool"
            )


def check_number(caller: str, name: str, given: Any) -> None:
    """Raise TypeError for what is no real number."""
    if isinstance(given, float):  # what a look at Real takes long for
        return
    if isinstance(given, bool) or not isinstance(given, NUMBERS):
        raise TypeError(
            f"{caller} expects a number for {name}; got {told(given)}: pass a Python float"
        )


def check_finite(caller: str, **numbers: Any) -> None:
    """The same, and ValueError for what no float holds: NaN, infinities, huge integers."""
    for name, given in numbers.items():
        check_number(caller, name, given)
        if not -MOST <= given <= MOST:
            raise ValueError(
                f"{caller} expects a finite number for {name}; got {told(given)}: pass one that a "
                f"float64 holds, or leave {name} away"
            )


def check_int(caller: str, name: str, given: Any) -> None:
    """Raise TypeError for what is no integer."""
    if isinstance(given, bool) or not isinstance(given, INTEGERS):
        raise TypeError(f"{caller} expects an int for {name}; got {told(given)}: pass a Python int")
