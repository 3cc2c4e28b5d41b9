"""What notebooks show of coresets, streams and models: their figures, and every text escaped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn

import lwcs
from lwcs.runtime import formatting as markup

EVIL = "<script>alert('1')</script>"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    X = np.random.default_rng(0).standard_t(3, size=(30_000, 12))
    return pd.DataFrame(X, columns=[EVIL, *(f"c{j}" for j in range(11))])


def test_a_coreset_shows_its_facts_and_its_first_rows(rows):
    coreset = lwcs.build(rows, 500, random_state=0)
    shown = coreset._repr_html_()
    assert f"500 draws, {len(coreset):,} distinct rows" in shown
    assert "30,000 rows × 12 columns" in shown
    assert '<td style="text-align: left">lightweight</td>' in shown
    assert f"{coreset.weights.min():.4g} to {coreset.weights.max():.4g}" in shown
    for index, weight in zip(coreset.indices[:5], coreset.weights[:5], strict=True):
        assert f"<tr><td>{index:,}</td><td>{weight:.4g}</td>" in shown
    assert f"<td>{coreset.indices[5]:,}</td>" not in shown
    assert f"The first 5 of {len(coreset):,} rows, 8 of 12 columns:" in shown
    assert "<th>c6</th>" in shown
    assert "<th>c7</th>" not in shown


def test_names_of_columns_are_shown_and_not_run(rows):
    shown = lwcs.build(rows, 500, random_state=0)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;" in shown


def test_a_sparse_coreset_shows_its_largest_values():
    X = sp.csr_array(np.array([[0.0, 3.0, 0.0, -7.0], [1.0, 0.0, 0.0, 0.0]] * 30))
    shown = lwcs.build(X, 10, random_state=0)._repr_html_()
    assert "<td>column 3: -7, column 1: 3</td>" in shown


def test_a_coreset_of_all_rows_says_so():
    coreset = lwcs.CoresetKMeans(2, random_state=0).fit(np.eye(4)).coreset_
    assert "all rows, nothing sampled" in coreset._repr_html_()


def test_a_stream_shows_what_it_has_seen():
    stream = lwcs.StreamingCoreset(50, random_state=3)
    assert "not known yet" in stream._repr_html_()
    stream.update(np.ones((1_200, 3)))
    shown = stream._repr_html_()
    assert "1,200 rows so far" in shown
    assert 'columns</th><td style="text-align: left">3</td>' in shown


def test_a_model_shows_its_figures_of_quality_once_it_is_fitted(rows):
    model = lwcs.CoresetKMeans(3, coreset_size=1_000, random_state=0)
    plain = model._repr_html_()
    assert "sampling error" not in plain
    model.fit(rows)
    shown = model._repr_html_()
    assert "CoresetKMeans" in shown
    assert "Fitted" in shown
    facts = dict(_pairs(shown))
    assert facts["clusters"] == "3"
    assert facts["rows"] == "30,000 × 12 columns"
    assert facts["draws"] == "1,000"
    assert facts["method"] == "lightweight"
    assert facts["cost"] == f"{model.inertia_:.6g}"
    assert facts["sampling error"].startswith(f"about {100 * model.sampling_error_:.2g} %")
    assert model.diagnosis_.choice in facts["diagnosis"]
    assert facts["seconds"] == f"{model.timings_['total']['seconds']:.3g}"
    assert model._repr_mimebundle_()["text/html"].count("sampling error") == shown.count(
        "sampling error"
    )


def test_a_loaded_model_shows_what_it_remembers(rows, tmp_path):
    path = tmp_path / "model.parquet"
    lwcs.CoresetKMeans(3, coreset_size=1_000, random_state=0).fit(rows).save(path)
    facts = dict(_pairs(lwcs.load(path)._repr_html_()))
    assert facts["rows"] == "30,000 × 12 columns"
    assert "draws" not in facts


def test_all_rows_have_no_sampling_error():
    facts = dict(_pairs(lwcs.CoresetKMeans(2, random_state=0).fit(np.eye(4))._repr_html_()))
    assert facts["sampling error"] == "none, all rows were used"


def test_a_mixture_shows_its_likelihood(rows):
    model = lwcs.CoresetMixture(2, coreset_size=1_000, random_state=0).fit(rows.iloc[:, :2])
    facts = dict(_pairs(model._repr_html_()))
    assert facts["components"] == "2 (gaussian)"
    assert facts["log-likelihood per row"] == f"{model.lower_bound_:.6g}"
    assert facts["sampling error"] == "not known"


def test_text_instead_of_diagrams_is_respected():
    with sklearn.config_context(display="text"):
        assert not hasattr(lwcs.CoresetKMeans(2), "_repr_html_")


def test_tables_escape_headings_and_cells():
    shown = markup.table(["<a>"], [["<b>"], ["&"]], bold=1)
    assert shown == (
        "<table><thead><tr><th>&lt;a&gt;</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr>"
        "<tr><td><b>&amp;</b></td></tr></tbody></table>"
    )
    assert markup.facts([("<a>", "<b>")]).count("&lt;") == 2
    assert markup.paragraphs(["<a>"]) == "<p>&lt;a&gt;</p>"


def _pairs(shown: str) -> list[tuple[str, str]]:
    """Names and values of a table of facts."""
    from html import unescape
    from re import findall

    pattern = r'<th scope="row"[^>]*>([^<]*)</th><td style="text-align: left">([^<]*)</td>'
    return [(unescape(name), unescape(value)) for name, value in findall(pattern, shown)]
