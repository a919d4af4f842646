"""Tokens out of a trained transformer: the time of choosing them, and of generating a text."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments import timer
from experiments.tidy import interval
from experiments.transformer.model import Transformer
from experiments.transformer.operators import Operators
from experiments.transformer.plan import Plan
from experiments.transformer.text import places
from experiments.transformer.training import precision

# The longest that sampling was thought to take: the timer repeats calls by it.
ESTIMATE_NS = 1e5


@torch.no_grad()
def generate(
    model: Transformer, operators: Operators, prompts: Tensor, count: int, seed: int
) -> Tensor:
    """``prompts`` (B, S) and ``count`` more tokens: (B, S + count), the same for the same seed.

    Every token takes a pass over all tokens before it: there is no cache of keys and values.
    """
    device = prompts.device
    generator, tokens = torch.Generator(device).manual_seed(seed), prompts
    for _ in range(count):
        with precision(device.type):
            logits = model(tokens, operators, last=True)
        tokens = torch.cat([tokens, operators.sample(logits, generator)[:, None]], 1)
    return tokens


def prompts(text: Tensor, plan: Plan, batch: int) -> Tensor:
    """The beginnings (batch, prompt) of what is generated, out of ``text``."""
    starts = places(len(text), plan.prompt, (batch,), seed=0).to(text.device)
    return text[starts[:, None] + torch.arange(plan.prompt, device=text.device)]


@torch.no_grad()
def report(
    model: Transformer, sets: tuple[Operators, ...], plan: Plan, text: Tensor
) -> Iterator[dict[str, Any]]:
    """Rows of DECODING without their code: every batch, with each of ``sets`` in turn."""
    device = text.device.type
    for batch in plan.batches:
        given = prompts(text, plan, batch)
        with precision(device):
            logits = model(given, sets[0], last=True)
        times = _sampling(logits, sets, plan) | _generating(model, sets, plan, given)
        for (name, what, how), us in times.items():
            value, low, high = interval(np.array(us))
            tokens = batch * (plan.generated if what == "generate" else 1)
            yield {
                "operators": name, "what": what, "timer": how, "batch": batch,
                "cols": logits.shape[1], "tokens": tokens, "median_us": value, "low_us": low,
                "high_us": high, "tokens_per_s": tokens / value * 1e6, "n_samples": len(us),
            }  # fmt: skip


Times = dict[tuple[str, str, str], list[float]]


def _sampling(logits: Tensor, sets: tuple[Operators, ...], plan: Plan) -> Times:
    """Microseconds of choosing a token a row of ``logits`` (B, V), by operators and timer.

    Logits come from memory, as in every sweep: no earlier call has left them in the L2.
    """
    calls = {o.name: partial(_into, o) for o in sets}
    for call in calls.values():
        call(logits, logits)  # compiles
    if not logits.is_cuda:
        found = {(n, "sample", "host"): _host(c, logits) for n, c in calls.items()}
        return _turns(found, plan.repeats)
    flush = timer.Flush("cuda")
    pairs = [(logits.clone(), logits) for _ in range(timer.MOST_PAIRS)]
    found = {}
    for name, call in calls.items():
        on_device = timer.DeviceTimer(call, pairs, flush, ESTIMATE_NS)
        found[name, "sample", on_device.name] = on_device.sample
        found[name, "sample", "call"] = partial(timer.call_ns, call, pairs[0], flush)
    return _turns(found, plan.repeats)


def _into(operators: Operators, logits: Tensor, out: Tensor) -> Tensor:
    """As the timers call: what is chosen is new."""
    operators.sample(logits, None)
    return out


def _host(call: Callable[[Tensor, Tensor], Tensor], logits: Tensor) -> Callable[[], float]:
    return partial(timer.host_ns, call, (logits, logits))


def _generating(
    model: Transformer, sets: tuple[Operators, ...], plan: Plan, given: Tensor
) -> Times:
    """Microseconds of generating, as a caller waits."""

    def once(operators: Operators) -> float:
        def call(tokens: Tensor, out: Tensor) -> Tensor:
            generate(model, operators, tokens, plan.generated, seed=1)
            return out

        pair = given, given
        return timer.call_ns(call, pair, flush) if flush else timer.host_ns(call, pair)

    flush = timer.Flush("cuda") if given.is_cuda else None
    how = "call" if flush else "host"
    for operators in sets:
        once(operators)  # compiles, for every length
    found = {(o.name, "generate", how): partial(once, o) for o in sets}
    return _turns(found, plan.generations)


def _turns(timers: dict[tuple[str, str, str], Callable[[], float]], repeats: int) -> Times:
    """Samples in microseconds: all in turn, so that what changes meanwhile meets all."""
    turns = [{key: sample() / 1e3 for key, sample in timers.items()} for _ in range(repeats)]
    return {key: [turn[key] for turn in turns] for key in timers}
