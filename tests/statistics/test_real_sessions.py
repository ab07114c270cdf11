"""Real A/A sessions: on a machine that changes by itself, arms that change nothing are not told apart."""

import gzip
import json
from pathlib import Path

import pytest
from sglang_sweep.verdict.analysis import analyse

FILE = Path(__file__).parents[1] / "recordings" / "cpu-aa" / "sessions.json.gz"
SESSIONS = json.loads(gzip.decompress(FILE.read_bytes()))


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: f"seed-{session['seed']}")
def test_a_real_session_in_which_nothing_changed_has_no_win_and_no_loss(session):
    found = analyse(session["launches"], {}, session["design"], variants=["same-1", "same-2"])
    assert not found["session"]["void"]
    assert found["session"]["aa"]["launch_sd"] > 0.02  # noise that windows of one launch do not show
    assert [v["name"] for v in found["variants"]] == ["same-1", "same-2", "baseline-prime"]
    assert {v["verdict"] for v in found["variants"]} <= {"INCONCLUSIVE", "NO_DIFFERENCE"}
    assert all(v["ci95"][0] < 1 < v["ci95"][1] for v in found["variants"])


def test_the_sessions_were_launched_in_the_declared_random_order():
    for session in SESSIONS:
        for block in (1, 2, 3):
            launches = [launch for launch in session["launches"] if launch["block"] == block]
            positions = [x["position"] for x in sorted(launches, key=lambda x: x["started_at"])]
            assert positions == sorted(positions)
            assert len(positions) == 4
    orders = [[launch["variant"] for launch in session["launches"]] for session in SESSIONS]
    assert len({tuple(order) for order in orders}) == len(SESSIONS)
