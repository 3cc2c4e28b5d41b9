"""The help texts of the commands, as sphinx-click shows them: examples as code, nothing as markup.

Help texts are written for a terminal. An asterisk in one of them is a glob pattern, and not the
beginning of emphasis.
"""

from __future__ import annotations

import re
from typing import Any

_KEPT = re.compile(r"(``[^`]*``|\*\*Required\*\*)")
_EXAMPLE = re.compile(r"^Example: (.*)$")


def as_code(_app: Any, _context: Any, lines: list[str]) -> None:
    """Show `lwcs fit` and the line of an example as code."""
    shown: list[str] = []
    for line in lines:
        example = _EXAMPLE.match(line)
        if example:
            shown += [".. code-block:: console", "", f"   $ {example[1]}"]
        else:
            shown.append(re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", plain(line)))
    lines[:] = shown


def without_markup(_app: Any, _context: Any, lines: list[str]) -> None:
    """Show asterisks of help texts as they are; sphinx-click itself writes **Required**."""
    lines[:] = [line if line.startswith("..") else plain(line) for line in lines]


def plain(line: str) -> str:
    """A line in which an asterisk is one, outside of code."""
    parts = _KEPT.split(line)
    return "".join(part if _KEPT.match(part) else part.replace("*", r"\*") for part in parts)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("sphinx-click-process-description", as_code)
    app.connect("sphinx-click-process-options", without_markup)
    return {"parallel_read_safe": True}
