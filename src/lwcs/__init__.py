"""lwcs: k-means clustering of data of any size, through lightweight coresets.

The public names are imported on first use, so that ``import lwcs`` takes no longer
than importing NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.5.0"

_HOMES = {
    "Certificate": "lwcs.trust.certificate",
    "ClusterMapDisplay": "lwcs.displays",
    "ColumnWarning": "lwcs.foundation.notices",
    "CompareDisplay": "lwcs.displays",
    "CompareResult": "lwcs.comparing",
    "Coreset": "lwcs.coreset",
    "CoresetDisplay": "lwcs.displays",
    "CoresetKMeans": "lwcs.estimators",
    "CoresetMixture": "lwcs.estimators",
    "Diagnosis": "lwcs.trust.diagnosis",
    "Drift": "lwcs.judging.drifting",
    "ElbowDisplay": "lwcs.displays",
    "FittedOn": "lwcs.trust.record",
    "KChoice": "lwcs.judging.k_choice",
    "Lightweight": "lwcs.samplers",
    "PartitionedSource": "lwcs.sources",
    "ProfileDisplay": "lwcs.displays",
    "Progress": "lwcs.foundation.progress",
    "Refined": "lwcs.samplers",
    "Sensitivity": "lwcs.samplers",
    "SilhouetteDisplay": "lwcs.displays",
    "Source": "lwcs.sources",
    "Stability": "lwcs.choosing.stability_result",
    "StreamingCoreset": "lwcs.streaming",
    "Uniform": "lwcs.samplers",
    "build": "lwcs.building",
    "certify": "lwcs.judging.certifying",
    "choose_k": "lwcs.judging.choosing_k",
    "compare": "lwcs.comparing",
    "divergences": "lwcs.divergences",
    "drift": "lwcs.judging.drifting",
    "load": "lwcs.loading",
    "report": "lwcs.reporting",
    "scan": "lwcs.sources",
    "theory": "lwcs.trust",
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
    from lwcs.building import build
    from lwcs.choosing.stability_result import Stability
    from lwcs.comparing import CompareResult, compare
    from lwcs.coreset import Coreset
    from lwcs.displays import (
        ClusterMapDisplay,
        CompareDisplay,
        CoresetDisplay,
        ElbowDisplay,
        ProfileDisplay,
        SilhouetteDisplay,
    )
    from lwcs.estimators import CoresetKMeans, CoresetMixture
    from lwcs.foundation.notices import ColumnWarning
    from lwcs.foundation.progress import Progress
    from lwcs.judging.certifying import certify
    from lwcs.judging.choosing_k import choose_k
    from lwcs.judging.drifting import Drift, drift
    from lwcs.judging.k_choice import KChoice
    from lwcs.loading import load
    from lwcs.reporting import report
    from lwcs.samplers import Lightweight, Refined, Sensitivity, Uniform
    from lwcs.sources import PartitionedSource, Source, scan
    from lwcs.streaming import StreamingCoreset
    from lwcs.trust import theory
    from lwcs.trust.certificate import Certificate
    from lwcs.trust.diagnosis import Diagnosis
    from lwcs.trust.record import FittedOn


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lwcs' has no attribute {name!r}")
    # No module has the name of a public function: importing a module lwcs.build would
    # replace the function lwcs.build.
    home = import_module(_HOMES[name])
    value = home if home.__name__ == f"lwcs.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
