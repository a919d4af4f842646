"""How each variant looks, in every figure: one label, colour, marker and dash.

Adding a variant is one line in ``LOOKS``; the order there is the order of every legend.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.path import Path

from experiments.sweeps.sweep import AGAIN
from experiments.tidy import CEILINGS
from kernels.registry import TOP

# Okabe and Ito's colours, one grey and one brown.  Their yellow is darkened: a line of it on white
# vanishes.
BLACK, GREY, ORANGE, SKY, GREEN = "#000000", "#999999", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, YELLOW = "#0072B2", "#D55E00", "#CC79A7", "#B8A600"
BROWN = "#6B4423"
SOLID: tuple[float, ...] = ()
# Stars of many points look like circles.
HOURGLASS = Path([(-1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1)], closed=True)
DASHED, DOTTED, DASHDOT, LONG = (4, 1.6), (1, 1.4), (5, 1.4, 1, 1.4), (9, 1.6)
SUBJECT = "frontier"  # what the project adds; where curves lie on one another it is seen


@dataclass(frozen=True)
class Look:
    """Label, colour, matplotlib marker, and dash (points on, off, ...; empty is solid)."""

    label: str
    colour: str
    marker: Any
    dash: tuple[float, ...] = SOLID

    def line(self, x: Iterable[float], y: Iterable[float], hollow: bool = False) -> Line2D:
        """The line through (x, y); hollow markers say that the data are stale."""
        return Line2D(
            list(x),
            list(y),
            color=self.colour,
            marker=self.marker,
            linestyle=(0, self.dash) if self.dash else "-",
            markerfacecolor="white" if hollow else self.colour,
        )


# fmt: off
LOOKS: Mapping[str, Look] = {
    "copy":               Look("copy (ceiling)", "#4D4D4D", "", DASHED),
    "torch_eager":        Look("torch eager", BLACK, "o"),
    "torch_naive":        Look("torch naive", GREY, "v", DOTTED),
    "torch_compile":      Look("torch.compile", SKY, "s"),
    "triton_row":         Look("Triton row", VERMILLION, "^"),
    "triton_persistent":  Look("Triton persistent", BLUE, "h", DASHED),
    "triton_hybrid":      Look("Triton hybrid", ORANGE, "D", LONG),
    "triton_tiled_1024":  Look("Triton tiled 1024", YELLOW, "1", DOTTED),
    "triton_tiled_4096":  Look("Triton tiled 4096", GREEN, "2", DOTTED),
    "triton_tiled_16384": Look("Triton tiled 16384", SKY, "3", DOTTED),
    "triton_online":      Look("Triton online", PURPLE, "P", DASHDOT),
    "triton_row_f64":     Look("Triton row, float64 sum", BLACK, "d", LONG),
    "triton_tiled_f64":   Look("Triton tiled, float64 sum", GREY, "4", LONG),
    "triton_constant":    Look("Triton row, constant shape", GREEN, "8", DOTTED),
    "triton_held":        Look("Triton held", SKY, (3, 1, 90), DASHED),
    "triton_grid":        Look("Triton grid", BLUE, (3, 0, 60), DASHDOT),
    "triton_frontier":    Look("Triton frontier", ORANGE, (12, 1, 15)),
    "cuda_thread_row":    Look("CUDA thread a row", YELLOW, "<", DOTTED),
    "cuda_block_serial":  Look("CUDA block serial", ORANGE, ">", DOTTED),
    "cuda_block_tree":    Look("CUDA block tree", BLUE, "p", DASHED),
    "cuda_float4":        Look("CUDA float4", GREEN, "*"),
    "cuda_float4_256":    Look("CUDA float4, 256 threads", SKY, (3, 1, 0), DASHED),
    "cuda_float4_512":    Look("CUDA float4, 512 threads", BLUE, (3, 1, 180), LONG),
    "cuda_float4_1024":   Look("CUDA float4, 1024 threads", PURPLE, (4, 1, 45), DASHDOT),
    "cuda_warp_reduce":   Look("CUDA float4, shuffles", VERMILLION, (6, 0, 30), DASHDOT),
    "cuda_warp_row":      Look("CUDA warp a row", YELLOW, (4, 1, 0)),
    "cuda_warp_row_exact":   Look("CUDA warp a row, expf", YELLOW, (9, 1, 0), DOTTED),
    "cuda_block_row":     Look("CUDA block a row", BLUE, (5, 0, 10)),
    "cuda_block_row_exact":  Look("CUDA block a row, expf", BLUE, (5, 1, 180), DOTTED),
    "cuda_online_row":       Look("CUDA online", GREEN, (6, 1, 0)),
    "cuda_online_row_exact": Look("CUDA online, expf", GREEN, (8, 1, 0), DOTTED),
    "cuda_online_reload":    Look("CUDA online, reread", ORANGE, (7, 1, 0), DASHED),
    "cuda_online_reload_exact": Look("CUDA online, reread, expf", ORANGE, (7, 0, 0), DOTTED),
    "cuda_split_reread":     Look("CUDA split, reread", PURPLE, (3, 0, 45), LONG),
    "cuda_split_reread_exact":  Look("CUDA split, reread, expf", PURPLE, (3, 0, 225), DOTTED),
    "cuda_split_rescale":    Look("CUDA split, rescaled", GREY, (4, 0, 20), DASHDOT),
    "cuda_split_rescale_exact": Look("CUDA split, rescaled, expf", GREY, (4, 1, 20), DOTTED),
    **{f"torch_topk_{k}": Look(f"torch top-{k}", GREY, f"$t{k}$", DOTTED) for k in TOP},
    **{f"cuda_topk_{k}": Look(f"CUDA top-{k}", GREEN, f"${k}$") for k in TOP},
    "frontier":              Look("frontier", PURPLE, (12, 1, 0)),
    "frontier_invariant":    Look("frontier, invariant", GREEN, (7, 1, 180), DOTTED),
    "liger":                 Look("Liger", YELLOW, "H", LONG),
    "quack":                 Look("QuACK", BLUE, "X"),
    "flashinfer":            Look("FlashInfer", BROWN, HOURGLASS, DASHDOT),
    # Of the operators beside the softmax (experiments/family).
    "add":                   Look("torch.add (ceiling)", "#4D4D4D", (2, 2, 0), DASHED),
    "ours":                  Look("this project", PURPLE, (11, 1, 0)),
    "plain":                 Look("this project, plain softmax", PURPLE, (5, 1, 36), DOTTED),
    "torch":                 Look("torch", BLACK, (20, 0, 0)),
    "torch_steps":           Look("torch, steps", GREY, (3, 0, 180), DOTTED),
    "torch_topk_first":      Look("torch, topk first", GREY, (3, 2, 0), DOTTED),
    "torch_flash":           Look("torch, FlashAttention", GREEN, (4, 0, 0)),
    "torch_cudnn":           Look("torch, cuDNN", VERMILLION, (4, 0, 45), LONG),
    "torch_efficient":       Look("torch, memory-efficient", BLUE, (6, 2, 0), DASHED),
    "torch_math":            Look("torch, math", GREY, (3, 2, 180), DOTTED),
    "transposed":            Look("by rows, with transpositions", ORANGE, (4, 2, 45), DASHED),
    "unfused":               Look("matmul, softmax, matmul", YELLOW, (8, 2, 0), DASHDOT),
}
# fmt: on

SPARE_COLOURS = (VERMILLION, BLUE, GREEN, PURPLE, ORANGE, SKY, BLACK)
SPARE_MARKERS = ("d", "H", "8", "X", ">", "h")


def look(variant: str) -> Look:
    """The look of ``variant``; one without a line in LOOKS gets the same spare one everywhere."""
    if variant in LOOKS:
        return LOOKS[variant]
    number = zlib.crc32(variant.encode())
    return Look(
        variant,
        SPARE_COLOURS[number % len(SPARE_COLOURS)],
        SPARE_MARKERS[number // len(SPARE_COLOURS) % len(SPARE_MARKERS)],
        DASHDOT,
    )


def drawn(variant: str) -> bool:
    """Whether ``variant`` is a curve: its parts (the two copies) and the A/A pair are not."""
    return variant not in CEILINGS and not variant.endswith(AGAIN)


def in_order(variants: Iterable[str]) -> list[str]:
    """``variants`` once each, in the order of LOOKS, then the others by name."""
    order = {name: i for i, name in enumerate(LOOKS)}
    return sorted(set(variants), key=lambda name: (order.get(name, len(order)), name))
