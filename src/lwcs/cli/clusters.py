"""The clusters of a model, as `lwcs inspect` shows them: how large, and how real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

CLUSTERS = "table_of_clusters"
PAIRS = "pairs_not_told_apart"


def clusters_of(model: Any) -> dict[str, Any]:
    """What a model knows of its clusters: one list per column, and pairs that may be one."""
    record, stability = model.fitted_on_, getattr(model, "stability_", None)
    if stability is not None:
        names = ("share", "share_error", "score", "jaccard", "center_error")
        columns = {name: getattr(stability, name).tolist() for name in names}
        return {
            "n_bootstrap": stability.n_bootstrap,
            CLUSTERS: columns,
            PAIRS: [list(pair) for pair in stability.pairs],
        }
    if record is None:
        return {}
    errors = record.share_variances**0.5
    return {CLUSTERS: {"share": record.shares.tolist(), "share_error": errors.tolist()}}


def show_clusters(facts: dict[str, Any], console: Console) -> None:
    """Print a table of them, the least stable first; the smallest, if nothing is known of that."""
    from rich.table import Table

    from lwcs.choosing.stability_result import SHOWN, pair_words, share_words

    if CLUSTERS not in facts:
        return
    columns = facts[CLUSTERS]
    judged = "score" in columns
    by = columns["score" if judged else "share"]
    order = sorted(range(len(by)), key=by.__getitem__)
    table = Table("cluster", "share", *(("score", "jaccard", "center error") if judged else ()))
    for each in order[:SHOWN]:
        cells = [str(each), share_words(columns["share"][each], columns["share_error"][each])]
        if judged:
            cells += [f"{columns[name][each]:.2f}" for name in ("score", "jaccard")]
            cells.append(f"{columns['center_error'][each]:.3g}")
        table.add_row(*cells)
    console.print(table)
    if len(order) > SHOWN:
        least = f"score {by[order[SHOWN]]:.2f} or more" if judged else "are no smaller"
        console.print(f"and {len(order) - SHOWN} more, which {least}")
    if judged:
        console.print(pair_words(facts[PAIRS]))
