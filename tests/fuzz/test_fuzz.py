"""Mutated inputs over all loaders, readers, commands and estimators, many or very many."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.workers import main


def cases(default: int) -> int:
    return int(os.environ.get("FUZZ_CASES", default))


def test_mutated_inputs_give_a_clear_error_or_an_equal_object():
    report = main(cases(2_000), 1)
    assert not report.wrong, "\n".join(report.wrong[:20])


@pytest.mark.soak
def test_a_hundred_thousand_mutated_inputs():
    report = main(cases(100_000), os.cpu_count() or 1)
    assert report.cases >= cases(100_000) * 0.99
    assert not report.wrong, "\n".join(report.wrong[:40])
