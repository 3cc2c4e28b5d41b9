"""The code in a report fits the same model again, or the report says that it may not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

import lwcs
from lwcs.description import describe
from lwcs.divergences import Mahalanobis, SquaredEuclidean
from lwcs.reporting.facts import Origin
from lwcs.reporting.recipe import recipe_of

SURE = "This code gives the same"
UNSURE = "does not remember all of its fit"
UNKNOWN = "The seed of the fit is not known"

RNG = np.random.default_rng(0)
# No clusters, so that centers depend on the seed.
X = RNG.normal(size=(2_000, 3))
W = RNG.gamma(1.0, 1.0, len(X))
FRAME = pd.DataFrame(X * [1, 10, 100], columns=["a", "b\nimport nothing", "c"])
HOLES = np.where(X > 2.5, np.nan, X)
CORESET = lwcs.build(X, 400, random_state=5)


class Own(lwcs.CoresetKMeans):
    """A class of somebody else, whose name does not tell what it is."""


def kmeans(**parameters):
    return lwcs.CoresetKMeans(**{"n_clusters": 5, "n_init": 1, "random_state": 3, **parameters})


def repeated(model, **given) -> np.ndarray:
    """The centers that the code in the report of a model gives."""
    code = recipe_of(describe(model), Origin()).code
    assert "lwcs.report(model, 'report.html')" in code
    known = {"__name__": "code", **given}
    exec(code.partition("lwcs.report(")[0], known)
    again = known["model"]
    assert type(again) is type(model)
    return centers_of(again)


def centers_of(model) -> np.ndarray:
    return model.means_ if isinstance(model, lwcs.CoresetMixture) else model.cluster_centers_


def words(model) -> str:
    return recipe_of(describe(model), Origin()).words


CASES = {
    "all rows": (lambda: kmeans().fit(X), {"X": X}),
    "draws": (lambda: kmeans(coreset_size=300).fit(X), {"X": X}),
    "draws without a seed": (
        lambda: kmeans(coreset_size=300, random_state=None).fit(X), {"X": X},
    ),
    "draws by a generator": (
        lambda: kmeans(coreset_size=300, random_state=np.random.default_rng(1)).fit(X), {"X": X},
    ),
    "numbers of NumPy": (
        lambda: kmeans(
            n_clusters=np.int64(4), tol=np.float64(0.5), random_state=np.int64(9),
            compute_labels=np.bool_(False),
        ).fit(X),
        {"X": X},
    ),
    "no target": (lambda: kmeans(target_error=None).fit(X), {"X": X}),
    "a divergence as an object": (
        lambda: kmeans(divergence=SquaredEuclidean()).fit(X), {"X": X},
    ),
    "weights": (lambda: kmeans().fit(X, sample_weight=W), {"X": X, "w": W}),
    "weights of mean one": (
        lambda: kmeans(coreset_size=300).fit(X, sample_weight=W / W.mean()),
        {"X": X, "w": W / W.mean()},
    ),
    "a scale": (lambda: kmeans().fit(lwcs.scan(FRAME, scale="standard")), {"X": FRAME}),
    "a scale and weights": (
        lambda: kmeans().fit(lwcs.scan(FRAME, scale="standard", weight=W)), {"X": FRAME, "w": W},
    ),
    "missing values": (
        lambda: kmeans(coreset_size=300).fit(lwcs.scan(HOLES, missing="drop")), {"X": HOLES},
    ),
    "a coreset": (lambda: kmeans().fit(CORESET), {"X": CORESET}),
    "a subclass": (lambda: Own(5, random_state=3).fit(X), {"X": X}),
    "a mixture": (lambda: lwcs.CoresetMixture(3, random_state=3).fit(X), {"X": X}),
    "a mixture of weights": (
        lambda: lwcs.CoresetMixture(3, random_state=3).fit(X, sample_weight=W), {"X": X, "w": W},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_code_gives_the_same_centers(case):
    make, given = CASES[case]
    model = make()
    assert np.array_equal(repeated(model, **given), centers_of(model))
    assert words(model).startswith(SURE)


def test_what_cannot_be_written_is_named():
    model = kmeans(init=X[:5], divergence=Mahalanobis(np.diag([1.0, 2.0, 3.0]))).fit(X)
    recipe = recipe_of(describe(model), Origin())
    assert "# divergence and init: add them, as you gave them\n" in recipe.code
    assert UNSURE in recipe.words


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: kmeans(random_state=None).fit(X), UNKNOWN),
        (lambda: kmeans(random_state=None).fit(CORESET), UNKNOWN),
        (lambda: kmeans(coreset_size=300).partial_fit(X), UNSURE),
        (lambda: lwcs.choose_k(X, [4, 5], random_state=0).model(5), UNSURE),
        (lambda: lwcs.CoresetMixture(2, warm_start=True, random_state=0).fit(X), UNSURE),
    ],
)
def test_the_report_says_if_the_result_may_be_another(make, said):
    model = make()
    assert said in words(model)
    assert "random_state=5" not in recipe_of(describe(model), Origin()).code


def test_batches_are_fitted_batch_by_batch():
    model = kmeans(coreset_size=300).partial_fit(X[:900]).partial_fit(X[900:])
    again = repeated(model, batches=[X[:900], X[900:]])
    assert np.array_equal(again, model.cluster_centers_)


def test_a_loaded_model_does_not_tell_what_it_was_fitted_on(tmp_path):
    kmeans().fit(CORESET).save(tmp_path / "m.parquet")
    recipe = recipe_of(describe(lwcs.load(tmp_path / "m.parquet"), CORESET), Origin())
    assert "# X: the rows, or the coreset, that were fitted\n" in recipe.code
    assert "random_state=3" in recipe.code
    assert UNSURE in recipe.words


@pytest.mark.filterwarnings("ignore:.*of all squared distances:lwcs.ColumnWarning")
def test_names_of_columns_are_in_a_comment_and_nowhere_else():
    code = recipe_of(describe(kmeans().fit(FRAME)), Origin()).code
    assert r"# X: the rows, with the columns 'a', 'b\nimport nothing', 'c'" + "\n" in code


def test_models_of_other_libraries_tell_only_their_name():
    class CoresetOfOthers(KMeans):
        """A name that begins like those of this library."""

    model = CoresetOfOthers(2, n_init=1, random_state=0).fit(X)
    CoresetOfOthers.__module__ = "others.models"
    recipe = recipe_of(describe(model, CORESET), Origin())
    assert "CoresetOfOthers of others" in recipe.code
    assert recipe.words == "This code writes the report again, from the model and the coreset."


def test_a_command_with_secrets_left_out_says_so():
    found = SimpleNamespace(is_mixture=True)
    assert recipe_of(found, Origin(command="lwcs mixture a")).words.startswith("This command gives")
    hidden = recipe_of(found, Origin(command="lwcs mixture s3://…@a")).words
    assert hidden.startswith("This command, with what it hides by … filled in, gives")
