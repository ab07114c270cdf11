"""Numbers are written the same way everywhere."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_sweep.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (89.47, "89.5"),
        (0.0123456, "0.0123"),
        (0.99999, "1.00"),
        (9.996, "10.0"),
        (999.6, "1,000"),
        (12345.6, "12,346"),
        (0.0, "0"),
        (-3.14159, "-3.14"),
        (1.5e-7, "1.50e-07"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    assert numbers.significant(value) == text


@given(st.floats(min_value=1e-4, max_value=1e4, allow_nan=False))
def test_rounding_never_moves_a_number_by_more_than_half_a_percent(value: float) -> None:
    assert float(numbers.significant(value).replace(",", "")) == pytest.approx(value, rel=5.01e-3)


def test_a_quantity_has_a_unit_unless_it_is_missing() -> None:
    assert numbers.quantity(89.5, "tok/s") == "89.5 tok/s"
    assert numbers.quantity(None, "tok/s") == "–"


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0912, "+9.1 %"),
        (-0.396, "−39.6 %"),
        (0.0, "0.0 %"),
        (-0.00001, "0.0 %"),
        (2.5, "+250 %"),
        (None, "–"),
    ],
)
def test_a_change_carries_its_sign(fraction: float | None, text: str) -> None:
    assert numbers.signed_percent(fraction) == text


@given(st.floats(min_value=-0.99, max_value=50, allow_nan=False))
def test_a_change_is_always_a_sign_a_number_and_a_percent_sign(fraction: float) -> None:
    assert re.fullmatch(r"(?:[+−][\d,.]+|0\.0) %", numbers.signed_percent(fraction))


def test_an_interval_that_is_absent_or_half_absent_is_missing() -> None:
    assert numbers.change_interval([1.102, 1.081]) == "+8.1 to +10.2 %"
    assert numbers.change_interval(None) == "–"
    assert numbers.change_interval([None, 1.1]) == "–"
    assert numbers.change_interval([0.9, math.inf]) == "–"


def test_a_tiny_p_value_is_a_bound() -> None:
    assert numbers.p_value(0.00390625) == "0.0039"
    assert numbers.p_value(3e-9) == "< 0.0001"


def test_a_declared_threshold_is_shown_as_declared() -> None:
    assert numbers.threshold(0.02) == "2 %"
    assert numbers.threshold(0.015) == "1.5 %"


@pytest.mark.parametrize(
    ("seconds", "text"), [(42, "42.0 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"), (None, "–")]
)
def test_a_duration_uses_the_largest_fitting_units(seconds: float | None, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_a_moment_is_given_in_utc() -> None:
    assert numbers.moment("2026-11-30T12:26:00+01:00") == "2026-11-30 11:26 UTC"
    assert numbers.moment("yesterday") == "yesterday"


def test_a_count_agrees_with_its_noun() -> None:
    assert numbers.count(1, "launch", "launches") == "1 launch"
    assert numbers.count(3, "block") == "3 blocks"
