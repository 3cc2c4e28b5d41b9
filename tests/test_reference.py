"""The reference is complete: a page per public name, valid examples, a source per picture."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import sys

import click
import pytest

from lwcs.cli import main
from tests.pages import DOCS, PAGES, ROOT

sys.path.insert(0, str(DOCS / "_ext"))

from command_help import as_code
from public_names import SHOWN, members, public

NAMES = public()
STATIC = DOCS / "_static"
CALLABLE = {name: value for name, value in NAMES.items() if callable(value)}
PICTURE = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)|^```\{(?:image|figure)\} (\S+)", re.MULTILINE)


def listed():
    """The names that the index of the reference makes pages of."""
    text = (DOCS / "api" / "index.md").read_text("utf-8")
    return [
        line.strip()
        for block in re.findall(r"autosummary::\n(.*?)```", text, re.DOTALL)
        for line in block.split("\n")
        if re.fullmatch(r"   [A-Za-z_.]+", line)
    ]


def test_every_public_name_has_one_page():
    assert sorted(listed()) == sorted(CALLABLE)


@pytest.mark.parametrize("name", sorted(CALLABLE))
def test_every_public_name_has_an_example(name):
    words = inspect.getdoc(CALLABLE[name]) or ""
    examples = words.partition("Examples\n--------\n")[2]
    assert ">>> " in examples


def test_the_reference_names_members_that_exist():
    assert set(SHOWN) <= set(NAMES)
    for name, kinds in members().items():
        kind = NAMES[name.removeprefix("lwcs.")]
        for member in (*kinds["methods"], *kinds["properties"]):
            assert inspect.getdoc(getattr(kind, member)), f"{name}.{member}"


def test_every_result_names_a_command_that_exists():
    text = (DOCS / "results" / "index.md").read_text("utf-8")
    rows = re.findall(r"^\| \[[^]]+\]\((\w+)\.md\) .*\| `([^`]+)` \|$", text, re.MULTILINE)
    targets = (ROOT / "Makefile").read_text("utf-8")
    shown = {page for page, _ in rows}
    toctree = re.search(r"\{toctree\}\n:hidden:\n\n(.*?)```", text, re.DOTALL)
    assert toctree
    assert shown == set(toctree[1].split())
    for page, command in rows:
        tool, _, rest = command.partition(" ")
        if tool == "make":
            assert re.search(rf"^{rest}:", targets, re.MULTILINE), page
        else:
            module = rest.removeprefix("-m ").replace(".", "/")
            assert (ROOT / f"{module}.py").exists(), page


def pictures():
    """The pictures that pages show, as paths."""
    return {
        (page.parent / (first or second)).resolve()
        for page in PAGES
        for first, second in PICTURE.findall(page.read_text("utf-8"))
    }


def made_by_screenshots():
    """The pictures of docs/screenshots.py, and those that the page on figures draws itself."""
    tree = ast.parse((DOCS / "screenshots.py").read_text("utf-8"))
    [table] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "PICTURES"
    ]
    assert isinstance(table, ast.Dict)
    drawn = re.findall(r'"([\w-]+\.png)"', (DOCS / "guide" / "figures.md").read_text("utf-8"))
    names = {ast.literal_eval(key) for key in table.keys if key is not None}
    return {STATIC / name for name in names} | {STATIC / "figures" / name for name in drawn}


def test_every_picture_exists_and_is_made_by_a_script():
    shown, made = pictures(), made_by_screenshots()
    assert len(shown) > 3
    for path in shown:
        assert path.exists(), path
        assert path.parent.name == "results" or path in made, path


def test_no_picture_is_left_that_no_page_shows():
    static = {path for path in STATIC.rglob("*.*") if path.suffix != ".css"}
    assert static <= pictures()


@pytest.mark.parametrize("name", sorted(main.commands))
def test_the_example_of_a_command_is_one_that_it_accepts(name):
    command = main.commands[name]
    for line in re.findall(r"Example: lwcs (.*)", command.help or ""):
        called, *arguments = shlex.split(line)
        assert called == name
        with main.make_context("lwcs", [name], resilient_parsing=True) as context:
            command.parse_args(click.Context(command, parent=context), arguments)


def test_help_is_shown_as_it_is_in_a_terminal():
    lines = ["Files such as *.csv, by `lwcs fit`.", "", 'Example: lwcs fit "*.csv" -k 3']
    as_code(None, None, lines)
    assert lines == [
        r"Files such as \*.csv, by ``lwcs fit``.",
        "",
        ".. code-block:: console",
        "",
        '   $ lwcs fit "*.csv" -k 3',
    ]


def test_the_table_of_the_readme_is_what_the_benchmark_measured():
    measured = "".join(
        (ROOT / f"docs/results/bench_{suite}.md").read_text("utf-8")
        for suite in ("kmeans", "default")
    )
    rows = re.findall(
        r"^\| `.*\| \**([\d,.]+) ms\** \| \**([\d.]+) ?%?\** \|$",
        (ROOT / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert len(rows) == 6
    known = [float(ms.replace(",", "")) for ms in re.findall(r"([\d,.]+) ms", measured)]
    for ms, error in rows:
        own = float(ms.replace(",", ""))
        assert any(abs(own - each) <= 5e-4 * own for each in known), ms
        assert error == "0" or f"error {error}%" in measured
