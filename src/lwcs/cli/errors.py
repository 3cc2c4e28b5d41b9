"""How commands fail: one line with the way out, and an exit code; a traceback with --debug.

0 success, 1 bad data, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import click

from lwcs.foundation.parallel import READER


class Commands(click.Group):
    """The group of all commands, which answers their errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn what went wrong with its input into one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted; nothing was left half written.", err=True)
            if any(thread.name == READER for thread in threading.enumerate()):
                # Still waiting for a pipe: the end of the process would wait for it, too.
                sys.stderr.flush()
                os._exit(130)
            sys.exit(130)
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            if ctx.meta.get("debug") or isinstance(error, BrokenPipeError):
                raise
            raise click.ClickException(_said(error)) from error


def _said(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {str(error.filename)!r}"
    return " ".join(str(error).split()) or type(error).__name__
