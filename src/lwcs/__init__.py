"""lwcs: k-means clustering of data of any size, through lightweight coresets.

The public names are imported on first use, so that ``import lwcs`` takes no longer
than importing NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.5.0"

_PUBLIC = {
    "lwcs.comparing": ["CompareResult", "compare"],
    "lwcs.coreset.building": ["build"],
    "lwcs.coreset.coreset": ["Coreset"],
    "lwcs.coreset.streaming": ["StreamingCoreset"],
    "lwcs.divergences": ["divergences"],
    "lwcs.estimators.coreset_kmeans": ["CoresetKMeans"],
    "lwcs.estimators.coreset_mixture": ["CoresetMixture"],
    "lwcs.estimators.summary": ["ClusterSummary"],
    "lwcs.evaluation.certification": ["certify"],
    "lwcs.evaluation.drift_detection": ["Drift", "drift"],
    "lwcs.evaluation.table_check": ["check"],
    "lwcs.evaluation.table_check_result": ["Check"],
    "lwcs.evaluation.environment": ["show_versions"],
    "lwcs.evaluation.k_selection_result": ["KChoice"],
    "lwcs.evaluation.k_selection": ["choose_k"],
    "lwcs.evaluation.typical_rows_result": ["Exemplars"],
    "lwcs.evaluation.typical_rows": ["exemplars"],
    "lwcs.plotting.cluster_map": ["ClusterMapDisplay"],
    "lwcs.plotting.cluster_profiles": ["ProfileDisplay", "SilhouetteDisplay"],
    "lwcs.plotting.coreset_draws": ["CoresetDisplay"],
    "lwcs.plotting.curves": ["CompareDisplay", "ElbowDisplay"],
    "lwcs.reporting": ["report"],
    "lwcs.runtime.progress": ["Progress"],
    "lwcs.runtime.warnings": ["ColumnWarning"],
    "lwcs.samplers": ["Lightweight", "Refined", "Sensitivity", "Uniform"],
    "lwcs.sizing.stability": ["Stability"],
    "lwcs.sources": ["Source", "scan"],
    "lwcs.sources.memory.partitioned": ["PartitionedSource"],
    "lwcs.statistics.theory": ["theory"],
    "lwcs.statistics.certificate": ["Certificate"],
    "lwcs.statistics.diagnosis": ["Diagnosis"],
    "lwcs.statistics.record": ["FittedOn"],
}
"""Public names by the module that they are in."""
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}
_READERS = {
    "coreset": "lwcs.coreset.io",
    "comparison": "lwcs.comparing.result",
    "kmeans": "lwcs.estimators.kmeans_io",
    "mixture": "lwcs.estimators.mixture_io",
    "stream": "lwcs.coreset.streaming_io",
}
"""The module that reads each kind of file, imported when needed: only models need scikit-learn."""

__all__ = [
    "Certificate",
    "Check",
    "ClusterMapDisplay",
    "ClusterSummary",
    "ColumnWarning",
    "CompareDisplay",
    "CompareResult",
    "Coreset",
    "CoresetDisplay",
    "CoresetKMeans",
    "CoresetMixture",
    "Diagnosis",
    "Drift",
    "ElbowDisplay",
    "Exemplars",
    "FittedOn",
    "KChoice",
    "Lightweight",
    "PartitionedSource",
    "ProfileDisplay",
    "Progress",
    "Refined",
    "Sensitivity",
    "SilhouetteDisplay",
    "Source",
    "Stability",
    "StreamingCoreset",
    "Uniform",
    "__version__",
    "build",
    "certify",
    "check",
    "choose_k",
    "compare",
    "divergences",
    "drift",
    "exemplars",
    "load",
    "report",
    "scan",
    "show_versions",
    "theory",
]

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lwcs import divergences
    from lwcs.comparing import CompareResult, compare
    from lwcs.coreset.building import build
    from lwcs.coreset.coreset import Coreset
    from lwcs.coreset.streaming import StreamingCoreset
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.estimators.coreset_mixture import CoresetMixture
    from lwcs.estimators.summary import ClusterSummary
    from lwcs.evaluation.certification import certify
    from lwcs.evaluation.drift_detection import Drift, drift
    from lwcs.evaluation.environment import show_versions
    from lwcs.evaluation.k_selection import choose_k
    from lwcs.evaluation.table_check import check
    from lwcs.evaluation.table_check_result import Check
    from lwcs.evaluation.typical_rows import exemplars
    from lwcs.evaluation.typical_rows_result import Exemplars
    from lwcs.plotting.cluster_map import ClusterMapDisplay
    from lwcs.plotting.cluster_profiles import ProfileDisplay, SilhouetteDisplay
    from lwcs.plotting.coreset_draws import CoresetDisplay
    from lwcs.plotting.curves import CompareDisplay, ElbowDisplay
    from lwcs.reporting import report
    from lwcs.runtime.progress import Progress
    from lwcs.runtime.warnings import ColumnWarning
    from lwcs.samplers import Lightweight, Refined, Sensitivity, Uniform
    from lwcs.sizing.stability import Stability
    from lwcs.sources import Source, scan
    from lwcs.sources.memory.partitioned import PartitionedSource
    from lwcs.statistics import theory
    from lwcs.statistics.certificate import Certificate
    from lwcs.statistics.diagnosis import Diagnosis
    from lwcs.statistics.record import FittedOn


def load(
    path: str | os.PathLike[str],
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Load an object that was saved by lwcs.

    Parameters
    ----------
    path : str or path
        File written by `save`, or by `lwcs.compare` with ``path=``; also a URI, such as
        ``s3://bucket/name``.
    filesystem : pyarrow or fsspec file system, optional
        File system that the file is on; by default, that of the path or URI.
    storage_options : dict, optional
        Options of fsspec for the file system of a URI, such as ``{"anon": True}``.

    Returns
    -------
    Coreset, StreamingCoreset, CoresetKMeans, CoresetMixture or CompareResult

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> coreset = lwcs.build(np.eye(8), size=5, random_state=0)
    >>> coreset.save("eye.coreset.parquet")
    >>> lwcs.load("eye.coreset.parquet") == coreset
    True
    """
    from lwcs.storage.locations import Access
    from lwcs.storage.persistence import read_table

    table, metadata = read_table(path, Access(filesystem, storage_options))
    kind = metadata.get("kind")
    if not isinstance(kind, str) or kind not in _READERS:
        raise ValueError(
            f"{str(path)!r} holds an object of kind {kind!r}, which this version of lwcs cannot "
            "load"
        )
    return import_module(_READERS[kind]).from_table(table, metadata, str(path))


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lwcs' has no attribute {name!r}")
    # No module has the name of a public function: importing a module lwcs.build would
    # replace the function lwcs.build.
    home = import_module(_HOMES[name])
    value = home if home.__name__.endswith(f".{name}") else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
