"""What `snakemake --report` shows, and under which heading."""

from pathlib import Path

from figures import (
    FAMILY_FIGURES,
    FIGURES,
    OPERATOR_FIGURES,
    TABLE_FIGURES,
    TRANSFORMER_FIGURES,
)
from workflow.tables import PROFILE_FIGURES

CAPTIONS = Path(__file__).parent / "report"
# Markdown that the workflow writes: a browser shows it as a page.
PAGES = ("claims", "goals", "limits", "agreement", "registers")


def category(figure: str) -> str:
    """The heading under which ``figure`` stands."""
    if figure in FIGURES:
        return "Sweeps"
    if figure in OPERATOR_FIGURES or figure in FAMILY_FIGURES:
        return "Operators beside the softmax"
    if figure in PROFILE_FIGURES:
        return "Counted by Nsight Compute"
    if figure in TRANSFORMER_FIGURES:
        return "End to end"
    return "Accuracy, first calls, layouts" if figure in TABLE_FIGURES else "Compiled code"


def labels(figure: str) -> dict[str, str]:
    """The words by which ``figure`` is found in a list."""
    of = {"sweep": FIGURES[figure]} if figure in FIGURES else {}
    return {"figure": figure.replace("_", " "), **of}


def caption(name: str) -> str:
    """The file that says what figure or page ``name`` shows."""
    # Absolute: Snakemake resolves it anew for each rule that takes the file.
    return str(CAPTIONS / f"{name}.rst")
