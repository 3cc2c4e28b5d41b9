"""`python -m benchmarks.structure [--markdown FILE]`: what is said of data whose truth is known.

Forty data sets and 20 seeds: how often `choose_k` finds the number of clusters, how often its
answer flips with the seed, and whether `stability` tells whole clusters from parts of one.
LWCS_RUNS changes the number of seeds, as a factor.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

import lwcs
from benchmarks.measure import machine
from benchmarks.structure_data import KnownData, known_data, segment
from lwcs.sizing.stability import DOUBTFUL, STABLE

PART = os.environ.get("LWCS_RUNS", "1")
SEEDS = max(2, round(20 * float(PART)))
BOOTSTRAP = 5
# Tables with a segment of 6 %: some, and those where parts of its neighbour hide its valley.
SEGMENTS = (1, 2, 3, 4, 6, 8, 9, 41, 44, 48, 57, 104)
SEGMENT_SCORE = 0.95


@dataclass(frozen=True, slots=True)
class Findings:
    """What was said of one data set, over all seeds."""

    data: str
    truth: int | None
    chosen: list[int | None]
    outcomes: list[str]
    whole: list[float]
    """Scores of clusters that are a true one."""
    parts: list[float]
    """Scores of parts of a true one."""

    @property
    def right(self) -> float:
        """How often the number of clusters was found."""
        return float(np.mean([k == self.truth for k in self.chosen]))

    @property
    def flips(self) -> float:
        """How often the answer was another one than for most seeds."""
        return 1.0 - Counter(self.chosen).most_common(1)[0][1] / len(self.chosen)


@cache
def _all() -> list[KnownData]:
    return list(known_data())


def scores(X: np.ndarray, whose: np.ndarray, k: int, seed: int) -> tuple[list[float], list[float]]:
    """Scores of whole clusters and of parts of one, after a fit with k clusters."""
    model = lwcs.CoresetKMeans(k, random_state=seed, n_jobs=1).fit(X)
    found = model.stability(n_bootstrap=BOOTSTRAP, random_state=seed).score
    table = np.zeros((k, int(whose.max()) + 1))
    np.add.at(table, (model.labels_, whose), 1)
    pure = table.max(axis=1) / np.maximum(table.sum(axis=1), 1.0) > 0.95
    part = table.max(axis=1) / table.sum(axis=0)[table.argmax(axis=1)]
    return list(found[pure & (part > 0.95)]), list(found[pure & (part < 0.6)])


def findings(number: int) -> Findings:
    """Ask of one data set with every seed; its stability with the true k, and with one more."""
    data = _all()[number]
    found = Findings(data.name, data.truth, [], [], [], [])
    with warnings.catch_warnings(action="ignore"):
        for seed in range(SEEDS):
            choice = lwcs.choose_k(
                data.rows, data.ks, size=data.size, n_bootstrap=BOOTSTRAP, random_state=seed,
                n_jobs=1,
            )  # fmt: skip
            found.chosen.append(choice.k)
            found.outcomes.append(choice.outcome)
            # Every other seed has one cluster more than there are.
            k = (data.truth or 2) + seed % 2
            whole, parts = scores(data.rows, data.whose, k, seed)
            found.whole.extend(whole)
            found.parts.extend(parts)
    return found


def segment_scores() -> list[float]:
    """Scores of the segments of 6 % wherever a fit has found them, with k to k + 2 clusters."""
    found = []
    for seed in SEGMENTS:
        X, whose = segment(seed)
        true = int(whose.max()) + 1
        for k in range(true, true + 3):
            model = lwcs.CoresetKMeans(k, random_state=seed, n_jobs=1).fit(X)
            inside = [np.sum((model.labels_ == j) & (whose == true - 1)) for j in range(k)]
            own = int(np.argmax(inside))
            union = np.sum((model.labels_ == own) | (whose == true - 1))
            if inside[own] / union > 0.9:
                result = model.stability(n_bootstrap=BOOTSTRAP, random_state=seed)
                found.append(float(result.score[own]))
    return found


def wine() -> Counter[str]:
    """What is said of standardised wine: 178 rows of three cultivars."""
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    choices = [lwcs.choose_k(X, range(2, 9), random_state=seed) for seed in range(SEEDS)]
    return Counter(f"k = {each.k}" if each.k else each.outcome for each in choices)


def _counted(counts: Counter[object]) -> str:
    return ", ".join(
        f"{'none' if each is None else each}{f' ({n})' if len(counts) > 1 else ''}"
        for each, n in counts.most_common()
    )


def page() -> Iterator[str]:
    """The page."""
    yield "# What is said of data whose truth is known\n"
    how = "make structure" if PART == "1" else f"LWCS_RUNS={PART} make structure"
    yield f"Measured on {machine().partition(', ')[2]}, by `{how}`.\n"
    yield (
        f"{len(_all())} data sets, {SEEDS} seeds each; the rows are the same for every seed, which "
        "is that of draws, solutions and resamples. `choose_k`: how often it recommends the true "
        "number of clusters (none where there is a single group), how often it says something else "
        "than for most seeds, and what it says (how often). Aim: 90 % right, at most 5 % flips. "
        f"`stability(n_bootstrap={BOOTSTRAP})` of fits with the true number of clusters (2 for a "
        "single group), and for every other seed with one more: the least score of clusters that "
        "are a whole true one (95 % of it, and little else), and the largest one of parts of one "
        f"(less than 60 %). Aim: above {STABLE} and below {DOUBTFUL}.\n"
    )
    yield "| data | truth | right | flips | answers | whole | least | parts | largest |"
    yield "|---|---:|---:|---:|---|---:|---:|---:|---:|"
    found = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as run:
        for each in run.map(findings, range(len(_all()))):
            found.append(each)
            cells = [
                each.data, "none" if each.truth is None else each.truth, f"{each.right:.0%}",
                f"{each.flips:.0%}", _counted(Counter(each.chosen)),
                len(each.whole), f"{min(each.whole):.2f}" if each.whole else "–",
                len(each.parts), f"{max(each.parts):.2f}" if each.parts else "–",
            ]  # fmt: skip
            yield f"| {' | '.join(map(str, cells))} |"
    whole = np.array([score for each in found for score in each.whole])
    parts = np.array([score for each in found for score in each.parts])
    silent = Counter(what for each in found if each.truth is None for what in each.outcomes)
    yield (
        f"\nOf all runs of `choose_k`, {np.mean([each.right for each in found]):.1%} are right, "
        f"and {np.mean([each.flips for each in found]):.1%} flip. Of data without structure it "
        f"says: {_counted(silent)}. Of whole clusters, {np.mean(whole > STABLE):.1%} score above "
        f"{STABLE}; of parts, {np.mean(parts < DOUBTFUL):.1%} score below {DOUBTFUL}.\n"
    )
    yield (
        "The segment beside a long cluster is not found by `choose_k`: k-means with 2 centers cuts "
        "the long one, and with 3 it is cut, too.\n"
    )
    segments = np.array(segment_scores())
    yield (
        f"A tight segment of 6 % beside one to three larger clusters of unequal spread, in "
        f"{len(SEGMENTS)} tables that are fitted with the true number of clusters, and with one "
        f"and two more: {int((segments >= SEGMENT_SCORE).sum())} of the {len(segments)} fits that "
        f"have found it score it {SEGMENT_SCORE} or more, the least {segments.min():.2f}.\n"
    )
    yield f"Of standardised wine (178 rows, three cultivars), `choose_k` says: {_counted(wine())}."


def main() -> None:
    """Print the page, or write it, too."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure", description=__doc__)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page there too")
    options = parser.parse_args()
    lines = []
    with warnings.catch_warnings(action="ignore"):
        for line in page():
            lines.append(line)
            print(line, flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
