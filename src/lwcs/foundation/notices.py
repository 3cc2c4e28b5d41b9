"""Warnings about what was made of the data, which point to the line of the caller."""

from __future__ import annotations

import sys
import warnings


class ColumnWarning(UserWarning):
    """Data was read in a way that its owner may not have meant: columns, names, files left out."""


def warn(message: str, category: type[Warning] = ColumnWarning) -> None:
    """Warn about the first line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_globals.get("__name__", "").split(".")[0] == "lwcs" and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
