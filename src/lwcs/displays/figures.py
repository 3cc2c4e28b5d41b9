"""What figures share: importing matplotlib, and saving files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lwcs.foundation.places import DEFAULT, Access
from lwcs.foundation.replacing import explaining, replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def pyplot() -> Any:
    """Import matplotlib.pyplot, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "figures need matplotlib, which is not installed; run pip install 'lwcs[plot]'"
        ) from error
    return plt


ENDINGS = ("png", "svg", "pdf")
"""Formats that figures are saved in."""


def save_figure(figure: Any, path: str | os.PathLike[str], access: Access = DEFAULT) -> None:
    """Save a figure atomically, in the format of the path's ending (.svg, .png, .pdf)."""
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"{str(path)!r} does not end like a figure; choose a name that ends in "
            f"{', '.join(f'.{each}' for each in ENDINGS[:-1])} or .{ENDINGS[-1]}"
        )
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
