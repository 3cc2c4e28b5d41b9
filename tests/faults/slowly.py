"""Run as a script: a command that stops in the middle of its writing and waits to be told to end.

The first argument says where: "write" inside of a table that is written piece by piece, "sync" once
a file is complete but has not its name yet, "copy" in the middle of standard input, "upload" before
the last bytes of an upload.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from lwcs.cli import main, outputs
from lwcs.storage import atomic_write as replacing
from lwcs.storage import stores


def stop() -> None:
    print("writing", file=sys.stderr, flush=True)
    time.sleep(60)


def after(owner: Any, name: str) -> None:
    whole = getattr(owner, name)

    def slowly(*arguments: Any, **options: Any) -> Any:
        result = whole(*arguments, **options)
        stop()
        return result

    setattr(owner, name, slowly)


def part_of_it(source: Any, target: Any, *_: object) -> None:
    target.write(source.read(2**16))
    target.flush()
    stop()


if __name__ == "__main__":
    match sys.argv.pop(1):
        case "write":
            after(outputs.TableFile, "write")
        case "sync":
            after(replacing, "_sync")
        case "copy":
            shutil.copyfileobj = part_of_it
        case "upload":
            shutil.copyfileobj = part_of_it
            before = stores._uninterrupted
            stores._uninterrupted = lambda work: (stop(), before(work))
    main(prog_name="lwcs")
