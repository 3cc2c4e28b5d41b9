"""A worker without lwcs, or with another one, is an error that names it; nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv

import pytest

from tests.engines.hosts import CONNECT
from tests.sources.shadow import shadow_lwcs

# Begins a cluster whose workers find another lwcs, and gives rows on it.
BEGIN = {
    "dask": """
import subprocess
import dask.array as da
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=0, dashboard_address=None)
client = Client(cluster)
worker = subprocess.Popen(
    [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny",
     "--nthreads", "1", "--no-dashboard"],
    env={**os.environ, "PYTHONPATH": fake}, stderr=subprocess.DEVNULL,
)
client.wait_for_workers(1, timeout=60)
rows = da.random.default_rng(0).random((1_000, 3), chunks=(100, 3))
from lwcs.sources.engines.dask import _ASKED
asked = lambda: _ASKED.add(client)
end = worker.kill
""",
    "spark": """
os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
from pyspark.sql import SparkSession
start = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = start.config("spark.executorEnv.PYTHONPATH", fake).getOrCreate()
rows = session.range(1_000).selectExpr("id * 1.0D as x")
from lwcs.sources.engines.spark import _ASKED
asked = lambda: _ASKED.add(session)
end = session.stop
""",
    "ray": """
import ray, ray.data
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error",
         runtime_env={"env_vars": {"PYTHONPATH": fake}})
rows = ray.data.from_numpy([np.ones((100, 3))])
from lwcs.sources.engines.ray import _ASKED
node, = ray.nodes()
asked = lambda: _ASKED.add((ray.get_runtime_context().get_job_id(), node["NodeID"]))
end = ray.shutdown
""",
}
BARE = """
import os, sys
os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.argv[1], "127.0.0.1"
from pyspark.sql import SparkSession
import lwcs
start = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
# The path of this process may have pyarrow.
session = start.config("spark.executorEnv.PYTHONPATH", "").getOrCreate()
try:
    lwcs.build(session.range(1_000).selectExpr("id * 1.0D as x"), 10)
except RuntimeError as error:
    print("RuntimeError", error)
session.stop()
"""
CODE = """
import os, sys
import numpy as np, lwcs

def main(fake):
{begin}
    def try_it():
        try:
            lwcs.build(rows, 10)
        except RuntimeError as error:
            # The first line: Ray adds a traceback.
            print("RuntimeError", " ".join(str(error).split()))

    try_it()
    # As if these workers had joined after the others were asked.
    asked()
    try_it()
    end()

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.skipif(CONNECT, reason="starts classic Spark")
@pytest.mark.parametrize(
    ("package", "has"),
    [("raise ImportError('gone')", "no lwcs"), ("__version__ = '0.0.9'", "lwcs 0.0.9")],
    ids=["missing", "another"],
)
@pytest.mark.parametrize("name", ["dask", "spark", "ray"])
def test_workers_with_another_lwcs_are_an_error(tmp_path, name, package, has):
    pytest.importorskip({"spark": "pyspark"}.get(name, name))
    fake = shadow_lwcs(tmp_path / "path", package)
    begin = "\n".join(f"    {line}" for line in BEGIN[name].splitlines())
    script = tmp_path / "script.py"
    script.write_text(CODE.format(begin=begin))
    found = subprocess.run(
        [sys.executable, script, fake],
        capture_output=True,
        text=True,
        timeout=180,
    )
    said = [line for line in found.stdout.splitlines() if line.startswith("RuntimeError")]
    assert len(said) == 2, found.stderr
    before, late = said
    assert f" has {has}, but here it is Python" in before
    assert "install the same version of lwcs on all workers" in before
    assert f"a worker on {os.uname().nodename} has {has}, but here it is lwcs" in late


@pytest.mark.skipif(CONNECT, reason="starts classic Spark")
def test_a_bare_python_on_spark_is_an_error_that_says_what_to_do(tmp_path):
    pytest.importorskip("pyspark")
    venv.create(tmp_path, with_pip=False, symlinks=True)
    found = subprocess.run(
        [sys.executable, "-c", BARE, tmp_path / "bin" / "python"],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert found.stdout == (
        "RuntimeError the Python of a worker has no module 'pyarrow'; install it, and the same "
        "version of lwcs, on all workers, or set spark.pyspark.python (or the environment "
        "variable PYSPARK_PYTHON) to a Python that has it\n"
    ), found.stderr


@pytest.mark.parametrize("module", ["pyarrow", "scipy", "lwcs.sources"])
def test_a_module_that_a_spark_worker_lacks_is_named(module):
    pytest.importorskip("pyspark")
    from lwcs.sources.engines.spark import _explaining_workers

    told = f"thrown from the Python worker:\nModuleNotFoundError: No module named {module!r}\n"
    with (
        pytest.raises(RuntimeError, match=f"has no module {module!r}; install it"),
        _explaining_workers(),
    ):
        raise ValueError(told)
    with pytest.raises(ValueError, match=r"^no module of ours$"), _explaining_workers():
        raise ValueError("no module of ours")
