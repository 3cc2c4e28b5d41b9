"""Validation of the arguments of both estimators: parameters, rows, and the names of features."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import validate_data

from lwcs.arrays.checks import (
    check_choice,
    check_count,
    check_n_rows,
    check_number,
    lost_digits_text,
    objects_lose_digits,
    refuse_masked,
)
from lwcs.arrays.device import ArrayOrigin, check_device_name
from lwcs.arrays.rows import is_sparse
from lwcs.coreset.coreset import (
    Coreset,
    is_streaming_coreset,
    refuse_bad_rows,
    refuse_sample_weight,
)
from lwcs.divergences import SquaredEuclidean, as_divergence
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.runtime.warnings import warn
from lwcs.sizing.decision import sampler_of
from lwcs.solvers.seeding import INITS
from lwcs.sources import Source, needs_scan, scan
from lwcs.sources.kinds import engine_of, is_path, is_query, is_stream, is_table
from lwcs.sources.memory.sparse import as_csr
from lwcs.sources.scan_options import READING, Fitted
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.divergences import Divergence
    from lwcs.estimators.coreset_kmeans import CoresetKMeans
    from lwcs.estimators.coreset_mixture import CoresetMixture
    from lwcs.runtime.journal import Journal

    Model: TypeAlias = CoresetKMeans | CoresetMixture

POINTS_PER_CLUSTER = 100
MOST_HELD_BACK = 0.5
TF32 = "tf32"


def check_parameters(model: CoresetKMeans) -> int | None:
    """Check the parameters without data; return the size of the coreset, None if it is chosen."""
    k = check_count(model.n_clusters, "n_clusters")
    check_auto(model.n_init, "n_init", check_count)
    check_count(model.max_iter, "max_iter")
    check_count(model.polish, "polish", least=0)
    check_auto(model.tol, "tol", check_number)
    if isinstance(model.init, str) and model.init not in ("auto", *INITS):
        raise ValueError(
            f"init={model.init!r} is not one of {', '.join(map(repr, ('auto', *INITS)))}; "
            "an array of centers or a callable are allowed, too"
        )
    check_errors(model)
    # `fit` checks that the device exists: a model can be loaded on any machine.
    check_device_name(model.device)
    check_choice(model.precision, "precision", ("float32", TF32))
    sampler_of(model.method)
    as_divergence(model.divergence)
    chosen = isinstance(model.coreset_size, str) and model.coreset_size == "auto"
    if chosen and model.target_error is not None:
        return None
    return size_of(model.coreset_size, k, POINTS_PER_CLUSTER, "n_clusters")


def check_auto(value: Any, name: str, check: Callable[[Any, str], Any]) -> None:
    """Check a parameter that may be "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"{name}={value!r} is not allowed; pass 'auto' or a number")
    else:
        check(value, name)


def check_errors(model: Any) -> None:
    """Check the parameters of the sampling error."""
    target, holdout = model.target_error, model.holdout
    if target is not None:
        check_number(target, "target_error", above=0.0)
    if not check_number(holdout, "holdout") <= MOST_HELD_BACK:
        raise ValueError(
            f"holdout={holdout!r} must be between 0 and {MOST_HELD_BACK}: the part of the draws "
            "that is held back to estimate the sampling error; 0.1 is a good start"
        )


def size_of(request: int | str, k: int, each: int, name: str) -> int:
    """Number of draws by `coreset_size`; "auto" is `each` per cluster."""
    if isinstance(request, str):
        if request != "auto":
            raise ValueError(
                f"coreset_size={request!r} is not allowed; pass 'auto' or an integer >= {name}"
            )
        return each * k
    size = check_count(request, "coreset_size")
    if size < k:
        raise ValueError(
            f"coreset_size={size} is smaller than {name}={k}; pass coreset_size >= {k} "
            f"(about {each} × {name} is a good start)"
        )
    return size


def coreset_of_stream(data: Any) -> Any:
    """The coreset of a StreamingCoreset; other data as it is."""
    return data.coreset() if is_streaming_coreset(data) else data


def scan_rows(
    model: Model, X: Any, sample_weight: Any = None, *, reset: bool, journal: Journal | None = None
) -> Source:
    """Turn what scikit-learn's methods take into a Source; check its features.

    After a fit (`reset` is False), the columns that were fitted are found by name. Data of an
    engine, which may run a job to find its columns, is opened as a stage of the journal.
    """
    if isinstance(X, Tabular):
        raise X._refused_as_rows()
    if is_streaming_coreset(X):
        raise TypeError(
            "a StreamingCoreset is not a table of rows; fit its coreset: fit(stream.coreset())"
        )
    refuse_masked(X, "X")
    if _may_have_columns(X):
        names = None if reset else getattr(model, "feature_names_in_", None)
        # The columns of a Source are fixed.
        fitted = None
        if names is not None and not isinstance(X, Source):
            fitted = Fitted.of(names, getattr(model, "reading_", {}))
        timed = journal if engine_of(X) else None
        with nullcontext() if timed is None else timed.stage("opening"):
            source = scan(X, columns=fitted, weight=sample_weight)
        (set_features if reset else check_features)(model, source)
        return source
    if is_sparse(X) and X.format != "csr":
        # scikit-learn would convert it without checking its indices.
        X = as_csr(X)
    if reset and isinstance(X, np.ndarray) and X.dtype == object and objects_lose_digits(X):
        warn(lost_digits_text())
    # Finite values are checked by the pass that reads them.
    X = validate_data(
        model, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False
    )
    return scan(X, weight=sample_weight)


def check_same_library(model: Model, X: Any, attribute: str, method: str) -> None:
    """Refuse arrays of another library or device than those fitted, as scikit-learn's models do.

    Only where its array API dispatch is on; otherwise, results are in the library of X.
    """
    if not get_config()["array_api_dispatch"]:
        return
    origin, fitted = ArrayOrigin.of(X), ArrayOrigin.of(getattr(model, attribute))
    if origin != fitted and (origin is not None or isinstance(X, np.ndarray)):
        raise ValueError(
            f"inputs of {type(model).__name__}.{method}() must use the same namespace and device "
            f"as those of fit: X is {_named(origin)}, and the model was fitted on {_named(fitted)}"
            "; bring X there, or call it with array_api_dispatch=False, where results follow X"
        )


def _named(origin: ArrayOrigin | None) -> str:
    return f"an array of {origin.library} on {origin.device}" if origin else "an array of NumPy"


def open_rereadable(model: Model, X: Any, sample_weight: Any, method: str) -> Source | Coreset:
    """Open rows for a method that fits them and then reads them again."""
    if isinstance(X, Coreset):
        refuse_sample_weight(sample_weight)
        return X
    # Where X is refused, no iterator is started, and the model stays as it is.
    iterator = hasattr(X, "__next__")
    source = None if iterator else scan_rows(copy(model), X, sample_weight, reset=True)
    if source is None or not source.rereadable:
        raise ValueError(
            f"X is a {type(X).__name__}, which can be read only once, but {method} reads the rows "
            "twice; write them to a file first, or call fit alone"
        )
    return source


def _may_have_columns(X: Any) -> bool:
    """Whether data is more than an array: a source, a table, a path, a stream, on an engine."""
    if isinstance(X, Source) or needs_scan(X) or engine_of(X) is not None:
        return True
    return is_table(X) or is_path(X) or is_stream(X) or is_query(X)


def measured_by(coreset: Coreset, divergence: Divergence) -> Coreset:
    """A coreset for a divergence; one by squared distances can be used for any, as in the paper."""
    if coreset.divergence == divergence:
        return coreset
    if type(coreset.divergence) is not SquaredEuclidean or coreset.scale is not None:
        raise ValueError(
            f"the coreset is measured by {coreset.divergence!r}, but the model by {divergence!r}; "
            "pass divergence=coreset.divergence, or build another"
        )
    # Its mean is that of rows as they are, before any transform.
    return replace(coreset, divergence=divergence, mean=None, total_cost=None)


@contextmanager
def fitting(model: Any, *private: str) -> Iterator[None]:
    """Fit afresh: an estimator is not fitted after an error or an interrupt.

    `private` are fitted attributes whose names do not end with an underscore.
    """
    _forget(model, private)
    try:
        # Once for all steps: setting the limit takes longer than some of them.
        with single_threaded_blas():
            yield
    except BaseException:
        _forget(model, private)
        raise


def is_fitted_attribute(name: str) -> bool:
    """Whether an attribute of CoresetKMeans depends on the rows, and not on their columns alone."""
    if name in ("n_features_in_", "feature_names_in_", "reading_"):
        return False
    return name == "_n_features_out" or (name.endswith("_") and not name.startswith("_"))


def _forget(model: Any, private: tuple[str, ...]) -> None:
    for name in [n for n in vars(model) if n.endswith("_") or n in private]:
        delattr(model, name)


def set_features(model: Model, data: Source | Coreset) -> None:
    """Note the features that were fitted."""
    model.n_features_in_ = data.n_features
    known = data.reading if isinstance(data, Source) else data.details.get(READING, {})
    model.reading_ = dict(known)
    if data.feature_names is not None and getattr(data, "named_by_text", True):
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)


def check_features(model: Model, source: Source | Coreset) -> None:
    """Check that a source or a coreset has the features that were fitted, in their order."""
    if source.n_features != model.n_features_in_:
        raise ValueError(
            f"X has {source.n_features} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and source.feature_names not in (None, tuple(names)):
        raise ValueError(
            f"the feature names {source.feature_names} should match those that were passed "
            f"during fit, {tuple(names)}; name them in this order with columns=[…]"
        )


def check_rows(coreset: Coreset, k: int, name: str = "n_clusters") -> None:
    """Check that a coreset built elsewhere has rows enough, all of which can be measured."""
    refuse_bad_rows(coreset)
    check_n_rows(coreset.n_samples, k, name)
    rows = len(coreset)
    if rows < k:
        raise ValueError(
            f"the coreset has {rows} distinct rows but {name}={k}; "
            f"build one with size > {coreset.size}, or pass a smaller {name}"
        )
