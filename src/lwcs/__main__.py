"""The process of a command: `python -m lwcs`, and the script `lwcs`.

A signal ends it with the same exit code at any time. While the commands are imported, and after one
is done, there is nothing to clean up; in between, `cli.errors` does.
"""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn


def run() -> None:
    """Run the command of this process."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # Not SIGHUP on Windows, which has none. A signal that is ignored stays ignored.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    from lwcs.cli import main

    main(prog_name="lwcs")


def _end(number: int, _: Any) -> NoReturn:
    os._exit(128 + number)


if __name__ == "__main__":
    run()
