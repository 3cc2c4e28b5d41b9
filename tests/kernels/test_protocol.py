"""The kernels have the operations of their protocol, with its names and arguments."""

from __future__ import annotations

import importlib
import inspect

import pytest

from lwcs.kernels import named
from lwcs.kernels.protocol import HostKernels, Kernels, TiledKernels


def operations(protocol):
    """Name and arguments of every function of a protocol."""
    return {
        name: list(inspect.signature(each).parameters.values())[1:]
        for kind in protocol.__mro__
        for name, each in vars(kind).items()
        if inspect.isfunction(each) and not name.startswith("_")
    }


def shape(parameters):
    return [(each.name, each.kind, each.default) for each in parameters]


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("numpy", HostKernels),
        ("native", HostKernels),
        ("native.tiles", TiledKernels),
        ("torch", Kernels),
    ],
)
def test_an_implementation_has_every_operation_with_its_arguments(name, protocol):
    if name == "torch":
        pytest.importorskip("torch", reason="needs torch: make test-gpu")
    module = importlib.import_module(f"lwcs.kernels.{name}")
    wanted = operations(protocol)
    assert wanted
    for operation, parameters in wanted.items():
        found = inspect.signature(getattr(module, operation)).parameters.values()
        assert shape(found) == shape(parameters), operation
    for kind in protocol.__mro__:
        for attribute in vars(kind).get("__annotations__", {}):
            assert hasattr(module, attribute), attribute


@pytest.mark.parametrize("name", ["numpy", "native"])
def test_kernels_know_their_name(name):
    assert named(name).name == name
