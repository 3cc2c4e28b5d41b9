"""What figures share: matplotlib or a word about it, colours that all can tell apart, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lwcs.foundation.storage import replacing

if TYPE_CHECKING:
    import os

# Okabe and Ito's palette, made to be told apart with any kind of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)


def pyplot() -> Any:
    """Give matplotlib, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "figures need matplotlib, which is not installed; pip install 'lwcs[plot]'"
        ) from error
    return plt


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as the path's ending says (.svg, .png, .pdf), whole or not at all."""
    ending = Path(path).suffix.lstrip(".")
    # Without a date, the same figure gives the same file.
    metadata = {"Date": None} if ending == "svg" else None
    with replacing(path) as temporary:
        figure.savefig(temporary, format=ending, dpi=150, bbox_inches="tight", metadata=metadata)
