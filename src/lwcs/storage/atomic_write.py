"""Temporary files and folders beside outputs, which no run leaves behind for good.

A run that ends, by an error or a signal, removes its own. One that is killed cannot: its
temporaries are removed by the next run that makes one in the same folder. A run holds a lock on
each of its temporaries, which ends with its process, however that ends: so those of a run that is
alive are never touched. On another machine the lock may not be seen, if the folder is shared by a
network; temporaries of other machines must also have been left alone for a day.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lwcs.storage import stores
from lwcs.storage.locations import DEFAULT, Access, Place, failure, first_line, of_the_place

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


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_target(
    path: str | os.PathLike[str], access: Access = DEFAULT, *, trying: bool = True
) -> Place:
    """Refuse a file that cannot be written, before any work is done; return where it is.

    With `trying`, a store is also asked whether it can be written to, where it can answer.
    """
    place = _place(path, access)
    if not place.is_local:
        _check_on_store(place, trying)
        return place
    # A link is followed: its target is replaced, not the link itself.
    target = Path(os.path.realpath(place.path))
    if not str(path) or target.is_dir():
        raise _is_folder(place)
    # The link of a pipe, such as /dev/stdout, has a target that is not there.
    if os.path.exists(place.path) and not os.path.isfile(place.path):
        raise ValueError(
            f"cannot replace {place.name!r}: it is not a regular file; pass another path"
        )
    _check_parent(place, target)
    return replace(place, path=str(target))


def check_folder(
    path: str | os.PathLike[str], access: Access = DEFAULT, *, trying: bool = True
) -> Place:
    """Refuse a folder that cannot be written, or in which something is; return where it is."""
    from pyarrow import fs

    place = _place(path, access)
    if place.is_local:
        target = Path(os.path.realpath(place.path))
        if not target.exists():
            _check_parent(place, target)
        elif not target.is_dir():
            raise NotADirectoryError(f"cannot write {place.name!r}: that is a file; name a folder")
        place = replace(place, path=str(target))
        is_empty = not target.exists() or not any(target.iterdir())
    else:
        place = replace(place, path=place.path.rstrip("/"))
        _check_on_store(replace(place, path=f"{place.path}/{_TRIED}"), trying)
        selector = fs.FileSelector(place.path, allow_not_found=True, recursive=True)
        with explaining(place):
            below = place.filesystem.get_file_info(selector)
        is_empty = not any(info.type == fs.FileType.File and info.size for info in below)
    if not is_empty:
        raise FileExistsError(
            f"cannot write {place.name!r}: there are files in it, with which the output would be "
            "mixed; pass a folder that is empty or does not exist"
        )
    return place


_TRIED = ".lwcs"


def _place(path: str | os.PathLike[str], access: Access) -> Place:
    from pyarrow import fs

    place = access.place(path)
    while isinstance(place.filesystem, fs.SubTreeFileSystem):
        inner, whole = place.filesystem.base_fs, place.filesystem.base_path + place.path
        place = replace(place, filesystem=inner, path=whole)
    return place


def _check_parent(place: Place, target: Path) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist; "
            "create it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise _cannot_write(place, f"the folder {str(target.parent)!r} is read-only")


def _check_on_store(place: Place, trying: bool) -> None:
    """Refuse a bucket that is not there, a folder, and a store that cannot be written to."""
    from pyarrow import fs

    missing = fs.FileType.NotFound
    with explaining(place):
        bucket = stores.container_of(place)
        if place.path.endswith("/") or place.path.strip("/") == bucket:
            raise _is_folder(place)
        if bucket and place.filesystem.get_file_info(bucket).type == missing:
            raise FileNotFoundError(
                f"cannot write {place.name!r}: there is no bucket {bucket!r}, or it may not be "
                "listed; create it first, or correct its name"
            )
        if trying:
            stores.try_out(place)
        if place.filesystem.get_file_info(place.path).type == fs.FileType.Directory:
            raise _is_folder(place)


def _is_folder(place: Place) -> OSError:
    return IsADirectoryError(f"cannot write {place.name!r}: that is a folder; name a file in it")


@contextmanager
def explaining(output: Place | str, *, is_copy: bool = False) -> Iterator[None]:
    """Name the output in errors of writing, and say what to do; the error number stays.

    What goes to a store, and what is a copy, is in the temporary folder of this machine.
    """
    remote = isinstance(output, Place) and not output.is_local
    name = output if isinstance(output, str) else repr(output.name)
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, OSError):
            if error.errno is None and str(error).startswith("cannot write"):
                raise
            if not remote or error.errno in (*_FULL, errno.EROFS):
                raise _explained(error, name, is_copy or remote) from error
        failed = of_the_place(name, error, "writing") if remote else None
        if failed is None:
            if not isinstance(error, OSError):
                raise
            # Nothing is read here that could be bad.
            failed = failure(name, error, "writing")
        words = f"cannot write {name}: {failed.strerror}; the output was not written"
        raise OSError(failed.errno, words) from error


def _explained(error: OSError, name: str, is_copy: bool) -> OSError:
    said = error.strerror or first_line(error)
    if error.errno and "[errno" in said:
        # pyarrow says which of its functions failed.
        said = os.strerror(error.errno)
    advice = "try again, or pass another path"
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        advice = "pass a path that you may write to"
    elif error.errno in _FULL:
        advice = "free some space, or write to another disk"
        if is_copy:
            said += f" in the temporary folder {tempfile.gettempdir()!r}"
            advice = "free some space, or set TMPDIR to a folder on another disk"
    words = f"cannot write {name}: {said}; {advice}"
    if error.errno:
        return OSError(error.errno, words)
    # Whoever tries again asks for the type.
    return (type(error) if type(error).__module__ == "builtins" else OSError)(words)


def _cannot_write(place: Place, why: str) -> OSError:
    return OSError(f"cannot write {place.name!r}: {why}; pass a path that you may write to")


STANDARD_OUTPUT = "standard output"


@contextmanager
def replacing(path: str | os.PathLike[str], access: Access = DEFAULT) -> Iterator[Path]:
    """Yield a temporary path; it becomes the file at `path` only if the block succeeds."""
    place = check_target(path, access, trying=False)
    with _through_temporary(place, temporary_file, 0o666) as temporary:
        yield temporary
        with explaining(place):
            if place.is_local:
                _sync(temporary)
                temporary.replace(place.path)
                _sync(temporary.parent)
            else:
                stores.upload(temporary, place)


@contextmanager
def filling(path: str | os.PathLike[str], access: Access = DEFAULT) -> Iterator[Path]:
    """Yield a temporary folder; it becomes the folder at `path` only if the block succeeds."""
    place = check_folder(path, access, trying=False)
    with _through_temporary(place, temporary_folder, 0o777) as temporary:
        yield temporary
        files = [each for each in sorted(temporary.rglob("*")) if each.is_file()]
        with explaining(place):
            if place.is_local:
                for file in files:
                    _sync(file)
                # An empty folder is replaced.
                temporary.rename(place.path)
                _sync(temporary.parent)
            else:
                _upload_all(files, temporary, place)


@contextmanager
def _through_temporary(
    place: Place, make: Callable[[Path, int], AbstractContextManager[Path]], mode: int
) -> Iterator[Path]:
    """A temporary beside the output, since only within a folder is renaming atomic.

    For a store it is in the temporary folder of this machine, where nobody else may read it.
    """
    folder = Path(place.path).parent if place.is_local else Path(tempfile.gettempdir())
    with ExitStack() as stack:
        with explaining(place):
            made = make(folder, mode if place.is_local else mode & 0o700)
            temporary = stack.enter_context(made)
        yield temporary


def _upload_all(files: list[Path], folder: Path, place: Place) -> None:
    done: list[str] = []
    try:
        for file in files:
            path = f"{place.path}/{file.relative_to(folder).as_posix()}"
            done.append(path)
            stores.upload(file, replace(place, path=path))
    except BaseException:
        for path in done:
            # Whatever type errors of the store have: the first one is raised.
            with suppress(Exception):
                place.filesystem.delete_file(path)
        raise


def _sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on disk."""
    if path.is_dir():
        # Windows cannot open folders, and some network file systems cannot sync them.
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return
    with path.open("rb+") as file:
        os.fsync(file.fileno())
