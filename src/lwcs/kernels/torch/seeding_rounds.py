"""Rounds of k-means++ on a device, without waiting for the host in between.

A round tries a few candidates, keeps the one of the least cost, and draws those of the next round:
all of it is enqueued, and the state on the device says whether the rounds have ended. On a GPU, a
few rounds are captured as a CUDA graph, which is replayed. A round is either two Triton kernels
(`seeding_kernels`) or plain torch, which is also the reference for the tests.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import torch

from lwcs.arrays.rows import pieces
from lwcs.kernels.torch.common import captured

if TYPE_CHECKING:
    from lwcs.kernels.torch.common import Tensor

RoundsMethod = Literal["fused", "graph", "plain"]
"""Triton kernels, plain torch as a graph on a GPU, or plain torch, launch by launch."""

# Rounds of a graph, and rounds after which the host checks whether they have ended.
PER_GRAPH = 16
_AT_ONCE = 2048
# Fewer rounds are not worth a graph.
_WORTH_A_GRAPH = 64
# Rows of a tile, warps that share them, and how float32 numbers are multiplied.
TILE, WARPS, MODE = 128, 4, "tf32x3"
# Tiles whose sums one program can add up and search.
_TILES = 2048
_CHUNK = 256
_PIECE_VALUES = 2**24


@dataclass(frozen=True, slots=True)
class Seeding:
    """Input of the rounds. Without an origin, distances are differences in float64."""

    rows: Tensor
    weights: Tensor
    """float64, with a sum of one."""
    uniforms: Tensor
    """float64, one row per center to choose, one column per candidate."""
    stop_at: float
    """The rounds end when the cost is no longer above this, or not finite."""
    origin: Tensor | None = None
    """A point in the midst of the rows, exact in float32: products are taken around it."""
    factor: Tensor | None = None
    """Factor of (x − origin); None if it is 1."""
    precision: Tensor | None = None
    """Precision of every column, for differences."""

    def in_frame(self, at: slice | Tensor = slice(None)) -> Tensor:
        """Some of the rows, in the coordinates of the products."""
        moved = (self.rows[at] - self.origin).to(torch.float32)
        return moved if self.factor is None else moved * self.factor


def choose(
    seeding: Seeding, chosen: Tensor, closest: Tensor | None = None, how: RoundsMethod | None = None
) -> Tensor:
    """Continue from the points already chosen; return all chosen points, on the device.

    `closest` are the distances to the nearest of them but for the last one, if there are others.
    One wait for the device, or one per 2,048 rounds.
    """
    how = how or ("fused" if _has_triton(seeding.rows.is_cuda) else "graph")
    make = _FusedRounds if how == "fused" else _TorchRounds
    with torch.cuda.device_of(seeding.rows):
        rounds = make(seeding, chosen, closest)
        _run(rounds, len(seeding.uniforms) - len(chosen) + 1, graph=how != "plain")
        return rounds.chosen[: rounds.count()]


@cache
def _has_triton(on_gpu: bool) -> bool:
    if not on_gpu and os.environ.get("TRITON_INTERPRET") != "1":
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


class _Rounds(ABC):
    """State of a seeding. The first round has one candidate: the last point already chosen."""

    def __init__(self, seeding: Seeding, chosen: Tensor) -> None:
        rows, (k, many) = seeding.rows, seeding.uniforms.shape
        self.own, self.k, self.many = seeding, k, many
        self.candidates = torch.zeros((k + 1, many), dtype=torch.int64, device=rows.device)
        self.candidates[len(chosen) - 1] = chosen[-1]
        self.chosen = torch.zeros(k, dtype=torch.int64, device=rows.device)
        self.chosen[: len(chosen)] = chosen
        self.graph: Any = None
        """Kept until the device has finished it."""

    @abstractmethod
    def step(self) -> None:
        """Enqueue one round; nothing happens once they have ended."""

    @abstractmethod
    def ended(self) -> bool:
        """Whether the rounds have ended; waits for the device."""

    @abstractmethod
    def count(self) -> int:
        """Number of chosen points; waits for the device."""


def _run(rounds: _Rounds, many: int, *, graph: bool) -> None:
    # The first round also compiles the kernels, which cannot be captured.
    rounds.step()
    step, each = rounds.step, 1
    if graph and rounds.chosen.is_cuda and many > _WORTH_A_GRAPH:
        rounds.graph = captured(rounds.step, PER_GRAPH)
        step, each = rounds.graph.replay, PER_GRAPH
    for lot in pieces(many - 1, _AT_ONCE):
        if lot.start and rounds.ended():
            break
        for _ in range(lot.start, lot.stop, each):
            step()


class _TorchRounds(_Rounds):
    """A round as some twenty operations of torch."""

    def __init__(self, seeding: Seeding, chosen: Tensor, closest: Tensor | None) -> None:
        super().__init__(seeding, chosen)
        if seeding.origin is None:
            scale = 1.0 if seeding.precision is None else seeding.precision.sqrt()
            # Around a row, so that the scale rounds no offset.
            rows = (seeding.rows.to(torch.float64) - seeding.rows[0].to(torch.float64)) * scale
        else:
            rows = seeding.in_frame()
            self._norms = (rows * rows).sum(dim=1)
        self._rows = rows
        self._light = seeding.weights.to(rows.dtype)
        n, device = len(rows), rows.device
        self._closest = torch.full((n,), torch.inf, dtype=rows.dtype, device=device)
        if closest is not None:
            self._closest.copy_(closest)
        self._uniforms = torch.nn.functional.pad(seeding.uniforms, (0, 0, 0, 1))
        self._round = torch.full((1,), len(chosen) - 1, dtype=torch.int64, device=device)
        self._alive = torch.ones(1, dtype=torch.bool, device=device)
        self._zero = torch.zeros((), dtype=torch.float64, device=device)

    def _distances(self, drawn: Tensor) -> Tensor:
        some = self._rows[drawn]
        if self.own.origin is None:
            mode = "donot_use_mm_for_euclid_dist"
            return torch.cdist(some, self._rows, compute_mode=mode) ** 2
        found = torch.addmm(self._norms, some, self._rows.T, alpha=-2.0)
        found += self._norms[drawn, None]
        # Not by a maximum, which might lose a NaN.
        found = torch.where(found < 0.0, 0.0, found)
        return found.scatter_(1, drawn[:, None], 0.0)

    def step(self) -> None:
        """Try the candidates, choose one, and draw the next ones."""
        now, alive = self._round, self._alive
        drawn = self.candidates[now][0]
        reached = torch.minimum(self._distances(drawn), self._closest)
        best = (reached @ self._light).argmin().reshape(1)
        closest = reached[best][0]
        self._closest.copy_(torch.where(alive, closest, self._closest))
        at = now.clamp_max(self.k - 1)
        self.chosen[at] = torch.where(alive, drawn[best], self.chosen[at])
        now += alive
        sums = torch.cumsum(self.own.weights * closest, dim=0)
        total = sums[-1]
        alive &= (total > self.own.stop_at) & (total < torch.inf) & (now < self.k)
        below = torch.minimum(self._uniforms[now][0] * total, torch.nextafter(total, self._zero))
        following = torch.searchsorted(sums, below, right=True).clamp_max(len(sums) - 1)
        self.candidates[now] = following

    def ended(self) -> bool:
        """Whether the cost has fallen, or all points are chosen."""
        return not bool(self._alive)

    def count(self) -> int:
        """The round that would be next."""
        return int(self._round)


class _FusedRounds(_Rounds):
    """A round as two Triton kernels."""

    def __init__(self, seeding: Seeding, chosen: Tensor, closest: Tensor | None) -> None:
        import triton

        from lwcs.kernels.torch import seeding_kernels as kernels

        super().__init__(seeding, chosen)
        self._kernels, rows = kernels, seeding.rows
        (n, d), device = rows.shape, rows.device
        wide = seeding.origin is None
        self._subtiles = max(1, -(-n // (_TILES * TILE)))
        self._tiles = -(-n // (TILE * self._subtiles))
        self._width = max(16, triton.next_power_of_2(self.many))
        self._block_d = min(64, max(16, triton.next_power_of_2(d)))
        dtype = torch.float64 if wide else torch.float32
        # The first round reads `closest` from the other half, as if candidate 0 had been the best.
        self._reached = torch.empty((2, self.many, n), dtype=dtype, device=device)
        other = self._reached[len(chosen) % 2, 0]
        other.fill_(torch.inf)
        if closest is not None:
            other.copy_(closest)
        self._sums = torch.zeros((self.many, self._tiles), dtype=torch.float64, device=device)
        self._state = torch.zeros(5, dtype=torch.int64, device=device)
        self._state[kernels.NEXT.value] = len(chosen) - 1
        self._stop_at = torch.full((1,), seeding.stop_at, dtype=torch.float64, device=device)
        if not wide:
            self._prepare()

    def _prepare(self) -> None:
        """Rows and their squared norms; float32 rows are read as they are."""
        own, (n, d) = self.own, self.own.rows.shape
        assert own.origin is not None
        direct = own.rows.dtype == torch.float32 and own.factor is None
        self._origin = own.origin.to(torch.float32) if direct else own.origin.new_zeros(d).float()
        self._rows = own.rows
        if not direct:
            self._rows = torch.empty((n, d), dtype=torch.float32, device=own.rows.device)
        self._norms = torch.empty(n, dtype=torch.float32, device=own.rows.device)
        for part in pieces(n, _PIECE_VALUES // d):
            moved = own.in_frame(part)
            if not direct:
                self._rows[part] = moved
            self._norms[part] = (moved * moved).sum(dim=1)

    def step(self) -> None:
        """Two launches."""
        self._try()
        self._choose()

    def _try(self) -> None:
        own, (n, d) = self.own, self.own.rows.shape
        known = own.weights, self.candidates, self._reached, self._sums, self._state, n
        sizes = self._tiles, self._subtiles
        shape = {"D": d, "C": self.many, "TILE": TILE, "BLOCK_D": self._block_d}
        if own.origin is None:
            scaled = own.precision is not None
            self._kernels.try_differences[(self._tiles,)](
                own.rows, own.precision if scaled else own.weights, *known, *sizes,
                PRECISION=scaled, num_warps=WARPS, **shape,
            )  # fmt: skip
        else:
            self._kernels.try_products[(self._tiles,)](
                self._rows, self._origin, self._norms, *known, *sizes,
                WIDTH=self._width, MODE=MODE, num_warps=WARPS, **shape,
            )  # fmt: skip

    def _choose(self) -> None:
        own = self.own
        self._kernels.choose[(self.many,)](
            own.weights, own.uniforms, self.candidates, self._reached, self._sums, self.chosen,
            self._state, self._stop_at, len(own.rows), self.k, self._tiles, self._subtiles,
            C=self.many, WIDTH=self._width, TILE=TILE, TILES=_TILES, CHUNK=_CHUNK, num_warps=8,
        )  # fmt: skip

    def _at(self, place: Any) -> int:
        return int(self._state[place.value])

    def ended(self) -> bool:
        """Whether the cost has fallen, or all points are chosen."""
        return self._at(self._kernels.ENDED) == 1

    def count(self) -> int:
        """As `choose` has counted."""
        return self._at(self._kernels.CHOSEN)
