"""Checks that the workers of a cluster have the same versions as this process.

Another version of lwcs may draw other rows, and without lwcs an engine fails in ways of its own (a
Dask worker cannot even unpickle its task, and exits). So all workers are asked for their versions
before the first round (`check_workers`). For those that join later, every task checks the version
(`version_checked`): it is sent in a form that needs no lwcs, and unpickles the work only after the
check.
"""

from __future__ import annotations

import builtins
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any

import lwcs
from lwcs.runtime.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Versions = dict[str, str | None]
_SHOWN = 4
_ADVICE = "install the same version of lwcs on all workers"


def by_value(function: Callable[..., Any]) -> Any:
    """A copy of a function that picklers send as code, so that workers need not have its module.

    It can use what it imports itself and what it closes over, but no globals.
    """
    assert isinstance(function, FunctionType)
    # Picklers send functions of __main__ as code, since other processes do not have them.
    return FunctionType(
        function.__code__,
        {"__name__": "__main__", "__builtins__": builtins},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


@by_value
def versions() -> Versions:
    """The versions that results depend on; None for packages that are missing."""
    import contextlib
    import importlib
    import importlib.metadata
    import platform

    found: Versions = {"Python": platform.python_version()}
    try:
        # Imported, since it may be on the path without being installed.
        found["lwcs"] = getattr(importlib.import_module("lwcs"), "__version__", None)
    except ImportError:
        found["lwcs"] = None
    try:
        found["numpy"] = importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        found["numpy"] = None
    with contextlib.suppress(ImportError, AttributeError):  # no lwcs, or another version
        found["kernels"] = importlib.import_module("lwcs.kernels").choose()
    return found


def version_checked(
    function: Callable[..., Any], dumps: Callable[[Any], bytes]
) -> Callable[..., Any]:
    """Wrap a function so that a worker without lwcs can unpickle it, and refuses to run it.

    `dumps` is the pickler of the engine.
    """
    sent, here, advice = dumps(function), lwcs.__version__, _ADVICE

    def call(first: Any, *more: Any) -> Any:
        import pickle
        import socket

        try:
            import lwcs

            there = f"lwcs {getattr(lwcs, '__version__', '?')}"
        except ImportError:
            there = "no lwcs"
        if there != f"lwcs {here}":
            raise RuntimeError(
                f"a worker on {socket.gethostname()} has {there}, but here it is lwcs {here}; "
                f"{advice}"
            )
        return pickle.loads(sent)(first, *more)

    checked: Callable[..., Any] = by_value(call)
    return checked


def check_workers(answers: Mapping[str, Versions | Exception], how: str = "") -> None:
    """Refuse workers that cannot do the work; warn of those whose results may differ in bits.

    `answers` has the versions of each worker, or the error of asking for them; `how` is further
    advice for this engine.
    """
    here: Versions = versions()
    own = ", ".join(f"{name} {version}" for name, version in here.items())
    wrong = {name: why for name, there in answers.items() if (why := _why_not(there, here))}
    if wrong:
        raise RuntimeError(f"{_named(wrong)}, but here it is {own}; {_ADVICE}{how}")
    other = {name: why for name, there in answers.items() if (why := _differing(there, here))}
    if other:
        warn(
            f"{_named(other)}, but here it is {own}: the result is correct, but may differ in its "
            "last bits from run to run; install the same versions everywhere",
            UserWarning,
        )


def _why_not(there: Versions | Exception, here: Versions) -> str | None:
    """Why a worker cannot do the work, or None."""
    if isinstance(there, Exception):
        return f"cannot say which versions it has ({type(there).__name__}: {there})"
    lacking = [f"no {name}" for name, version in there.items() if version is None]
    if lacking:
        return f"has {' and '.join(lacking)}"
    if there["lwcs"] != here["lwcs"]:
        return f"has lwcs {there['lwcs']}"
    # Functions cannot be sent from one version of Python to another.
    minor = [str(each["Python"]).split(".")[:2] for each in (there, here)]
    return None if minor[0] == minor[1] else f"has Python {there['Python']}"


def _differing(there: Versions | Exception, here: Versions) -> str | None:
    """Versions that may change the last bits of results on a worker, or None."""
    assert not isinstance(there, Exception)
    bits = ("numpy", "kernels")
    other = [f"{name} {there.get(name)}" for name in bits if there.get(name) != here.get(name)]
    return f"has {' and '.join(other)}" if other else None


def _named(workers: Mapping[str, str]) -> str:
    """The first few workers, with the message about each."""
    shown = ", ".join(f"{name} {why}" for name, why in islice(workers.items(), _SHOWN))
    more = len(workers) - _SHOWN
    return f"the worker {shown}" + (f" and {more:,} more" if more > 0 else "")
