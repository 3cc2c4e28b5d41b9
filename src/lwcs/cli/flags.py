"""Messages of the library in the words of a command: flags instead of parameters.

The flags are those of the click command that runs. A message is rewritten outside of quotes, so
that paths and column names stay as they are.
"""

from __future__ import annotations

import re
import shlex
from ast import literal_eval
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPTION_OF = {
    "n_clusters": "clusters",
    "n_components": "components",
    "coreset_size": "size",
    "covariance_type": "covariance",
    "sample_weight": "weight",
    "random_state": "seed",
    "n_jobs": "jobs",
    "memory_limit": "memory",
    "scale": "standardize",
    "storage_options": "storage_option",
}
"""Parameters of the library whose option has another name."""

_ADVICE = (
    # What only Python can do, and what to do on the command line instead.
    (
        r"open it with lwcs\.load",
        "pass the rows that it was made of, or look at it with `lwcs inspect`",
    ),
    (r"use lwcs\.build", "use `lwcs build`"),
    (r"scan the data without (\w+)=?", r"leave out \1="),
    (r"pass divergence=coreset\.divergence, or build another", "leave out divergence="),
    (r"index the array to select columns, and pass weights as an array", "leave it out"),
    (
        r"pass one of them, for example (?:lwcs\.scan\()?[\w.]+\(.*?\)\[.*?\]\)?",
        "save one of them in a file of its own",
    ),
    (r"pass dense rows, X\.toarray\(\)", "pass dense rows"),
    (r",? or a part of the draws that was kept apart by coreset\.split( before the fit)?", ""),
    (r"pass the data, a coreset that", "pass the data, or a coreset that"),
    (r"max\(ks\)=(\d+)", r"--k \1"),
    (r"max\(ks\)", "--k"),
    (r"n_samples=(\d+)", r"the number of rows, \1,"),
)

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_VALUE = rf"(?:{_QUOTED}|\[(?:{_QUOTED}|[^\]'\"])*\]|…|[\w.+-]*\w|)"
_PARTS = re.compile(
    # Advice to call something; other calls are how objects print themselves.
    rf"(?P<scan>\blwcs\.\w+\((?:…|\w+), (?P<option>\w+={_VALUE})\))"
    r"|(?P<make>\b[A-Z]\w*\((?P<parameter>\w+=…)\))"
    r"|(?P<repr>\b[A-Z]\w*\([^()]*\))"
    rf"|(?P<given>(?<![\w./\[-])(?P<name>[a-z]\w*)=(?P<value>{_VALUE})(?![\w/=(]))"
    rf"|(?P<quoted>(?<!\w)(?:{_QUOTED})(?!\w))"
    r"|(?P<bare>(?<![\w./-])[a-z]\w*\b(?![/(=]))(?P<compared>(?= [<>]=? ))?"
)


class Flags:
    """The flags that parameters of the library have in a command."""

    def __init__(self, command: click.Command | None, others: Iterable[click.Command] = ()) -> None:
        self._options: dict[str, click.Option] = {}
        # A message may be about how an input was made, by another command.
        for each in [*others, *([] if command is None else [command])]:
            for option in each.params:
                if isinstance(option, click.Option) and option.name:
                    self._options[option.name] = option

    def rewrite(self, message: str) -> str:
        """The message with flags where it has parameters."""
        for python, instead in _ADVICE:
            message = re.sub(python, instead, message)
        return _PARTS.sub(self._part, message)

    def _part(self, found: re.Match[str]) -> str:
        if found["scan"] or found["make"]:
            return self.rewrite(found["option"] or found["parameter"])
        if found["given"]:
            return self._given(found)
        if found["bare"]:
            # Most parameters are also words of English.
            name, compared = found["bare"], found["compared"] is not None
            sure = compared or "_" in name or name == "tol"
            option = self._option(name) if sure else None
            return found[0] if option is None else option.opts[0]
        return found[0]

    def _option(self, name: str) -> click.Option | None:
        return self._options.get(_OPTION_OF.get(name, name))

    def _given(self, found: re.Match[str]) -> str:
        option, value = self._option(found["name"]), found["value"]
        if option is None:
            return f"{found['name']} {value}" if value[:1] in ("'", '"') else found[0]
        if option.is_flag:
            no = option.secondary_opts
            return no[0] if value == "False" and no else option.opts[0]
        return f"{option.opts[0]} {_shown(value)}".rstrip()


def _shown(value: str) -> str:
    """A Python value as it is typed in a shell."""
    if value.startswith("["):
        parts = re.findall(rf"{_QUOTED}|…|[\w.+-]+", value)
        return ",".join(map(_shown, parts))
    if value[:1] in ("'", '"'):
        text = str(literal_eval(value))
        if not text.isprintable():
            return f"${value}"
        quoted = shlex.quote(text)
        # A bare comma or point would read as part of the sentence.
        return quoted if quoted != text or any(map(str.isalnum, text)) else f"'{text}'"
    # A letter that stands for a number, as in n_clusters=k.
    return value.upper() if len(value) == 1 and value.isalpha() else value
