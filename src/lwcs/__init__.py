"""lwcs: k-means clustering of data of any size, through lightweight coresets.

The public names are imported on first use, so that ``import lwcs`` takes no longer
than importing NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.5.0"

_HOMES = {
    "Certificate": "lwcs.statistics.certificate",
    "ClusterMapDisplay": "lwcs.plotting",
    "ColumnWarning": "lwcs.runtime.warnings",
    "CompareDisplay": "lwcs.plotting",
    "CompareResult": "lwcs.comparing",
    "Coreset": "lwcs.coreset.coreset",
    "CoresetDisplay": "lwcs.plotting",
    "CoresetKMeans": "lwcs.estimators.coreset_kmeans",
    "CoresetMixture": "lwcs.estimators.coreset_mixture",
    "Diagnosis": "lwcs.statistics.diagnosis",
    "Drift": "lwcs.evaluation.drift_detection",
    "ElbowDisplay": "lwcs.plotting",
    "FittedOn": "lwcs.statistics.record",
    "KChoice": "lwcs.evaluation.k_selection_result",
    "Lightweight": "lwcs.samplers",
    "PartitionedSource": "lwcs.sources",
    "ProfileDisplay": "lwcs.plotting",
    "Progress": "lwcs.runtime.progress",
    "Refined": "lwcs.samplers",
    "Sensitivity": "lwcs.samplers",
    "SilhouetteDisplay": "lwcs.plotting",
    "Source": "lwcs.sources",
    "Stability": "lwcs.sizing.stability",
    "StreamingCoreset": "lwcs.coreset.streaming",
    "Uniform": "lwcs.samplers",
    "build": "lwcs.coreset.building",
    "certify": "lwcs.evaluation.certification",
    "choose_k": "lwcs.evaluation.k_selection",
    "compare": "lwcs.comparing",
    "divergences": "lwcs.divergences",
    "drift": "lwcs.evaluation.drift_detection",
    "load": "lwcs.loading",
    "report": "lwcs.reporting",
    "scan": "lwcs.sources",
    "theory": "lwcs.statistics.theory",
}

__all__ = [
    "Certificate",
    "ClusterMapDisplay",
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
    "choose_k",
    "compare",
    "divergences",
    "drift",
    "load",
    "report",
    "scan",
    "theory",
]

if TYPE_CHECKING:
    from lwcs import divergences
    from lwcs.comparing import CompareResult, compare
    from lwcs.coreset.building import build
    from lwcs.coreset.coreset import Coreset
    from lwcs.coreset.streaming import StreamingCoreset
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.estimators.coreset_mixture import CoresetMixture
    from lwcs.evaluation.certification import certify
    from lwcs.evaluation.drift_detection import Drift, drift
    from lwcs.evaluation.k_selection import choose_k
    from lwcs.evaluation.k_selection_result import KChoice
    from lwcs.loading import load
    from lwcs.plotting import (
        ClusterMapDisplay,
        CompareDisplay,
        CoresetDisplay,
        ElbowDisplay,
        ProfileDisplay,
        SilhouetteDisplay,
    )
    from lwcs.reporting import report
    from lwcs.runtime.progress import Progress
    from lwcs.runtime.warnings import ColumnWarning
    from lwcs.samplers import Lightweight, Refined, Sensitivity, Uniform
    from lwcs.sizing.stability import Stability
    from lwcs.sources import PartitionedSource, Source, scan
    from lwcs.statistics import theory
    from lwcs.statistics.certificate import Certificate
    from lwcs.statistics.diagnosis import Diagnosis
    from lwcs.statistics.record import FittedOn


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
