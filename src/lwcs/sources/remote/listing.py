"""The files below a folder that match a pattern, each once, whatever links lead to it.

Links within the folder are followed, but a file that is reached in several ways counts once, by
its real path. Links that lead out of the folder are not followed: whoever means them names them.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyarrow import fs

from lwcs.runtime.warnings import warn
from lwcs.sources.files.change_detection import Stamp, stamp_of
from lwcs.sources.remote.prefetch import REQUESTS, WaitingThreads
from lwcs.storage.failures import reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_HIDDEN = (".", "_")
States = frozenset[int]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob below a folder: * stands for a part of a name, ** for any number of folders.

    The states of a path are the numbers of parts of the pattern that may have matched it.
    """

    parts: tuple[str, ...]

    @property
    def start(self) -> States:
        """The states of the folder itself."""
        return self._closed([0])

    def step(self, states: States, name: str) -> States:
        """The states of what is called `name` in a folder with these states; none if no match."""
        after = []
        for at in states:
            if at < len(self.parts):
                if self.parts[at] == "**":
                    after.append(at)
                elif fnmatchcase(name, self.parts[at]):
                    after.append(at + 1)
        return self._closed(after)

    def matches(self, states: States) -> bool:
        """Whether a path with these states matches."""
        return len(self.parts) in states

    def below(self, states: States) -> States:
        """The states of a folder from which something below it can still match."""
        return states - {len(self.parts)}

    def is_deep(self, states: States) -> bool:
        """Whether a folder with these states can have matches at any depth."""
        return any(self.parts[at] == "**" for at in self.below(states))

    def _closed(self, states: Iterable[int]) -> States:
        """With those that are reached by ** standing for no folder."""
        found, new = set[int](), list(states)
        while new:
            at = new.pop()
            found.add(at)
            if at < len(self.parts) and self.parts[at] == "**" and at + 1 not in found:
                new.append(at + 1)
        return frozenset(found)


EVERYTHING = Pattern(("**", "*"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which paths to list."""

    pattern: Pattern
    """What their names match, below a folder."""
    keep: Callable[[str], bool]
    """Whether a path that matches is listed."""
    is_file: Callable[[str], bool]
    """Whether a folder counts as a file."""
    note: Callable[[str], None] = lambda _: None
    """Told of everything that is in the folders that are looked into, also if it is hidden."""


Listed = dict[str, Stamp | None]
"""Paths of files in order, and their stamps where a listing has told them."""


def files_below(filesystem: fs.FileSystem, folder: str, wanted: Wanted) -> Listed:
    """The files in a folder that are wanted, sorted; hidden ones are not."""
    if isinstance(filesystem, fs.LocalFileSystem):
        return dict.fromkeys(_Walk(folder, wanted).files())
    return dict(sorted(_on_store(filesystem, folder, wanted).items()))


def _on_store(filesystem: fs.FileSystem, folder: str, wanted: Wanted) -> Listed:
    """List level by level, and only folders in which something can match.

    From where a pattern allows any number of folders, one listing has all that is below.
    """
    pattern, found = wanted.pattern, Listed()

    def look_into(at: tuple[str, States]) -> list[fs.FileInfo]:
        path, states = at
        with reaching(path):
            return list(
                filesystem.get_file_info(
                    fs.FileSelector(path, allow_not_found=True, recursive=pattern.is_deep(states))
                )
            )

    level = [(folder, pattern.start)]
    with WaitingThreads(REQUESTS) as pool:
        while level:
            below = []
            for (path, states), infos in zip(level, pool.map(look_into, level), strict=True):
                for info in infos:
                    wanted.note(info.path)
                    after = _states(info, path, states, wanted)
                    is_file = info.type == fs.FileType.File or wanted.is_file(info.path)
                    if is_file and pattern.matches(after) and wanted.keep(info.path):
                        found[info.path] = stamp_of(info)
                    elif not is_file and not pattern.is_deep(states) and pattern.below(after):
                        below.append((info.path, pattern.below(after)))
            level = below
    return found


def _states(info: fs.FileInfo, folder: str, states: States, wanted: Wanted) -> States:
    """The states of something below a folder; none if it is hidden, or within a file."""
    path = folder.rstrip("/")
    for name in info.path[len(path) + 1 :].split("/"):
        if name.startswith(_HIDDEN) or (path != folder and wanted.is_file(path)):
            return frozenset()
        path, states = f"{path}/{name}", wanted.pattern.step(states, name)
    return states


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    real: str
    states: States
    linked: bool
    """Whether a link led here."""


class _Walk:
    """One walk over a local folder."""

    def __init__(self, folder: str, wanted: Wanted) -> None:
        self._folder, self._wanted, self._pattern = folder, wanted, wanted.pattern
        self._root = os.path.realpath(folder)
        self._found: dict[bool, dict[str, str]] = {False: {}, True: {}}
        self._left_out: list[str] = []

    def files(self) -> list[str]:
        """Paths of the files that match, sorted; says which links were not followed."""
        waiting = deque([_Folder(self._folder, self._root, self._pattern.start, False)])
        seen: set[tuple[str, States]] = set()
        while waiting:
            folder = waiting.popleft()
            if (folder.real, folder.states) in seen:
                # By another link, or in a circle: the same files would match again.
                continue
            seen.add((folder.real, folder.states))
            for below in self._look_into(folder):
                # Folders themselves come before links to them.
                (waiting.append if below.linked else waiting.appendleft)(below)
        if self._left_out:
            self._say()
        return sorted((self._found[True] | self._found[False]).values())

    def _look_into(self, folder: _Folder) -> Iterator[_Folder]:
        for entry in os.scandir(folder.path):
            path = f"{folder.path.rstrip('/')}/{entry.name}"
            self._wanted.note(path)
            if entry.name.startswith(_HIDDEN):
                continue
            states = self._pattern.step(folder.states, entry.name)
            if not states:
                continue
            linked, real = folder.linked or entry.is_symlink(), f"{folder.real}/{entry.name}"
            is_folder = entry.is_dir() and not self._wanted.is_file(path)
            below = self._pattern.below(states)
            if not below if is_folder else not self._is_wanted(path, states):
                continue
            if entry.is_symlink():
                real = os.path.realpath(path)
                if not os.path.exists(real) or not self._is_inside(real):
                    self._left_out.append(path)
                    continue
            if is_folder:
                yield _Folder(path, real, below, linked)
            elif os.path.isfile(path) or os.path.isdir(path):
                self._found[linked].setdefault(real, path)

    def _is_wanted(self, path: str, states: States) -> bool:
        return self._pattern.matches(states) and self._wanted.keep(path)

    def _is_inside(self, real: str) -> bool:
        return os.path.commonpath([self._root, real]) == self._root

    def _say(self) -> None:
        some = ", ".join(map(repr, sorted(self._left_out)[:5]))
        more = ", …" if len(self._left_out) > 5 else ""
        warn(
            f"these links lead out of the folder {self._folder!r}, or nowhere, and are not "
            f"followed: {some}{more}; to read them, too, name them in a list of paths"
        )
