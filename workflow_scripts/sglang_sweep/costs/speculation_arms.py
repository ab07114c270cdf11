"""From launches to the points of the speculation economics: tokens and wall time per arm and block."""

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.costs.speculation import economics
from sglang_sweep.errors import UserError


def speculation_of(
    baseline: Sequence[Mapping[str, Any]],
    arms: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    workload: str,
    concurrency: int,
    n_steps: int,
    simulated: Sequence[str] = (),
    profiles: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Economics from the contents of launch.json files; None when no arm, or not the baseline, completed.

    ``arms``: variant name to its launches; those named in ``simulated`` ran under SGLANG_SIMULATE_ACC_LEN. All arms
    have ``n_steps`` draft steps. Where arms share blocks, only those count: two sessions differ by more than chance.
    ``profiles`` as for ``economics``.
    """
    runs = {"baseline": baseline, **arms}
    found = {name: point_of(name, launches, workload, concurrency) for name, launches in runs.items()}
    blocks = [{block["block"] for block in point["blocks"]} for point in found.values() if point]
    if shared := set.intersection(*blocks) if blocks else set():
        for name, launches in runs.items():
            within = [launch for launch in launches if launch["block"] in shared]
            found[name] = point_of(name, within, workload, concurrency)
    base = found.pop("baseline")
    points = [
        point | {"simulated": name in simulated}
        for name, point in found.items()
        if point is not None and point["accept_length"] is not None
    ]
    if base is None or not points:
        return None
    if not shared:
        for arm in (base, *points):
            arm["blocks"] = []
    return economics(base, points, n_steps, profiles)


def point_of(
    name: str, launches: Sequence[Mapping[str, Any]], workload: str, concurrency: int
) -> dict[str, Any] | None:
    """One arm's tokens, seconds and accept length over all valid windows, and the same per block; None without any.

    The accept length is weighted by verifies (tokens / accept length), so that it is tokens per verify over all.
    """
    by_block: dict[int, list[Mapping[str, Any]]] = {}
    for launch in launches:
        if launch.get("outcome") != "completed":
            continue
        windows = [
            window
            for window in launch.get("windows") or []
            if window["workload"] == workload and window.get("valid", True)
        ]
        if windows:
            by_block.setdefault(int(launch["block"]), []).extend(windows)
    if not by_block:
        return None
    blocks = [{"block": block, **_totals(by_block[block])} for block in sorted(by_block)]
    every = [window for windows in by_block.values() for window in windows]
    return {"name": name, "concurrency": concurrency, **_totals(every), "blocks": blocks}


def _totals(windows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    tokens = sum(float(window["metrics"]["total_output_tokens"]) for window in windows)
    seconds = sum(float(window["duration_s"]) for window in windows)
    accepts = [window["metrics"].get("accept_length") for window in windows]
    verifies = sum(
        float(window["metrics"]["total_output_tokens"]) / accept
        for window, accept in zip(windows, accepts, strict=True)
        if accept
    )
    if seconds <= 0:
        raise UserError("a window without duration", key="windows", remedy="measure the launch again")
    return {
        "total_output_tokens": tokens,
        "duration_s": seconds,
        "accept_length": round(tokens / verifies, 6) if verifies and all(accepts) else None,
    }
