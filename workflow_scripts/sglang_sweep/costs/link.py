"""Why a variant won or lost: which phase or kernel class moved, from the profiles of both arms."""

from typing import Any

from sglang_sweep.traces.cycle import decode_part

# of the cycle's change, what a profile must account for before it is called an explanation
_ACCOUNTED = 0.5
# and moves smaller than this share of the baseline's cycle are noise between two single profiles
_NOISE = 0.01
_LABELS = {
    "norm_activation": "norms and activations",
    "gemm": "matrix products",
    "all_reduce": "all-reduce",
    "other_collective": "other collectives",
    "copy": "copies",
    "gap": "idle gaps",
}
_TOP = 6


def explain_difference(
    profile_baseline: dict[str, Any], profile_variant: dict[str, Any], ratio: float
) -> dict[str, Any]:
    """Which phase and class moved between two breakdowns of ``breakdown.analyze``, and whether that explains ``ratio``.

    ``ratio`` is variant over baseline throughput as the verdict states it (above 1: better). Times are ms per token
    cycle; a speculative cycle yields several tokens and has other phases, so an arm that speculates is not compared
    with one that does not.

    Returns ``moved`` (phase, class, ms_before, ms_after, share_of_change: of the net change, so above 1 where others
    moved the other way), ``explained`` and ``sentence``.
    """
    profile_baseline, profile_variant = decode_part(profile_baseline), decode_part(profile_variant)
    before, after = _cells(profile_baseline), _cells(profile_variant)
    kinds = {_kind(profile_baseline), _kind(profile_variant)}
    if not before or not after:
        return _not_explained([], "a profile of one arm shows no decode cycle")
    if len(kinds) > 1:
        return _not_explained(
            [], "one arm speculates and the other does not: see the economics of speculation for the ratio"
        )
    base = sum(before.values())
    moves = {cell: after.get(cell, 0.0) - before.get(cell, 0.0) for cell in dict.fromkeys([*before, *after])}
    change = sum(moves.values())
    moved = [
        {
            "phase": phase,
            "class": name,
            "ms_before": round(before.get((phase, name), 0.0), 4),
            "ms_after": round(after.get((phase, name), 0.0), 4),
            "share_of_change": round(delta / change, 4) if abs(change) > 1e-9 else None,
        }
        for (phase, name), delta in sorted(moves.items(), key=lambda item: -abs(item[1]))
        if abs(delta) >= _NOISE * base
    ][:_TOP]
    if not moved:
        return _not_explained(moved, f"no phase or class moved by more than {_NOISE:.0%} of the cycle")
    # throughput ratio r: the cycle should have changed by (1/r - 1) of itself
    expected = base * (1 / ratio - 1)
    same_way = expected * change > 0
    accounted = change / expected if expected else 0.0
    if not same_way:
        way = "longer" if change > 0 else "shorter"
        return _not_explained(
            moved,
            f"the profiled cycle became {way} ({base:.3f} to {base + change:.3f} ms), against a ratio of {ratio:.3f}",
        )
    if accounted < _ACCOUNTED:
        return _not_explained(
            moved,
            f"the kernels' time changed by {change:+.3f} ms, {accounted:.0%} of what a ratio of {ratio:.3f} needs; "
            "the rest lies outside the kernels (host, scheduling, waiting)",
        )
    return {"moved": moved, "explained": True, "sentence": _sentence(moved, base, change, accounted)}


def _kind(profile: dict[str, Any]) -> str | None:
    return (profile.get("cycle") or {}).get("kind")


def _cells(profile: dict[str, Any]) -> dict[tuple[str, str], float]:
    """ms per cycle for each phase and class, kernels only: the gaps of a profiled server are not its own."""
    cycle = profile.get("cycle") or {}
    phases = {phase["kind"]: phase["per_cycle"] for phase in cycle.get("phases", [])}
    cells: dict[tuple[str, str], float] = {}
    total = {kind: sum(s["count"] for s in profile["steps"] if s["kind"] == kind) for kind in phases}
    for step in profile["steps"]:
        kind = step["kind"]
        if kind not in phases:
            continue
        # several batch sizes of one kind: weighted by how often each ran
        weight = phases[kind] * step["count"] / total[kind]
        for name, row in step["classes"].items():
            cells[(kind, name)] = cells.get((kind, name), 0.0) + weight * row["ms_per_step"]
    return cells


def _sentence(moved: list[dict[str, Any]], base: float, change: float, accounted: float) -> str:
    named = [row for row in moved if (row["ms_after"] - row["ms_before"]) * change > 0][:2]
    parts = [
        f"{_LABELS.get(row['class'], row['class'])} in {row['phase']} went from {row['ms_before']:.3f} to "
        f"{row['ms_after']:.3f} ms ({row['share_of_change']:.0%} of the change)"
        for row in named
    ]
    return (
        f"The kernels of a cycle went from {base:.3f} to {base + change:.3f} ms, summed over streams:"
        f" {'; '.join(parts)}. That is {accounted:.0%} of what the ratio needs."
    )


def _not_explained(moved: list[dict[str, Any]], why: str) -> dict[str, Any]:
    return {"moved": moved, "explained": False, "sentence": f"The profile does not explain it: {why}."}
