"""The examples of the gallery: complete, written against the public API, and true.

`make docs` runs all of them, and ends at the first error; two of the fastest are run here.
"""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

import lwcs

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
EXAMPLES = sorted(GALLERY.glob("*.py"))
SUBJECTS = {
    "billion_rows",
    "choosing_k",
    "colour_quantisation",
    "drift",
    "heavy_tails",
    "spoken_digits",
    "stream",
    "topics",
    "vector_index",
}
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def test_every_subject_has_an_example_that_makes_pictures():
    assert {path.stem for path in EXAMPLES} == {f"plot_{subject}" for subject in SUBJECTS}
    assert (GALLERY / "GALLERY_HEADER.rst").read_text("utf-8").startswith("Gallery\n=======\n")


@every_example
def test_an_example_has_a_title_an_introduction_and_pictures(path):
    tree = ast.parse(path.read_text("utf-8"))
    title, line, empty, *introduction = ast.get_docstring(tree).splitlines()
    assert line == "=" * len(title)
    assert not empty
    assert len(" ".join(introduction)) > 100
    assert any(ast.unparse(node) == "plt.show()" for node in ast.walk(tree))


@every_example
def test_headings_are_underlined_in_full(path):
    lines = path.read_text("utf-8").splitlines()
    headings = [i for i, line in enumerate(lines) if re.fullmatch(r"# -{3,}", line)]
    assert all(len(lines[i]) == len(lines[i - 1]) for i in headings)
    assert headings


@every_example
def test_an_example_uses_public_names_only(path):
    tree = ast.parse(path.read_text("utf-8"))
    # The worker of the stream is a script within the script.
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    scripts = [text for text in texts if isinstance(text, str) and "import lwcs" in text]
    nodes = [node for part in (tree, *map(ast.parse, scripts)) for node in ast.walk(part)]
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name.split(".")[0] == "lwcs"} == {"lwcs"}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    assert not [node.attr for node in attributes if node.attr.startswith("_")]
    used = {node.attr for node in attributes if ast.unparse(node.value) == "lwcs"}
    assert used
    assert used <= set(lwcs.__all__)


@every_example
def test_names_in_the_text_are_public(path):
    named = re.findall(r"(?<!`)`lwcs\.(\w+)`(?!`)", path.read_text("utf-8"))
    assert set(named) <= set(lwcs.__all__)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run an example without data in LWCS_DATA and without a screen; its variables."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.delenv("LWCS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda subject: runpy.run_path(str(GALLERY / f"plot_{subject}.py"))


def test_drift_is_found_when_the_text_says_so(run):
    page = run("drift")
    alarms = [drift.drifted for drift in page["found"]]
    assert not any(alarms[:3])
    assert all(alarms[4:])
    june, september = page["found"][4], page["found"][7]
    assert june.changed_clusters
    assert june.regret.high < 0.01
    assert september.now.low > 1.5 * september.then.high
    assert september.regret.low > 0.05
    assert not page["drift"].drifted


def test_topics_of_the_made_corpus_are_found_by_kl_and_not_by_k_means(run):
    page = run("topics")
    assert page["n_documents"] == 4_000
    diagonal = page["parts"][:, page["order"]].diagonal()
    assert diagonal.min() > 98.0
    score = page["normalized_mutual_info_score"]
    assert score(page["group"], page["models"]["k-means of counts"].labels_) < 0.7
