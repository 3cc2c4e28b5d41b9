"""How long the stages of a job took: seconds, rows, passes and bytes by stage.

`bytes` are those of the rows that were processed, as they are measured: rows × columns × the size
of a value, or for sparse rows the stored values and their places. They are 0 where a source does
not know the type of its values (arrays on a cluster, sources of your own without a `dtype`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lwcs.foundation.fields import Fields

    Timings = dict[str, dict[str, float | int]]

TIMINGS = "timings"
"""Where the details of a coreset have them."""
TOTAL = "total"
_MOST_STAGES = 1_000
_COUNTS = ("rows", "passes", "bytes")


@dataclass(slots=True)
class Tally:
    """What a stage has come to; stages that are not passes over the rows have no rows."""

    seconds: float = 0.0
    rows: int = 0
    passes: int = 0
    bytes: int = 0

    def add(self, other: Tally) -> None:
        """Add what the same stage has come to another time."""
        self.seconds += other.seconds
        self.rows += other.rows
        self.passes += other.passes
        self.bytes += other.bytes

    def plain(self) -> dict[str, float | int]:
        """As JSON holds it."""
        return {
            "seconds": self.seconds,
            "rows": self.rows,
            "passes": self.passes,
            "bytes": self.bytes,
        }


class Tallies:
    """The tallies of a job by stage; threads may add to them at the same time."""

    def __init__(self) -> None:
        self._lock, self._stages = threading.Lock(), dict[str, Tally]()

    def add(self, stage: str, tally: Tally) -> None:
        """Count what a stage has come to."""
        with self._lock:
            self._stages.setdefault(stage, Tally()).add(tally)

    def timings(self, seconds: float) -> Timings:
        """Plain numbers by stage, and in total; `seconds` is the time of the whole job.

        Stages that ran beside one another on threads add up to more than that.
        """
        total = Tally()
        with self._lock:
            for tally in self._stages.values():
                total.add(tally)
            found = {stage: tally.plain() for stage, tally in self._stages.items()}
        total.seconds = seconds
        return found | {TOTAL: total.plain()}


def without_timings(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a coreset that say what it is, not how long it took."""
    return {name: value for name, value in details.items() if name != TIMINGS}


def read_timings(fields: Fields) -> Timings:
    """The timings of a file, checked; none if it is an older one."""
    if TIMINGS not in fields:
        return {}
    stages = fields.inner(TIMINGS)
    if len(list(stages)) > _MOST_STAGES:
        raise fields.fail(TIMINGS, f"an object of at most {_MOST_STAGES:,} stages")
    return {stage: _read_stage(stages, stage) for stage in stages}


def _read_stage(stages: Fields, stage: str) -> dict[str, float | int]:
    own = stages.inner(stage)
    found: dict[str, float | int] = {"seconds": own.number("seconds", least=0.0)}
    found |= {name: own.integer(name) for name in _COUNTS}
    if set(own) != set(found):
        raise stages.fail(stage, f"an object with the fields {', '.join(found)}")
    return found
