"""The table of `benchmarks.gpu`, and the page that has it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version

import torch

import lwcs

Time = float | str
"""Seconds, or the reason why there are none."""

NAMES = ("what", "rows × columns", "ours", "against", "theirs", "ratio", "target", "reached")
HEADINGS = f"| {' | '.join(NAMES)} |\n|{'---|' * len(NAMES)}"
LIBRARIES = ("triton", "flash-kmeans", "numpy")


@dataclass(frozen=True, slots=True)
class Line:
    """What was measured, beside its peer or limit; `most` and `least` are the target."""

    what: str
    shape: tuple[int, ...]
    ours: Time
    peer: str = ""
    theirs: Time = ""
    limit: bool = False
    """Whether the peer is a limit, so that nothing can be faster."""
    most: float | None = None
    """Target: at most this multiple of the time of the limit."""
    least: float | None = None
    """Target: at least this many times faster than the peer."""
    excess: float | None = None
    """Our cost over theirs, minus 1."""
    above: float | None = None
    """The largest excess."""


def cells(line: Line, full: bool) -> str:
    """A line of the table; fewer rows than the targets are set for have none."""
    ratio, target, reached = "", "", ""
    if isinstance(line.ours, float) and isinstance(line.theirs, float):
        longer = line.ours / line.theirs
        ratio = f"{longer:.2f} ×" if line.limit else f"{1 / longer:.2f} × faster"
        if full and line.most:
            target, reached = f"≤ {line.most:g} ×", _word(longer <= line.most)
        elif full and line.least:
            target, reached = f"≥ {line.least:g} × faster", _word(1 / longer >= line.least)
        if line.excess is not None:
            ratio += f", cost {line.excess:+.2%}"
        if target and line.excess is not None and line.above is not None:
            target += f", cost ≤ {line.above:+.0%}"
            reached = _word(reached == "yes" and line.excess <= line.above)
    shape = " × ".join(f"{side:,}" for side in line.shape)
    columns = (line.what, shape, _shown(line.ours), line.peer, _shown(line.theirs))
    return f"| {' | '.join((*columns, ratio, target, reached))} |".replace("  ", " ")


def _word(reached: bool) -> str:
    return "yes" if reached else "NO"


def _shown(seconds: Time) -> str:
    if isinstance(seconds, str):
        return seconds.replace("|", "/")
    return f"{1000 * seconds:,.4g} ms" if seconds < 1 else f"{seconds:,.2f} s"


def versions(device: str) -> str:
    """The GPU and the libraries."""
    place = "the CPU, to try the script"
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        place = f"{properties.name} ({properties.total_memory / 2**30:.0f} GiB)"
        place += f", CUDA {torch.version.cuda}"
    libraries = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    return (
        f"{place}, Python {platform.python_version()}, lwcs {lwcs.__version__}, "
        f"torch {torch.__version__}, {libraries}"
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def page(lines: list[str], device: str, arguments: str, verdict: str) -> str:
    """`docs/results/gpu.md`."""
    command = f"python -m benchmarks.gpu {arguments}".strip()
    text = [
        "# On a GPU",
        "",
        f"Measured {date.today()} on {versions(device)}, by `{command}`.",
        "",
        *([verdict, ""] if verdict else []),
        "Contestants take turns, and the best of several rounds counts, by the wall clock, Python",
        "included; the rows are on the device already. A bare read is `X.amax()`. Rows with heavy",
        "tails are 1,024 clusters of log-normal sizes with the tails of Student's t(2). Costs are",
        "on all rows, in float64, by the same function for all.",
        "",
        HEADINGS,
        *lines,
        "",
    ]
    return "\n".join(text)
