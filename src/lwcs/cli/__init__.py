"""The command line: one file a command."""

from __future__ import annotations

import click

import lwcs
from lwcs.cli.compare import compare
from lwcs.cli.demo import demo


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lwcs.__version__, prog_name="lwcs")
def main() -> None:
    """Cluster data of any size through lightweight coresets."""


main.add_command(compare)
main.add_command(demo)
