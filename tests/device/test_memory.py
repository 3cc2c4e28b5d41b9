"""Where the memory of a device is full, it is said what to lower, and nothing stays in it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import lwcs
from lwcs import CoresetKMeans
from lwcs.arrays.device import with_explained_memory

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")
device = pytest.importorskip("lwcs.kernels.torch.operations")

ROWS = np.random.default_rng(0).standard_normal((20_000, 3))
WORDS = r"memory of the device is full.*smaller coreset_size.*device='cuda'.*memory_limit"


@pytest.fixture
def full(monkeypatch):
    """Let a kernel fail after it has allocated; returns what is left of the memory."""
    left: list[weakref.ref[object]] = []
    monkeypatch.setenv("LWCS_KERNEL", "device")

    def fail(name):
        def kernel(X, *_, **__):
            mine = torch.zeros(len(X))
            left.append(weakref.ref(mine))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB. More.")

        monkeypatch.setattr(device, name, kernel)
        return left

    return fail


def refused(ask, left):
    with pytest.raises(MemoryError, match=WORDS) as error:
        ask()
    assert "Tried to allocate" not in str(error.value)
    assert left
    gc.collect()
    # While the error is still there, as in an interactive session.
    assert not [each for each in left if each() is not None]
    assert error.value.__cause__ is None
    return error


def test_a_full_device_is_explained(full):
    X = torch.from_numpy(ROWS)
    model = CoresetKMeans(3, coreset_size=500, random_state=0).fit(X)
    left = full("nearest")
    for ask in (
        lambda: CoresetKMeans(3, coreset_size=500, random_state=0).fit(X),
        lambda: CoresetKMeans(3, random_state=0, device="cpu").fit(ROWS),
        lambda: model.predict(X),
        lambda: model.score(X),
    ):
        refused(ask, left)
        left.clear()
    full("scan_cells")
    refused(lambda: lwcs.build(X, 500, random_state=0), left)


def test_a_model_is_not_fitted_after_that(full):
    left = full("nearest")
    model = CoresetKMeans(3, coreset_size=500, random_state=0)
    refused(lambda: model.fit(torch.from_numpy(ROWS)), left)
    assert not hasattr(model, "cluster_centers_")


def test_intermediate_results_of_callers_are_dropped():
    seen = []

    def outer():
        held = torch.zeros(10)
        seen.append(weakref.ref(held))
        try:
            inner()
        except RuntimeError as error:
            raise torch.OutOfMemoryError("again") from error

    def inner():
        held = torch.zeros(10)
        seen.append(weakref.ref(held))
        raise torch.OutOfMemoryError("full")

    with pytest.raises(MemoryError, match=r"torch says: again") as error:
        with_explained_memory(outer)()
    assert error.value is not None
    gc.collect()
    assert [each() for each in seen] == [None, None]


def test_other_errors_are_as_they_were():
    @with_explained_memory
    def fail():
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match=r"^something else$"):
        fail()
