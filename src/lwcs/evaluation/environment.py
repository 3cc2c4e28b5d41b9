"""What lwcs runs with: versions, processor, and which kernels are in use."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

import lwcs
from lwcs import kernels
from lwcs.runtime.parallel import default_jobs, usable_cores

_PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "pyarrow", "narwhals", "array-api-compat", "threadpoolctl"),
    *("pandas", "polars", "matplotlib", "dask", "pyspark", "ray", "torch", "triton"),
)


def show_versions() -> None:
    """Print the versions, the kernels and the threads in use, for reports of bugs.

    Examples
    --------
    >>> import lwcs
    >>> lwcs.show_versions()
    lwcs: ...
    kernels: ...
    """
    click.echo("\n".join(f"{name}: {said}" for name, said in _facts().items()))


def _facts() -> dict[str, str]:
    facts = {"lwcs": lwcs.__version__, "kernels": _kernels_in_use()}
    jobs = default_jobs()
    facts["threads"] = f"{usable_cores() if jobs < 0 else jobs} of {usable_cores()} usable cores"
    facts["Python"] = f"{platform.python_version()} ({platform.python_implementation()})"
    facts["system"] = f"{platform.platform()}, {platform.machine()}"
    return facts | {name: found for name in _PACKAGES if (found := _version(name))}


def _kernels_in_use() -> str:
    if kernels.named("native").name == "numpy":
        return "numpy (slower: no native kernels were built; install a wheel, or a C++ compiler)"
    used = kernels.named(kernels.choose())
    return "numpy, by LWCS_KERNEL" if used.name == "numpy" else used.description


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
