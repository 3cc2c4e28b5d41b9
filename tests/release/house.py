"""`make house`: the size of the source tree, and of what a fit touches, against limits.

A limit may be raised, in a commit that says why. Functions of the native core do not count as
entered: Python does not see their calls.
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import threading
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType

from tests.versions import ROOT

# The aim for lines of code is 31,000. Above it are mostly loops that stand two or three times, for
# NumPy, C++, torch and Triton (4,700 lines in kernels and geometry); prefetching from stores, which
# no library was measured to replace; and errors that name what to do. Raised by 300 for predictions
# of few rows in microseconds (110), one listing per pass instead of a request per file (95),
# confirmed uploads (35), signals and limits.
# By 3,000 for answers that people can use: what clusters are (summaries that files of models keep,
# typical rows of any source: 950), tables that are looked at before they are clustered (1,100),
# choices of k that are made again, with reasons (450), intervals and alarms that hold for rare rows
# and unequal sizes (150), files read block by block, pipes, and suggestions for misspelled words
# (500). By 240 for splits and merges of clusters, and iterations that go on from moved centers. By
# 160 for bfloat16, bytes on devices, rows that were quantized with a scale, bounds without asserts.
# The aim for files is 210. Above it are summaries, typical rows, tables that are looked at, and
# their commands (12); evidence for choices of k (2); types of arguments, terminals, errors about
# paths, sums in levels, rows with a scale, splits and merges (6). Thirteen more are kernels that
# stand file by file as the core does (scans, tiles, seeding, rows in CSR, bits, teams), and their
# protocol: of 195 lines, most of them imports and the one list of arguments that all three are
# checked against. A fit enters five more of these files, and loads six modules beyond 90. One is
# EM for rows of the host, which has the functions of EM for rows on a device.
LIMITS = {
    "Python files": 240,
    "lines of code": 35_365,
    "modules in the largest folder": 16,
    "files that a default fit enters": 51,
    "modules that a default fit loads": 96,
    "module names used twice": 0,
    "class names used twice": 0,
}
PARALLEL_FOLDERS = ("kernels/*",)
"""Folders that implement one protocol: a module of one may have its twin's name in another."""
REPEATED_CLASSES = ("CoresetKMeans",)
"""Public both in lwcs and in lwcs.spark."""

SOURCES = ROOT / "src"
PACKAGE = SOURCES / "lwcs"
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENDMARKER)  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """A number that has a limit, and where it comes from if that helps to lower it."""

    name: str
    value: int
    details: str = ""

    @property
    def excess(self) -> int:
        return max(0, self.value - LIMITS[self.name])

    def __str__(self) -> str:
        line = f"{self.name:34}{self.value:>7,}   limit {LIMITS[self.name]:>7,}"
        return f"{line}   {self.details}".rstrip()


def main() -> int:
    """Print every measure beside its limit; say which limits are broken and what to do."""
    measures = [*measure_tree(), *measure_fit(), *measure_names()]
    print("\n".join(map(str, measures)))
    broken = [each for each in measures if each.excess]
    if broken:
        print("\nBroken limits:")
        print("\n".join(f"  {each.name}: {each.excess:,} too many" for each in broken))
        print("Make the tree smaller, or raise the limit in tests/release/house.py, in a commit")
        print("that says why.")
    return 1 if broken else 0


def measure_tree() -> Iterator[Measure]:
    """Files, lines, and modules in one folder."""
    files = list(SOURCES.rglob("*.py"))
    yield Measure("Python files", len(files))
    yield Measure("lines of code", sum(count_lines(path.read_text("utf-8")) for path in files))
    folders: dict[Path, int] = defaultdict(int)
    for path in modules():
        folders[path.parent] += 1
    largest = max(folders, key=lambda folder: folders[folder])
    yield Measure("modules in the largest folder", folders[largest], str(largest.relative_to(ROOT)))


def count_lines(source: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings, also those of constants."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                code.difference_update(range(first, last + 1))
    return len(code)


def modules() -> list[Path]:
    """The Python files of the package, without the `__init__.py` of its folders."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def measure_names() -> Iterator[Measure]:
    """Modules and classes that share a name, so that a reader must ask which is meant."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        folder = path.parent.relative_to(PACKAGE).as_posix()
        place = next((each for each in PARALLEL_FOLDERS if fnmatch(folder, each)), folder)
        if place not in places[path.stem] or place not in PARALLEL_FOLDERS:
            places[path.stem].append(place)
    yield repeated("module names used twice", places)
    classes: dict[str, list[str]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in REPEATED_CLASSES:
                classes[node.name].append(path.stem)
    yield repeated("class names used twice", classes)


def repeated(name: str, places: dict[str, list[str]]) -> Measure:
    """How many of these names have more than one place, and which."""
    found = {key: len(value) for key, value in sorted(places.items()) if len(value) > 1}
    return Measure(name, len(found), ", ".join(f"{key} ×{n}" for key, n in found.items()))


def measure_fit() -> Iterator[Measure]:
    """Files that a default fit enters, and modules that it loads, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.release.house", "fit"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(SOURCES)}, stdout=subprocess.PIPE,
        text=True, check=True,
    )  # fmt: skip
    for name, value in json.loads(done.stdout).items():
        yield Measure(name, value)


def fit() -> None:
    """Fit once, and print as JSON what it entered and loaded."""
    import numpy as np

    import lwcs

    rows = np.random.default_rng(0).lognormal(size=(50_000, 8))
    model = lwcs.CoresetKMeans(100, random_state=0)
    entered: set[str] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path not in entered and is_source(path) and not imports(frame):
            entered.add(path)

    threading.setprofile(enter)
    sys.setprofile(enter)
    model.fit(rows)
    sys.setprofile(None)
    threading.setprofile(None)
    loaded = [name for name in sys.modules if name.partition(".")[0] == "lwcs"]
    print(json.dumps({"files that a default fit enters": len(entered),
                      "modules that a default fit loads": len(loaded)}))  # fmt: skip


def is_source(path: str) -> bool:
    return path.startswith(f"{PACKAGE}{os.sep}")


def imports(frame: FrameType | None) -> bool:
    """Whether this call is part of importing a module of the package."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and is_source(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    if sys.argv[1:] == ["fit"]:
        fit()
    else:
        sys.exit(main())
