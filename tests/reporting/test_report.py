"""lwcs.report: what is in the file, what is escaped, and what is refused."""

from __future__ import annotations

import builtins
import gzip
import json
import re
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest

import lwcs
from lwcs.description import describe
from lwcs.runtime.formatting import percent, typeset
from tests.reporting.conftest import HOSTILE


@pytest.fixture(scope="module")
def model() -> lwcs.CoresetKMeans:
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(mean, 1, (3_000, 3)) for mean in (0, 7, 15)])
    return lwcs.CoresetKMeans(3, coreset_size=1_500, random_state=7).fit(X)


class Page(HTMLParser):
    """The text of a page, its tags, and its blocks of JSON."""

    def __init__(self, path) -> None:
        super().__init__()
        self.text, self.tags, self.blocks, self._inside = "", [], {}, None
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.tags.append((tag, own))
        self._inside = own.get("id", "script") if tag in ("script", "style") else None

    def handle_endtag(self, _):
        self._inside = None

    def handle_data(self, data):
        if self._inside is None:
            self.text += data
        else:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data


@pytest.fixture
def page(model, tmp_path) -> Page:
    lwcs.report(model, tmp_path / "r.html")
    return Page(tmp_path / "r.html")


def test_tells_what_is_known_of_the_fit(model, page):
    assert "3 clusters in 9,000 rows" in page.text
    assert "squared Euclidean distances from the nearest center" in page.text
    assert "biased low" not in page.text
    assert typeset(str(model.diagnosis_)) in page.text
    assert f"the cost is about {percent(model.sampling_error_)} above" in page.text
    for stage in model.timings_:
        assert stage in page.text
    assert f"{len(model.coreset_):,} of 9,000" in page.text
    assert "CoresetKMeans(n_clusters=3, coreset_size=1500, random_state=7)" in page.text
    assert lwcs.__version__ in page.text
    assert np.__version__ in page.text


def test_a_certificate_and_a_stability_are_part_of_it(model, tmp_path):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(mean, 1, (3_000, 3)) for mean in (0, 7, 15)])
    certificate = lwcs.certify(X, model, size=500, random_state=0)
    judged = lwcs.CoresetKMeans(3, coreset_size=1_500, random_state=7).fit(X)
    judged.stability(n_bootstrap=2)
    lwcs.report(judged, tmp_path / "r.html", certificate=certificate)
    text = Page(tmp_path / "r.html").text
    assert typeset(str(certificate)) in text
    assert judged.stability_.words() in text
    assert f">{judged.stability_.score[0]:.2f}</td>" in (tmp_path / "r.html").read_text("utf-8")


def test_nothing_from_outside_is_named_in_tags(page):
    for tag, own in page.tags:
        assert not own.get("src"), tag
        assert own.get("href", "#")[0] == "#" or own["href"] == "data:,"


def test_its_policy_lets_no_other_script_run(page):
    policy = next(own["content"] for tag, own in page.tags if "http-equiv" in own)
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    # Those of Bokeh, and the one of the page.
    assert len(re.findall("sha256-", policy)) == 3


def columns_of(value: object) -> dict[str, np.ndarray]:
    """The arrays by name of a source in a figure's JSON, wherever it is."""
    if isinstance(value, dict):
        if value.get("type") == "map" and "row" in dict(value["entries"]):
            return {
                name: np.frombuffer(
                    gzip.decompress(b64decode(each["array"]["data"])), each["dtype"]
                )
                for name, each in value["entries"]
                if isinstance(each, dict)
            }
        value = list(value.values())
    if isinstance(value, list):
        return next(filter(None, map(columns_of, value)), {})
    return {}


def test_points_carry_the_rows_of_the_coreset(model, page):
    shown = columns_of(json.loads(page.blocks["data-map"]))
    own = model.coreset_
    places = np.searchsorted(own.indices, shown["row"])
    assert np.array_equal(np.sort(places), np.arange(len(own)))
    assert np.array_equal(own.indices[places], shown["row"])
    assert np.array_equal(model.predict(own.points)[places], shown["cluster"])
    leading = describe(model).telling_columns[0]
    assert np.allclose(own.points[places, leading], shown["v0"], rtol=1e-6)


def test_hostile_names_are_escaped_everywhere(report):
    found = Page(report)
    assert not {tag for tag, _ in found.tags} & {"img", "iframe", "object", "svg"}
    assert not [own for _, own in found.tags if any(name.startswith("on") for name in own)]
    scripts = [own for tag, own in found.tags if tag == "script"]
    assert len(scripts) == 5 + 3
    for name in HOSTILE:
        assert name in found.text
    for block in ("settings", "data-map", "data-profiles"):
        assert "<" not in found.blocks[block]
        json.loads(found.blocks[block])


def test_a_loaded_model_needs_a_coreset(model, tmp_path):
    model.save(tmp_path / "m.parquet")
    loaded = lwcs.load(tmp_path / "m.parquet")
    with pytest.raises(ValueError, match=r"has no coreset .* pass one: coreset=lwcs\.build"):
        lwcs.report(loaded, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
    lwcs.report(loaded, tmp_path / "r.html", model.coreset_)
    assert "random_state=7" in Page(tmp_path / "r.html").text


def test_the_code_has_the_seed_of_the_fit_and_not_of_another_coreset(model, tmp_path):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(mean, 1, (3_000, 3)) for mean in (0, 7, 15)])
    lwcs.report(model, tmp_path / "r.html", lwcs.build(X, 500, random_state=99))
    text = Page(tmp_path / "r.html").text
    assert "random_state=7" in text
    assert "random_state=99" not in text


def test_a_coreset_of_other_columns_is_refused(model, tmp_path):
    other = lwcs.build(np.random.default_rng(0).normal(size=(500, 4)), 100, random_state=0)
    with pytest.raises(ValueError, match=r"4 (columns|features).*3|3.*4 (columns|features)"):
        lwcs.report(model, tmp_path / "r.html", other)


def test_rows_instead_of_a_coreset_are_refused(model, tmp_path):
    with pytest.raises(TypeError, match=r"not a Coreset; pass coreset=lwcs\.build"):
        lwcs.report(model, tmp_path / "r.html", np.zeros((5, 3)))


def test_what_is_not_a_certificate_or_a_title_is_refused(model, tmp_path):
    with pytest.raises(TypeError, match=r"certificate is a str, .* lwcs\.certify"):
        lwcs.report(model, tmp_path / "r.html", certificate="yes")
    with pytest.raises(TypeError, match=r"title=3 is a int; pass a text"):
        lwcs.report(model, tmp_path / "r.html", title=3)


def test_a_folder_that_does_not_exist_is_refused(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first"):
        lwcs.report(model, tmp_path / "no" / "r.html")


def test_a_file_stays_as_it_was_if_the_report_fails(model, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("before")

    def fail(*_, **__):
        raise RuntimeError("stop")

    monkeypatch.setattr("lwcs.reporting.quality_sections", fail)
    with pytest.raises(RuntimeError, match="stop"):
        lwcs.report(model, path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_writes_to_other_file_systems(model):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    lwcs.report(model, "r.html", filesystem=memory)
    assert memory.cat("r.html").startswith(b"<!DOCTYPE html>")


def test_says_how_to_install_bokeh(model, tmp_path, monkeypatch):
    load = builtins.__import__

    def without(name, *rest, **options):
        if name.split(".")[0] == "bokeh":
            raise ImportError(name)
        return load(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'lwcs\[plot\]'"):
        lwcs.report(model, tmp_path / "r.html")


def test_models_of_scikit_learn_have_a_report_too(model, tmp_path):
    lwcs.report(model.to_sklearn(), tmp_path / "r.html", model.coreset_)
    assert "# model: KMeans of sklearn, which" in Page(tmp_path / "r.html").text


def test_where_all_rows_are_known_no_certificate_is_asked_for(tmp_path):
    X = np.repeat(np.random.default_rng(0).normal(size=(2, 3)), 50, axis=0)
    with pytest.warns(Warning, match="distinct"):
        model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    lwcs.report(model, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "Not needed: the cost above is that of all rows." in text
    assert "1 of the 3 clusters have no rows here" in text
    assert "lwcs.certify(data, model)" not in text


def test_rows_that_are_equally_far_from_their_center_have_a_histogram(tmp_path):
    """To rounding: bins cannot be narrower than the numbers between them."""
    Z = np.random.default_rng(0).normal(size=(2_000, 5))
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    lwcs.report(lwcs.CoresetKMeans(1, random_state=0).fit(np.vstack([Z, -Z])), tmp_path / "r.html")
    text = Page(tmp_path / "r.html").text
    assert re.search(r"Half of the rows have a distance from the center of at most 1\b", text)
    assert "no difference from the mean" in text


def test_costs_of_weighted_rows_are_per_unit_of_weight(tmp_path):
    X = np.random.default_rng(0).normal(size=(1_000, 2))
    w = np.linspace(1.0, 3.0, 1_000)
    model = lwcs.CoresetKMeans(2, random_state=0).fit(X, sample_weight=w)
    lwcs.report(model, tmp_path / "r.html")
    text = Page(tmp_path / "r.html").text
    assert "per unit of weight." in text
    assert "has a weight of " in text


def test_a_coreset_that_was_not_fitted_is_told_apart(model, tmp_path):
    X = np.random.default_rng(2).normal(7, 6, (9_000, 3))
    lwcs.report(model, tmp_path / "r.html", lwcs.build(X, 500, random_state=0))
    assert "the model was fitted on other draws" in Page(tmp_path / "r.html").text
    lwcs.report(model, tmp_path / "r.html")
    assert "the model was fitted on other draws" not in Page(tmp_path / "r.html").text


def test_a_file_that_browsers_would_not_open_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match=r"report\.pdf.*a name that ends in \.html"):
        lwcs.report(model, tmp_path / "report.pdf")


def test_clusters_that_the_first_view_does_not_show_are_named(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(3_000, 3)), rng.normal(500, 1, (8, 3))])
    model = lwcs.CoresetKMeans(2, random_state=0).fit(X)
    lwcs.report(model, tmp_path / "r.html")
    far = int(np.argmax(model.cluster_centers_[:, 0]))
    assert f"with the center of cluster {far}, so that" in Page(tmp_path / "r.html").text


def test_commands_in_sentences_are_set_as_code(model, tmp_path):
    from lwcs.reporting import write_report
    from lwcs.reporting.facts import Origin
    from lwcs.storage.locations import Access

    own = Origin(command="lwcs fit <b>")
    write_report(model, tmp_path / "r.html", None, own, None, Access(None, None))
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "<code>lwcs fit --stability</code>" in text
    assert "lwcs fit &lt;b&gt;" in text
