"""`lwcs completion`: completion of commands and options for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what SHELL needs to complete lwcs: eval "$(lwcs completion bash)"."""
    from lwcs.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "lwcs", "_LWCS_COMPLETE").source())
