"""What users can name: Python names with their parameters and members, commands with their options.

`python -m tests.release.surface --write` records it in surface.json, with which test_surface.py
compares; without `--write` it is printed. Annotations are left out: they name private modules.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from lwcs.cli import main as cli
from tests.versions import ROOT

RECORD = Path(__file__).with_name("surface.json")
PAGE = (ROOT / "docs/stability.md").read_text("utf-8")
NAMES_ON_PAGE = sorted(set(re.findall(r"`(lwcs(?:\.\w+)+)`", PAGE)))
OPERATORS = ("__add__", "__bool__", "__call__", "__contains__", "__getitem__", "__iter__",
             "__len__", "__or__", "__sub__")  # fmt: skip

Surface = dict[str, str]
"""For each name, parameter, member and option: what it is, in words that are compared."""


def current() -> Surface:
    """The surface of the package that is imported."""
    surface: Surface = {}
    for name in public_names():
        with suppress(AttributeError):  # a name without its object is one that was removed
            surface |= describe(name, pkgutil.resolve_name(name))
    for command in (cli, *cli.commands.values()):
        surface |= describe_command(command)
    return dict(sorted(surface.items()))


def recorded() -> Surface:
    """The surface that was recorded, as far as it can be compared here."""
    return {name: each for name, each in read().items() if is_comparable(name)}


def write() -> None:
    """Record the surface; what cannot be compared here stays as it was recorded."""
    kept = {name: each for name, each in read().items() if not is_comparable(name)}
    text = json.dumps(dict(sorted((current() | kept).items())), indent=1, ensure_ascii=False)
    RECORD.write_text(f"{text}\n", "utf-8")


def read() -> Surface:
    surface: Surface = json.loads(RECORD.read_text("utf-8"))
    return surface


def differences(before: Surface, after: Surface) -> list[str]:
    """One line for each name that was removed, changed or added."""
    return [
        *(f"removed: {name} ({before[name]})" for name in before if name not in after),
        *(f"changed: {name} ({each}; recorded: {before[name]})"
          for name, each in after.items() if before.get(name, each) != each),
        *(f"added: {name} ({each})" for name, each in after.items() if name not in before),
    ]  # fmt: skip


def public_names() -> list[str]:
    """Names that modules export, and those that the page on stability calls public."""
    names = {name for name in NAMES_ON_PAGE if not name.endswith("__")}
    for home in filter(is_comparable, ("lwcs", "lwcs.divergences", "lwcs.spark", "lwcs.theory")):
        names |= {f"{home}.{name}" for name in pkgutil.resolve_name(home).__all__}
    return sorted(filter(is_comparable, names))


def is_comparable(name: str) -> bool:
    """Whether this name can be looked up: those of Spark only where it is installed."""
    return not name.startswith("lwcs.spark") or find_spec("pyspark") is not None


def describe(name: str, value: Any) -> Surface:
    """A class with its constructor and members, a function with its parameters, or another name."""
    if inspect.isclass(value):
        return {name: "class"} | constructor(name, value) | members(name, value)
    if inspect.isfunction(value):
        return {name: "function"} | parameters(name, value)
    return {name: "module" if inspect.ismodule(value) else "value"}


def constructor(name: str, value: type) -> Surface:
    """Parameters of a constructor, unless the class has it from outside of the package."""
    (init,) = (each for each in inspect.classify_class_attrs(value) if each.name == "__init__")
    return parameters(name, value) if is_own(init.defining_class) else {}


def members(name: str, value: type) -> Surface:
    """Methods and attributes that a class does not have from scikit-learn or Python."""
    found = {f"{name}.{each}": "documented attribute" for each in documented_attributes(value)}
    if dataclasses.is_dataclass(value):
        found |= {f"{name}.{each.name}": "attribute" for each in dataclasses.fields(value)}
    for each in inspect.classify_class_attrs(value):
        if not is_own(each.defining_class) or not is_public(each.name):
            continue
        path = f"{name}.{each.name}"
        if each.kind in ("data", "property"):
            found[path] = "attribute"
        elif each.kind != "method":
            found |= {path: each.kind} | parameters(path, getattr(value, each.name))
        elif inspect.isfunction(each.object) and is_own(each.object):
            found |= {path: each.kind} | parameters(path, each.object, bound=True)
    return {path: each for path, each in found.items() if is_public(path.rpartition(".")[2])}


def documented_attributes(value: type) -> list[str]:
    """Names in the section "Attributes" of a docstring; a fit sets most of them."""
    text = inspect.cleandoc(value.__doc__ or "").partition("\nAttributes\n----------\n")[2]
    lines: list[str] = re.findall(r"^(\w.*?) : ", text.partition("\n\n")[0], re.MULTILINE)
    return [name for line in lines for name in line.split(", ")]


def is_own(value: type | Callable[..., Any]) -> bool:
    return value.__module__.partition(".")[0] == "lwcs"


def is_public(name: str) -> bool:
    return name in OPERATORS or not name.startswith("_")


def parameters(name: str, function: Callable[..., Any], *, bound: bool = False) -> Surface:
    """One entry for each parameter of a function; `bound` leaves out self."""
    found: Surface = {}
    for place, each in enumerate(list(inspect.signature(function).parameters.values())[bound:], 1):
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            stars = "*" if each.kind is each.VAR_POSITIONAL else "**"
            found[f"{name}({stars}{each.name})"] = "any number"
            continue
        place_words = "keyword" if each.kind is each.KEYWORD_ONLY else f"place {place}"
        only = " only" * (each.kind is each.POSITIONAL_ONLY)
        default = "required" if each.default is each.empty else f"default {shown(each.default)}"
        found[f"{name}({each.name})"] = f"{place_words}{only}, {default}"
    return found


def shown(value: Any) -> str:
    """A default, without the address in memory that some objects show."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__qualname__
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def describe_command(command: click.Command) -> Surface:
    """A command with its arguments and options."""
    name = "lwcs" if command is cli else f"lwcs {command.name}"
    surface = {name: "command"}
    for option in command.params:
        flags = sorted([*option.opts, *option.secondary_opts], key=len)
        last = flags.pop() if flags[-1].startswith("-") else flags.pop().upper()
        surface[f"{name} {last}"] = ", ".join(
            [*(f"also {flag}" for flag in flags), *option_facts(option.to_info_dict())]
        )
    return surface


def option_facts(option: dict[str, Any]) -> list[str]:
    """Type of an option with its limits, whether it is required, how often, and its default."""
    kind, default = option["type"], option["default"]
    facts = ["flag" if option.get("is_flag") else kind["name"]]
    facts += [f"{key} {kind[key]}{' excluded' * kind[f'{key}_open']}"
              for key in ("min", "max") if kind.get(key) is not None]  # fmt: skip
    facts += [f"one of {' '.join(map(str, kind['choices']))}"] if "choices" in kind else []
    facts += ["required"] * option["required"] + ["multiple"] * option["multiple"]
    facts += ["any number of values"] * (option["nargs"] == -1)
    # Versions of click differ in the default of a flag that has none.
    unset = default is None or default is False or default == ()
    return facts if unset else [*facts, f"default {shown(default)}"]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        print(json.dumps(current()))
