"""Peers and limits of the benchmark on a GPU, and the rows that it uses.

The limits (a bare read, a copy, matrix products), textbook torch, flash-kmeans, and Lloyd's
algorithm on all rows by our own kernels. Costs of all of them come from one function, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

PIECE = 2**20
CLUSTERS = 1024
CANDIDATES = 8


def sync() -> None:
    """Wait until the device has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def normal(rows: int, columns: int, device: str) -> torch.Tensor:
    """Rows without structure."""
    generator = torch.Generator(device).manual_seed(0)
    X = torch.empty((rows, columns), device=device)
    for start in range(0, rows, PIECE):
        X[start : start + PIECE].normal_(generator=generator)
    return X


def heavy_tailed(rows: int, columns: int, device: str) -> torch.Tensor:
    """1,024 clusters of log-normal sizes, whose rows have the tails of Student's t(2)."""
    generator = torch.Generator(device).manual_seed(1)
    centers = torch.randn((CLUSTERS, columns), generator=generator, device=device)
    shares = torch.randn(CLUSTERS, generator=generator, device=device).exp().double()
    sums = shares.cumsum(0) / shares.sum()
    X = torch.empty((rows, columns), device=device)
    for start in range(0, rows, PIECE):
        piece = X[start : start + PIECE].normal_(generator=generator)
        # A t(2) row is a normal one over the root of chi-squared(2) / 2, which is exponential.
        tails = torch.empty((len(piece), 1), device=device).exponential_(generator=generator)
        piece /= tails.sqrt_().clamp_(min=1e-6)
        own = torch.rand(len(piece), generator=generator, device=device, dtype=torch.float64)
        piece += centers[torch.searchsorted(sums, own).clamp_(max=CLUSTERS - 1)]
    return X


def as_centers(centers: Any, X: torch.Tensor) -> torch.Tensor:
    """Centers of any library in float64, on the device of X."""
    return torch.as_tensor(centers, device=X.device).to(torch.float64)


def read(X: torch.Tensor) -> torch.Tensor:
    """The limit of anything that reads every row."""
    return X.amax()


def product(side: int, device: str, precision: str) -> Any:
    """A function that multiplies two square matrices, in "highest" (fp32) or "high" (tf32)."""
    left, right = (torch.randn((side, side), device=device) for _ in range(2))

    def run() -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            left @ right
        finally:
            torch.set_float32_matmul_precision(before)

    return run


def textbook_build(X: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A lightweight coreset in a few lines of torch, which hold X − mean and its squares."""
    mean = X.mean(0)
    distances = ((X - mean) ** 2).sum(1)
    q = 0.5 / len(X) + 0.5 * distances / distances.sum()
    # torch.multinomial takes 2**24 rows at most.
    sums = q.cumsum(0, dtype=torch.float64)
    uniforms = torch.rand(size, device=X.device, dtype=torch.float64)
    rows = torch.searchsorted(sums, uniforms * sums[-1]).clamp_(max=len(X) - 1)
    return X[rows], 1.0 / (size * q[rows])


def blocked_labels(X: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Labels by products in blocks, in the precision of X."""
    own = centers.to(X.dtype)
    norms, step = (own * own).sum(1), max(1, 2**28 // len(own))
    scores = torch.empty((min(step, len(X)), len(own)), device=X.device, dtype=X.dtype)
    labels = torch.empty(len(X), device=X.device, dtype=torch.int32)
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        torch.addmm(norms, rows, own.T, alpha=-2, out=scores[: len(rows)])
        labels[start : start + step] = scores[: len(rows)].argmin(1)
    return labels


def exact_labels(X: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Labels in float64."""
    origin = centers.mean(0)
    return blocked_labels(X.double() - origin, centers - origin)


def cost(X: torch.Tensor, centers: Any) -> float:
    """Σ min |x − c|² over all rows, in float64."""
    own = as_centers(centers, X)
    origin = own.mean(0)
    own = own - origin
    norms, step = (own * own).sum(1), max(1, 2**28 // len(own))
    total = torch.zeros((), device=X.device, dtype=torch.float64)
    for start in range(0, len(X), step):
        rows = X[start : start + step].double() - origin
        nearest = torch.addmm(norms, rows, own.T, alpha=-2).amin(1)
        total += (nearest + (rows * rows).sum(1)).clamp_(min=0).sum()
    return float(total)


def flash_labels(X: torch.Tensor, centers: torch.Tensor) -> Any:
    """A function that labels all rows by flash-kmeans; the norms of the rows are not timed."""
    from flash_kmeans.torch_fallback import euclid_assign_torch_native_chunked as on_cpu

    own, rows = centers.to(X.dtype)[None], X[None]
    norms = torch.empty((1, len(X)), device=X.device, dtype=X.dtype)
    for start in range(0, len(X), PIECE):
        norms[0, start : start + PIECE] = X[start : start + PIECE].square().sum(1)
    if not X.is_cuda:
        return lambda: on_cpu(rows, own, norms)[0]
    from flash_kmeans.assign_euclid_triton import euclid_assign_triton

    return lambda: euclid_assign_triton(rows, own, norms)[0]


def flash_fit(X: torch.Tensor, k: int, iterations: int) -> torch.Tensor:
    """flash-kmeans from its own random start: its centers."""
    from flash_kmeans import FlashKMeans

    model = FlashKMeans(X.shape[1], k, niter=iterations, tol=0.0, seed=0, device=X.device)
    return model.fit(X).centroids_b[0]


def full_lloyd(X: torch.Tensor, centers: Any, iterations: int) -> torch.Tensor:
    """Lloyd's algorithm on all rows by our own kernels."""
    from lwcs.kernels.torch import operations as device

    found = as_centers(centers, X)
    for _ in range(iterations):
        labels = device.nearest(X, found, None)[0]
        totals, sums = device.cluster_sums(X, None, labels, len(found), found)
        found = found + sums / totals.clamp(min=1.0)[:, None]
    return found


def torch_seeding(rows: torch.Tensor, weights: torch.Tensor, k: int) -> torch.Tensor:
    """Greedy k-means++ in plain torch, without synchronizing with the host."""
    uniforms = torch.from_numpy(np.random.default_rng(0).random((k, CANDIDATES))).to(rows.device)
    norms, light = (rows * rows).sum(1), weights.to(rows.dtype)
    picked = torch.zeros(k, dtype=torch.int64, device=rows.device)
    closest = (norms + norms[0] - 2 * rows @ rows[0]).clamp_(min=0)
    for i in range(1, k):
        sums = (light * closest).cumsum(0, dtype=torch.float64)
        drawn = torch.searchsorted(sums, uniforms[i] * sums[-1]).clamp_(max=len(rows) - 1)
        reached = torch.addmm(norms, rows[drawn], rows.T, alpha=-2) + norms[drawn][:, None]
        reached = torch.minimum(reached.clamp_(min=0), closest)
        best = (reached @ light).argmin()
        closest, picked[i] = reached[best], drawn[best]
    return picked
