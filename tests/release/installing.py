"""Environments that have nothing but lwcs, as it was built, and what it depends on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tests.versions import ROOT, read_project


class Empty:
    """An environment with the dependencies of lwcs, linked from the one that runs the tests."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        link(read_project()["dependencies"], self.packages)

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def install(self, package: Path, tools: Path, **variables: str) -> None:
        """Install a wheel, or an sdist with the build backend in `tools`, without the network."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin/python"), "install",
               "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]  # fmt: skip
        run([*pip, str(package)], PYTHONPATH=str(tools), **variables)

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment outside of the checkout; return what it printed."""
        return run([str(self.folder / "bin" / program), *arguments], cwd=self.folder)


def run(command: list[str], cwd: Path = ROOT, **variables: str) -> str:
    """Run a command that must succeed, without the search path of whoever runs the tests."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=cwd, env=clean | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def link(requirements: list[str], folder: Path) -> None:
    """Link the packages that these requirements need, and what those need, into a folder."""
    folder.mkdir(exist_ok=True)
    for name in sorted(needed(requirements)):
        package = distribution(name)
        for entry in {file.parts[0] for file in package.files or ()}:
            if entry not in ("..", "__pycache__") and not (folder / entry).exists():
                (folder / entry).symlink_to(Path(str(package.locate_file(entry))))


def needed(requirements: list[str]) -> set[str]:
    """Names of the packages that these need, directly or not, without anything optional."""
    names: set[str] = set()
    waiting = [each for each in requirements if "extra ==" not in each]
    while waiting:
        name = re.match(r"[\w.-]+", waiting.pop())[0].lower().replace("_", "-")
        if name in names:
            continue
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:  # one for other systems or other versions of Python
            continue
        names.add(name)
        waiting += [each for each in requires if "extra ==" not in each]
    return names
