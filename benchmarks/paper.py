"""`make paper`: Table 1 and Figures 1 and 2 of the paper, on what is in the folder LWCS_DATA.

Rows go to docs/results/paper (started again, it goes on where it was), tables and figures beside
it. `python -m benchmarks.paper --draw` makes the tables and figures from the rows that are there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import lwcs
from benchmarks.measure import machine
from lwcs.comparing.comparison_data import KNOWN, read_known
from lwcs.comparing.methods import FULL, PEERS, title
from lwcs.comparing.result import Cell, CompareResult, error_text, speedup_text

RESULTS = Path("docs/results")
CLUSTERS, SEEDS, FULL_SEEDS = (100, 500), int(os.environ.get("LWCS_SEEDS", "10")), 10
FILES = {
    "KDD": ("bio_train.dat", "kdd_bio_train.parquet"),
    "CSN": ("csn.parquet",),
    "SONG": ("YearPredictionMSD.txt",),
    "RNA": ("cod-rna", "cod_rna_331152.parquet"),
    "covtype": ("covtype.parquet",),
    "GloVe": ("glove6b_100d_100k.parquet",),
}

# Table 1 of Bachem, Lucic and Krause (KDD 2018): error and its interval in percent, speedup,
# for m = 1000, 2000, 5000.
PAPER_SIZES = (1_000, 2_000, 5_000)
PAPER = {
    ("KDD", 100): {
        "uniform": ((195.1, 20.7, 2244.0), (105.9, 12.9, 809.1), (33.8, 3.4, 183.0)),
        "lightweight": ((18.5, 0.2, 828.1), (12.1, 0.2, 506.0), (6.8, 0.2, 190.2)),
        "sensitivity": ((16.0, 0.3, 124.8), (10.1, 0.2, 113.3), (5.1, 0.1, 81.1)),
    },
    ("CSN", 100): {
        "uniform": ((190.5, 6.2, 557.7), (123.8, 4.2, 210.9), (75.2, 4.0, 48.7)),
        "lightweight": ((24.6, 0.5, 293.5), (16.2, 0.3, 174.0), (8.4, 0.3, 62.2)),
        "sensitivity": ((18.0, 0.4, 61.4), (10.5, 0.3, 55.6), (5.0, 0.3, 35.2)),
    },
    ("SONG", 100): {
        "uniform": ((22.4, 0.3, 8027.1), (16.0, 0.2, 2912.1), (10.0, 0.1, 639.8)),
        "lightweight": ((14.9, 0.1, 1168.2), (9.9, 0.1, 957.5), (5.2, 0.0, 509.3)),
        "sensitivity": ((14.6, 0.1, 144.9), (9.3, 0.1, 139.1), (4.9, 0.0, 127.0)),
    },
    ("RNA", 100): {
        "uniform": ((98.5, 9.8, 773.9), (46.8, 4.3, 414.2), (23.5, 1.6, 161.3)),
        "lightweight": ((29.5, 1.0, 114.7), (18.3, 0.8, 101.9), (8.4, 0.6, 71.8)),
        "sensitivity": ((20.7, 0.7, 11.2), (12.4, 0.5, 11.2), (5.3, 0.5, 10.4)),
    },
    ("KDD", 500): {
        "uniform": ((231.0, 26.6, 979.8), (200.2, 27.2, 648.8), (64.5, 6.1, 240.6)),
        "lightweight": ((33.1, 0.2, 820.0), (24.6, 0.2, 655.5), (15.9, 0.1, 260.7)),
        "sensitivity": ((32.9, 0.4, 101.7), (23.4, 0.2, 97.1), (14.3, 0.1, 83.3)),
    },
    ("CSN", 500): {
        "uniform": ((521.5, 18.3, 79.3), (361.7, 9.7, 60.9), (212.3, 8.0, 35.9)),
        "lightweight": ((77.5, 0.9, 74.6), (46.5, 0.4, 69.1), (24.5, 0.2, 39.8)),
        "sensitivity": ((57.8, 0.8, 31.8), (32.4, 0.3, 31.2), (15.8, 0.2, 26.7)),
    },
    ("SONG", 500): {
        "uniform": ((43.0, 0.2, 4951.6), (32.3, 0.2, 2866.3), (21.4, 0.1, 992.2)),
        "lightweight": ((31.4, 0.1, 2740.6), (22.7, 0.1, 2051.8), (14.2, 0.0, 914.1)),
        "sensitivity": ((33.0, 0.1, 137.8), (23.9, 0.1, 134.1), (14.7, 0.0, 128.4)),
    },
    ("RNA", 500): {
        "uniform": ((786.5, 75.3, 58.2), (312.1, 19.3, 52.4), (163.4, 9.2, 48.4)),
        "lightweight": ((189.2, 8.7, 49.8), (88.0, 2.7, 48.7), (39.5, 2.0, 39.0)),
        "sensitivity": ((68.8, 1.0, 8.0), (36.4, 0.4, 7.8), (17.8, 0.2, 7.5)),
    },
}  # fmt: skip


def available(folder: Path) -> dict[str, Path]:
    """The data sets whose files exist."""
    return {
        name: folder / file
        for name, files in FILES.items()
        for file in files[::-1]
        if (folder / file).exists()
    }


def run(folder: Path) -> CompareResult:
    """Run all experiments whose data exists."""
    result = CompareResult(())
    for name, path in available(folder).items():
        called, rows = read_known(name, path)
        print(f"{called}: {rows.shape[0]:,} × {rows.shape[1]:,}", flush=True)
        result += lwcs.compare(
            rows,
            CLUSTERS,
            repeats=SEEDS,
            full_repeats=FULL_SEEDS,
            name=called,
            path=RESULTS / "paper" / f"{name}.parquet",
            progress=True,
        )
    return result


STEPS = RESULTS / "paper" / "GloVe_steps.parquet"


def run_steps(folder: Path) -> None:
    """GloVe, where faiss is hardest to beat: more polish steps, interleaved with it."""
    path = available(folder).get("GloVe")
    if path is None:
        return
    called, rows = read_known("GloVe", path)
    lwcs.compare(
        rows,
        CLUSTERS,
        sizes=(10_000, 20_000),
        methods=("full", "lightweight", "faiss"),
        polish=(0, 1, 2, 25),
        repeats=SEEDS,
        full_repeats=3,
        name=called,
        path=STEPS,
        progress=True,
    )


def there() -> CompareResult:
    """Results of earlier runs."""
    result = CompareResult(())
    for name in KNOWN:
        path = RESULTS / "paper" / f"{name}.parquet"
        if path.exists():
            result += lwcs.load(path)
    return result


def beside_the_paper(result: CompareResult) -> str:
    """Every cell of Table 1 whose data exists, ours and the paper's."""
    lines = [
        "| k | data | method | m | error, ours | error, paper | agrees | speedup, ours | paper |",
        "|---:|---|---|---:|---:|---:|---|---:|---:|",
    ]
    for name in result.data:
        for k in result.clusters(name):
            known = PAPER.get((name.split(" ")[0], k), {})
            cells = {(c.key.method, c.key.polish, c.key.size): c for c in result.cells(name, k)}
            for method, figures in known.items():
                for size, (error, half, speedup) in zip(PAPER_SIZES, figures, strict=True):
                    cell = cells[method, 0, size]
                    lines.append(
                        f"| {k} | {name} | {method} | {size:,} | {error_text(cell)} | "
                        f"{error} % ± {half} | {verdict(cell, error, half)} | "
                        f"{speedup_text(cell)} | {speedup}× |"
                    )
    return "\n".join(lines) + "\n"


def verdict(cell: Cell, error: float, half: float) -> str:
    """Whether the two intervals overlap."""
    gap = 100 * cell.error - error
    if abs(gap) <= half + 100 * cell.interval:
        return "yes"
    return "better" if gap < 0 else "worse"


def targets(result: CompareResult) -> str:
    """Targets of the refined coreset, cell by cell; and the other libraries."""
    lines = ["| data | k | claim | measured | holds |", "|---|---:|---|---|---|"]
    for name in result.data:
        for k in result.clusters(name):
            cells = {(c.key.method, c.key.polish, c.key.size): c for c in result.cells(name, k)}
            for claim, measured, holds in _claims(cells, result.sizes()):
                said = "yes" if holds else "NO"
                lines.append(f"| {name} | {k} | {claim} | {measured} | {said} |")
    return "\n".join(lines) + "\n"


def _claims(
    cells: dict[tuple[str, int, int], Cell], sizes: list[int]
) -> list[tuple[str, str, bool]]:
    claims = []
    for m in sizes:
        light, sensitivity = cells["lightweight", 0, m], cells["sensitivity", 0, m]
        refined, polished = cells["refined", 0, m], cells["refined", 1, m]
        if m >= 10_000:
            claims.append(
                (
                    f"refined at most 1 point worse than sensitivity, m = {m:,}",
                    f"{100 * refined.error:.2f} % against {100 * sensitivity.error:.2f} %",
                    refined.error <= sensitivity.error + 0.01,
                )
            )
        if m <= 5_000:
            claims.append(
                (
                    f"refined + 1 step at most half of lightweight's error, m = {m:,}",
                    f"{100 * polished.error:.2f} % against {100 * light.error:.2f} %",
                    polished.error <= 0.5 * light.error,
                )
            )
    return claims + _against_peers(cells)


def _against_peers(cells: dict[tuple[str, int, int], Cell]) -> list[tuple[str, str, bool]]:
    claims = []
    for peer in ("minibatch", "faiss"):
        if (peer, 0, 0) not in cells:
            continue
        theirs = cells[peer, 0, 0]
        ours = [
            cell
            for (method, _, _), cell in cells.items()
            if method not in (*FULL, *PEERS)
            and cell.seconds <= theirs.seconds
            and cell.error <= theirs.error
        ]
        best = min(ours, key=lambda cell: cell.error, default=None)
        said = (
            "none"
            if best is None
            else (
                f"{title(best.key.method, best.key.polish)}"
                f"{f', m = {best.key.size:,}' if best.key.size else ''}: "
                f"{100 * best.error:.1f} % in {best.seconds:.2f} s"
            )
        )
        claims.append(
            (
                f"one of ours is no slower and no worse than {peer} "
                f"({100 * theirs.error:.1f} % in {theirs.seconds:.2f} s)",
                said,
                best is not None,
            )
        )
    return claims


def write(result: CompareResult) -> None:
    """All tables and figures."""
    seeds = sorted(
        {len(c.errors) for d in result.data for k in result.clusters(d) for c in result.cells(d, k)}
    )
    text = [
        f"Measured {machine()}, by `make paper`; {'–'.join(map(str, seeds))} seeds a cell, ± 95 % "
        "intervals of the mean. One start of greedy k-means++, at most 300 iterations, tol = 1e-4, "
        "for every method; times are of building and solving. FULL's cost is the mean of all "
        "solutions on all rows, its time that of the faster solver.",
        "",
        result.to_markdown(),
    ]  # fmt: skip
    (RESULTS / "paper_table.md").write_text("\n".join(text), encoding="utf-8")
    (RESULTS / "paper_cells.md").write_text(beside_the_paper(result), encoding="utf-8")
    (RESULTS / "paper_targets.md").write_text(targets(result), encoding="utf-8")
    if STEPS.exists():
        steps = lwcs.load(STEPS)
        lines = ["| data | k | claim | measured | holds |", "|---|---:|---|---|---|"]
        for name in steps.data:
            for k in steps.clusters(name):
                cells = {(c.key.method, c.key.polish, c.key.size): c for c in steps.cells(name, k)}
                for claim, measured, holds in _against_peers(cells):
                    said = "yes" if holds else "NO"
                    lines.append(f"| {name} | {k} | {claim} | {measured} | {said} |")
        text = [*lines, "", steps.to_markdown()]
        (RESULTS / "paper_steps.md").write_text("\n".join(text), encoding="utf-8")
    # For the front page: the first data set of the paper.
    first = CompareResult(tuple(t for t in result.trials if t.key.data == "KDD"))
    if first.trials:
        front = lwcs.CompareDisplay.from_result(first, x="time")
        front.save(RESULTS / "kdd.svg", RESULTS / "kdd.png")
    for x in ("size", "time"):
        display = lwcs.CompareDisplay.from_result(result, x=x)
        display.save(RESULTS / f"error_by_{x}.svg", RESULTS / f"error_by_{x}.png")


if __name__ == "__main__":
    (RESULTS / "paper").mkdir(parents=True, exist_ok=True)
    if "--draw" in sys.argv:
        write(there())
    elif "LWCS_DATA" not in os.environ:
        sys.exit("LWCS_DATA names no folder of data; see docs/results/paper.md")
    else:
        found = run(Path(os.environ["LWCS_DATA"]))
        run_steps(Path(os.environ["LWCS_DATA"]))
        write(found)
