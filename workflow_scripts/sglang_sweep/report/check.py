"""``sglang-sweep check``: a gate for CI. One line a finding, an exit status, JUnit XML and JSON."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from sglang_sweep.errors import UserError
from sglang_sweep.files.records import read_json
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import plain
from sglang_sweep.report.documents import read_campaign
from sglang_sweep.report.numbers import signed_percent
from sglang_sweep.report.record import Interval, Variant
from sglang_sweep.report.stack_comparison import compare_stacks
from sglang_sweep.report.words import (
    ORDER,
    at_load,
    change_of,
    kind_of,
    lower_is_better,
    primary_change,
    reason,
)

EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}
"""2 stays for arguments and files of no use."""

DEFAULT = "loss, dead_end, unstable, wrong_output"
_CONDITION = re.compile(r"([a-z_]+)(?:\s*>\s*([\d.]+)\s*%)?")


@dataclass(frozen=True)
class Finding:
    """What the gate says about one variant, or about one objective of it. ``state``: pass, fail or inconclusive."""

    variant: str
    state: str
    verdict: str
    text: str
    objective: str = ""


def conditions(text: str) -> dict[str, float]:
    """``loss > 3%, no_op`` as verdict -> least size as a fraction. Raises UserError naming what is not understood."""
    found = {}
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        match = _CONDITION.fullmatch(part)
        if match is None or match[1].upper() not in ORDER or (match[2] and match[1] != "loss"):
            raise UserError(
                f"--fail-on does not understand {part!r}",
                remedy=f'name verdicts, e.g. "loss > 3%, no_op"; known: {", ".join(ORDER).lower()}',
            )
        found[match[1].upper()] = float(match[2] or 0) / 100
    return found


def check(campaign: Campaign, fail_on: dict[str, float], against: Path | None = None) -> list[Finding]:
    """One finding a candidate, one more for each objective that fails, and one a variant of ``against``.

    A loss larger than a limit fails when the whole 95 % interval lies beyond it, passes when none of it does, and is
    inconclusive otherwise; without a limit the verdict decides.
    """
    if campaign.verdicts.session.void:
        why = "; ".join(campaign.verdicts.session.reasons)
        return [Finding(campaign.verdicts.campaign, "inconclusive", "void", f"the session is void: {why}")]
    found = [finding for v in campaign.candidates for finding in _variant(campaign, v, fail_on)]
    return found + (list(_against(campaign, against)) if against else [])


def _variant(campaign: Campaign, v: Variant, fail_on: dict[str, float]) -> Iterator[Finding]:
    change = primary_change(v, campaign.metric).text() if v.ratio else ""
    why = plain(reason(v, campaign.smallest, campaign.metric))
    limit = fail_on.get("LOSS")
    if v.verdict in fail_on and v.verdict != "LOSS":
        state = "fail"
    elif limit and kind_of(v.verdict).believed:
        state = _loss(campaign.metric, v.ci95, limit)
    elif limit is not None and v.verdict == "LOSS":
        state = "fail"
    else:
        state = "inconclusive" if v.verdict in ("INCONCLUSIVE", "STALE", "CONFOUNDED") else "pass"
    yield Finding(v.name, state, v.verdict, f"{change}. {why}".lstrip(". "))
    for row in v.elsewhere if limit is not None and v.verdict != "LOSS" else ():
        if row.kind == "worse" and _loss(row.metric, row.ci95, limit or campaign.smallest) == "fail":
            said = change_of(row.metric, row.ratio, row.ci95).text()
            where = at_load(row, v.primary)
            yield Finding(v.name, "fail", v.verdict, f"{said} {where}", f"{row.metric} at {row.workload}")


def _loss(metric: str, ci95: Interval | None, limit: float) -> str:
    ends = [end for end in ci95 or () if end is not None]
    if not ends:
        return "inconclusive"
    edge = 1 / (1 + limit) if lower_is_better(metric) else 1 - limit
    return "fail" if max(ends) < edge else "pass" if min(ends) >= edge else "inconclusive"


_AGAINST = {"slower": "fail", "newly broken": "fail", "undecided": "inconclusive"}


def _against(campaign: Campaign, published: Path) -> Iterator[Finding]:
    """Each variant beside what was published of it; that the two were not measured together is said."""
    files = [published / "verdicts.json", *sorted(published.glob("results/*/verdicts.json"))]
    kept = next((file for file in files if file.exists()), None)
    if kept is None:
        raise UserError(
            "no verdicts.json of a published campaign", file=published, remedy="name what `publish` made"
        )
    here = read_json(Path("results") / campaign.verdicts.campaign / "verdicts.json")
    for row in compare_stacks(read_json(kept), here):
        if row["a"] is None or row["status"] == "untested":
            continue
        change = f" {signed_percent(row['ratio'] - 1)}" if row["ratio"] else ""
        text = f"against {published}, measured at another time:{change} {row['status']}"
        state = _AGAINST.get(row["status"], "pass")
        yield Finding(row["variant"], state, row["b"]["verdict"] if row["b"] else "gone", text, "against")


def status_of(findings: Sequence[Finding]) -> str:
    """The worst: one failure fails, else one inconclusive finding is inconclusive."""
    states = {finding.state for finding in findings}
    return next((state for state in ("fail", "inconclusive") if state in states), "pass")


def junit(name: str, findings: Sequence[Finding]) -> str:
    """The findings as a JUnit test suite; an inconclusive one counts as skipped."""
    count = {state: str(sum(f.state == state for f in findings)) for state in EXIT}
    suite = ET.Element(
        "testsuite",
        name=f"sglang-sweep {name}",
        tests=str(len(findings)),
        failures=count["fail"],
        skipped=count["inconclusive"],
    )
    for f in findings:
        case = ET.SubElement(
            suite, "testcase", classname=name, name=" ".join(filter(None, (f.variant, f.objective)))
        )
        if f.state != "pass":
            ET.SubElement(
                case, "failure" if f.state == "fail" else "skipped", message=f"{f.verdict}: {f.text}"
            )
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def main(arguments: Sequence[str]) -> int:
    """``sglang-sweep check CAMPAIGN``; returns 0 (pass), 1 (fail) or 3 (inconclusive)."""
    parser = argparse.ArgumentParser(
        prog="sglang-sweep check",
        description="Pass or fail a measured campaign. Exit status: 0 pass, 1 fail, 3 inconclusive, 2 wrong arguments.",
    )
    parser.add_argument("campaign", help="its results are read from results/CAMPAIGN")
    parser.add_argument(
        "--fail-on", default=DEFAULT, help='e.g. "loss > 3%%, dead_end" (default: %(default)s)'
    )
    parser.add_argument(
        "--against", type=Path, help="a published campaign: what is slower or broken since fails"
    )
    parser.add_argument("--junit", type=Path, help="write JUnit XML here")
    parser.add_argument("--json", type=Path, help="write the findings as JSON here")
    asked = parser.parse_args(arguments)
    results = Path("results") / asked.campaign
    if not (results / "report.json").exists():
        raise UserError(
            f"{results} holds no finished report",
            remedy=f"snakemake --cores all reports/{asked.campaign}/findings.md",
        )
    found = check(read_campaign(results), conditions(asked.fail_on), asked.against)
    status = status_of(found)
    for f in found:
        print(f"{f.state:<12} {f.variant} {f.verdict}: {f.text}")
    print(f"{asked.campaign}: {status}")
    if asked.junit:
        asked.junit.write_text(junit(asked.campaign, found), encoding="utf-8")
    if asked.json:
        said = {"campaign": asked.campaign, "status": status, "findings": [asdict(f) for f in found]}
        asked.json.write_text(json.dumps(said, indent=1, ensure_ascii=False), encoding="utf-8")
    return EXIT[status]
