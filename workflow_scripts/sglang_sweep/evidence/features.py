"""Whether one feature of SGLang is on, from everything a launch left behind, with the line that shows it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from packaging.version import Version

from sglang_sweep.evidence.artifacts import Artifacts, Sample, counted
from sglang_sweep.evidence.conditions import holds, lookup
from sglang_sweep.evidence.knowledge import Entry, Feature
from sglang_sweep.evidence.log import Line

Means = Literal["on", "off", "unknown"]


@dataclass(frozen=True)
class Shown:
    """One piece of evidence: a file, a line where it has one, and the text."""

    file: str
    line: int | None
    text: str

    def as_dict(self) -> dict[str, Any]:
        """As in verdicts.json."""
        return {"file": self.file, "line": self.line, "text": self.text}


@dataclass(frozen=True)
class Finding:
    """What is known about a feature: on, off or unknown, why, from which launch; ``entry`` is the knowledge used."""

    means: Means
    evidence: tuple[Shown, ...] = ()
    note: str | None = None
    source: str | None = None
    entry: str | None = None


def find(feature: Feature, artifacts: Sequence[Artifacts], version: Version | None) -> Finding:
    """The feature's state: the first entry that matches decides, in the knowledge's order.

    For each entry the measured launch is asked before the profile launch; the finding says which answered.
    """
    if missing := _unmet_need(feature, artifacts):
        return missing
    if (since := feature.data.get("since")) and version is not None and version < Version(since):
        reason = f"SGLang {version} does not have it yet: first in {since}"
        return Finding("off", tuple(_version_evidence(artifacts)), reason)
    intent: Finding | None = None
    for entry in feature.evidence:
        if not entry.known_for(version):
            continue
        for one in artifacts:
            shown = match(entry, one)
            if shown is None:
                continue
            note = _note(entry, one)
            if entry.data["means"] == "intent":
                intent = intent or Finding("unknown", (shown,), note, one.label, entry.id)
            else:
                return Finding(entry.data["means"], (shown,), note, one.label, entry.id)
    return intent or Finding("unknown", note=_would_show(feature, artifacts))


def _would_show(feature: Feature, artifacts: Sequence[Artifacts]) -> str | None:
    """What to ask for, where only a profile launch can tell: it alone names kernels and has NCCL's log on."""
    by_kernels = any(entry.data.get("in") == "kernels" for entry in feature.evidence)
    if by_kernels and artifacts and not any(one.kernels for one in artifacts):
        return "the kernels of a profile launch would show it: profile: true"
    return None


def asked_by(feature: Feature, resolved: Mapping[str, Any]) -> str | None:
    """The resolved argument that asks for the feature, or None."""
    asks = feature.data.get("requested", {})
    return next(
        (path for path, wanted in asks.items() if path in resolved and holds(resolved[path], wanted)), None
    )


def match(entry: Entry, one: Artifacts) -> Shown | None:
    """The evidence of one entry in one launch's artifacts, or None."""
    return _READERS[entry.data.get("in", "log")](entry, one)


def _unmet_need(feature: Feature, artifacts: Sequence[Artifacts]) -> Finding | None:
    for one in artifacts:
        for path, wanted in feature.data.get("needs", {}).items():
            for where, value in lookup(one.resolved, path):
                if not holds(value, wanted):
                    shown = resolved_evidence(one, where, value)
                    return Finding("off", (shown,), f"it cannot act with {where} = {value}", one.label)
    return None


def _version_evidence(artifacts: Sequence[Artifacts]) -> list[Shown]:
    return [
        resolved_evidence(a, "version", a.resolved["version"]) for a in artifacts if "version" in a.resolved
    ][:1]


def resolved_evidence(one: Artifacts, path: str, value: Any) -> Shown:
    """``path = value`` of /server_info (or of the arguments in the log) as evidence."""
    return Shown(
        str(one.resolved_file), one.resolved_line, f"{path} = {json.dumps(value, default=str)}"[:300]
    )


def line_evidence(one: Artifacts, line: Line) -> Shown:
    """A log line as evidence."""
    return Shown(str(one.log.path if one.log else ""), line.number, line.text)


def _in_log(entry: Entry, one: Artifacts) -> Shown | None:
    hit = one.log.hits.get(entry.id) if one.log else None
    return line_evidence(one, hit.first) if hit else None


def _in_kernels(entry: Entry, one: Artifacts) -> Shown | None:
    assert entry.pattern is not None
    for number, name in enumerate(one.kernels, start=1):
        if entry.pattern.search(name.encode()):
            whole = one.kernels_file is not None and one.kernels_file.suffix == ".txt"
            return Shown(str(one.kernels_file), number if whole else None, f"GPU kernel {name}"[:300])
    return None


def _in_server_info(entry: Entry, one: Artifacts) -> Shown | None:
    for path, value in lookup(one.resolved, entry.data["path"]):
        if holds(value, entry.data["is"]):
            return resolved_evidence(one, path, value)
    return None


def _in_metrics(entry: Entry, one: Artifacts) -> Shown | None:
    data = entry.data
    whole = (
        sum(sample.value for sample in one.metrics if sample.metric == data.get("per"))
        if "per" in data
        else 1.0
    )
    chosen = [sample for sample in one.metrics if sample.metric == data["metric"] and _labelled(sample, data)]
    total = sum(sample.value for sample in chosen)
    if not chosen or not whole or not holds(total / whole, data["is"]):
        return None
    labels = ",".join(
        f'{name}="{value}"' for name, value in chosen[0].labels.items() if name in data.get("labels", {})
    )
    return Shown(str(one.metrics_file), None, f"{data['metric']}{{{labels}}} {total:g}")


def _labelled(sample: Sample, data: Mapping[str, Any]) -> bool:
    return all(holds(sample.labels.get(name), wanted) for name, wanted in data.get("labels", {}).items())


def _in_meta(entry: Entry, one: Artifacts) -> Shown | None:
    key = entry.data["key"]
    for index, meta in enumerate(one.meta):
        value = meta.get(key, (meta.get("meta_info") or {}).get(key))
        if value is not None and holds(value, entry.data["is"]):
            return Shown(str(one.meta_file), None, f"probe[{index}].{key} = {value}")
    return None


def _in_facts(entry: Entry, one: Artifacts) -> Shown | None:
    facts = counted(one.log, one.resolved)
    value, line = facts.get(entry.data["fact"], (None, None))
    if value is None or not holds(value, entry.data["is"]) or one.log is None:
        return None
    line = one.log.batches.first.get(entry.data["line"]) or line
    return line_evidence(one, line) if line else None


_READERS = {
    "log": _in_log,
    "kernels": _in_kernels,
    "server_info": _in_server_info,
    "metrics": _in_metrics,
    "meta": _in_meta,
    "fact": _in_facts,
}


def _note(entry: Entry, one: Artifacts) -> str | None:
    """The entry's note with its {names} filled in from its own groups, else from the log's facts."""
    note = entry.data.get("note")
    if note is None or "{" not in note:
        return note
    hit = one.log.hits.get(entry.id) if one.log else None
    facts = {name: value for name, (value, _) in counted(one.log, one.resolved).items()} | (
        hit.groups if hit else {}
    )
    return re.sub(r"\{(\w+)\}", lambda name: str(facts.get(name[1], "unknown")), note)
