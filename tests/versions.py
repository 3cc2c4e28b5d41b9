"""`make test-versions`: quick tests on every supported Python, and with the oldest dependencies.

Each environment is made afresh, has lwcs as a user installs it (the package, not the checkout), and
runs the tests in QUICK. The oldest versions that pyproject.toml allows are tried on the oldest
Python. This script needs no packages itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".versions"
OLDEST = "oldest"
QUICK = [
    "tests/cli/test_commands.py",
    "tests/description",
    "tests/plotting",
    "tests/estimators/test_kmeans.py",
    "tests/estimators/test_mixture_files.py",
    "tests/estimators/test_mixture_like_sklearn.py",
    "tests/estimators/test_sklearn_checks.py",
    "tests/runtime",
    "tests/kernels",
    "tests/reporting/test_report.py",
    "tests/sources/test_chunked.py",
    "tests/sources/test_columns.py",
    "tests/sources/test_datasets.py",
    "tests/sources/test_files.py",
    "tests/test_coreset_files.py",
    "tests/test_import.py",
    "tests/test_streaming.py",
]
"""Tests that touch every dependency: readers, kernels, estimators, displays and commands."""
MARKS = "not soak and not engines and not remote and not statistical and not gpu"


@dataclass(frozen=True)
class Environment:
    """A Python, and whether its dependencies are the oldest or the newest ones."""

    version: str
    oldest: bool = False

    @property
    def name(self) -> str:
        return f"{self.version}-{OLDEST}" if self.oldest else self.version


def main(names: list[str]) -> int:
    """Test the environments of these names, or all; say how each of them went."""
    project = read_project()
    known = {each.name: each for each in environments(project)}
    if unknown := [name for name in names if name not in known]:
        print(f"{', '.join(unknown)}: no such environment; choose from {', '.join(known)}.")
        return 2
    verdicts = {name: verdict(known[name], project) for name in names or known}
    print("\n" + "\n".join(f"{name:12} {each}" for name, each in verdicts.items()))
    good = ("passed",) if names else ("passed", "not tested")
    return 0 if all(each.startswith(good) for each in verdicts.values()) else 1


def read_project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def environments(project: dict[str, Any]) -> list[Environment]:
    """The Pythons that the classifiers name; the first also with the oldest dependencies."""
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    versions = [found[1] for each in project["classifiers"] if (found := pattern.fullmatch(each))]
    return [Environment(versions[0], oldest=True), *map(Environment, versions)]


def oldest_versions(project: dict[str, Any]) -> list[str]:
    """One line "name==version" for each "name>=version" that users can install, extras too."""
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    wanted = re.fullmatch(r"lwcs\[(.*)\]", everything)[1].split(",")
    required = [*project["dependencies"], *(each for extra in wanted for each in extras[extra])]
    return [oldest_version(each) for each in required]


def oldest_version(requirement: str) -> str:
    """The requirement of exactly the oldest version that is allowed; without extras."""
    found = re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} has no minimum; write it as name>=version")
    return f"{found[1]}=={found[2]}"


def interpreter(version: str) -> str | None:
    """A Python of this version: the one that runs, one on PATH, or one of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [sys.executable, shutil.which(f"python{version}"),
                  *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]  # fmt: skip
    for path in filter(None, candidates):
        # A shim of pyenv is on PATH also where its Python is not chosen, and then fails.
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return path
    return None


def verdict(environment: Environment, project: dict[str, Any]) -> str:
    """Make the environment and run the tests in it; say in a few words how it went."""
    python = interpreter(environment.version)
    if python is None:
        return f"not tested: no Python {environment.version} on this machine"
    print(f"\n{environment.name}: {python}", flush=True)
    folder = HOME / environment.name
    shutil.rmtree(folder, ignore_errors=True)
    begun = time.monotonic()
    if run(python, "-m", "venv", str(folder)) or install(environment, folder, project):
        return "failed: its packages cannot be installed"
    seconds, begun = time.monotonic() - begun, time.monotonic()
    # Old packages use what newer ones, which no minimum holds back, have deprecated.
    calm = ["-W", "ignore::DeprecationWarning"] if environment.oldest else []
    tests = ["-m", "pytest", "-q", "-n", "2", "-m", MARKS, *calm, *QUICK]
    failed = run(str(folder / "bin/python"), *tests)
    times = f"{seconds:.0f} s to install, {time.monotonic() - begun:.0f} s of tests"
    return f"{'failed' if failed else 'passed'} ({times})"


def install(environment: Environment, folder: Path, project: dict[str, Any]) -> int:
    """Install lwcs and what its tests need."""
    limits: list[str] = []
    if environment.oldest:
        file = folder / "oldest.txt"
        file.write_text("\n".join(oldest_versions(project)) + "\n")
        limits = ["--constraint", str(file)]
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    return run(*pip, f"{ROOT}[test]", *limits)


def run(*command: str) -> int:
    """Run a command from the checkout; return its exit status."""
    # The installed package is tested: a PYTHONPATH of the caller would hide it.
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(command, cwd=ROOT, env=clean, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
