"""describe(): the clusters of a model with the points of a coreset, for figures and the report.

The facts about clusters are those of `estimators.cluster_facts`. A model in a file has no rows, so
that a loaded one needs a coreset to be described by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import copied
from lwcs.coreset.coreset import Coreset, refuse_bad_rows
from lwcs.description.projection import Projection, project
from lwcs.estimators.cluster_facts import ClusterFacts, facts_of, own_coreset
from lwcs.estimators.fitted_models import as_fitted
from lwcs.estimators.row_facts import LabelledCoreset
from lwcs.estimators.validation import check_features, coreset_of_stream
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.statistics.indices import TwoNearest, silhouettes

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray, Rows


@dataclass(frozen=True, eq=False)
class Description(ClusterFacts):
    """The clusters of a model as a coreset shows them; arrays have one entry per cluster."""

    cost: FloatArray
    coreset: Coreset
    points: Rows
    """The rows of the coreset as they are measured (for cosine, of unit length), less `zeros`."""
    zeros: FloatArray
    """The values of zeros of sparse rows as they are measured; 0 for dense rows."""
    labels: IntArray
    """Cluster of every point; the likeliest component of a mixture."""
    costs: FloatArray
    """Cost of every point: its distance from the nearest center, or minus its log-likelihood."""

    @property
    def score(self) -> FloatArray | None:
        """Stability of each cluster, if `model.stability` was called."""
        known = getattr(self.model, "stability_", None)
        return None if known is None else known.score

    @cached_property
    def projection(self) -> Projection:
        """The points and centers in two dimensions."""
        return project(self)

    @cached_property
    def silhouette(self) -> FloatArray:
        """Simplified silhouette of every point: (b − a)/max(a, b), a and b to its two centers.

        For a mixture, by distances from the means of the components.
        """
        rows = self.geometry.measured(copied(self.coreset.host_points))
        with single_threaded_blas():
            nearest = TwoNearest.of(rows, self.own_centers)
        if self.k == 1:
            return np.zeros(len(self.labels))
        return silhouettes(nearest, self.geometry)


def describe(model: Any, coreset: Any = None) -> Description:
    """Describe the clusters of a fitted model by a coreset of its data.

    Parameters
    ----------
    model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
        Fitted model.
    coreset : Coreset or StreamingCoreset, optional
        Summary of the rows; the model's own `coreset_` by default. A model that was loaded from a
        file has none.

    Returns
    -------
    Description

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> from lwcs.description import describe
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 0.1, (500, 2)) for c in ((0, 0), (0, 5), (0, 6))])
    >>> found = describe(lwcs.CoresetKMeans(3, random_state=0).fit(X))
    >>> found.share.round(2).tolist(), found.telling(0)[0].column
    ([0.33, 0.33, 0.33], 1)
    """
    judge, given = as_fitted(model), _coreset(model, coreset)
    with single_threaded_blas():
        labelled = LabelledCoreset.of(judge, given)
    facts = facts_of(model, given, labelled)
    return Description(
        **vars(facts), coreset=given, points=labelled.rows.values, zeros=labelled.rows.zeros,
        labels=labelled.labels, costs=labelled.costs,
    )  # fmt: skip


def _coreset(model: Any, given: Any) -> Coreset:
    """Return the given coreset, checked, or that of the model."""
    if given is None:
        own = own_coreset(model)
        if own is None:
            raise ValueError(
                f"this {type(model).__name__} has no coreset (a model that was loaded from a file "
                "has none); pass one: coreset=lwcs.build(data, 20_000)"
            )
        return own
    given = coreset_of_stream(given)
    if not isinstance(given, Coreset):
        raise TypeError(
            f"coreset is a {type(given).__name__}, not a Coreset; pass "
            "coreset=lwcs.build(data, 20_000)"
        )
    if given.n_features != model.n_features_in_:
        raise ValueError(
            f"the coreset has {given.n_features} columns, but the model was fitted on "
            f"{model.n_features_in_}; pass a coreset of the rows of this model"
        )
    check_features(model, given)
    refuse_bad_rows(given)
    return given
