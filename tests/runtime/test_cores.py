"""The default number of threads follows the container, OMP_NUM_THREADS and joblib."""

from __future__ import annotations

from math import inf
from pathlib import Path
from types import SimpleNamespace

import joblib
import pytest
from joblib.externals.loky.backend import context

from lwcs.runtime import parallel as cores
from lwcs.runtime.parallel import as_threads, cpu_quota, usable_cores

V2 = "30 24 0:26 {mounted} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 {mounted} /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"


def machine(root, mount, member_of, files, mounted="/"):
    """A folder that looks like / of a machine with control groups."""
    proc = root / "proc" / "self"
    proc.mkdir(parents=True)
    lines = ["22 28 0:20 / /proc rw - proc proc rw", mount.format(mounted=mounted)]
    (proc / "mountinfo").write_text("\n".join(lines) + "\n")
    (proc / "cgroup").write_text(member_of + "\n")
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, inf),
        ({"cpu.max": "damaged"}, inf),
        ({"cpu.max": "100000 0"}, inf),
        ({"cpu.max": ""}, inf),
        ({}, inf),
    ],
)
def test_a_container_sees_its_own_group_as_the_root(files, expected, tmp_path):
    assert cpu_quota(machine(tmp_path, V2, "0::/", files)) == expected


def test_the_tightest_of_all_ancestors_counts(tmp_path):
    files = {"cpu.max": "max 100000", "a/cpu.max": "300000 100000", "a/b/cpu.max": "800000 100000"}
    assert cpu_quota(machine(tmp_path, V2, "0::/a/b", files)) == 3.0


def test_groups_that_hold_others_do_not_count(tmp_path):
    files = {"a/cpu.max": "max 100000", "b/cpu.max": "100000 100000"}
    assert cpu_quota(machine(tmp_path, V2, "0::/a", files)) == inf


@pytest.mark.parametrize("path", ["/docker/1", "/elsewhere", "/../.."])
def test_a_mount_may_begin_at_the_group_of_the_container(path, tmp_path):
    files = {"cpu.max": "200000 100000"}
    assert cpu_quota(machine(tmp_path, V2, f"0::{path}", files, mounted="/docker/1")) == 2.0


def test_joblib_does_not_see_the_quota_of_a_nested_group(tmp_path, monkeypatch):
    # Once this fails, `joblib.cpu_count` can replace `cpu_quota`.
    files = {"a/cpu.max": "300000 100000", "a/b/cpu.max": "800000 100000"}
    root = machine(tmp_path, V2, "0::/a/b", files)
    path = SimpleNamespace(exists=lambda name: Path(f"{root}{name}").exists())
    monkeypatch.setattr(context, "os", SimpleNamespace(path=path))
    monkeypatch.setattr(context, "open", lambda name: open(f"{root}{name}"), raising=False)  # noqa: SIM115
    assert (context._cpu_count_cgroup(64), cpu_quota(root)) == (64, 3.0)
    (root / "sys/fs/cgroup/cpu.max").write_text("150000 100000\n")
    assert (context._cpu_count_cgroup(64), cpu_quota(root)) == (2, 1.5)


def test_quotas_of_the_first_version(tmp_path):
    files = {
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "cpu/a/cpu.cfs_quota_us": "50000",
        "cpu/a/cpu.cfs_period_us": "20000",
    }
    member_of = "3:cpuset:/b\n4:cpu,cpuacct:/a\n0::/b"
    assert cpu_quota(machine(tmp_path, V1, member_of, files)) == 2.5


def test_without_control_groups_there_is_no_quota(tmp_path):
    assert cpu_quota(tmp_path) == inf


@pytest.mark.parametrize(
    ("quota", "expected"), [(0.3, 1), (1.0, 1), (1.5, 2), (2.0, 2), (7.9, 8), (100.0, 8), (inf, 8)]
)
def test_part_of_a_core_is_one_more_thread(quota, expected, monkeypatch):
    on_eight_cores(monkeypatch, quota)
    assert usable_cores() == as_threads(None) == as_threads(-1) == expected
    assert as_threads(-2) == max(1, expected - 1)


def on_eight_cores(monkeypatch, quota=inf):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(cores, "_quota_of_this_process", lambda: quota)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8), raising=False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("3", 3), ("4,2", 4), (" 5 , 1", 5), ("99", 8), ("0", 8), ("-2", 8), ("two", 8), ("", 8)],
)
def test_omp_num_threads_limits_the_default_and_nothing_else(given, expected, monkeypatch):
    on_eight_cores(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert as_threads(None) == expected
    assert (as_threads(-1), as_threads(-3), as_threads(6)) == (8, 6, 6)


def test_the_context_of_joblib_is_the_default(monkeypatch):
    on_eight_cores(monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with joblib.parallel_config(n_jobs=3):
        assert as_threads(None) == 3
        assert (as_threads(-1), as_threads(5)) == (8, 5)
    with joblib.parallel_config(n_jobs=-2):
        assert as_threads(None) == 7
    with joblib.parallel_config(backend="threading"):
        assert as_threads(None) == 2


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_processes_of_joblib_share_the_cores(backend, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    n_jobs = usable_cores()
    threads = joblib.Parallel(n_jobs=n_jobs, backend=backend)(
        joblib.delayed(as_threads)(None) for _ in range(n_jobs)
    )
    assert threads == [1] * n_jobs
