"""The report's part on ladders, from launch records to sentences."""

from types import SimpleNamespace
from typing import Any

from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.report.document import Items, Table
from sglang_sweep.report.gather import ladders
from sglang_sweep.report.record import ReportData
from sglang_sweep.report.sections import _ladders

from tests.launch_records import launch, window

BASE = {1: 10.0, 2: 18.0, 4: 30.0, 8: 40.0}
MORE = {1: 12.0, 2: 20.0, 4: 28.0, 8: 32.0}


def record(arm: str, block: int, curve: dict[int, float]) -> dict[str, Any]:
    windows = [
        window(
            workload=f"chat-{load}",
            level=float(load),
            metrics={
                "output_throughput": value * (1 + 0.01 * block),
                "mean_tpot_ms": 1000 * load / value,
                "attainment": 1.0 if load < 8 else 0.5,
                "slo_margin": 4 / load * (1 + 0.05 * block),
            },
        )
        for load, value in curve.items()
    ]
    return launch(variant=arm, block=block, windows=windows)


def test_a_ladder_is_told_with_capacity_and_crossing() -> None:
    records = [
        record(arm, block, curve)
        for block in range(3)
        for arm, curve in (("baseline", BASE), ("baseline-prime", BASE), ("radix-off", MORE))
    ]
    found: Any = ladders(SimpleNamespace(campaign=load_campaign("cpu-loads")), records)  # type: ignore[arg-type]
    data = ReportData.model_validate({"ladders": found})
    table, said = _ladders(SimpleNamespace(beside=data), {})  # type: ignore[arg-type]
    assert isinstance(table, Table) and isinstance(said, Items)
    assert [row.cells[:2] for row in table.rows[:4]] == [["baseline", load] for load in "1248"]
    base, other = map(str, said.items)
    assert base.startswith("baseline: carries 4.20 [") and "requests at once within the objectives" in base
    assert "crosses the baseline's at 3.04 [" in other
    assert {row.load for row in data.ladders[0].levels if row.best} == {1, 2, 4, 8}
