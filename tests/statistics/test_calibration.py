"""The calibration's vectorised designs do what the product does, and the study is reproducible."""

import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from sglang_sweep.calibration import designs, simulate
from sglang_sweep.calibration.calibration import OURS, run_scenario, study
from sglang_sweep.calibration.calibration_report import (
    conclusions,
    draw,
    hole_table,
    minutes_table,
    report,
)
from sglang_sweep.calibration.holes import study_hole
from sglang_sweep.calibration.minutes import study_minutes
from sglang_sweep.calibration.simulate import Scenario
from sglang_sweep.statistics.design import Design
from sglang_sweep.verdict.session import examine
from sglang_sweep.verdict.settled import decide_arms

CODES = {"WIN": designs.WIN, "LOSS": designs.LOSS, "NO_DIFFERENCE": designs.SAME}
EFFECTS = [0.0, 0.03, -0.1, 0.0]
CONFIG = {
    "seed": 7,
    "replications": 150,
    "smallest_effect": 0.02,
    "alpha": 0.05,
    "fixed_blocks": 10,
    "max_blocks": 12,
    "effects": EFFECTS,
    "host": {"launch_sd": 0.01},
    "scenarios": [{"name": "still"}, {"name": "drift", "drift": "linear"}],
}


def records(campaign, logs, blocks_of):
    names = ["baseline", "baseline-prime", *(f"v{i}" for i in range(logs.shape[1] - 2))]
    values = {
        name: {
            block + 1: math.exp(logs[block, arm].mean())
            for block in blocks_of(name)
            if not np.isnan(logs[block, arm, 0])
        }
        for arm, name in enumerate(names)
    }
    return campaign(values)


@pytest.mark.parametrize(
    "scenario", [Scenario("normal"), Scenario("noisy", launch_sd=0.025, missing_rate=0.1)]
)
def test_the_fixed_design_reaches_the_verdicts_of_the_product(campaign, design, scenario):
    logs = simulate.launches(scenario, EFFECTS, 10, 12, np.random.default_rng(1))
    outcome = designs.ours_fixed(logs, Design())
    for index in range(12):
        e = examine(
            records(campaign, logs[index], lambda _: range(10)), {}, design | {"smallest_effect": 0.02}
        )
        codes = [CODES.get(str(e.decisions[f"v{i}"].verdict), designs.OPEN) for i in range(len(EFFECTS))]
        assert codes == list(outcome.verdict[index])
        assert bool(e.void) == outcome.void[index]


@pytest.mark.parametrize(
    "scenario", [Scenario("normal"), Scenario("noisy", launch_sd=0.025, missing_rate=0.1)]
)
def test_the_adaptive_design_stops_when_and_as_the_product_does(campaign, design, scenario):
    settings = design | {"mode": "adaptive", "smallest_effect": 0.02, "max_blocks": 8}
    logs = simulate.launches(scenario, EFFECTS, 8, 6, np.random.default_rng(2))
    outcome = designs.ours_adaptive(logs, Design(mode="adaptive", max_blocks=8))
    for index in range(6):
        arms = ["baseline", "baseline-prime", *(f"v{i}" for i in range(len(EFFECTS)))]
        ran: dict[str, list[int]] = {arm: [] for arm in arms}
        for block in range(8):
            seen = records(campaign, logs[index], ran.__getitem__)
            for name, decision in decide_arms(seen, {}, settings, variants=arms[2:]).items():
                ran[name] += [block] if decision.go_on else []
        e = examine(records(campaign, logs[index], ran.__getitem__), {}, settings)
        codes = [CODES.get(str(e.decisions[f"v{i}"].verdict), designs.OPEN) for i in range(len(EFFECTS))]
        assert codes == list(outcome.verdict[index])
        assert sum(map(len, ran.values())) == outcome.launches[index]


def test_a_drift_that_hits_all_arms_alike_does_not_show_in_blocks():
    still, drifting = Scenario("s", window_sd=0.0, launch_sd=1e-9), Scenario("d", 1e-9, 0.0, drift="linear")
    for scenario, spread in ((still, 1e-6), (drifting, 2e-3)):
        logs = simulate.launches(scenario, [0.0] * 4, 10, 20, np.random.default_rng(3))
        ratios, _ = designs.contrasts(logs)
        assert np.abs(ratios.mean(axis=1)).max() < spread


def test_a_small_study_keeps_its_error_rates_and_is_reproducible():
    table = study(CONFIG)
    assert table.equals(study(CONFIG, workers=2))
    ours = table[table.design.isin(OURS)]
    error = math.sqrt(0.05 * 0.95 / CONFIG["replications"])
    assert (ours.false_win <= 0.05 + 3 * error).all()
    assert (ours.coverage >= 0.95 - 3 * ours.se_coverage - 0.005).all()
    assert (ours[ours.design == OURS[0]].launches < 0.8).all()
    blind = table[(table.design == "all A, then all B") & (table.scenario == "drift")]
    assert blind.false_claim.item() > 0.5


def test_a_scenario_does_not_depend_on_its_neighbours():
    alone = run_scenario(Scenario("drift", drift="linear"), CONFIG)
    table = study(CONFIG)
    together = table[(table.scenario == "drift") & (table.design == OURS[0])]
    assert alone[0]["launches"] == together.launches.item()


def test_the_report_shows_every_scenario_and_the_figure_is_drawn(tmp_path):
    table = study(CONFIG | {"replications": 20})
    text = report(table, CONFIG, "calibration.png")
    assert all(name in text for name in ("still", "drift", "one launch per arm", "calibration.png"))
    assert any("median scenario" in sentence for sentence in conclusions(table, CONFIG))
    draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_noisy_arm_is_the_variant_it_says():
    scenario = Scenario("noisy", window_sd=0.0, noisy_arm=10.0, noisy_index=2)
    for schedule, baselines in ((simulate.launches, 2), (simulate.arm_after_arm, 1)):
        logs = schedule(scenario, [0.0] * 4, 10, 30, np.random.default_rng(5))
        assert logs[..., 0].std(axis=(0, 1)).argmax() == baselines + 2


HOLES = yaml.safe_load(
    (Path(__file__).parents[2] / "config" / "calibration.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("hole", HOLES["holes"], ids=lambda hole: hole["name"])
def test_no_truth_that_a_mean_hides_misleads_or_is_kept_silent(hole):
    for row in study_hole(hole, HOLES | {"hole_replications": 8, "max_blocks": 6}):
        assert row["wrong"] <= 0.25  # of eight campaigns; the study itself draws hundreds
        assert row["silent"] == 0
        assert sum(row["verdicts"].values()) == pytest.approx(1)


def test_the_holes_are_in_the_report():
    rows = study_hole(HOLES["holes"][0], HOLES | {"hole_replications": 2, "max_blocks": 4})
    text = "\n".join(hole_table(rows, HOLES))
    assert "retracts" in text and "adaptive" in text


def test_longer_windows_and_the_quieter_metric_take_a_third_fewer_minutes_and_rivals_are_fooled():
    rows = {row["way"]: row for row in study_minutes(HOLES | {"replications": 200})}
    before, after = rows["fixed, throughput, 3.9 s timed (as in 0.1)"], rows["fixed, TPOT, 2 windows of 10 s"]
    assert after["minutes"] < 2 / 3 * before["minutes"] and after["found"] >= 0.8
    adaptive = [row for name, row in rows.items() if name.startswith("adaptive")]
    assert adaptive[1]["minutes"] < 2 / 3 * adaptive[0]["minutes"]
    ours = [row for name, row in rows.items() if name.startswith(("fixed", "adaptive"))]
    assert (
        max(row["false_claim"] for row in ours)
        < 0.1
        < min(row["false_claim"] for row in rows.values() if row not in ours)
    )
    assert all(name in "".join(minutes_table(list(rows.values()), HOLES)) for name in rows)
