"""The wheel and the sdist: complete, and usable where nothing else is installed."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import lwcs
from tests.release.installing import Empty, link, run
from tests.versions import ROOT

FIT = """
import lwcs, numpy as np
X = np.random.default_rng(0).normal(size=(20_000, 3)) + 50 * (np.arange(20_000)[:, None] // 5_000)
model = lwcs.CoresetKMeans(4, coreset_size=500, random_state=0).fit(X)
print(lwcs.__file__, sorted(np.bincount(model.labels_).tolist()))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """An sdist of the checkout, and a wheel of that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module")
def tools(tmp_path_factory) -> Path:
    """The build backend."""
    folder = tmp_path_factory.mktemp("tools")
    link(["scikit-build-core", "hatch-fancy-pypi-readme"], folder)
    return folder


def test_the_wheel_has_the_whole_package_and_nothing_else(built):
    sources = ROOT / "src"
    here = {
        str(path.relative_to(sources))
        for path in (sources / "lwcs").rglob("*")
        if path.is_file() and not {"__pycache__", "core", "lib"} & set(path.parts)
    }
    assert "lwcs/py.typed" in here
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    native = {name for name in names if name.startswith("lwcs/kernels/native/lib/lwcs_")}
    assert native
    assert names - native == here
    assert "-py3-none-" in built["wheel"].name  # for all versions of Python
    assert "-any" not in built["wheel"].name


def test_the_sdist_has_every_file_of_the_checkout(built):
    if not (ROOT / ".git").exists():
        pytest.skip("the files of the checkout are known to git alone")
    listed = run(["git", "ls-files", "-z"]).split("\0")
    kept = {name for name in listed if name and (ROOT / name).exists()}
    with tarfile.open(built["sdist"]) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert kept - inside == set()


def test_the_metadata_say_what_a_user_may_install(built):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = wheel.read(name).decode()
    assert f"\nVersion: {lwcs.__version__}\n" in metadata
    assert "\nProvides-Extra: all\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    for label in ("Homepage", "Documentation", "Source", "Issues", "Changelog"):
        assert f"\nProject-URL: {label}, https://" in metadata
    assert "\nLicense-Expression: BSD-3-Clause\n" in metadata
    # The README as an index shows it, where nothing of the repository is at hand.
    assert "# lwcs: k-means for data of any size" in metadata
    assert re.findall(r"\]\((?!https://)[^)]*\)", metadata) == []


@pytest.mark.parametrize(("kind", "kernels"), [("wheel", "native"), ("sdist", "numpy")])
def test_an_environment_with_nothing_else_can_cluster(kind, kernels, built, tools, tmp_path):
    """The sdist where no compiler is: it becomes the pure package."""
    empty = Empty(tmp_path / "empty")
    compilers = {"CXX": "/no/compiler", "CC": "/no/compiler"} if kind == "sdist" else {}
    empty.install(built[kind], tools, **compilers)
    assert f"kernels: {kernels}" in empty.run("python", "-c", "import lwcs; lwcs.show_versions()")
    home, _, sizes = empty.run("python", "-c", FIT).partition(" ")
    assert Path(home).parent == empty.packages / "lwcs"
    assert sizes == "[5000, 5000, 5000, 5000]\n"
    said = f"lwcs, version {lwcs.__version__}\n"
    assert empty.run("lwcs", "--version") == said
    assert empty.run("python", "-m", "lwcs", "--version") == said
    empty.run(
        "python", "-c", "import numpy; numpy.save('rows.npy', numpy.eye(64).repeat(9, axis=0))"
    )
    empty.run("lwcs", "fit", "rows.npy", "-k", "64", "--seed", "0", "-o", "model.parquet")
    assert '"kind": "model"' in empty.run("lwcs", "inspect", "model.parquet", "--json")


def test_the_empty_environment_has_no_packages_of_the_tests(tmp_path):
    empty = Empty(tmp_path / "empty")
    with pytest.raises(AssertionError, match="No module named 'pytest'"):
        empty.run("python", "-c", "import pytest")
    with pytest.raises(AssertionError, match="No module named 'lwcs'"):
        empty.run("python", "-c", "import lwcs")
