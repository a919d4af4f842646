"""The text that the transformer learns: what the project ships, cut into words.

A word comes with the space before it, as GPT-2's do; joined, the pieces are the text again.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).parents[2]
# Prose and code: the prose alone would be read fifty times in a run, and known by heart.
FILES = (
    *("*.md", "docs/*.md", "paper/**/*.md", "paper/*.typ"),
    *("kernels/**/*.py", "kernels/**/*.cu", "kernels/**/*.cuh"),
    *("experiments/**/*.py", "figures/*.py", "workflow/*.py", "workflow/rules/*.smk"),
)
PIECE = re.compile(r" ?\w+| ?[^\w\s]|\s+")
UNUSED = "\ufffd"


class BadText(ValueError):
    """A text cannot be used; the message says why, and what is known."""


def shipped(root: Path = ROOT) -> str:
    """The text of FILES under ``root``, in order of their names.  Raises BadText without any."""
    paths = [path for pattern in FILES for path in sorted(root.glob(pattern))]
    if not paths:
        raise BadText(f"{root} holds none of {', '.join(FILES)}: run it from the checkout")
    return "".join(path.read_text() for path in paths)


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a text, the most frequent first: a token is a piece's place among them."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, text: str, most: int) -> "Vocabulary":
        """That of ``text``, of at most ``most`` pieces.  Raises BadText."""
        counts: dict[str, int] = {}
        for piece in PIECE.findall(text):
            counts[piece] = counts.get(piece, 0) + 1
        if not 0 < len(counts) <= most:
            raise BadText(f"the text has {len(counts):,} pieces; expected 1 to {most:,}")
        return cls(tuple(sorted(counts, key=lambda piece: (-counts[piece], piece))))

    def encode(self, text: str) -> Tensor:
        """Tokens (pieces of ``text``,), int64.  Raises BadText for a piece that is not known."""
        places = {piece: place for place, piece in enumerate(self.pieces)}
        found = PIECE.findall(text)
        if unknown := next((piece for piece in found if piece not in places), None):
            raise BadText(
                f"{unknown!r} is none of the {len(places):,} pieces of the text that was learnt: "
                "take words of it"
            )
        return torch.tensor([places[piece] for piece in found], dtype=torch.int64)

    def decode(self, tokens: Tensor) -> str:
        """The text of ``tokens``; columns of the head that stand for no piece are UNUSED."""
        known = self.pieces
        return "".join(known[t] if t < len(known) else UNUSED for t in tokens.tolist())


def places(length: int, context: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """Where sequences of ``context`` tokens and the next one begin in ``length`` tokens: ``shape``.

    They depend on ``seed`` alone, on every device.  Raises BadText where the text is too short.
    """
    if length <= context:
        raise BadText(f"the text has {length:,} tokens; expected more than {context:,}")
    return torch.randint(length - context, shape, generator=torch.Generator().manual_seed(seed))
