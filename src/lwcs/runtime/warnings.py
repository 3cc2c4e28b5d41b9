"""Warnings, which name the line of the user's own code, and the log of the library."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

_HOME = str(Path(__file__).parents[1])


class ColumnWarning(UserWarning):
    """Something about the columns of a table that its user should know.

    Examples
    --------
    >>> import warnings
    >>> import pyarrow as pa, lwcs
    >>> table = pa.table({"x": [1.0, 2.0], "name": ["a", "b"]})
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", lwcs.ColumnWarning)      # make it an error
    ...     lwcs.scan(table)
    Traceback (most recent call last):
    lwcs.runtime.warnings.ColumnWarning: ...
    """


def warn(message: str, category: type[Warning] = ColumnWarning) -> None:
    """Warn about the nearest caller outside of this library."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOME):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth + 1)


LOG = logging.getLogger("lwcs")
LOG.addHandler(logging.NullHandler())


def decided(event: str, message: str, *values: object) -> None:
    """Log a decision; the %-style `values` are formatted only if the level is enabled."""
    if LOG.isEnabledFor(logging.DEBUG):
        LOG.debug(message, *values, extra={"event": event}, stacklevel=2)
