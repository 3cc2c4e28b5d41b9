"""lwcs.spark.CoresetKMeans beside pyspark.ml.clustering.KMeans: a drop-in."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import lwcs
from tests.engines.hosts import CONNECT

pytest.importorskip("pyspark")

RNG = np.random.default_rng(0)
MEANS = RNG.uniform(-20, 20, (5, 3))
X = np.concatenate([RNG.normal(mean, 1.0, (400, 3)) for mean in MEANS])
X = X[RNG.permutation(len(X))]


@pytest.fixture(scope="module")
def session(started):
    return started("spark").session


@pytest.fixture(scope="module")
def frame(session):
    """Columns of numbers, a text, and a column that is called as labels are elsewhere."""
    rows = [(*map(float, row), f"row {i}", i % 3) for i, row in enumerate(X)]
    return session.createDataFrame(rows, "a double, b double, c double, name string, label int")


@pytest.fixture(scope="module")
def vectors(frame):
    return assembler().transform(frame).cache()


def assembler():
    from pyspark.ml.feature import VectorAssembler

    return VectorAssembler(inputCols=["a", "b", "c"], outputCol="features")


def ours(**options):
    from lwcs.spark import CoresetKMeans

    return CoresetKMeans(**{"k": 5, "seed": 3, **options})


def cost(frame, centers, features="features"):
    rows = np.array([row[0].toArray() for row in frame.select(features).collect()])
    return float(((rows[:, None] - np.array(centers)[None]) ** 2).sum(axis=2).min(axis=1).sum())


def test_in_a_pipeline_it_costs_what_spark_costs(frame):
    from pyspark.ml import Pipeline
    from pyspark.ml.clustering import KMeans

    found = {}
    for name, last in (("spark", KMeans(k=5, seed=3)), ("lwcs", ours())):
        fitted = Pipeline(stages=[assembler(), last]).fit(frame)
        model, answer = fitted.stages[-1], fitted.transform(frame)
        assert answer.columns == [*frame.columns, "features", "prediction"]
        assert dict(answer.dtypes)["prediction"] == "int"
        assert len(model.clusterCenters()) == 5
        assert model.summary.trainingCost == pytest.approx(cost(answer, model.clusterCenters()))
        assert sum(model.summary.clusterSizes) == len(X)
        found[name] = model.summary.trainingCost
    assert found["lwcs"] <= found["spark"] * 1.001


def test_it_finds_the_centers_of_the_estimator(vectors):
    model = ours(coresetSize=300, polish=1).fit(vectors)
    source = lwcs.scan(vectors, columns="features")
    want = lwcs.CoresetKMeans(5, coreset_size=300, polish=1, random_state=3).fit(source)
    np.testing.assert_array_equal(model.clusterCenters(), want.cluster_centers_)
    assert model.summary.trainingCost == want.inertia_
    assert model.summary.samplingError == want.sampling_error_


def test_the_summary_is_that_of_spark(vectors):
    from pyspark.ml.clustering import KMeansSummary

    model = ours().fit(vectors)
    summary = model.summary
    public = {name for name in dir(KMeansSummary) if not name.startswith("_")}
    assert public - {"j", "uid"} <= set(dir(summary))
    assert (summary.k, summary.featuresCol, summary.predictionCol) == (5, "features", "prediction")
    labels = [row.prediction for row in summary.cluster.collect()]
    assert summary.clusterSizes == np.bincount(labels, minlength=5).tolist()
    assert summary.predictions.columns == [*vectors.columns, "prediction"]
    assert summary.numIter >= 1


def test_rows_are_labelled_by_their_nearest_center_and_keep_their_columns(vectors):
    model = ours().fit(vectors).setPredictionCol("my.cluster")
    answer = model.transform(vectors)
    assert answer.drop("my.cluster").schema == vectors.schema
    for row in answer.limit(50).collect():
        apart = ((np.array(model.clusterCenters()) - row.features.toArray()) ** 2).sum(axis=1)
        assert row["my.cluster"] == np.argmin(apart) == model.predict(row.features)
        assert row.name == f"row {row.name.split()[1]}"


def test_metadata_of_columns_stays(vectors):
    model = ours().fit(vectors)
    answer = model.transform(vectors)
    assert vectors.schema["features"].metadata
    assert answer.schema["features"].metadata == vectors.schema["features"].metadata


@pytest.fixture
def never(vectors):
    """Rows that cannot be computed."""
    from pyspark.sql.functions import udf
    from pyspark.sql.types import ArrayType, DoubleType

    def computed(_):
        raise AssertionError("nobody asked for it yet")

    return vectors.select(udf(computed, ArrayType(DoubleType()))("a").alias("features"), "label")


def test_transform_computes_nothing(vectors, never):
    model = ours().fit(vectors)
    assert model.transform(never).columns == ["features", "label", "prediction"]


def test_a_prediction_that_is_not_used_is_not_computed(vectors, never):
    answer = ours(coresetSize=100).fit(vectors).transform(never)
    assert answer.count() == len(X)
    assert answer.select("label").where("label = 1").count() == len(X) // 3 + 1


@pytest.mark.parametrize("invalid", ["error", "keep", "skip"])
def test_the_plan_computes_predictions_once_from_the_features_alone(vectors, invalid, capsys):
    """And nowhere if they are not used, unless rows are left out by them."""
    answer = ours(handleInvalid=invalid, coresetSize=100).fit(vectors).transform(vectors)

    def plan(frame):
        frame.explain()
        return capsys.readouterr().out

    assert "EvalPython" not in plan(answer.select("name")) or invalid == "skip"
    found = plan(answer)
    assert found.count("ArrowEvalPython") == 1
    assert "MapInArrow" not in found
    (call,) = (line for line in found.splitlines() if "ArrowEvalPython" in line)
    assert "features" in call
    assert "name" not in call


def test_columns_that_arrow_does_not_have_pass_by(vectors):
    odd = vectors.selectExpr("*", "make_ym_interval(1, 2) as age")
    answer = ours().fit(vectors).transform(odd)
    assert answer.where("prediction >= 0 and age > interval '0-1' year to month").count() == len(X)


@pytest.mark.parametrize("gaps", ["dense", "dense among sparse"], indirect=True)
def test_without_arrow_functions_labels_are_those_with_them(session, vectors, gaps, monkeypatch):
    """As before pyspark 4.1."""
    from lwcs.sources.engines import spark

    model = ours(handleInvalid="keep", coresetSize=100).fit(vectors)
    columns = lwcs.CoresetKMeans(5, coreset_size=100, random_state=0)
    columns.fit(vectors.select("a", "b", "c"))

    def labels():
        given = model.transform(gaps).collect(), columns.predict(vectors).collect()
        return [row.prediction for row in given[0]], [row["my label"] for row in given[1]]

    monkeypatch.setattr(spark, "LABEL", "my label")
    want = labels()
    monkeypatch.setattr(spark, "arrow_udf", None)
    assert labels() == want
    assert [i for i, label in enumerate(want[0]) if label is None] == [0, 7, 9]
    with pytest.raises(Exception, match=r"missing value in row 0"):
        model.setHandleInvalid("error").transform(gaps).collect()


@pytest.mark.parametrize("name", ["label", "Label", "features"])
def test_a_prediction_column_that_exists_is_refused_before_anything_is_read(never, name):
    with pytest.raises(ValueError, match=rf"a column '{name}' already.*pass another predictionCol"):
        ours(predictionCol=name).fit(never)


def test_errors_of_the_fit_name_parameters_as_they_are_here(session):
    few = session.createDataFrame([([1.0, 2.0],), ([3.0, 4.0],)], "features array<double>")
    with pytest.raises(ValueError, match=r"n_samples=2 should be >= k=5; .* or a smaller k$"):
        ours().fit(few)


def test_only_a_tolerance_that_was_set_is_held_to():
    unset, to_default = ours(), ours(tol=1e-4)
    assert (unset.getTol(), unset.options()["tol"]) == (1e-4, "auto")
    assert (to_default.getTol(), to_default.options()["tol"]) == (1e-4, 1e-4)
    assert "unless it is set, iterations may end before" in unset.explainParam("tol")


@pytest.mark.parametrize("kind", ["sparse", "array<double>", "array<float>"])
def test_sparse_vectors_and_arrays(session, kind):
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import StructField, StructType

    holes = np.where(RNG.random(X.shape) < 0.4, 0.0, X)
    if kind == "sparse":
        made = [(Vectors.sparse(3, np.flatnonzero(row), row[row != 0.0]),) for row in holes]
        frame = session.createDataFrame(made, StructType([StructField("features", VectorUDT())]))
    else:
        frame = session.createDataFrame([(row.tolist(),) for row in holes], f"features {kind}")
    model = ours(coresetSize=400).fit(frame)
    assert model.sparse == (kind == "sparse")
    rows = holes.astype(np.float32) if kind == "array<float>" else holes
    centers = np.array(model.clusterCenters(), dtype=np.float64)
    apart = ((rows[:, None] - centers[None]) ** 2).sum(axis=2)
    found = [row.prediction for row in model.transform(frame).collect()]
    np.testing.assert_array_equal(found, apart.argmin(axis=1))
    assert model.summary.trainingCost == pytest.approx(apart.min(axis=1).sum(), rel=1e-5)
    # A model of sparse vectors labels dense ones, and the other way round.
    dense = session.createDataFrame(
        [(Vectors.dense(row),) for row in holes], StructType([StructField("features", VectorUDT())])
    )
    found = [row.prediction for row in model.transform(dense).collect()]
    np.testing.assert_array_equal(found, apart.argmin(axis=1))


def test_weights_count_as_copies(session, vectors):
    from pyspark.sql.functions import expr

    weighted = vectors.withColumn("w", expr("cast(label + 1 as double)"))
    copies = weighted.withColumn("again", expr("explode(sequence(1, label + 1))")).drop("again")
    model = ours(weightCol="w").fit(weighted)
    assert model.summary.trainingCost == pytest.approx(cost(copies, model.clusterCenters()))


def test_the_cosine_cost_is_that_of_spark(vectors):
    from pyspark.ml.clustering import KMeans

    options = {"k": 4, "seed": 1, "distanceMeasure": "cosine"}
    spark = KMeans(**options).fit(vectors)
    model = ours(**options).fit(vectors)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    centers = np.array(model.clusterCenters())
    centers = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    want = (1 - (rows @ centers.T).max(axis=1)).sum()
    assert model.summary.trainingCost == pytest.approx(want)
    assert model.summary.trainingCost <= spark.summary.trainingCost * 1.02


def test_a_cross_validator_chooses_k(frame):
    from pyspark.ml import Pipeline
    from pyspark.ml.evaluation import ClusteringEvaluator
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    last = ours()
    grid = ParamGridBuilder().addGrid(last.k, [2, 5]).build()
    search = CrossValidator(
        estimator=Pipeline(stages=[assembler(), last]),
        estimatorParamMaps=grid,
        evaluator=ClusteringEvaluator(),
        numFolds=2,
        seed=1,
    )
    best = search.fit(frame).bestModel.stages[-1]
    assert best.getK() == len(best.clusterCenters()) == 5


def test_parameters_are_those_of_pyspark(vectors):
    from lwcs.spark import CoresetKMeans

    own = CoresetKMeans().setK(4).setSeed(-7).setMaxIter(10).setTol(0.1).setPolish(1)
    own.setCoresetSize(100).setMethod("uniform").setTargetError(0.1).setFeaturesCol("features")
    found = {param.name: value for param, value in own.extractParamMap().items()}
    assert found == {
        "k": 4, "seed": -7, "maxIter": 10, "tol": 0.1, "polish": 1, "coresetSize": 100,
        "method": "uniform", "targetError": 0.1, "featuresCol": "features",
        "predictionCol": "prediction", "distanceMeasure": "euclidean", "handleInvalid": "error",
    }  # fmt: skip
    copied = own.copy({own.k: 3})
    assert (own.getK(), copied.getK()) == (4, 3)
    model = copied.fit(vectors)
    assert (model.getK(), len(model.clusterCenters()), model.getMethod()) == (3, 3, "uniform")
    assert len(own.fit(vectors, {own.k: 2}).clusterCenters()) == 2
    assert model.copy().summary is model.summary
    with pytest.raises(TypeError, match="initMode"):
        CoresetKMeans(initMode="random")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 0}, "k=0"),
        ({"coresetSize": 3}, "coresetSize=3 is smaller than k=5"),
        ({"method": "best"}, "'best'"),
        ({"distanceMeasure": "manhattan"}, "distanceMeasure='manhattan'"),
        ({"handleInvalid": "guess"}, "handleInvalid='guess'"),
        ({"targetError": 0.0}, "targetError=0.0"),
        ({"maxIter": 0}, "maxIter=0"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"polish": -1}, "polish=-1"),
        ({"featuresCol": "feature"}, "did you mean 'features'"),
    ],
)
def test_wrong_parameters_are_named_as_they_are_here(vectors, options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        ours(**options).fit(vectors)


def test_vectors_of_another_length_are_refused(session, vectors):
    model = ours().fit(vectors)
    other = session.createDataFrame([([1.0, 2.0],)], "features array<double>")
    with pytest.raises(Exception, match=r"vector of length 2 in row 0.*where 3"):
        model.transform(other).collect()
    with pytest.raises(ValueError, match="length 2, but the model was fitted on vectors of length"):
        model.predict([1.0, 2.0])


def test_missing_values_are_refused_left_out_or_kept(session):
    rows = [(row.tolist(),) for row in X[:200]]
    rows[7] = (None,)
    rows[9] = ([1.0, float("nan"), 2.0],)
    frame = session.createDataFrame(rows, "features array<double>").coalesce(1)
    refused = r"missing value in row 7 of partition 0.* handleInvalid='skip'$"
    with pytest.raises(ValueError, match=refused):
        ours().fit(frame)
    model = ours(handleInvalid="keep").fit(frame)
    kept = [row.prediction for row in model.transform(frame).collect()]
    assert [i for i, label in enumerate(kept) if label is None] == [7, 9]
    skipped = [row.prediction for row in model.setHandleInvalid("skip").transform(frame).collect()]
    assert skipped == [label for label in kept if label is not None]
    with pytest.raises(Exception, match=r"missing value|is nan"):
        model.setHandleInvalid("error").transform(frame).collect()


@pytest.fixture(params=["dense", "sparse", "dense among sparse", "sparse among dense"])
def gaps(request, session):
    """Vectors of which two are null and one has a NaN, in one partition, and whether each is."""
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    def vector(i, row):
        first, *other = request.param.split(" among ")[::-1]
        kind = other[0] if other and i % 2 else first
        return Vectors.dense(row) if kind == "dense" else Vectors.sparse(3, range(3), row)

    rows = [row.tolist() for row in X[:200]]
    rows[9] = [1.0, float("nan"), 2.0]
    made = [(None if i in (0, 7) else vector(i, row), 1.0) for i, row in enumerate(rows)]
    fields = [StructField("features", VectorUDT()), StructField("w", DoubleType())]
    return session.createDataFrame(made, StructType(fields)).coalesce(1)


def test_null_vectors_are_refused_left_out_or_kept(gaps):
    with pytest.raises(ValueError, match=r"missing value in row 0.* handleInvalid='skip'$"):
        ours(weightCol="w").fit(gaps)
    model = ours(handleInvalid="keep", weightCol="w").fit(gaps)
    assert model.inner.coreset_.details["dropped"] == 3
    assert sum(size for size in model.summary.clusterSizes) == 197
    kept = [row.prediction for row in model.transform(gaps).collect()]
    assert [i for i, label in enumerate(kept) if label is None] == [0, 7, 9]
    assert kept[10:20] == [model.predict(row) for row in X[10:20]]
    skipping = ours(handleInvalid="skip", weightCol="w").fit(gaps)
    np.testing.assert_array_equal(skipping.clusterCenters(), model.clusterCenters())
    skipped = [row.prediction for row in skipping.transform(gaps).collect()]
    assert skipped == [label for label in kept if label is not None]
    with pytest.raises(Exception, match=r"missing value in row 0"):
        model.setHandleInvalid("error").transform(gaps).collect()


def test_what_was_cached_stays_and_what_was_not_is_released(session):
    rows = session.createDataFrame([(row.tolist(),) for row in X], "features array<double>")
    ours().fit(rows)
    assert not rows.storageLevel.useMemory
    assert not rows.select("features").storageLevel.useMemory
    kept = rows.cache()
    ours().fit(kept)
    assert kept.storageLevel.useMemory
    kept.unpersist()


APPLY = """
import os, sys
os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
from pyspark.sql import SparkSession
start = SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
session = start.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from pyspark.ml import Pipeline, PipelineModel
fitted = PipelineModel.load(sys.argv[1] + "/fitted")
frame = session.read.parquet(sys.argv[1] + "/rows")
fitted.transform(frame).write.parquet(sys.argv[1] + "/answers")
again = Pipeline.load(sys.argv[1] + "/pipeline").fit(frame)
again.transform(frame).write.parquet(sys.argv[1] + "/again")
session.stop()
"""


def test_a_pipeline_is_saved_and_applied_in_another_process(session, frame, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel

    home = str(tmp_path)
    frame.coalesce(1).write.parquet(f"{home}/rows")
    rows = session.read.parquet(f"{home}/rows")
    pipeline = Pipeline(stages=[assembler(), ours(coresetSize=300, polish=1)])
    fitted = pipeline.fit(rows)
    pipeline.save(f"{home}/pipeline")
    fitted.save(f"{home}/fitted")
    here = PipelineModel.load(f"{home}/fitted").stages[-1]
    model = fitted.stages[-1]
    np.testing.assert_array_equal(here.clusterCenters(), model.clusterCenters())
    assert (here.hasSummary, here.uid, here.getPolish()) == (False, model.uid, 1)
    assert here.inner.inertia_ == model.inner.inertia_
    with pytest.raises(RuntimeError, match="no training summary"):
        assert here.summary
    # Classic Spark, also for what was saved through Connect.
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", APPLY, home], env=own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]

    def labels(answer):
        return {row.name: row.prediction for row in answer.select("name", "prediction").collect()}

    want = labels(fitted.transform(rows))
    assert labels(session.read.parquet(f"{home}/answers")) == want
    assert labels(session.read.parquet(f"{home}/again")) == want


def test_a_saved_model_is_overwritten_only_on_request_and_checked(session, vectors, tmp_path):
    from lwcs.spark import CoresetKMeansModel

    path = f"{tmp_path}/model"
    model = ours().fit(vectors)
    model.save(path)
    with pytest.raises(Exception, match=r"(?i)already exists"):
        model.save(path)
    if not CONNECT:
        # pyspark's own writers of Python stages overwrite through the JVM, which Connect has not.
        model.write().overwrite().save(path)
    rows = CoresetKMeansModel.load(path).clusterCenters()
    np.testing.assert_array_equal(rows, model.clusterCenters())
    changed = session.createDataFrame(
        [(i, (row + 1.0).tolist()) for i, row in enumerate(rows)],
        "cluster int, center array<double>",
    )
    changed.coalesce(1).write.mode("overwrite").parquet(f"{path}/data")
    with pytest.raises(ValueError, match="does not agree with its checksum"):
        CoresetKMeansModel.load(path)
