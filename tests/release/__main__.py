"""`make dist TAG=v0.5.0`: whether the tag names the version, and changelog and citation have it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.versions import ROOT


def problem_with(tag: str, root: Path = ROOT) -> str:
    """Why this checkout must not be published under a tag; "" if it may be."""
    package = (root / "src/lwcs/__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.*)"$', package, re.MULTILINE)[1]
    if tag != f"v{version}":
        return f"the tag {tag} is not v{version}, the version in src/lwcs/__init__.py"
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## {re.escape(version)} — \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        return f"CHANGELOG.md has no date for {version}; write '## {version} — year-month-day'"
    citation = (root / "CITATION.cff").read_text("utf-8")
    for line in (rf"version: {re.escape(version)}", r"date-released: \d{4}-\d\d-\d\d"):
        if not re.search(rf"^{line}$", citation, re.MULTILINE):
            return f"CITATION.cff has no line '{line.partition(':')[0]}: …' for {version}"
    return ""


if __name__ == "__main__":
    sys.exit(problem_with(sys.argv[1]) or 0)
