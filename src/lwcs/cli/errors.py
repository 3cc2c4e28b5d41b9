"""How commands report errors and warnings: one line each, in the words of the command.

Exit codes are 0 for success, 1 for bad data, 2 for bad usage, 130 for an interrupt, and 143 and 129
for SIGTERM and SIGHUP. An error has a traceback with --debug; warnings are not shown with --quiet.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.flags import Flags
from lwcs.cli.signals import ending_on_signals
from lwcs.foundation.parallel import READER

if TYPE_CHECKING:
    from collections.abc import Iterator

STAND_INS = "stand_ins"
"""Key of the context's meta: paths of temporary files, and what messages call them."""


class Commands(click.Group):
    """The group of all commands, which reports their errors and warnings."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report an error in its input as one line."""
        try:
            with ending_on_signals(), self._showing_warnings(ctx):
                return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            code = getattr(stop, "exit_code", 130)
            click.echo("Interrupted; no incomplete output was left behind.", err=True)
            if any(thread.name == READER for thread in threading.enumerate()):
                # The reader still waits for a pipe, and a normal exit would wait for the reader.
                sys.stderr.flush()
                os._exit(code)
            sys.exit(code)
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            if ctx.meta.get("debug") or isinstance(error, BrokenPipeError):
                raise
            raise click.ClickException(self._words(ctx, _message(error))) from error

    @contextmanager
    def _showing_warnings(self, ctx: click.Context) -> Iterator[None]:
        """Print the warnings of the library, each once."""
        said: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            text = self._words(ctx, " ".join(str(message).split()))
            if not ctx.meta.get("quiet") and text not in said:
                said.add(text)
                click.echo(f"Warning: {text}", err=True)

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    def _words(self, ctx: click.Context, message: str) -> str:
        """A message of the library in the words of the command that runs."""
        for path, name in ctx.meta.get(STAND_INS, {}).items():
            message = message.replace(repr(path), name).replace(path, name)
        others = [command for command in self.commands.values() if command.params]
        return Flags(self.commands.get(ctx.invoked_subcommand or ""), others).rewrite(message)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {str(error.filename)!r}" if error.filename else "")
    return " ".join(str(error).split()) or type(error).__name__
