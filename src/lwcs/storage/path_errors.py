"""Errors for a path that leads to no file: it is missing, a pipe, a device, a bad link.

Files of other kinds are recognized without opening them. Opening a pipe waits for its writer, in
pyarrow for ever: a signal is not handled before a call of C++ returns.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from lwcs.arrays.checks import nearest

if TYPE_CHECKING:
    from lwcs.storage.locations import Place

_DEVICES = {stat.S_IFCHR: "device", stat.S_IFBLK: "device", stat.S_IFSOCK: "socket"}


def is_pipe(path: str) -> bool:
    """Whether a path on this machine is that of a pipe, such as <(…) of a shell."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def check_name(path: str) -> None:
    """Refuse the name of a file that pyarrow cannot open."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"the name of {path!r} is not UTF-8, as is needed to read it; rename it, or leave it "
            "out"
        ) from None


def path_error(place: Place) -> OSError | ValueError:
    """The error for a path at which there is neither a file nor a folder."""
    name, path = place.name, place.path
    if not place.is_local:
        return FileNotFoundError(f"{name!r} does not exist")
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return _missing(name, path)
    if kind == stat.S_IFIFO:
        return ValueError(
            f"{name!r} is a pipe, which can be read only once; write its rows to a file first, or "
            "pass an iterator of arrays or tables"
        )
    return ValueError(
        f"{name!r} is a {_DEVICES.get(kind, 'special file')}, from which no rows are read; pass "
        "files, a folder or a pattern"
    )


def _missing(name: str, path: str) -> FileNotFoundError:
    if os.path.islink(path):
        target = os.path.realpath(path)
        leads = "in a circle" if os.path.islink(target) else f"to {target!r}, which does not exist"
        return FileNotFoundError(f"{name!r} is a symbolic link that leads {leads}")
    return FileNotFoundError(f"{name!r} does not exist{_near(path)}")


def _near(path: str) -> str:
    """The name next to the part of a path that is missing."""
    folder, name = os.path.split(path.rstrip("/"))
    if folder and not os.path.isdir(folder):
        return f": there is no folder {folder!r}{_near(folder)}"
    try:
        near = nearest(name, os.listdir(folder or "."))
    except OSError:
        return ""
    return f"; did you mean {os.path.join(folder, near)!r}?" if near else ""
