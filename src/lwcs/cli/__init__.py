"""The command line interface: the group of all commands, whose modules are in `commands`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

import lwcs
from lwcs.cli import options
from lwcs.cli.commands.assign import assign
from lwcs.cli.commands.build import build
from lwcs.cli.commands.check import check
from lwcs.cli.commands.choose_k import choose_k
from lwcs.cli.commands.clusters import exemplars, summary
from lwcs.cli.commands.compare import compare
from lwcs.cli.commands.demo import demo
from lwcs.cli.commands.evaluate import certify, drift
from lwcs.cli.commands.fit import fit, mixture
from lwcs.cli.commands.inspect import inspect
from lwcs.cli.commands.report import report
from lwcs.cli.errors import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lwcs.__version__, prog_name="lwcs")
def main() -> None:
    """Cluster data of any size through lightweight coresets."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.log
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    Example: eval "$(lwcs completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "lwcs", "_LWCS_COMPLETE").source())


for command in (
    check, build, fit, mixture, assign, summary, exemplars, certify, drift, choose_k, inspect,
    report, compare, demo, completion,
):  # fmt: skip
    main.add_command(command)
