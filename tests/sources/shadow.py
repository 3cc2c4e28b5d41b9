"""Another lwcs, or none, for processes that a test starts."""

from __future__ import annotations

from pathlib import Path

# An editable installation puts a finder of its own before the search path.
_NO_FINDER = """
import sys
sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__name__.startswith("Scikit")]
"""


def shadow_lwcs(folder: Path, package: str) -> str:
    """Write a package that shadows lwcs where PYTHONPATH begins with this folder; return it."""
    (folder / "lwcs").mkdir(parents=True)
    (folder / "lwcs" / "__init__.py").write_text(package, "utf-8")
    (folder / "sitecustomize.py").write_text(_NO_FINDER, "utf-8")
    return str(folder)
