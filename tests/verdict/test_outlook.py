"""The plan warns of what is allowed and hardly meant."""

from dataclasses import replace

from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.verdict.outlook import warnings


def test_too_few_blocks_and_more_concurrency_than_requests_are_said() -> None:
    demo = load_campaign("cpu-demo")
    assert warnings(demo) == []
    few = replace(demo, design=demo.design.model_copy(update={"blocks": 1}))
    assert "launched once" in warnings(few)[0]
    crowded = tuple(w.model_copy(update={"concurrency": 99}) for w in demo.workloads)
    assert "allows 99 at a time" in warnings(replace(demo, workloads=crowded))[0]
