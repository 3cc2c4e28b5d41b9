"""One command, run in this process: its exit code, what it printed and what it said."""

from __future__ import annotations

from click.testing import CliRunner

from lwcs.cli import main


def run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
