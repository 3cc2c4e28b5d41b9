"""How commands report errors: one line and an exit code, and a traceback with --debug.

Exit codes are 0 for success, 1 for bad data, 2 for bad usage, 130 for an interrupt, and 143 and 129
for SIGTERM and SIGHUP.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import click

from lwcs.cli.signals import ending_on_signals
from lwcs.foundation.parallel import READER


class Commands(click.Group):
    """The group of all commands, which reports their errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report an error in its input as one line."""
        try:
            with ending_on_signals():
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
            raise click.ClickException(_message(error)) from error


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {str(error.filename)!r}"
    return " ".join(str(error).split()) or type(error).__name__
