"""The pictures of docs/guide/figures.md: what the examples of that page save."""

from __future__ import annotations

import doctest
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "guide" / "figures.md"


def guide_figure(name: str) -> Callable[[Path], None]:
    """The picture that the page saves under this name."""

    def draw(path: Path) -> None:
        shutil.copyfile(_saved() / name, path)

    return draw


@cache
def _saved() -> Path:
    """A folder with all pictures of the page, whose examples are run there once."""
    folder, before = Path(tempfile.mkdtemp()), Path.cwd()
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    os.chdir(folder)
    try:
        failed = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags).failed
    finally:
        os.chdir(before)
    if failed:
        raise SystemExit(f"{failed} examples of {PAGE.name} failed")
    return folder
