"""The two steps of ``snakemake environment``: record the host, and say what can run on it."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.model import Variant
from sglang_sweep.files.records import write_json
from sglang_sweep.gate.findings import Finding
from sglang_sweep.gate.gate_table import as_text, headline, refusals, render, what_can_run
from sglang_sweep.host.drift import drift
from sglang_sweep.host.fingerprint import fingerprint


def record_environment(
    path: Path, previous: Path | None = None, folders: Sequence[str | Path] | None = None
) -> dict[str, Any]:
    """Fingerprint the host into ``path`` (environment.json, written atomically) and return it.

    The returned document, not the file, has one key more: ``drift``, sentences on what changed since
    ``previous`` (which may be ``path`` itself). The last of ``folders`` should hold stacks and models.
    """
    old = _earlier(previous)
    document = fingerprint(folders=folders)
    if isinstance(old, dict) and old.get("class_digest") not in (None, document["class_digest"]):
        # Launches made there are found again, and reported, only with that host's fingerprint in place.
        write_json(path.with_name(f"{path.stem}-{old['class_digest']}.json"), old)
    write_json(path, document)
    return {**document, "drift": _drift(old, document)}


def environment_report(
    fp: Mapping[str, Any],
    findings: Sequence[Finding],
    campaign_variants: Sequence[Variant],
    requested: Collection[str] | None = None,
) -> tuple[str, bool]:
    """The text that ``snakemake environment`` prints, and whether everything requested may run here.

    ``findings`` are those of :func:`sglang_sweep.gate.gate.gate`; ``requested`` are names of variants, None all.
    """
    reasons = refusals(findings, requested)
    parts = [headline(fp), "", as_text(render(findings)), "", *what_can_run(findings, campaign_variants)]
    if reasons:
        count = f"{len(reasons)} reason{'s' if len(reasons) > 1 else ''}"
        parts += ["", f"Refused, for {count}:", "", *reasons]
    return "\n".join(parts) + "\n", not reasons


def _earlier(path: Path | None) -> dict[str, Any] | str | None:
    """The earlier fingerprint, or why it cannot be compared."""
    if path is None or not path.exists():
        return None
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        return f"the earlier fingerprint {path} cannot be read ({error}): nothing to compare with"
    return document


def _drift(old: dict[str, Any] | str | None, new: dict[str, Any]) -> list[str]:
    if old is None:
        return []
    if isinstance(old, str):
        return [old]
    try:
        return drift(old, new)
    except (KeyError, TypeError) as error:
        return [f"the earlier fingerprint has another form ({error}): nothing to compare with"]
