"""A folder of this machine as a store that says what it is asked for, and fails on request."""

from __future__ import annotations

from pyarrow import PythonFile, fs


def _refused(*_):
    raise NotImplementedError


class Spied(
    type(
        "Bare",
        (fs.FileSystemHandler,),
        dict.fromkeys(fs.FileSystemHandler.__abstractmethods__, _refused),
    )
):
    """What pyarrow calls; `listed` and `read` say what was asked for."""

    def __init__(self, root):
        self.bare = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())
        self.listed, self.read, self.failing = [], [], {}
        """`failing`: paths, and the errors that they raise."""

    def get_type_name(self):
        return "spied"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self.bare.get_file_info(paths)

    def get_file_info_selector(self, selector):
        self.listed.append((selector.base_dir, selector.recursive))
        if selector.base_dir in self.failing:
            raise self.failing[selector.base_dir]
        return self.bare.get_file_info(selector)

    def open_input_file(self, path):
        return PythonFile(_File(self, path), "r")


class _File:
    closed = False

    def __init__(self, store, path):
        self._store, self._path, self._file = store, path, store.bare.open_input_file(path)

    def read(self, n=-1):
        if self._path in self._store.failing:
            raise self._store.failing[self._path]
        self._store.read.append((self._path, self._file.tell(), n))
        return self._file.read(None if n < 0 else n)

    def seek(self, at, whence=0):
        return self._file.seek(at, whence)

    def tell(self):
        return self._file.tell()

    def close(self):
        self.closed = True

    def readable(self):
        return True

    def writable(self):
        return False

    def seekable(self):
        return True


def spied(root) -> tuple[fs.PyFileSystem, Spied]:
    handler = Spied(root)
    return fs.PyFileSystem(handler), handler
