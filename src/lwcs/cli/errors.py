"""How commands report errors and warnings: one line each, with flags where Python has parameters.

Exit codes are 0 for success, 1 for bad data, 2 for bad usage, 3 if `lwcs drift` finds a model worse
than it may be, 130 for an interrupt, 143 and 129 for SIGTERM and SIGHUP, and 141 if nobody reads
what a command writes. An error has a
traceback with --debug; warnings are not shown with --quiet. With --log-json, errors and warnings
are records (`logs`). A command that receives a signal cleans up first, as it does after Ctrl+C.

Flags replace parameters in the text of a message. An exception that carried the name of its
parameter would not do: a message also names the parameters that would help (`missing='drop'`), and
130 of the library's 570 messages, in 58 files, name at least one. All of them would be templates
for the sake of the command line.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
import threading
import warnings
from ast import literal_eval
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lwcs.cli.logs import AS_JSON, FLAG, logging_to_stderr, report, write
from lwcs.runtime.parallel import READER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Not SIGHUP on Windows, which has none.
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised in the main thread and handled as Ctrl+C is."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.exit_code = 128 + number


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise TerminatedError at the first signal; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    handlers: dict[int, Any] = {
        number: signal.getsignal(number)
        for number in _SIGNALS
        if signal.getsignal(number) != signal.SIG_IGN
    }

    def end(number: int, _: object) -> NoReturn:
        for each in handlers:
            signal.signal(each, signal.SIG_DFL)
        raise TerminatedError(number)

    for number in handlers:
        signal.signal(number, end)
    # `lwcs.__main__` ends the process at once, and tests of commands have Python's own handler.
    if (interrupt := signal.getsignal(signal.SIGINT)) != signal.SIG_IGN:
        handlers[signal.SIGINT] = interrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def ending_on_broken_pipes() -> Iterator[None]:
    """Exit silently, with the code of SIGPIPE, if nobody reads what a command writes."""
    try:
        yield
    except BrokenPipeError as error:
        if error.filename is not None:
            # The connection to a store is closed, not the output.
            raise
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BrokenPipeError:
                # At exit, Python would write the rest of the buffer and report an error.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise click.exceptions.Exit(_BROKEN_PIPE) from error


_BROKEN_PIPE = 128 + 13
_USUAL = {"--k": "-k", "--n-clusters": "-k", "--n_clusters": "-k"}
"""Spellings of options that other commands or parameters of Python suggest."""


def with_usual_options(words: list[str]) -> list[str]:
    """Replace other spellings of options by the usual one, with a hint."""
    end = words.index("--") if "--" in words else len(words)
    usual, hinted = [], set[str]()
    for word in words[:end]:
        name, equals, value = word.partition("=")
        if name not in _USUAL:
            usual.append(word)
            continue
        usual += [_USUAL[name], value] if equals else [_USUAL[name]]
        hinted.add(f"Hint: {name} is spelled {_USUAL[name]}")
    if not {"-q", "--quiet", FLAG} & set(words[:end]):
        for hint in sorted(hinted):
            click.echo(hint, err=True)
    return usual + words[end:]


_SCHEME = r"\b[a-zA-Z][\w+.-]*://"
_QUERY = re.compile(rf"({_SCHEME}[^\s'\"?]+)\?[^\s'\"]*")
# A user name without a password is public, such as a container, except in HTTP, where it may be a
# token.
_PASSWORD = re.compile(rf"(https?://|{_SCHEME}(?=[^/@\s'\"]*:))[^/\s'\"]+@")
ARGUMENTS = "arguments"
"""Key of the context's meta: the words of the command line, for `commands.report.command_line`."""
STAND_INS = "stand_ins"
"""Key of the context's meta: paths of temporary files, and their names in messages."""


def is_reading() -> bool:
    """Whether a thread still reads ahead, or waits for what it reads."""
    return any(thread.name.startswith(READER) for thread in threading.enumerate())


class Commands(click.Group):
    """The group of all commands, which reports their errors and warnings."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the words before the command; --help among them prints a page."""
        with ending_on_broken_pipes():
            return super().make_context(*args, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look for --log-json first: errors in other arguments are also written as records."""
        args = with_usual_options(args)
        options = args[: args.index("--")] if "--" in args else args
        ctx.meta[AS_JSON] = FLAG in options
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report an error in its input as one line."""
        with ending_on_broken_pipes(), logging_to_stderr(ctx):
            try:
                with ending_on_signals(), self._showing_warnings(ctx):
                    return super().invoke(ctx)
            except KeyboardInterrupt as stop:
                code = getattr(stop, "exit_code", 130)
                kept = getattr(stop, "__notes__", ["no incomplete output was left behind"])
                message = f"Interrupted; {'; '.join(kept)}."
                write(message, level=logging.ERROR, event="error")
                if is_reading():
                    # A reader thread still waits for a pipe or a store; a normal exit would wait
                    # for the thread.
                    sys.stderr.flush()
                    os._exit(code)
                sys.exit(code)
            except (click.Abort, click.exceptions.Exit, BrokenPipeError):
                raise
            except Exception as error:
                self._fail(ctx, error)

    def _fail(self, ctx: click.Context, error: Exception) -> NoReturn:
        """Report an error as a record, or as a line if the input causes it."""
        by_input = isinstance(error, (ValueError, TypeError, OSError, ImportError, MemoryError))
        if ctx.meta.get(AS_JSON):
            if isinstance(error, click.ClickException):
                message = error.format_message()
            else:
                message = self._with_flags(ctx, _message(error))
            report(error, message)
            raise click.exceptions.Exit(getattr(error, "exit_code", 1)) from error
        if isinstance(error, click.ClickException) or not by_input or ctx.meta.get("debug"):
            raise error
        raise click.ClickException(self._with_flags(ctx, _message(error))) from error

    @contextmanager
    def _showing_warnings(self, ctx: click.Context) -> Iterator[None]:
        """Print the warnings of the library, each once."""
        shown: set[str] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            text = self._with_flags(ctx, " ".join(str(message).split()))
            if not ctx.meta.get("quiet") and text not in shown:
                shown.add(text)
                prefix = "" if ctx.meta.get(AS_JSON) else "Warning: "
                write(f"{prefix}{text}", level=logging.WARNING, event="warning")

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    def _with_flags(self, ctx: click.Context, message: str) -> str:
        """A message of the library for the running command: flags, no secrets, names of inputs."""
        for path, name in ctx.meta.get(STAND_INS, {}).items():
            message = message.replace(repr(path), name).replace(path, name)
        message = without_passwords(without_queries(message))
        others = [command for command in self.commands.values() if command.params]
        return Flags(self.commands.get(ctx.invoked_subcommand or ""), others).rewrite(message)


def without_queries(text: str) -> str:
    """Remove queries from URIs: those of presigned URIs hold secrets."""
    return _QUERY.sub(r"\1?…", text)


def without_passwords(text: str) -> str:
    """Remove users and passwords from URIs."""
    return _PASSWORD.sub(r"\1…@", text)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {str(error.filename)!r}" if error.filename else "")
    return " ".join(str(error).split()) or type(error).__name__


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
    # Advice that only Python can follow, and what to do on the command line instead.
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
    (r"max\(ks\)=(\d+)", r"-k \1"),
    (r"max\(ks\)", "-k"),
    (r"n_samples=(\d+)", r"the number of rows, \1,"),
)

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_VALUE = rf"(?:{_QUOTED}|\[(?:{_QUOTED}|[^\]'\"])*\]|…|[\w.+-]*\w|)"
_PARTS = re.compile(
    # Advice to call something; other calls are representations of objects.
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
        # A message may be about an input that another command wrote.
        for each in [*others, *([] if command is None else [command])]:
            for option in each.params:
                if isinstance(option, click.Option) and option.name:
                    self._options[option.name] = option

    def rewrite(self, message: str) -> str:
        """The message with flags where it has parameters."""
        for python, instead in _ADVICE:
            message = re.sub(python, instead, message)
        return _PARTS.sub(self._replacement, message)

    def _replacement(self, match: re.Match[str]) -> str:
        if match["scan"] or match["make"]:
            return self.rewrite(match["option"] or match["parameter"])
        if match["given"]:
            return self._given(match)
        name = match["bare"]
        # Most parameters are also words of English.
        if name and (match["compared"] is not None or "_" in name or name == "tol"):
            option = self._option(name)
            return match[0] if option is None else option.opts[0]
        return match[0]

    def _option(self, name: str) -> click.Option | None:
        return self._options.get(_OPTION_OF.get(name, name))

    def _given(self, match: re.Match[str]) -> str:
        """A parameter with its value, as flag and value."""
        option, value = self._option(match["name"]), match["value"]
        if option is None:
            return f"{match['name']} {value}" if value[:1] in ("'", '"') else match[0]
        if option.is_flag:
            no = option.secondary_opts
            return no[0] if value == "False" and no else option.opts[0]
        return f"{option.opts[0]} {_shell_text(value)}".rstrip()


def _shell_text(value: str) -> str:
    """A Python value as it is typed in a shell."""
    if value.startswith("["):
        parts = re.findall(rf"{_QUOTED}|…|[\w.+-]+", value)
        return ",".join(map(_shell_text, parts))
    if value[:1] in ("'", '"'):
        text = str(literal_eval(value))
        if not text.isprintable():
            return f"${value}"
        quoted = shlex.quote(text)
        # A bare comma or point would read as part of the sentence.
        return quoted if quoted != text or any(map(str.isalnum, text)) else f"'{text}'"
    # A letter that stands for a number, as in n_clusters=k.
    return value.upper() if len(value) == 1 and value.isalpha() else value
