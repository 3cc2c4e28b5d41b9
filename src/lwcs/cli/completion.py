"""`lwcs completion`: shell completion of commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lwcs.cli.options import logging


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@logging
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    Example: eval "$(lwcs completion bash)"
    """
    from lwcs.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "lwcs", "_LWCS_COMPLETE").source())
