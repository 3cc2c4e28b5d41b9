"""Cases of the benchmark on a GPU: one function per case, which yields the lines of its table.

A case makes its rows on the device, runs ours and its peers or limits in turns, and reports the
best times. What fails within a case is a line that says why.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

import lwcs
from benchmarks import gpu_peers as peers
from benchmarks.gpu_table import Line, Time
from benchmarks.measure import interleaved
from lwcs import CoresetKMeans
from lwcs.runtime.parallel import usable_cores


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of what is measured."""

    device: str = "cuda"
    rows: int = 100_000_000
    columns: int = 64
    fewer: int = 20_000_000
    narrow: tuple[int, int] = (400_000_000, 16)
    k: int = 1_024
    draws: int = 50_000
    coreset: int = 200_000
    iterations: int = 25
    side: int = 8_192
    rounds: int = 7
    full: bool = True

    def by(self, factor: float) -> Sizes:
        """Fewer rows; figures then have no target."""
        rows, columns = self.narrow
        return replace(
            self,
            rows=int(self.rows * factor),
            fewer=int(self.fewer * factor),
            narrow=(int(rows * factor), columns),
            full=False,
        )


SMOKE = Sizes("cpu", 40_000, 64, 20_000, (80_000, 16), 16, 500, 2_000, 3, 256, 1, full=False)


class Rows:
    """The rows of the case at hand: one large tensor at a time."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._key: tuple[Any, ...] = ()
        self._X: Any = None

    def __call__(self, make: Callable[..., torch.Tensor], rows: int, columns: int) -> torch.Tensor:
        """The rows of the last call, or others that replace them."""
        if self._key != (make, rows, columns):
            self._key, self._X = (), None
            if self.device == "cuda":
                torch.cuda.empty_cache()
            self._X = make(rows, columns, self.device)
            self._key = (make, rows, columns)
        return self._X


def race(rounds: int, **contestants: Callable[[], object]) -> dict[str, Time]:
    """The best time of each, or the reason why there is no time."""
    found: dict[str, Time] = {}
    runs: dict[str, Callable[[], object]] = {}
    for name, contestant in contestants.items():
        try:
            contestant()
            peers.sync()
        except Exception as error:
            found[name] = reason(error)
        else:
            runs[name] = partial(_finished, contestant)
    return found | interleaved(rounds, warm=False, **runs)


def _finished(contestant: Callable[[], object]) -> None:
    contestant()
    peers.sync()


def _timed(contestant: Callable[[], Any]) -> tuple[float, Any]:
    """The time of a single run, and what it returned."""
    peers.sync()
    start = time.perf_counter()
    found = contestant()
    peers.sync()
    return time.perf_counter() - start, found


def reason(error: Exception) -> str:
    """Why there is no time, in one line; the rest goes to standard error."""
    traceback.print_exception(error)
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    first = re.sub(r" \(?/\S+", "", (str(error).strip().splitlines() or [""])[0])
    return f"failed: {type(error).__name__}: {first[:160]}"


def _rate(amount: float, seconds: Time, unit: str) -> Time:
    return seconds if isinstance(seconds, str) else f"{amount / seconds / 1e12:.3g} {unit}"


def limits(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """Limits of the machine."""
    X = rows(peers.normal, sizes.rows, sizes.columns)
    n_bytes, flops = X.numel() * X.element_size(), 2 * sizes.side**3
    half = X[: len(X) // 2]
    target = torch.empty_like(half)
    times = race(
        sizes.rounds,
        read=partial(peers.read, X),
        copy=lambda: target.copy_(half),
        fp32=peers.product(sizes.side, sizes.device, "highest"),
        tf32=peers.product(sizes.side, sizes.device, "high"),
    )
    shape, square = tuple(X.shape), (sizes.side, sizes.side)
    yield Line("a bare read (`amax`)", shape, times["read"], _rate(n_bytes, times["read"], "TB/s"))
    copied = _rate(n_bytes, times["copy"], "TB/s, read and written")
    yield Line("a copy", tuple(half.shape), times["copy"], copied)
    for name in ("fp32", "tf32"):
        rate = _rate(flops, times[name], "TFLOP/s")
        yield Line(f"a product of matrices, {name}", square, times[name], rate)


def build(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    yield from _build(rows(peers.normal, sizes.rows, sizes.columns), sizes, 1.5)


def narrow_build(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    yield from _build(rows(peers.normal, *sizes.narrow), sizes, 1.7)


def _build(X: torch.Tensor, sizes: Sizes, most: float) -> Iterator[Line]:
    times = race(
        sizes.rounds,
        ours=partial(lwcs.build, X, sizes.draws, random_state=0),
        read=partial(peers.read, X),
        torch=partial(peers.textbook_build, X, sizes.draws),
    )
    what, shape = f"build, {sizes.draws:,} draws", tuple(X.shape)
    yield Line(what, shape, times["ours"], "a bare read", times["read"], limit=True, most=most)
    yield Line(what, shape, times["ours"], "textbook torch", times["torch"])


def labels(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """The nearest of k centers of every row."""
    X = rows(peers.normal, sizes.rows, sizes.columns)
    shape, k = tuple(X.shape), sizes.k
    # Random centers are enough: the time does not depend on how good they are.
    model = _model(sizes, compute_labels=False, init="random", max_iter=2)
    predict = _or_raise(lambda: model.fit(X).predict)
    centers = peers.as_centers(getattr(model, "cluster_centers_", X[:k]), X)
    contestants: dict[str, Callable[[], torch.Tensor]] = {
        "predict": lambda: predict(X),
        "tf32x3": lambda: _nearest(X, centers, "tf32x3"),
        "tf32": lambda: _nearest(X, centers, "tf32"),
        "torch": lambda: peers.blocked_labels(X, centers),
        "flash": _or_raise(lambda: peers.flash_labels(X, centers)),
    }
    times = race(max(2, sizes.rounds // 2), **contestants)
    some = X[: 2**20]
    exact = peers.exact_labels(some, centers)
    wrong = {
        name: _wrong(run, exact)
        for name, run in contestants.items()
        if not isinstance(times[name], str)
    }

    def line(what: str, ours: str, peer: str, theirs: str, least: float) -> Line:
        what = f"{what}, k = {k:,}; {wrong.get(ours, '')}"
        peer = f"{peer}; {wrong.get(theirs, '')}"
        return Line(what, shape, times[ours], peer, times[theirs], least=least)

    yield line("`predict`", "predict", "blocked torch, fp32", "torch", 3.3)
    yield line("labels, tf32x3", "tf32x3", "blocked torch, fp32", "torch", 3.3)
    yield line("labels, tf32", "tf32", "flash-kmeans, tf32", "flash", 1.2)


def _nearest(X: torch.Tensor, centers: torch.Tensor, mode: str) -> torch.Tensor:
    from lwcs.kernels.torch import operations as device

    return device.nearest(X, centers, None, mode=mode)[0]


def _or_raise(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """The result of `make`; if it fails, a function that raises the same error."""
    try:
        return make()
    except Exception as error:
        failure = error

    def fail(*_: Any) -> None:
        raise failure

    return fail


def _wrong(run: Callable[[], Any], exact: torch.Tensor) -> str:
    """How many of the first rows have a label that differs from that in float64."""
    found = torch.as_tensor(run(), device=exact.device)[: len(exact)]
    share = float((found.to(exact.dtype) != exact).double().mean())
    return f"{share:.1e} of labels differ from float64" if share else "labels as in float64"


def fit(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """Whole fits against flash-kmeans, on all rows and on a fifth of them."""
    X = rows(peers.heavy_tailed, sizes.rows, sizes.columns)
    yield from _fit(X, sizes, least=8.0)
    yield from _fit(X[: sizes.fewer], sizes, least=2.0)


def _model(sizes: Sizes, **options: Any) -> CoresetKMeans:
    return CoresetKMeans(sizes.k, coreset_size=sizes.coreset, random_state=0, **options)


def _fit(X: torch.Tensor, sizes: Sizes, least: float) -> Iterator[Line]:
    centers: dict[str, Any] = {}

    def ours(compute_labels: bool) -> None:
        model = _model(sizes, compute_labels=compute_labels).fit(X)
        centers["ours"] = model.cluster_centers_

    def theirs() -> None:
        centers["flash"] = peers.flash_fit(X, sizes.k, sizes.iterations)

    times = race(
        max(1, sizes.rounds // 3),
        ours=lambda: ours(False),
        labelled=lambda: ours(True),
        flash=theirs,
    )
    excess = _excess(X, centers.get("ours"), centers.get("flash"))
    peer = f"flash-kmeans, {sizes.iterations} iterations, with labels"
    for name, words in (("ours", "no labels"), ("labelled", "with labels")):
        what = f"fit, k = {sizes.k:,}, heavy tails, {words}"
        line = Line(what, tuple(X.shape), times[name], peer, times["flash"], least=least)
        yield replace(line, excess=excess, above=0.0)


def _excess(X: torch.Tensor, ours: Any, theirs: Any) -> float | None:
    """The excess of our cost over theirs; None if either is missing."""
    if ours is None or theirs is None:
        return None
    return peers.cost(X, ours) / peers.cost(X, theirs) - 1.0


def lloyd(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """A coreset against Lloyd's algorithm on all rows, from the same seeding."""
    X = rows(peers.heavy_tailed, sizes.rows, sizes.columns)
    # Compiled before it is timed.
    peers.full_lloyd(X, peers.as_centers(X[: sizes.k], X), 1)

    def full() -> torch.Tensor:
        seeds = _model(sizes, compute_labels=False, max_iter=1).fit(X).cluster_centers_
        return peers.full_lloyd(X, seeds, sizes.iterations)

    model = _model(sizes, compute_labels=False)
    model.fit(X)
    ours = min(_timed(lambda: model.fit(X))[0] for _ in range(3))
    theirs, centers = _timed(full)
    what = f"fit, k = {sizes.k:,}, heavy tails, no labels"
    peer = f"our seeding and {sizes.iterations} iterations on all rows"
    line = Line(what, tuple(X.shape), ours, peer, theirs, least=25.0)
    yield replace(line, excess=_excess(X, model.cluster_centers_, centers), above=0.03)


def cpu(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """The same fit on the GPU and on all cores of the machine."""
    X = rows(peers.heavy_tailed, sizes.rows, sizes.columns)[: sizes.fewer]
    host = X.cpu().numpy()
    model, there = _model(sizes, compute_labels=False), _model(sizes, compute_labels=False)
    # Loads and compiles the kernels.
    _model(sizes, compute_labels=False, max_iter=1).fit(host[: max(len(host) // 50, sizes.k)])
    model.fit(X)
    ours = min(_timed(lambda: model.fit(X))[0] for _ in range(3))
    theirs = _timed(lambda: there.fit(host))[0]
    what = f"fit, k = {sizes.k:,}, heavy tails, no labels"
    line = Line(what, tuple(X.shape), ours, f"the same on {usable_cores()} cores", theirs)
    yield replace(line, excess=_excess(X, model.cluster_centers_, there.cluster_centers_))


def host(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """Rows in host memory, which go through the device block by block."""
    X = rows(peers.heavy_tailed, sizes.rows, sizes.columns)[: sizes.fewer].cpu().numpy()
    times = race(
        max(1, sizes.rounds // 3),
        ours=lambda: _model(sizes, compute_labels=False, device=sizes.device).fit(X),
        labelled=lambda: _model(sizes, device=sizes.device).fit(X),
        copy=lambda: torch.from_numpy(X).to(sizes.device, copy=True),
    )
    for name, words in (("ours", "no labels"), ("labelled", "with labels")):
        what = f"fit of an array in host memory, k = {sizes.k:,}, {words}"
        peer = "one plain copy to the device"
        yield Line(what, X.shape, times[name], peer, times["copy"], limit=True)


def seeding(sizes: Sizes, rows: Rows) -> Iterator[Line]:
    """Greedy k-means++ and 20 iterations of Lloyd's algorithm on a coreset."""
    X = rows(peers.heavy_tailed, sizes.rows, sizes.columns)
    coreset = lwcs.build(X, sizes.coreset, random_state=0)
    points = torch.as_tensor(coreset.points, device=X.device)
    weights = torch.as_tensor(coreset.weights, device=X.device)

    def solve(iterations: int) -> int:
        model = _model(sizes, compute_labels=False, init="k-means++", tol=0.0, max_iter=iterations)
        return model.fit(coreset).n_iter_

    times = race(
        max(2, sizes.rounds // 2),
        seeding=lambda: solve(1),
        both=lambda: solve(21),
        torch=lambda: peers.torch_seeding(points, weights, sizes.k),
    )
    shape = tuple(points.shape)
    what = f"greedy k-means++, k = {sizes.k:,}, and one iteration"
    yield Line(what, shape, times["seeding"], "plain torch, seeding", times["torch"])
    if not {type(times["seeding"]), type(times["both"])} - {float}:
        iterations = solve(21) - solve(1)
        what = f"{iterations} iterations of Lloyd's algorithm"
        yield Line(what, shape, times["both"] - times["seeding"])


CASES: dict[str, Callable[[Sizes, Rows], Iterator[Line]]] = {
    "limits": limits,
    "build": build,
    "labels": labels,
    "narrow": narrow_build,
    "fit": fit,
    "lloyd": lloyd,
    "seeding": seeding,
    "host": host,
    "cpu": cpu,
}
