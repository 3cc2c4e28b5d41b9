"""What the page on stability calls public exists, and what others show is on the page."""

from __future__ import annotations

import pkgutil
import re

import pytest

import lwcs
from lwcs.cli import errors, main
from tests.release.surface import NAMES_ON_PAGE, PAGE
from tests.versions import ROOT, environments, read_project


@pytest.mark.parametrize("name", NAMES_ON_PAGE)
def test_every_name_on_the_page_exists(name):
    if name.startswith("lwcs.spark."):
        pytest.importorskip("pyspark")
    assert pkgutil.resolve_name(name) is not None


def test_all_functions_of_theory_and_classes_of_spark_are_on_the_page():
    theory = [name for name, value in vars(lwcs.theory).items()
              if callable(value) and getattr(value, "__module__", "") == lwcs.theory.__name__
              and not name.startswith("_")]  # fmt: skip
    assert theory
    assert {f"lwcs.theory.{name}" for name in theory} <= set(NAMES_ON_PAGE)
    spark = (ROOT / "src/lwcs/spark/__init__.py").read_text("utf-8")
    public = re.findall(r'"(\w+)"', spark[spark.index("__all__") :])
    assert public
    assert {f"lwcs.spark.{name}" for name in public} <= set(NAMES_ON_PAGE)


def test_what_the_page_on_extending_imports_is_public():
    shown = (ROOT / "docs/extending.md").read_text("utf-8")
    imported = [
        f"{home}.{name}"
        for home, names in re.findall(r"^>>> from (lwcs\S*) import (.+)$", shown, re.MULTILINE)
        for name in names.split(", ")
    ]
    assert imported
    for name in imported:
        home, _, last = name.rpartition(".")
        exported = home == "lwcs.divergences" and last in lwcs.divergences.__all__
        assert exported or name in NAMES_ON_PAGE, name


def test_options_on_the_page_exist():
    for command, option in re.findall(r"`lwcs (\w+) (--[\w-]+)`", PAGE):
        assert any(option in each.opts for each in main.commands[command].params)
    everywhere = set.intersection(
        *({option for each in command.params for option in each.opts}
          for command in main.commands.values())
    )  # fmt: skip
    assert "--log-json" in everywhere


def test_the_exit_codes_are_those_of_the_commands():
    listed = re.search(r"\| code \| meaning \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE)[1]
    codes = {int(code) for row in listed.splitlines() for code in row.split("|")[1].split(",")}
    said = errors.__doc__.partition("Exit codes are")[2].partition(". ")[0]
    assert codes == set(map(int, re.findall(r"\b\d+\b", said)))


def test_the_page_names_the_pythons_that_are_tested():
    tried = [each.version for each in environments(read_project())]
    assert f"**Python** {tried[0]} to {tried[-1]}" in PAGE
    assert lwcs.__version__.startswith("0."), "1.0 needs another page"
