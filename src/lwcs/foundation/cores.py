"""How many cores this process may use: affinity, container, OMP_NUM_THREADS and joblib."""

from __future__ import annotations

import multiprocessing
import os
import sys
from functools import cache
from math import ceil, inf
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def usable_cores() -> int:
    """Number of cores of this process: its affinity mask, or less by the quota of its container."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    # 1.5 cores are used by two threads.
    return max(1, ceil(min(cores, _quota_of_this_process())))


def default_jobs() -> int:
    """What `n_jobs` is if it is not given, -1 meaning all usable cores.

    That is the `n_jobs` of joblib's context, else OMP_NUM_THREADS up to the usable cores, else -1.
    """
    level, jobs = _joblib_context()
    if jobs is not None:
        return jobs
    if (limit := _omp_num_threads()) is not None:
        # Workers of joblib's default backend are told their share of the cores this way.
        return min(limit, usable_cores())
    # Other processes of joblib are not told how many of them there are.
    return 1 if level > 0 and multiprocessing.parent_process() is not None else -1


def _joblib_context() -> tuple[int, int | None]:
    """Nesting level and `n_jobs` of joblib's context; joblib is not loaded to find out."""
    active = getattr(sys.modules.get("joblib.parallel"), "get_active_backend", None)
    if active is None:
        return 0, None
    backend, jobs = active()
    return getattr(backend, "nesting_level", None) or 0, jobs


def _omp_num_threads() -> int | None:
    """The first number of OMP_NUM_THREADS, which has one per level of nesting."""
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(given) if given.isascii() and given.isdigit() and int(given) > 0 else None


@cache
def _quota_of_this_process() -> float:
    return cpu_quota(Path("/"))


def cpu_quota(root: Path) -> float:
    """CPU time per second that the control groups of this process allow; infinite if any is.

    `root` is the folder that has /proc and the mounted control groups.
    """
    quotas = (_quota(folder) for group in _groups(root) for folder in group)
    return min(quotas, default=inf)


def _groups(root: Path) -> Iterator[list[Path]]:
    """The control groups for CPU time that hold this process, each with its ancestors."""
    try:
        mounts = _lines(root / "proc/self/mountinfo")
        member_of = [line.split(":", 2) for line in _lines(root / "proc/self/cgroup")]
    except OSError:
        return
    for line in mounts:
        # ID, parent, device, root, mount point, options, …, "-", type, device, options
        mount, _, system = (part.split() for part in line.partition(" - "))
        if system[0] == "cgroup2":
            paths = [path for number, _, path in member_of if number == "0"]
        elif system[0] == "cgroup" and "cpu" in system[2].split(","):
            paths = [path for _, kinds, path in member_of if "cpu" in kinds.split(",")]
        else:
            continue
        top = root / mount[4].lstrip("/")
        for path in paths:
            inside = _below(PurePosixPath(path), PurePosixPath(mount[3]))
            yield [top / step for step in (inside, *inside.parents)]


def _below(path: PurePosixPath, mounted: PurePosixPath) -> PurePosixPath:
    """Where a group is below the mount point; a container may see nothing above its own group."""
    visible = path.is_relative_to(mounted) and ".." not in path.parts
    return path.relative_to(mounted) if visible else PurePosixPath()


def _quota(group: Path) -> float:
    """Cores that one group allows; infinite if it sets no limit."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        try:
            quota, period = " ".join(_lines(group / name)[0] for name in names).split()
            if int(quota) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError, IndexError, ZeroDivisionError):
            # No such file, or "max".
            continue
    return inf


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "surrogateescape").splitlines()
