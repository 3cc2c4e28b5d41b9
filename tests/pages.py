"""Pages of the documentation as programs: their blocks, run in the order in which they are read.

Python blocks of a page share their variables, and blocks of commands its folder: a page may write a
file in Python and fit it by a command. Comments of a page, which readers do not see, say what else
there is to know:

    % needs: dask.array           a module, or an environment variable, without which it is skipped
    % not run: why                about the block that follows
    % if: deltalake               modules without which the block that follows is skipped
    % with: cuda -> cpu           what is replaced in the block that follows, when it is run
    % setup                       followed by lines of Python, each after a %
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = ("_build", "auto_gallery", "generated")
"""Folders of docs that `make docs` writes."""
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if not set(page.parts) & set(MADE)),
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PYTHON, CONSOLE = ("python", "pycon"), "console"
SHOWN = ("text", "json", "toml", "yaml", "sql", "csv", "bibtex", "none")
"""Languages of blocks that are only shown."""
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<marks>`{3,}|:{3,})(?P<rest>.*)$")
_CODE = re.compile(r"^\{code-block\}\s*(\w+)$")
_SHELL = re.compile(r"[|<>;&]|\$\(")


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    language: str
    text: str
    line: int
    not_run: str = ""
    """Why it is not run."""
    modules: tuple[str, ...] = ()
    """Without which it is skipped."""


def blocks(page: Path) -> list[Block]:
    """The blocks of code of a page, hidden ones among them."""
    found: list[Block] = []
    lines = page.read_text("utf-8").split("\n")
    at, not_run = 0, ""
    modules: tuple[str, ...] = ()
    replaced: list[tuple[str, str]] = []
    while at < len(lines):
        line, first = lines[at], at + 1
        at += 1
        if line.startswith("% not run:"):
            not_run = line.removeprefix("% not run:").strip()
            assert not_run, f"{page.name}, line {first}: say why the block is not run"
        elif line.startswith("% if:"):
            modules = tuple(name.strip() for name in line.removeprefix("% if:").split(","))
        elif line.startswith("% with:"):
            old, _, new = line.removeprefix("% with:").partition(" -> ")
            replaced.append((old.strip(), new.strip()))
        elif line.strip() in ("% setup", "% doctest setup"):
            hidden = []
            while at < len(lines) and lines[at].startswith("%"):
                hidden.append(re.sub(r"^% ?", "", lines[at]))
                at += 1
            found.append(Block("python", "\n".join(hidden), first + 1, "", modules))
            modules = ()
        elif (fence := _FENCE.match(line)) and fence["marks"][0] == "`" and fence["rest"].strip():
            rest = fence["rest"].strip()
            if rest.startswith("{") and not _CODE.match(rest):
                continue  # a directive, which may hold blocks
            code = _CODE.match(rest)
            language, body = code[1] if code else rest.split()[0], []
            while at < len(lines) and lines[at].strip() != fence["marks"]:
                body.append(lines[at])
                at += 1
            at += 1
            text = dedent("\n".join(body))
            for old, new in replaced:
                assert old in text, f"{page.name}, line {first}: {old!r} is not in the block"
                text = text.replace(old, new)
            found.append(Block(language, text, first + 1, not_run, modules))
            not_run, modules, replaced = "", (), []
        elif line.strip() and not line.startswith("%"):
            said = not_run or modules or replaced
            assert not said, f"{page.name}, line {first}: no block follows {said!r}"
    return found


def needs(page: Path) -> list[str]:
    """What a page cannot be run without: modules, and environment variables in capitals."""
    found = re.findall(r"^% needs: (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return [name.strip() for line in found for name in line.split(",")]


def run_page(page: Path, *, in_process: bool = True) -> None:
    """Run the blocks of a page, in the current folder."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}, line {block.line}"
        if block.language == "text" and printed:
            check_output(block, printed, where)
        if block.not_run or block.language in SHOWN or not all(map(find_spec, block.modules)):
            continue
        printed = ""
        if block.language in PYTHON:
            run_python(block, where, variables)
        elif block.language == CONSOLE:
            for command, line in commands(block):
                own = f"{page.relative_to(ROOT)}, line {line}"
                printed += run_command(command, own, in_process)
        else:
            raise AssertionError(
                f"{where}: language {block.language!r} is not known; use python or console, which "
                f"are run, or one of {', '.join(SHOWN)}"
            )


def run_python(block: Block, where: str, variables: dict[str, Any]) -> None:
    """Run examples with prompts as doctests, and others as they are."""
    if ">>>" not in block.text:
        exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), variables)
        return
    test = doctest.DocTestParser().get_doctest(block.text, variables, where, where, block.line - 1)
    test.globs = variables
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    assert failed.failed == 0, "".join(said)


def commands(block: Block) -> list[tuple[str, int]]:
    """The commands of a block, with their line numbers; a backslash joins lines."""
    found: list[tuple[str, int]] = []
    joined = False
    for number, line in enumerate(block.text.split("\n"), block.line):
        if joined:
            found[-1] = (f"{found[-1][0]} {line.rstrip(chr(92)).strip()}", found[-1][1])
        elif line.startswith("$ "):
            found.append((line[2:].rstrip("\\").strip(), number))
        else:
            continue
        joined = line.endswith("\\")
    return found


def check_output(block: Block, printed: str, where: str) -> None:
    """Every line of a text that follows commands is a part of what they print, but for times."""
    known = plain(printed)
    for line in map(plain, block.text.split("\n")):
        assert line in known, f"{where}: {line!r} is not in what the commands print:\n{known}"


def plain(text: str) -> str:
    """A text without borders of tables, line breaks and times."""
    text = " ".join(re.sub(r"[─-╿]", " ", text).split())
    return re.sub(r"\d[\d.,]*(?= (?:s|ms|min)\b)", "…", text)


def run_command(command: str, where: str, in_process: bool = True) -> str:
    """Run a command of lwcs or Python; check that others exist which take too long.

    Returns what it printed.
    """
    allowed = {0, *(int(code) for code in re.findall(r"# .*exit code (\d+)", command))}
    command = re.sub(r"\s+#\s.*$", "", command)
    words = shlex.split(command)
    if words[0] == "pip":
        check_install(words, where)
    elif words[0] == "make":
        check_target(words, where)
    elif words[:2] == ["python", "-m"] and words[2].startswith("benchmarks"):
        assert find_spec(words[2]) is not None, f"{where}: there is no module {words[2]}"
    elif words[0] == "lwcs" and in_process and not _SHELL.search(command):
        from lwcs.cli import main

        wide = {"COLUMNS": "110"}  # as the tables of the pages are
        done = CliRunner(env=wide).invoke(main, words[1:], prog_name="lwcs")
        code, output = done.exit_code, done.output
        assert code in allowed, f"{where}: {command}\nexit code {code}\n{output}"
        return output
    elif "lwcs" in words or words[0] == "python":
        paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env=os.environ | {"PATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        code, output = ran.returncode, ran.stdout
        assert code in allowed, f"{where}: {command}\nexit code {code}\n{output}"
        return output
    else:
        raise AssertionError(f"{where}: {command!r} is not run; say why by '% not run: …'")
    return ""


def check_install(words: list[str], where: str) -> None:
    """What pip is told to install is this project, with extras that exist, or what tests need."""
    wanted = [word for word in words[2:] if not word.startswith("-")]
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    tried = {re.split(r"[^\w.-]", each)[0] for each in extras["test"]}
    for word in wanted:
        if word in tried:
            continue
        match = re.fullmatch(r"(?:lwcs|\.)(?:\[([\w,-]+)\])?", word)
        assert match, f"{where}: {word!r} is not lwcs, nor lwcs with extras"
        unknown = set((match[1] or "").split(",")) - set(extras) - {""}
        assert not unknown, f"{where}: there is no extra {unknown}"


def check_target(words: list[str], where: str) -> None:
    """What make is told to make is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", makefile, re.MULTILINE))
    targets = {each for line in targets for each in line.split()}
    for word in words[1:]:
        assert "=" in word or word in targets, f"{where}: there is no target {word!r}"
