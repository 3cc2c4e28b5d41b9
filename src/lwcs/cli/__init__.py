"""The command line interface, one file per command."""

from __future__ import annotations

import click

import lwcs
from lwcs.cli.assign import assign
from lwcs.cli.build import build
from lwcs.cli.certify import certify
from lwcs.cli.choose_k import choose_k
from lwcs.cli.compare import compare
from lwcs.cli.completion import completion
from lwcs.cli.demo import demo
from lwcs.cli.drift import drift
from lwcs.cli.errors import Commands
from lwcs.cli.fit import fit
from lwcs.cli.inspect import inspect
from lwcs.cli.mixture import mixture
from lwcs.cli.report import report


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lwcs.__version__, prog_name="lwcs")
def main() -> None:
    """Cluster data of any size through lightweight coresets."""


for command in (
    build, fit, mixture, assign, certify, drift, choose_k, inspect, report, compare, demo,
    completion,
):  # fmt: skip
    main.add_command(command)
