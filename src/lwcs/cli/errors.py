"""How commands report errors and warnings: one line each, in the words of the command.

Exit codes are 0 for success, 1 for bad data, 2 for bad usage, 3 if `lwcs drift` finds a model worse
than it may be, 130 for an interrupt, and 143 and 129 for SIGTERM and SIGHUP. An error has a
traceback with --debug; warnings are not shown with --quiet. With --log-json, all of this is
records (`logs`). A command that receives a signal cleans up first, as it does after Ctrl+C.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lwcs.cli.flags import Flags
from lwcs.cli.logs import AS_JSON, FLAG, logging_as_json, report, write
from lwcs.runtime.parallel import READER

if TYPE_CHECKING:
    from collections.abc import Iterator


# Windows has no SIGHUP.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised in the main thread: whatever handles Ctrl+C handles these."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise TerminatedError at the first signal; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    before: dict[int, Any] = {
        number: signal.getsignal(number)
        for number in _SIGNALS
        if signal.getsignal(number) != signal.SIG_IGN
    }

    def end(number: int, _: object) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise TerminatedError(number)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SCHEME = r"\b[a-zA-Z][\w+.-]*://"
_QUERY = re.compile(rf"({_SCHEME}[^\s'\"?]+)\?[^\s'\"]*")
# A name without a password is no secret, such as that of a container, but may be a token for HTTP.
_PASSWORD = re.compile(rf"(https?://|{_SCHEME}(?=[^/@\s'\"]*:))[^/\s'\"]+@")
ARGUMENTS = "arguments"
"""Key of the context's meta: the command line, for a report that says how to repeat it."""
STAND_INS = "stand_ins"
"""Key of the context's meta: paths of temporary files, and what messages call them."""


class Commands(click.Group):
    """The group of all commands, which reports their errors and warnings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look for --log-json first, since what is wrong with other arguments is logged too."""
        before = args[: args.index("--")] if "--" in args else args
        ctx.meta[AS_JSON] = FLAG in before
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report an error in its input as one line."""
        with logging_as_json(ctx):
            try:
                with ending_on_signals(), self._showing_warnings(ctx):
                    return super().invoke(ctx)
            except KeyboardInterrupt as stop:
                code = getattr(stop, "exit_code", 130)
                message = "Interrupted; no incomplete output was left behind."
                write(message, level=logging.ERROR, event="error")
                if any(thread.name.startswith(READER) for thread in threading.enumerate()):
                    # A reader still waits for a pipe or a store, and a normal exit would wait for
                    # the reader.
                    sys.stderr.flush()
                    os._exit(code)
                sys.exit(code)
            except (click.Abort, click.exceptions.Exit, BrokenPipeError):
                raise
            except Exception as error:
                self._fail(ctx, error)

    def _fail(self, ctx: click.Context, error: Exception) -> NoReturn:
        """Report an error as a record, or as a line if it is one of the input."""
        of_input = isinstance(error, (ValueError, TypeError, OSError, ImportError, MemoryError))
        if ctx.meta.get(AS_JSON):
            code = getattr(error, "exit_code", 1)
            if isinstance(error, click.ClickException):
                message = error.format_message()
            else:
                message = self._words(ctx, _message(error))
            report(error, message)
            raise click.exceptions.Exit(code) from error
        if isinstance(error, click.ClickException) or not of_input or ctx.meta.get("debug"):
            raise error
        raise click.ClickException(self._words(ctx, _message(error))) from error

    @contextmanager
    def _showing_warnings(self, ctx: click.Context) -> Iterator[None]:
        """Print the warnings of the library, each once."""
        said: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            text = self._words(ctx, " ".join(str(message).split()))
            if not ctx.meta.get("quiet") and text not in said:
                said.add(text)
                prefix = "" if ctx.meta.get(AS_JSON) else "Warning: "
                write(f"{prefix}{text}", level=logging.WARNING, event="warning")

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    def _words(self, ctx: click.Context, message: str) -> str:
        """A message of the library in the words of the command that runs."""
        for path, name in ctx.meta.get(STAND_INS, {}).items():
            message = message.replace(repr(path), name).replace(path, name)
        message = without_passwords(without_queries(message))
        others = [command for command in self.commands.values() if command.params]
        return Flags(self.commands.get(ctx.invoked_subcommand or ""), others).rewrite(message)


def without_queries(text: str) -> str:
    """Text without the queries of URIs: presigned ones hold secrets, which belong in no log."""
    return _QUERY.sub(r"\1?…", text)


def without_passwords(text: str) -> str:
    """Text without the user and the password of URIs."""
    return _PASSWORD.sub(r"\1…@", text)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {str(error.filename)!r}" if error.filename else "")
    return " ".join(str(error).split()) or type(error).__name__
