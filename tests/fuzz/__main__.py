"""Run cases of targets: ``python -m tests.fuzz TARGET:FIRST:COUNT …``."""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import tempfile
import traceback
import zlib
from pathlib import Path

import numpy as np

import lwcs.cli
from tests.fuzz.outcomes import Wrong
from tests.fuzz.targets import TARGETS

MEMORY = 6 * 2**30


def run(target: str, case: int, folder: Path) -> str | None:
    """Run one case; return what is wrong, or None."""
    seed = int(os.environ.get("FUZZ_SEED", "0"))
    rng = np.random.default_rng([seed, zlib.crc32(target.encode()), case])
    try:
        TARGETS[target][0](rng, folder)
    except Wrong as wrong:
        return str(wrong)
    except Exception as error:
        return f"{type(error).__name__} while judging: {error}\n{traceback.format_exc()}"
    return None


def main(jobs: list[str]) -> None:
    """Say which case is running before it runs: a crash is then that case's."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    assert lwcs.cli
    with tempfile.TemporaryDirectory() as folder:
        # A mutated name of an output may be any name.
        os.chdir(folder)
        for job in jobs:
            target, first, count = job.split(":")
            for case in range(int(first), int(first) + int(count)):
                print(f"case {target} {case}", flush=True)
                wrong = run(target, case, Path(folder))
                if wrong is not None:
                    print(f"wrong {target} {case} {wrong!r}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
