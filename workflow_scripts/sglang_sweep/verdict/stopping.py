"""Whether an arm is launched once more: asked by every launch job, from the results of the blocks before."""

from pathlib import Path

from sglang_sweep.evidence.arm import assess_arm
from sglang_sweep.files import places
from sglang_sweep.files.launches import read_launch
from sglang_sweep.plan.declaration import declared, declared_design
from sglang_sweep.plan.schedule import Arm
from sglang_sweep.plan.sweep import RESULTS, Sweep


def why_not_run(sweep: Sweep, folder: str, block: int, results: Path = RESULTS) -> str | None:
    """Why the launch of ``folder`` in ``block`` would add nothing, or None when it is to be made.

    A failure or a change that never engaged stops after the launch that confirms it; in adaptive mode an arm
    also stops when its verdict is settled, and the baseline when no arm is left. In fixed mode only the arm
    itself is looked at, and its baseline is always launched.
    """
    arms = sweep.schedule.arms
    arm = sweep.schedule.arm(folder)
    twins = [other for other in arms if other.variant.name == sweep.campaign.baseline.name]
    is_baseline = arm in twins
    adaptive = sweep.campaign.design.mode == "adaptive"
    if is_baseline and not adaptive:
        return None
    shown = arms if adaptive else (*twins, arm)
    earlier = {other.name: _earlier(sweep, other, block, results) for other in shown}
    baseline = [path for twin in twins for path in earlier[twin.name]]
    # With one launch a failure is unconfirmed and a speed untested: nothing can be settled yet.
    if not is_baseline and len(earlier[arm.name]) < 2:
        return None
    from sglang_sweep.verdict.settled import decide_arms  # a second of imports that few launches need

    evidence = {
        other.name: assess_arm(declared(sweep, other), earlier[other.name], baseline)
        for other in shown[len(twins) :]
        if earlier[other.name]
    }
    records = [
        {**read_launch(path).as_read(), "file": str(path)} for paths in earlier.values() for path in paths
    ]
    decisions = decide_arms(
        records,
        evidence,
        declared_design(sweep.campaign.design),
        variants=[other.name for other in shown[len(twins) :]],
        baseline=arms[0].name,
    )
    decision = decisions[twins[0].name if is_baseline else arm.name]
    return None if decision.go_on else decision.reason


def _earlier(sweep: Sweep, arm: Arm, block: int, results: Path) -> list[Path]:
    """launch.json of the arm's blocks before ``block``, without those that were not run."""
    found = places.launch_files(results, arm.folder).items()
    return [path for made, path in found if made < block and read_launch(path).outcome != "not_run"]
