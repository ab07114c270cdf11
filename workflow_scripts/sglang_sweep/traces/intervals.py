"""Unions of time intervals: overlapping streams are busy once, not twice."""

import numpy as np


def union_length(start: np.ndarray, end: np.ndarray) -> float:
    """Length of the union of intervals, in the unit given. Empty and negative intervals count nothing."""
    real = end > start
    start, end = start[real], end[real]
    if not len(start):
        return 0.0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    # a new stretch begins where nothing that started before is still running
    fresh = np.concatenate(([True], start[1:] > reached[:-1]))
    last = np.concatenate((fresh[1:], [True]))
    return float((reached[last] - start[fresh]).sum())
