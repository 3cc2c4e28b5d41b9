"""Workers in processes of their own: a crash or a hang is that of the case that was running."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

from tests.fuzz.targets import TARGETS

SLOWEST = 60.0
"""Seconds that one case may take, which is a hundred times what the slowest ones take."""
_BATCH = 2_000
_START = 120.0


@dataclass(frozen=True)
class Job:
    """Some consecutive cases of one target."""

    target: str
    first: int
    count: int

    def __str__(self) -> str:
        return f"{self.target}:{self.first}:{self.count}"

    def after(self, case: int) -> Job:
        """The cases that follow one of them."""
        return Job(self.target, case + 1, self.first + self.count - case - 1)


@dataclass
class Report:
    """What became of all cases."""

    cases: int = 0
    wrong: list[str] = field(default_factory=list)


def plan(cases: int) -> list[Job]:
    """All jobs, the slowest targets first."""
    jobs = []
    for target, (_, part) in reversed(TARGETS.items()):
        count = max(1, round(cases * part))
        jobs += [Job(target, at, min(_BATCH, count - at)) for at in range(0, count, _BATCH)]
    return jobs


def run_all(cases: int, workers: int) -> Report:
    """Run so many cases over all targets in some processes at a time."""
    report, lock, jobs = Report(), threading.Lock(), plan(cases)
    # A process takes seconds to start: small jobs share one.
    todo = [[job] for job in jobs] if cases > _BATCH else [jobs]

    def work() -> None:
        while True:
            with lock:
                if not todo:
                    return
                batch = todo.pop(0)
            wrong = _batch(batch)
            with lock:
                report.cases += sum(job.count for job in batch)
                report.wrong += wrong

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def _batch(jobs: list[Job]) -> list[str]:
    """Run some jobs; after a crash, go on with the case that follows."""
    wrong: list[str] = []
    while jobs:
        (target, case), said, ended = _process(jobs)
        wrong += said
        if ended == "done":
            break
        wrong.append(f"{target}: {ended}\n    {command(target, case)}")
        at = next(i for i, job in enumerate(jobs) if job.target == target)
        jobs = [job for job in [jobs[at].after(case), *jobs[at + 1 :]] if job.count]
    return wrong


def command(target: str, case: int) -> str:
    """The command that runs a case again."""
    return f"FUZZ_SEED={os.environ.get('FUZZ_SEED', '0')} python -m tests.fuzz {target}:{case}:1"


def _process(jobs: list[Job]) -> tuple[tuple[str, int], list[str], str]:
    """Run one process; return its last case, what was wrong, and how it ended."""
    # Kernels take turns, so that both are tried.
    kernel = "numpy" if (jobs[0].first // _BATCH) % 4 == 3 else "native"
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz", *map(str, jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | one | {"LWCS_KERNEL": kernel, "MALLOC_ARENA_MAX": "2"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
    reader.start()
    last, said, ended = (jobs[0].target, jobs[0].first), [], ""
    ready = selectors.DefaultSelector()
    ready.register(process.stdout, selectors.EVENT_READ)
    patience = _START
    try:
        while ended == "":
            if not ready.select(patience):
                ended = f"no end after {patience:.0f} seconds"
                break
            line = process.stdout.readline()
            patience = SLOWEST
            if line.startswith("case "):
                _, target, case = line.split()
                last = target, int(case)
            elif line.startswith("wrong "):
                _, target, case, what = line.split(" ", 3)
                said.append(f"{target}: {what.strip()}\n    {command(target, int(case))}")
            elif line.startswith("done"):
                ended = "done"
            elif not line:
                process.wait()
                ended = "crash"
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()
        ready.close()
    if ended == "crash":
        head = [line for line in errors[0].splitlines() if line.strip()][:12]
        ended = f"exit code {process.returncode}: {' | '.join(head)}"
    return last, said, ended


def main(cases: int, workers: int) -> Report:
    """Run and tell; what ``make fuzz`` and the tests call."""
    begun = time.monotonic()
    report = run_all(cases, workers)
    seconds = time.monotonic() - begun
    print(f"\n{report.cases:,} mutated inputs in {seconds:.0f} s, {len(report.wrong)} wrong")
    return report
