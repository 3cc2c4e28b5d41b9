"""What the library logs: every pass at INFO, decisions at DEBUG, to the logger "lwcs".

Nothing is written by default: the logger has a NullHandler and no level. Records have the
attribute `event` ("pass", "solver", "runs", or the name of a decision); those of a stage also have
`stage`, `rows`, `bytes` and `seconds`, for formatters that write fields.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("lwcs")
LOG.addHandler(logging.NullHandler())


def decided(event: str, message: str, *values: object) -> None:
    """Log a decision, with %-style `values` that are put in only if somebody listens."""
    if LOG.isEnabledFor(logging.DEBUG):
        LOG.debug(message, *values, extra={"event": event}, stacklevel=2)
