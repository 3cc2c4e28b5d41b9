"""Temporary files and folders beside outputs, which no run leaves behind for good.

A run that ends, by an error or a signal, removes its own. One that is killed cannot: its
temporaries are removed by the next run that makes one in the same folder. A run holds a lock on
each of its temporaries, which ends with its process, however that ends: so those of a run that is
alive are never touched. On another machine the lock may not be seen, if the folder is shared by a
network; temporaries of other machines must also have been left alone for a day.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Earlier versions did not name the machine.
_NAME = re.compile(r"\.lwcs-(?:(?P<machine>[0-9a-f]{8})-)?[0-9a-f]{16}\.tmp")
fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
_DAY = 24 * 3600.0
_SWEPT: set[str] = set()
"""Folders that this process has searched for what killed runs left behind."""


@contextmanager
def temporary_file(folder: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Path]:
    """An empty file in a folder, which is removed in the end if it is still there."""

    def make(path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))

    with _temporary(Path(folder), make) as path:
        yield path


@contextmanager
def temporary_folder(folder: str | os.PathLike[str], mode: int = 0o777) -> Iterator[Path]:
    """An empty folder in a folder, which is removed in the end if it is still there."""
    with _temporary(Path(folder), lambda path: path.mkdir(mode)) as path:
        yield path


@contextmanager
def _temporary(folder: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    _sweep(folder)
    path, lock = folder, None
    try:
        while lock is None:
            path = folder / f".lwcs-{_machine()}-{secrets.token_hex(8)}.tmp"
            make(path)
            lock = _hold(path)
        yield path
    finally:
        if path != folder:
            _remove(path)
        if lock is not None and lock >= 0:
            os.close(lock)


def _hold(path: Path) -> int | None:
    """Lock a new temporary; -1 where there are no locks, None if another run has removed it."""
    if fcntl is None:
        return -1
    try:
        handle = _open(path)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Before it was locked, it looked like one that a killed run had left.
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except BlockingIOError:
        pass
    except OSError:
        # A file system without locks; then no run removes what another has left.
        os.close(handle)
        return -1
    os.close(handle)
    return None


def _sweep(folder: Path) -> None:
    """Remove what killed runs have left in a folder, once per process."""
    real = os.path.realpath(folder)
    if real in _SWEPT or fcntl is None:
        return
    _SWEPT.add(real)
    with suppress(OSError):
        left = [entry.name for entry in os.scandir(folder) if _NAME.fullmatch(entry.name)]
        for name in left:
            # Those of other users stay.
            with suppress(OSError):
                _remove_if_dead(folder / name)


def _remove_if_dead(path: Path) -> None:
    handle = _open(path)
    try:
        # Raises if the run is alive, or if there are no locks.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = _NAME.fullmatch(path.name)
        own = found is not None and found["machine"] == _machine()
        if own or time.time() - os.fstat(handle).st_mtime > _DAY:
            _remove(path)
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    # Over NFS, only a file that is open for writing can be locked.
    return os.open(path, (os.O_RDONLY if path.is_dir() else os.O_RDWR) | os.O_NOFOLLOW)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


@cache
def _machine() -> str:
    """Eight digits that processes share if they see each other's locks: those of one kernel."""
    try:
        own = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        own = platform.node()
    return hashlib.sha256(own.encode()).hexdigest()[:8]
