"""Starts each engine once, when the first test asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.hosts import CONNECT, HOSTS, NAMES


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engines)
            # Theirs, not ours: warnings of lwcs are errors here too.
            for theirs in (
                "ignore:PySpark does not yet fully support pandas:FutureWarning",
                "ignore::ResourceWarning",
                "ignore::DeprecationWarning:ray",
                "ignore::FutureWarning:ray",
                "ignore::DeprecationWarning:pyspark",
            ):
                item.add_marker(pytest.mark.filterwarnings(theirs))


@pytest.fixture(scope="session")
def started():
    hosts = {}

    def start(name):
        if CONNECT and name != "spark":
            pytest.skip("LWCS_SPARK=connect runs Spark alone")
        if name == "dask table":
            # On the same cluster.
            start("dask")
        if name not in hosts:
            hosts[name] = HOSTS[name]()
        return hosts[name]

    yield start
    for host in hosts.values():
        host.close()


@pytest.fixture(params=NAMES)
def engine(request, started):
    """Every engine in turn."""
    return started(request.param)


@pytest.fixture
def dask(started):
    return started("dask")


@pytest.fixture
def dask_tables(started):
    return started("dask table")


@pytest.fixture
def spark(started):
    return started("spark")


@pytest.fixture
def ray(started):
    return started("ray")
