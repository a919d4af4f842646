"""Train one transformer: a loss, a time and a peak of memory for every step."""

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from experiments.transformer.model import Transformer
from experiments.transformer.operators import Operators
from experiments.transformer.plan import Plan, Run
from experiments.transformer.text import places


def precision(device: str) -> torch.autocast:
    """Of forward passes: bfloat16 beside float32 weights on a GPU; on a CPU float32."""
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


def batches(text: Tensor, plan: Plan, run: Run) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens (batch, context) and what follows each, for every step; ``text`` holds tokens."""
    context = plan.size.context
    starts = places(len(text), context, (plan.steps, plan.batch), run.seed)
    if run.turned:
        starts = starts.flip(-1)
    within = torch.arange(context + 1, device=text.device)
    for at in starts.to(text.device):
        rows = text[at[:, None] + within]
        yield rows[:, :-1], rows[:, 1:]


class Clock:
    """Marks between steps: events on a GPU, where nothing waits for them, or the host's clock."""

    def __init__(self, device: str) -> None:
        self._gpu, self._marks = device == "cuda", []
        self.mark()

    def mark(self) -> None:
        """One more mark."""
        if self._gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def ms(self) -> list[float]:
        """Milliseconds between each two marks; waits for the last."""
        if not self._gpu:
            return [(b - a) * 1e3 for a, b in pairwise(self._marks)]
        self._marks[-1].synchronize()
        return [a.elapsed_time(b) for a, b in pairwise(self._marks)]


def train(
    operators: Operators, run: Run, plan: Plan, text: Tensor
) -> tuple[Transformer, list[dict[str, Any]]]:
    """The trained model, and a row a step without its commit; ``text`` (tokens,) is on the device.

    Equal seeds begin with equal weights and read equal batches, whatever the operators are.
    """
    device = text.device.type
    before = _allocated(device)
    torch.manual_seed(run.seed)
    model = Transformer(plan.size).to(device)
    optimiser = torch.optim.AdamW(
        model.parameters(), plan.learning_rate, betas=(0.9, 0.95), fused=device == "cuda"
    )
    slow_start = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / plan.warm_up)
    )
    losses, peaks, clock = [], [], Clock(device)
    for tokens, following in batches(text, plan, run):
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with precision(device):
            loss = operators.cross_entropy(model(tokens, operators), following)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.longest_gradient)
        optimiser.step()
        optimiser.zero_grad()
        slow_start.step()
        clock.mark()
        losses.append(loss.detach())
        peaks.append(torch.cuda.max_memory_allocated() - before if device == "cuda" else None)
    times = clock.ms()
    tokens = plan.batch * plan.size.context
    of_all = {
        "operators": run.operators, "seed": run.seed, "turned": run.turned,
        "logits_bytes": tokens * plan.size.vocabulary * torch.bfloat16.itemsize,
        "tokens": tokens, "parameters": model.parameter_count(),
    }  # fmt: skip
    found = zip(torch.stack(losses).tolist(), times, peaks, strict=True)
    return model, [
        {
            **of_all, "step": step, "warm_up": step <= plan.warm_up, "loss": loss, "step_ms": ms,
            "peak_bytes": peak,
        }
        for step, (loss, ms, peak) in enumerate(found, start=1)
    ]  # fmt: skip


def _allocated(device: str) -> int:
    """Bytes in tensors of others than the run, such as a model that is kept."""
    return torch.cuda.memory_allocated() if device == "cuda" else 0
