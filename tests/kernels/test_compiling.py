"""Kernels are compiled once, ahead if one likes; it is said, and a disk that fails fails no job."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")

from numba.core.caching import IndexDataCacheFile

from lwcs.kernels.compiled import jit
from lwcs.runtime.warnings import COMPILING

FIT = """
import sys, numpy as np, lwcs
from lwcs.kernels.compiled import jit
jit.say_once = lambda: sys.exit("a kernel is compiled")
X = np.random.default_rng(0).standard_normal((4_000, 8)) ** 3
for rows in (X, X.astype("float32"), np.tile(X, (1, 30)).astype("float32")):
    model = lwcs.CoresetKMeans(30, random_state=0).fit(rows)
    model.predict(rows)
    lwcs.certify(rows, model)
    lwcs.build(rows, 100, random_state=0)
"""


def doubled(x):
    return x + x


def tripled(x):
    return x + x + x


@pytest.mark.parametrize("step", ["_load_index", "_save_data", "_save_index"])
def test_a_cache_that_cannot_be_used_fails_no_job(step, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    compiled = jit.jit()(doubled)
    monkeypatch.setattr(IndexDataCacheFile, step, full)
    assert compiled(21) == 42


def test_what_was_compiled_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    for hits in (0, 1):
        compiled = jit.jit()(tripled)
        assert compiled(2) == 6
        assert sum(compiled.stats.cache_hits.values()) == hits


def lwcs(*arguments, cache, cwd):
    own = {"NUMBA_CACHE_DIR": str(cache), "LWCS_KERNEL": "compiled"}
    command = [sys.executable, "-m", "lwcs", *arguments]
    return subprocess.run(
        command, env=os.environ | own, cwd=cwd, capture_output=True, text=True, check=True
    )


def test_compiling_is_said_in_one_line_and_warming_up_leaves_none_to_compile(tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((500, 3)))
    build = ["build", "rows.npy", "--size", "50", "-o", "c.parquet"]
    first, second = (lwcs(*build, cache=tmp_path / "a", cwd=tmp_path).stderr for _ in range(2))
    assert first.count("compiling kernels, once per environment") == 1
    assert "compiling" not in second
    lines = lwcs(*build, "--log-json", cache=tmp_path / "b", cwd=tmp_path).stderr.splitlines()
    assert [json.loads(line)["event"] for line in lines].count(COMPILING) == 1
    assert "the kernels are ready" in lwcs("warmup", cache=tmp_path / "a", cwd=tmp_path).stdout
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "a"), "LWCS_KERNEL": "compiled"}
    subprocess.run([sys.executable, "-c", FIT], env=os.environ | own, check=True)
