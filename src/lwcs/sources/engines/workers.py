"""What the workers of a cluster must have, and how they are asked.

lwcs has to be the same on all machines: another version may draw other rows, and one that is
missing makes an engine fail in ways of its own (a Dask worker cannot even read its task, and
exits). So all workers are asked before the first round (`check_workers`). Those that join later
are asked by every task (`carried`): it reaches them in a form that needs no lwcs, and unpacks the
work only once the version is right.
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
    """A copy that picklers of all engines send as code: workers need not have its module.

    It can use what it imports itself and what it closes over, but no globals.
    """
    assert isinstance(function, FunctionType)
    # Picklers take what is in __main__ for code that only this process has.
    return FunctionType(
        function.__code__,
        {"__name__": "__main__", "__builtins__": builtins},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


@by_value
def versions() -> Versions:
    """The versions that results depend on; None for what is missing."""
    import importlib
    import importlib.metadata
    import platform

    found: Versions = {"Python": platform.python_version()}
    try:
        # By itself: it may be on the path without being installed.
        found["lwcs"] = getattr(importlib.import_module("lwcs"), "__version__", None)
    except ImportError:
        found["lwcs"] = None
    for name in ("numpy", "numba"):
        try:
            # numba takes half a second to import.
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def version_checked(
    function: Callable[..., Any], dumps: Callable[[Any], bytes]
) -> Callable[..., Any]:
    """A function as a worker without lwcs can receive it; called there, it says what is missing.

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

    own: Callable[..., Any] = by_value(call)
    return own


def check_workers(answers: Mapping[str, Versions | Exception], how: str = "") -> None:
    """Refuse workers that cannot do the work; warn of those whose results may differ in bits.

    `answers` has what each worker said, or why it could not; `how` is what else can be done on
    this engine.
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
    """What keeps a worker from doing the work."""
    if isinstance(there, Exception):
        return f"cannot say which versions it has ({type(there).__name__}: {there})"
    lacking = [f"no {name}" for name, version in there.items() if version is None]
    if lacking:
        return f"has {' and '.join(lacking)}"
    if there["lwcs"] != here["lwcs"]:
        return f"has lwcs {there['lwcs']}"
    # Functions cannot be sent from one Python to the other.
    minor = [str(each["Python"]).split(".")[:2] for each in (there, here)]
    return None if minor[0] == minor[1] else f"has Python {there['Python']}"


def _differing(there: Versions | Exception, here: Versions) -> str | None:
    """What may change the last bits on a worker."""
    assert not isinstance(there, Exception)
    other = [f"{name} {there[name]}" for name in ("numpy", "numba") if there[name] != here[name]]
    return f"has {' and '.join(other)}" if other else None


def _named(workers: Mapping[str, str]) -> str:
    """The first few workers, with what is to be said of each."""
    shown = ", ".join(f"{name} {why}" for name, why in islice(workers.items(), _SHOWN))
    more = len(workers) - _SHOWN
    return f"the worker {shown}" + (f" and {more:,} more" if more > 0 else "")
