"""`python -m benchmarks [--markdown FILE] [NAME …]`: every benchmark, as one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    build,
    cores,
    default,
    divergences,
    engines,
    files,
    kmeans,
    mixture,
    native,
    remote,
    samplers,
)
from benchmarks.measure import Result, machine

SUITES: dict[str, Callable[[], Iterator[Result]]] = {
    "build": build.benchmarks,
    "kmeans": kmeans.benchmarks,
    "native": native.benchmarks,
    "cores": cores.benchmarks,
    "default": default.benchmarks,
    "samplers": samplers.benchmarks,
    "files": files.benchmarks,
    "remote": remote.benchmarks,
    "engines": engines.benchmarks,
    "mixture": mixture.benchmarks,
    "divergences": divergences.benchmarks,
}
HEADINGS = ("what", "rows", "columns", "ours", "against", "theirs", "ratio", "target", "reached")


def cells(result: Result) -> list[str]:
    plain = "MB" in result.what or "1e6" in result.what
    ours, theirs = (f"{t:,.1f}" if plain else _duration(t) for t in (result.ours, result.theirs))
    return [
        result.what, f"{result.rows:,}", f"{result.columns:,}", ours, result.peer, theirs,
        f"{result.ratio:.2f}", result.target, _verdict(result),
    ]  # fmt: skip


def _duration(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:,.0f} µs"


def _verdict(result: Result) -> str:
    if not result.target:
        return ""
    return "yes" if result.reached else "NO"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    options = parser.parse_args()
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(SUITES)}")
    lines = [
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
    ]
    print(machine(), *lines, sep="\n")
    for name in options.suites or SUITES:
        for result in SUITES[name]():
            lines.append(f"| {' | '.join(cells(result))} |")
            print(lines[-1], flush=True)
    if options.markdown:
        command = f"python -m {' '.join(['benchmarks', *options.suites])}"
        text = [f"Measured {machine()}, by `{command}`.", "", *lines, ""]
        options.markdown.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
