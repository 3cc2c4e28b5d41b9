"""Outputs that appear complete or not at all: written beside their place, and renamed at the end.

An output for a store is written to the temporary folder of this machine, and then uploaded: a
stream of pyarrow cannot be given up, and would complete half an object after an error.

A run that ends by an error or a signal removes what it was writing. One that is killed leaves one
file or folder, whose name says what it is: ``.lwcs-incomplete-….tmp``. It stays until somebody
removes it, since on a shared disk nothing tells whether the process that writes it is alive. No
reader takes it for data: hidden files are left out.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lwcs.arrays.checks import translating
from lwcs.storage import stores
from lwcs.storage.locations import (
    DEFAULT,
    Access,
    Place,
    failure,
    first_line,
    is_of_the_place,
    of_the_place,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def temporary_file(folder: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Path]:
    """Make an empty file in a folder, and remove it at the end if it is still there."""
    path = _incomplete(folder)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def temporary_folder(folder: str | os.PathLike[str], mode: int = 0o777) -> Iterator[Path]:
    """Make an empty folder in a folder, and remove it at the end if it is still there."""
    path = _incomplete(folder)
    try:
        path.mkdir(mode)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _incomplete(folder: str | os.PathLike[str]) -> Path:
    return Path(folder) / f".lwcs-incomplete-{secrets.token_hex(8)}.tmp"


_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
STANDARD_OUTPUT = "standard output"


def check_target(
    path: str | os.PathLike[str], access: Access = DEFAULT, *, trying: bool = True
) -> Place:
    """Return the place of an output file, or raise an error if it cannot be written there.

    With `trying`, an upload to a store is begun and given up, where the store allows that.
    """
    place = _place(path, access)
    if not place.is_local:
        _check_on_store(place, trying)
        return place
    # The target of a symbolic link is replaced, not the link itself.
    target = Path(os.path.realpath(place.path))
    if not str(path) or target.is_dir():
        raise _folder_error(place)
    # The target of /dev/stdout does not exist if that is a pipe, so the link itself is tested.
    if os.path.exists(place.path) and not os.path.isfile(place.path):
        raise ValueError(
            f"cannot replace {place.name!r}: it is not a regular file; pass another path"
        )
    _check_parent(place, target)
    return replace(place, path=str(target))


def check_folder(
    path: str | os.PathLike[str], access: Access = DEFAULT, *, trying: bool = True
) -> Place:
    """Return the place of an output folder, or raise an error unless it is new or empty."""
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
        # Any file in it will do: a folder exists on a store once it has one.
        _check_on_store(replace(place, path=f"{place.path}/.lwcs"), trying)
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


def _place(path: str | os.PathLike[str], access: Access) -> Place:
    """The place of a path; below a SubTreeFileSystem, that on the file system around it."""
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
        raise OSError(
            f"cannot write {place.name!r}: the folder {str(target.parent)!r} is read-only; pass a "
            "path that you may write to"
        )


def _check_on_store(place: Place, trying: bool) -> None:
    """Raise an error if the bucket does not exist, the path is a folder, or writing is denied."""
    from pyarrow import fs

    with explaining(place):
        bucket = stores.container_of(place)
        if place.path.endswith("/") or place.path.strip("/") == bucket:
            raise _folder_error(place)
        if bucket and place.filesystem.get_file_info(bucket).type == fs.FileType.NotFound:
            raise FileNotFoundError(
                f"cannot write {place.name!r}: there is no bucket {bucket!r}, or it may not be "
                "listed; create it first, or correct its name"
            )
        if trying:
            stores.try_out(place)
        if place.filesystem.get_file_info(place.path).type == fs.FileType.Directory:
            raise _folder_error(place)


def _folder_error(place: Place) -> OSError:
    return IsADirectoryError(f"cannot write {place.name!r}: that is a folder; name a file in it")


def explaining(output: Place | str, *, is_copy: bool = False) -> AbstractContextManager[None]:
    """Name the output in errors of writing, and say what to do; the error number is kept.

    A copy (`is_copy`), and what goes to a store, is first in this machine's temporary folder, which
    is then named if the disk is full.
    """
    remote = isinstance(output, Place) and not output.is_local
    name = output if isinstance(output, str) else repr(output.name)

    def translate(error: Exception) -> Exception | None:
        if not isinstance(error, OSError):
            # Libraries of stores also raise errors that are not OSErrors.
            foreign = of_the_place(name, error, "writing") if remote else None
            return None if foreign is None else _store_error(foreign, name)
        told_already = error.errno is None and str(error).startswith("cannot write")
        if told_already or isinstance(error, BrokenPipeError):
            return None
        if not remote or error.errno in (*_DISK_IS_FULL, errno.EROFS):
            return _disk_error(error, name, is_copy or remote)
        failed = error if is_of_the_place(error) else failure(name, error, "writing")
        return _store_error(failed, name)

    return translating(translate)


def _disk_error(error: OSError, name: str, in_temporary_folder: bool) -> OSError:
    reason = error.strerror or first_line(error)
    if error.errno and "[errno" in reason:
        # pyarrow's message begins with which of its functions failed.
        reason = os.strerror(error.errno)
    advice = "try again, or pass another path"
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        advice = "pass a path that you may write to"
    elif error.errno in _DISK_IS_FULL:
        advice = "free some space, or write to another disk"
        if in_temporary_folder:
            reason += f" in the temporary folder {tempfile.gettempdir()!r}"
            advice = "free some space, or set TMPDIR to a folder on another disk"
    message = f"cannot write {name}: {reason}; {advice}"
    if error.errno:
        return OSError(error.errno, message)
    # Callers that try again look at the type.
    return (type(error) if type(error).__module__ == "builtins" else OSError)(message)


def _store_error(failed: OSError, name: str) -> OSError:
    message = f"cannot write {name}: {failed.strerror}; the output was not written"
    return OSError(failed.errno, message)


@contextmanager
def replacing(path: str | os.PathLike[str], access: Access = DEFAULT) -> Iterator[Path]:
    """Yield a temporary path; it becomes the file at `path` only if the block succeeds."""
    place = check_target(path, access, trying=False)
    with _incomplete_output(place, temporary_file, 0o666) as temporary:
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
    with _incomplete_output(place, temporary_folder, 0o777) as temporary:
        yield temporary
        files = [each for each in sorted(temporary.rglob("*")) if each.is_file()]
        with explaining(place):
            if place.is_local:
                for file in files:
                    _sync(file)
                # Replaces a folder that is empty, and no other.
                temporary.rename(place.path)
                _sync(temporary.parent)
            else:
                _upload_all(files, temporary, place)


@contextmanager
def _incomplete_output(
    place: Place, make: Callable[[Path, int], AbstractContextManager[Path]], mode: int
) -> Iterator[Path]:
    """Make a temporary beside the output: renaming is atomic only within a file system.

    For a store, it is in the temporary folder of this machine, where no other user may read it.
    """
    folder = Path(place.path).parent if place.is_local else Path(tempfile.gettempdir())
    with ExitStack() as stack:
        with explaining(place):
            temporary = stack.enter_context(make(folder, mode if place.is_local else mode & 0o700))
        yield temporary


def _upload_all(files: list[Path], folder: Path, place: Place) -> None:
    """Upload the files of a folder; if one fails, those before it are deleted again."""
    begun: list[str] = []
    try:
        for file in files:
            begun.append(f"{place.path}/{file.relative_to(folder).as_posix()}")
            stores.upload(file, replace(place, path=begun[-1]))
    except BaseException:
        for path in begun:
            # The first error is raised, whatever goes wrong here.
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
