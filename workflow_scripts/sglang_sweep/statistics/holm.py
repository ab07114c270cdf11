"""Holm's step-down correction (1979), for many families at once.

statsmodels' multipletests does one family at a time, and a garbage collection with each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def holm_adjusted(p: Array) -> Array:
    """Return adjusted p-values; each family lies along the last axis."""
    order = np.argsort(p, axis=-1)
    steps = np.arange(p.shape[-1], 0, -1)
    stepped = np.minimum(1.0, np.maximum.accumulate(np.take_along_axis(p, order, -1) * steps, axis=-1))
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, stepped, -1)
    return adjusted


def holm(p_values: Mapping[str, float | None]) -> dict[str, float]:
    """Return adjusted p-values by name; a member without a p-value still counts in the family."""
    raw = np.array([1.0 if p is None else p for p in p_values.values()])
    return {name: float(p) for name, p in zip(p_values, holm_adjusted(raw), strict=True)}
