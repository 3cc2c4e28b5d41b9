"""What figures share: importing matplotlib, a colour-blind safe palette, saving files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lwcs.foundation.places import DEFAULT, Access
from lwcs.foundation.replacing import explaining, replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

# The palette of Okabe and Ito, which is safe for all kinds of colour vision.
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
    """Import matplotlib.pyplot, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "figures need matplotlib, which is not installed; run pip install 'lwcs[plot]'"
        ) from error
    return plt


def save_figure(figure: Any, path: str | os.PathLike[str], access: Access = DEFAULT) -> None:
    """Save a figure atomically, in the format of the path's ending (.svg, .png, .pdf)."""
    ending = Path(path).suffix.lstrip(".")
    # Without a date and with ids that are not random, the same figure gives the same file.
    metadata = {"Date": None} if ending == "svg" else None
    with (
        replacing(path, access) as temporary,
        pyplot().rc_context({"svg.hashsalt": "lwcs"}),
        explaining(access.place(path)),
    ):
        figure.savefig(temporary, format=ending, dpi=150, bbox_inches="tight", metadata=metadata)


class Display:
    """A figure that was drawn, as `figure_`."""

    figure_: Any

    def save(
        self,
        *paths: str | os.PathLike[str],
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the figure to each path, in the format of its ending (.svg, .png, .pdf).

        Paths may be URIs; `filesystem` and `storage_options` are those of `Coreset.save`.
        """
        for path in paths:
            save_figure(self.figure_, path, Access(filesystem, storage_options))
