"""What is public, and which members of classes have a place in the reference."""

from __future__ import annotations

import inspect
from typing import Any

import lwcs
from lwcs import divergences, theory
from lwcs.samplers import Sampler
from lwcs.solvers.families import Family

# Classes whose other public methods are for the library itself, with the members that are for
# users. Every other class shows all members that lwcs defines.
SHOWN = {
    "Coreset": "from_arrays size n_features exact cost reduce split explain_difference "
    "to_arrow from_arrow save",
    "CoresetKMeans": "fit partial_fit predict fit_predict transform fit_transform score stability "
    "to_sklearn to_arrow from_arrow save",
    "CoresetMixture": "fit predict fit_predict predict_proba score_samples score bic aic sample "
    "to_sklearn to_arrow from_arrow save",
    "Diagnosis": "better choice",
    "FittedOn": "",
    "KChoice": "model row ks to_arrow to_pandas",
    "Lightweight": "",
    "PartitionedSource": "",
    "Refined": "",
    "Sensitivity": "",
    "samplers.Sampler": "passes draw",
    "solvers.families.Family": "fit log_density sample n_parameters as_means",
    "Source": "accepts open gather map_rows take can_take count_partitions known_partitions",
    "Stability": "worst_first to_arrow",
    "StreamingCoreset": "update coreset merge save n_samples total_weight",
    "Uniform": "",
    "divergences.Divergence": "phi gradient between curvature similarity transform",
    **{
        f"divergences.{name}": "phi gradient between curvature"
        for name in divergences.__all__
        if name not in ("Divergence", "Domain", "available")
    },
}


def members() -> dict[str, dict[str, list[str]]]:
    """The methods and the properties that the page of every public class lists."""
    found = {}
    for path, kind in public().items():
        if inspect.isclass(kind):
            shown = SHOWN.get(path)
            listed = _own(kind) if shown is None else shown.split()
            found[f"lwcs.{path}"] = {
                "methods": [each for each in listed if not _is_property(kind, each)],
                "properties": [each for each in listed if _is_property(kind, each)],
            }
    return found


def public() -> dict[str, Any]:
    """Everything public by its name in lwcs, with the classes that users derive from."""
    return {
        **{name: getattr(lwcs, name) for name in lwcs.__all__},
        **{f"divergences.{name}": getattr(divergences, name) for name in divergences.__all__},
        **{f"theory.{name}": getattr(theory, name) for name in theory.__all__},
        "samplers.Sampler": Sampler,
        "solvers.families.Family": Family,
    }


def _is_property(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name), property)


def _own(kind: type) -> list[str]:
    """Public methods and properties that lwcs defines."""
    listed = []
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        ours = inspect.isfunction(value) and value.__module__.startswith("lwcs")
        if ours and not name.startswith("_"):
            listed.append(name)
    return listed
