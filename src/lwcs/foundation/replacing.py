"""Files and folders that appear once they are complete: on this machine and on stores.

On this machine, what is written has a temporary name beside its own, and is renamed. For a store,
it is written to the temporary folder of this machine and uploaded. A folder on a store appears
file by file; if that fails or is interrupted, what was uploaded is removed again.
"""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lwcs.foundation import stores
from lwcs.foundation.failures import failure, first_line, of_the_place
from lwcs.foundation.places import DEFAULT, Access, Place
from lwcs.foundation.temporaries import temporary_file, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    with _temporary(place, temporary_file, 0o666) as temporary:
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
    with _temporary(place, temporary_folder, 0o777) as temporary:
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
def _temporary(
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
