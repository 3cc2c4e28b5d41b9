"""Numbers and names as people read them."""

from __future__ import annotations

import pytest

from lwcs.runtime.formatting import number, percent, seconds, shortened, signed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (2e-5, "20 µs"),
        (0.0213, "21.3 ms"),
        (0.9996, "1 s"),
        (3.0, "3 s"),
        (59.99, "1 min"),
        (90.0, "1.5 min"),
        (43_200.0, "12 h"),
    ],
)
def test_times_have_the_unit_that_makes_them_short(value, text):
    assert seconds(value) == text


def test_parts_are_percentages_that_can_be_compared():
    shown = [percent(x).replace("\N{NO-BREAK SPACE}", " ") for x in (0.0, 1e-6, 0.0004, 0.05, 0.5)]
    assert shown == ["0.0 %", "< 0.001 %", "0.04 %", "5.00 %", "50.0 %"]


def test_differences_have_a_sign_and_zero_has_none():
    assert [signed(x) for x in (0.0, -0.001, 0.5, -2.345)] == ["0", "0", "+0.50", "−2.35"]
    assert [signed(x, 1) for x in (0.04, 0.25, -1234.0)] == ["0", "+0.2", "−1,234"]


def test_large_and_small_numbers_have_a_power_of_ten():
    shown = [number(x) for x in (0.0, 12.5, 1234.0, -1.5e12, 3e-7, float("inf"))]
    assert shown == ["0", "12.5", "1,234", "−1.5 × 10¹²", "3 × 10⁻⁷", "not known"]


def test_long_names_lose_their_middle():
    assert shortened("short", 10) == "short"
    assert shortened("Horizontal_Distance_To_Hydrology", 20) == "Horizontal_Di…rology"
