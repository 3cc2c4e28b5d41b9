"""How commands write messages: as sentences, or with --log-json as JSON on standard error.

With --log-json, log records, progress, warnings, the result and errors are one object per line with
the fields `time` (ISO 8601, UTC), `level`, `event` and `message`; records of a stage also have
`stage`, `rows`, `bytes` and `seconds`.
"""

from __future__ import annotations

import json
import logging
import traceback
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lwcs.runtime.progress import LINES_EVERY, Pace
from lwcs.runtime.warnings import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.runtime.progress import Callback, Progress

FLAG, AS_JSON = "--log-json", "log_json"
"""The option, and the key of the context's meta that says whether it is given."""
_FIELDS = ("stage", "done", "total", "rows", "bytes", "seconds", "result", "traceback")


def write(
    message: str, *, level: int = logging.INFO, event: str = "message", **fields: Any
) -> None:
    """Write a sentence, or a record with further fields."""
    if is_set(AS_JSON):
        LOG.log(level, "%s", message, extra={"event": event, **fields})
    else:
        click.echo(message, err=True)


def write_result(message: str, **fields: Any) -> None:
    """Write the result of a command: on standard output, or as a record."""
    if is_set(AS_JSON):
        write(message, event="result", **fields)
    else:
        click.echo(message)


def report(error: Exception, message: str) -> None:
    """Write an error as a record; with --debug, it has the traceback."""
    fields = {}
    if is_set("debug") and not isinstance(error, click.ClickException):
        fields["traceback"] = "".join(traceback.format_exception(error))
    write(message, level=logging.ERROR, event="error", **fields)


def progress() -> bool | Callback:
    """The value of `progress` for functions, and of `verbose` for models."""
    if is_set("quiet") or not is_set(AS_JSON):
        return not is_set("quiet")
    pace = Pace(LINES_EVERY)

    def log(state: Progress) -> None:
        if not state.finished and pace.is_due():
            write(
                str(state), event="progress", stage=state.stage, done=state.done,
                total=state.total, rows=state.rows, seconds=state.seconds,
            )  # fmt: skip

    return log


@contextmanager
def logging_to_stderr(ctx: click.Context) -> Iterator[None]:
    """Write what is logged as JSON, if the option is given."""
    if not ctx.meta.get(AS_JSON):
        yield
        return
    handler, level = _JsonHandler(ctx), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


class _JsonHandler(logging.Handler):
    """One JSON object per line, for records that the options of the command let through."""

    def __init__(self, ctx: click.Context) -> None:
        super().__init__()
        self._meta = ctx.meta

    def filter(self, record: logging.LogRecord) -> bool:
        """Let errors pass with --quiet, everything with --debug.

        The options are looked up for every record: some records are written before all are parsed.
        """
        least = logging.DEBUG if self._meta.get("debug") else logging.INFO
        return record.levelno >= (logging.ERROR if self._meta.get("quiet") else least)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        fields = vars(record)
        when = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "event": fields.get("event", "message"),
            **{name: fields[name] for name in _FIELDS if name in fields},
            "message": record.getMessage(),
        }
        click.echo(json.dumps(line), err=True)


def is_set(flag: str) -> bool:
    """Whether a flag about output is given: quiet, as_json, debug or log_json."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(flag))
