"""`import lwcs` is light, and its public names are where they should be."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import lwcs

HEAVY = [
    "scipy", "sklearn", "pyarrow", "pandas", "polars", "narwhals", "matplotlib",
    "dask", "pyspark", "ray", "torch", "cupy", "rich", "click", "threadpoolctl",
    "h5py", "zarr",
]  # fmt: skip


def modules_after(code: str) -> set[str]:
    """Top-level packages and modules that are loaded after some code."""
    return {name.split(".")[0] for name in loaded_by(code)}


def loaded_by(code: str) -> set[str]:
    script = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_lwcs_imports_nothing_heavier_than_numpy():
    allowed = modules_after("import numpy") | {"lwcs"}
    loaded = modules_after("import lwcs") - allowed
    assert not loaded & set(HEAVY)
    assert loaded <= set(sys.stdlib_module_names) | {"__future__"}


def test_a_small_build_of_an_array_loads_no_table_library_or_engine():
    loaded = modules_after("import lwcs, numpy; lwcs.build(numpy.eye(9), 3)")
    assert not loaded & {"sklearn", "pyarrow", "pandas", "polars", "narwhals", "rich"}


def test_a_k_means_fit_loads_nothing_of_mixtures():
    code = "import lwcs, numpy; X = numpy.random.default_rng(0).normal(size=(12_000, 2))"
    loaded = loaded_by(f"{code}; lwcs.CoresetKMeans(3, random_state=0).fit(X).predict(X)")
    own = {name for name in loaded if name.startswith("lwcs.")}
    assert "lwcs.estimators.coreset_kmeans" in own
    assert not {name for name in own if {"mixture", "families", "em"} & set(re.split("[._]", name))}
    mixture = loaded_by(f"{code}; lwcs.CoresetMixture(2, random_state=0).fit(X)")
    assert {"lwcs.estimators.coreset_mixture", "lwcs.solvers.families"} <= mixture


def test_a_command_that_only_prints_its_help_loads_no_estimator():
    loaded = modules_after("import lwcs.cli")
    assert not loaded & {"sklearn", "scipy", "pandas", "polars", "narwhals", "matplotlib"}


@pytest.mark.parametrize("name", lwcs.__all__)
def test_public_names_exist(name):
    assert getattr(lwcs, name) is not None
    assert name in dir(lwcs)


def test_importing_every_module_leaves_the_functions_in_place():
    engines = (
        "lwcs.sources.engines.dask",
        "lwcs.sources.engines.spark",
        "lwcs.sources.engines.ray",
        "lwcs.spark",
        "lwcs.kernels.torch",
    )
    # Walking imports packages; one that fails to import is named again by the second statement.
    code = "import lwcs, pkgutil, importlib; " + (
        "found = pkgutil.walk_packages(lwcs.__path__, 'lwcs.', onerror=lambda name: None); "
        f"names = [each.name for each in found if not each.name.startswith({engines})]; "
        "[importlib.import_module(name) for name in names]; "
        "assert callable(lwcs.build) and callable(lwcs.scan) and callable(lwcs.load)"
    )
    modules_after(code)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="biuld"):
        _ = lwcs.biuld
