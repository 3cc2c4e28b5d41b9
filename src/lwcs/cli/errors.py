"""What commands share: errors in one line instead of a traceback, lists of numbers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def explained() -> Iterator[None]:
    """Show what was wrong with the input as one line; a bug still shows its traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as error:
        if isinstance(error, NotADirectoryError | FileExistsError):
            raise click.ClickException(f"{error.strerror}: {error.filename}") from error
        raise click.ClickException(str(error)) from error


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Whole numbers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 1000,2000 into [1000, 2000]."""
        if not isinstance(value, str):
            return value
        try:
            return [int(part.replace("_", "")) for part in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is no list of whole numbers such as 1000,2000", param, ctx)
