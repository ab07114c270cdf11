"""Checks of one variant on this host: GPUs, memory, and what its feature needs between the GPUs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sglang_sweep.gate.findings import Finding, finding, knowledge
from sglang_sweep.gate.limits import host_facts, predict
from sglang_sweep.gate.subjects import StackView, VariantView, chosen_gpus

Fingerprint = Mapping[str, Any]
DEFAULT_MEM_FRACTION = 0.9  # SGLang sizes it by memory and tp; this is its usual upper end


def check_variant(fp: Fingerprint, variant: VariantView, stack: StackView) -> list[Finding]:
    """All checks of one variant.

    Where the GPUs could not be read, or there are none for a variant that wants some, the host or the stack
    has said so already.
    """
    if not variant.on_gpu:
        return list(_limits(fp, variant, stack))
    if not fp["gpus"]:
        return []
    used = chosen_gpus(fp["gpus"], variant)
    found = [_enough(fp, variant, used), *_visible(variant)]
    if len(used) == variant.gpus:
        found += _weights(fp, variant, used)
        found += _limits(fp, variant, stack)
        if len(used) > 1:
            for need in knowledge()["needs"]:
                if asked_for(variant, need["when"]):
                    found += _need(fp, variant, stack, used, need)
    return found


def asked_for(variant: VariantView, when: Mapping[str, Any]) -> bool:
    """Whether a variant turns on the feature that ``when`` names."""
    value = variant.flags.get(when["flag"]) if "flag" in when else variant.env.get(when["env"])
    off = value in (None, False, "", "0", "false", "False")
    return not off and str(value) not in when.get("but_not", ())


def _limits(fp: Fingerprint, variant: VariantView, stack: StackView) -> Iterator[Finding]:
    flags = dict(variant.flags) if variant.on_gpu else {**variant.flags, "device": "cpu"}
    asked = {"flags": flags, "env": variant.env}
    for prediction in predict(asked, stack.sglang, host_facts(fp, flags)):
        yield finding(
            "known_limit",
            False,
            f"{prediction.verdict} expected: {prediction.why}",
            subject=variant.name,
            concerns=[variant.name],
            remedy=prediction.remedy or f"none here; it reopens when: {prediction.reopens_when}",
            source="; ".join(prediction.source),
            evidence="seen" if prediction.seen else "read",
        )


def _enough(fp: Fingerprint, variant: VariantView, used: Sequence[int]) -> Finding:
    seen = "" if variant.visible is None else f", {len(variant.visible)} of them visible"
    found = f"needs {variant.gpus}, the host has {len(fp['gpus'])}{seen}"
    passed = len(used) == variant.gpus
    return finding("enough_gpus", passed, found, subject=variant.name, concerns=[variant.name])


def _visible(variant: VariantView) -> Iterator[Finding]:
    if variant.visible is not None and not all(word.isdigit() for word in variant.visible):
        words = ",".join(variant.visible)
        yield finding("visible_devices_integers", False, words, subject=variant.name, concerns=[variant.name])


def _weights(fp: Fingerprint, variant: VariantView, used: Sequence[int]) -> Iterator[Finding]:
    memories = [fp["gpus"][index]["memory_mib"] for index in used]
    if variant.weights_gib is None or None in memories:
        return
    each, memory = variant.weights_gib / variant.gpus, min(memories) / 1024
    fraction = float(variant.flags.get("mem-fraction-static") or DEFAULT_MEM_FRACTION)
    found = f"{each:.1f} GiB a GPU, of {memory:.1f} GiB times mem-fraction-static {fraction:g}"
    yield finding(
        "model_fits",
        each < memory * fraction,
        found,
        subject=variant.name,
        concerns=[variant.name],
        severity="fail" if each >= memory else None,
    )


def _need(
    fp: Fingerprint, variant: VariantView, stack: StackView, used: Sequence[int], need: Mapping[str, Any]
) -> Iterator[Finding]:
    answers = {}
    if "p2p" in need["needs"]:
        answers["p2p_for_variant"] = _p2p(fp, used)
    if "multicast" in need["needs"]:
        answers["multicast_for_variant"] = _turned_off(fp, variant, need) or _multicast(fp, used, stack)
    for check, (passed, found) in answers.items():
        consequence = "" if passed else f" ({'if not: ' if passed is None else ''}{need['otherwise']})"
        yield finding(
            check,
            passed,
            f"{need['feature']}: {found}{consequence}",
            subject=variant.name,
            concerns=[variant.name],
            source=need["source"],
            evidence=need["evidence"],
        )


def all_nvlink(fp: Fingerprint, used: Sequence[int]) -> bool | None:
    """Whether all pairs among some GPUs are joined by NVLink; None where links are not readable."""
    cells = _cells(fp["topology"]["links"], used)
    return None if cells is None else all((cell or "").startswith("NV") for cell in cells)


def _cells(matrix: list[list[str | None]] | None, used: Sequence[int]) -> list[str | None] | None:
    return None if matrix is None else [matrix[i][j] for i in used for j in used if i != j]


def _links(fp: Fingerprint, used: Sequence[int]) -> str:
    cells = _cells(fp["topology"]["links"], used)
    if cells is None:
        return str(fp["unreadable"].get("topology.links", "links not readable"))
    return f"links {', '.join(sorted({cell or 'unknown' for cell in cells}))}"


def _p2p(fp: Fingerprint, used: Sequence[int]) -> tuple[bool | None, str]:
    states: set[str] = set()
    for kind in ("read", "write"):
        cells = _cells(fp["topology"]["p2p"][kind], used)
        if cells is None:
            reason = fp["unreadable"].get(f"topology.p2p.{kind}", "not readable")
            return None, f"peer-to-peer {kind} not known ({reason})"
        states |= {cell or "unknown" for cell in cells}
    return states == {"ok"}, f"peer-to-peer {', '.join(sorted(states))}"


def _turned_off(
    fp: Fingerprint, variant: VariantView, need: Mapping[str, Any]
) -> tuple[bool | None, str] | None:
    """A variable that this site or the variant sets against the feature, whatever the hardware could do."""
    inherited = {**(fp["environment"] or {}), **variant.env}
    for name, value in need.get("off_by", {}).items():
        if inherited.get(name) == value:
            return False, f"turned off by {name}={value}; what the hardware could do is not asked"
    return None


def _multicast(fp: Fingerprint, used: Sequence[int], stack: StackView) -> tuple[bool | None, str]:
    if stack.multicast is not None:
        return stack.multicast, "CUDA says multicast is " + ("there" if stack.multicast else "not there")
    nvlink = all_nvlink(fp, used)
    if nvlink is False:
        return False, f"no multicast without NVLink ({_links(fp, used)})"
    return None, "only CUDA can tell (NVLink alone is not enough)"
