"""findings.md holds every verdict, what it rests on, and nothing that its sources can break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from constructed import DATA
from markdown_it import MarkdownIt
from sglang_sweep.report.findings import write_findings
from sglang_sweep.report.sections import Sections

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(verdicts: dict[str, Any], sections: Sections | None = None, **more: Any) -> str:
    out = Path("reports/c/findings.md")
    write_findings(verdicts, out, sections=sections, **more)
    return out.read_text(encoding="utf-8")


def section(text: str, name: str) -> str:
    return text.split(f"\n### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]


def test_the_same_verdicts_give_the_same_bytes(
    root: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    first = findings(verdicts, sections)
    reread = json.loads((DATA / "verdicts.json").read_text())
    assert findings(reread, sections) == first


def test_it_opens_with_the_answer(root: Path, verdicts: dict[str, Any]) -> None:
    lines = findings(verdicts).splitlines()
    assert lines[0] == f"# {verdicts['campaign']}"
    assert any(line.startswith("**Fastest: graph-bs-128, +9.12 % [+8.10, +10.1]") for line in lines[:6])


def test_every_variant_has_a_row_and_a_section_it_links_to(root: Path, verdicts: dict[str, Any]) -> None:
    text = findings(verdicts)
    for v in verdicts["variants"]:
        assert f"| [{v['name']}](#{v['name']}) | {v['verdict']} |" in text
        assert section(text, v["name"]).lstrip().startswith(f"**{v['verdict']}.**")


def test_every_verdict_can_be_traced(root: Path, verdicts: dict[str, Any], sections: Sections) -> None:
    """To a log line, a statistic with its launches, a setting, or a prediction with its source."""
    text = findings(verdicts, sections)
    for v in verdicts["variants"]:
        part = section(text, v["name"])
        if v["verdict"] in ("DEAD_END", "NO_OP"):
            assert "server.log#L" in part
        elif v["verdict"] == "CONFOUNDED":
            assert "| `cuda_graph_max_bs` | 512 | 256 | yes |" in part
        elif v["verdict"] not in ("PLANNED", "OUTRUN"):
            assert "- Statistic: " in part
            assert part.count("/launch.json)") == len(v["launches"])
    assert "source: sglang issue 1234; " in section(text, "mscclpp")


def test_links_lead_from_the_report_to_the_file(root: Path, verdicts: dict[str, Any]) -> None:
    evidence = next(v for v in verdicts["variants"] if v["verdict"] == "DEAD_END")["evidence"][0]
    log = root / evidence["file"]
    log.parent.mkdir(parents=True)
    log.write_text("")
    link = findings(verdicts).split(f"server.log:{evidence['line']}](")[1].split(")")[0]
    path, anchor = unquote(link).split("#")
    assert (root / "reports/c" / path).resolve() == log.resolve()
    assert anchor == f"L{evidence['line']}"


def test_a_log_line_with_colours_pipes_and_angle_brackets_is_quoted_harmlessly(
    root: Path, verdicts: dict[str, Any]
) -> None:
    text = findings(verdicts)
    assert "\x1b" not in text
    assert "`[2026-11-28 21:03:11 TP0] Scheduler hit an exception: <Exception> | Capture cuda graph" in text


def test_hostile_text_in_every_place_leaves_the_structure_alone(
    root: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    calm = structure(findings(verdicts, sections))
    evil = "`| <script>alert(1)</script> ``` \x1b[31m](x) *a* __b__ # $x$ "
    for v in verdicts["variants"]:
        v["hypothesis"] = evil
        v["remedies"] = [evil for _ in v["remedies"]]
        for lines in (v["evidence"], *(f["evidence"] for f in v["engagement"]["features"])):
            lines[:] = [line | {"text": evil} for line in lines]
        for row in v["confounds"]:
            row["variant"] = evil
        for row in v["launches"]:
            row["removed"] = evil if row["removed"] else None
    wild = structure(findings(verdicts, sections))
    assert wild == calm


def structure(text: str) -> list[str]:
    return [t.type + t.tag for t in MARKDOWN.parse(text) if t.type != "inline"]


def test_the_baseline_is_shown_and_replaced_values_beside_the_new_ones(
    root: Path, verdicts: dict[str, Any]
) -> None:
    text = findings(verdicts)
    assert "```\n--tp-size 8\n--cuda-graph-max-bs 512\n--disable-radix-cache\nNCCL_P2P_LEVEL=SYS\n```" in text
    assert "- --cuda-graph-max-bs 512\n+ --cuda-graph-max-bs 128" in section(text, "graph-bs-128")


def test_removed_launches_are_listed_for_every_arm_with_the_reason(
    root: Path, verdicts: dict[str, Any]
) -> None:
    removed = section(findings(verdicts), "Removed launches")
    assert "throttling: GPU 3 hw_thermal_slowdown after the windows" in removed
    assert "| baseline | 6 | cold_window, window 1:" in removed


def test_optional_sections_appear_only_with_their_data(
    root: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    headings = (
        "## Profiles",
        "## Speculation",
        "## Communication",
        "## Stacks compared",
        "## Reopened",
        "## Expected before any launch",
        "### Environment gate",
        "## Notes",
    )
    bare, full = findings(verdicts), findings(verdicts, sections)
    assert not [h for h in headings if h in bare]
    assert [h for h in headings if h in full] == list(headings)


def test_a_single_rank_profile_warns_that_waiting_and_cost_cannot_be_told_apart(
    root: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    alone = sections.profiles["eagle3"] | {"ranks": [0]}
    text = findings(verdicts, Sections(profiles={"eagle3": alone}))
    assert "One rank only: the cost of a collective and waiting" in text.split("**eagle3**, rank 0 of 2")[1]


def test_a_profile_shows_phases_and_collectives_at_the_minimum_over_ranks(
    root: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    text = findings(verdicts, sections).split("## Profiles")[1]
    decode = next(line for line in text.splitlines() if line.startswith("| `DECODE bs=1`"))
    assert "| RING_LL | 65 | 6.21 µs | 0.405 ms |" in decode
    assert "| `TARGET_VERIFY` | 1 | 4.52 ms | 3.29 ms | 85.2 % | 65 | 0.156 ms |" in text


def test_figures_are_shown_by_relative_link(root: Path, verdicts: dict[str, Any]) -> None:
    text = findings(verdicts, figures={"Ratios": Path("reports/c/figures/ratios.svg")})
    assert "![Ratios](figures/ratios.svg)" in text


def test_a_void_session_is_said_first_and_in_its_section(root: Path, verdicts: dict[str, Any]) -> None:
    verdicts["session"] |= {"void": True, "reasons": ["A'/A lies beyond 2.0%"]}
    text = findings(verdicts)
    assert "**Void session: A'/A lies beyond 2.0%." in text
    assert "**Void:** A'/A lies beyond 2.0%." in text


def test_notes_are_the_engineers_own_markdown(root: Path, verdicts: dict[str, Any]) -> None:
    assert "- [ ] try *this*" in findings(verdicts, Sections(notes="- [ ] try *this*"))


def test_a_campaign_without_variants_or_figures_still_makes_a_document(
    root: Path, verdicts: dict[str, Any]
) -> None:
    verdicts["variants"] = []
    verdicts["session"] = {"aa": {}, "void": False, "reasons": []}
    text = findings(verdicts)
    assert "Nothing is measured yet." in text
    assert "the noise of this session is unknown" in text


def test_no_line_ends_in_blanks_and_no_two_blank_lines_follow_each_other(
    root: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    text = findings(verdicts, sections)
    assert "\n\n\n" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert text.endswith("\n") and not text.endswith("\n\n")
