import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sglang_sweep.traces.intervals import union_length

interval = st.tuples(st.integers(0, 60), st.integers(0, 20))


@given(st.lists(interval, max_size=30))
def test_the_union_counts_every_moment_once(intervals):
    start = np.array([begin for begin, _ in intervals], dtype=float)
    end = np.array([begin + length for begin, length in intervals], dtype=float)
    covered = {moment for begin, length in intervals for moment in range(begin, begin + length)}
    assert union_length(start, end) == len(covered)


def test_intervals_that_end_before_they_begin_count_nothing():
    assert union_length(np.array([5.0]), np.array([3.0])) == 0
