"""Optional parts show what other steps computed, in their words and units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sglang_sweep.report.communication import communication_view, size
from sglang_sweep.report.correctness import correctness_sentences
from sglang_sweep.report.environment import environment_rows
from sglang_sweep.report.page import write_page
from sglang_sweep.report.profiles import profile_view
from sglang_sweep.report.sections import Sections
from sglang_sweep.report.speculation import speculation_view
from sglang_sweep.report.stacks import comparison_view
from sglang_sweep.report.view import report_view


def test_speculation_opens_with_break_even_and_names_the_term_to_attack(sections: Sections) -> None:
    view = speculation_view(sections.speculation)
    assert view is not None
    shown = dict(view["facts"])
    assert view["sentence"].startswith("Speculation pays above an accept length of ")
    assert float(shown["break-even accept length"]) > 2
    assert shown["term to attack"] == view["levers"][0]["term"]
    assert [point["simulated"] for point in view["points"]] == ["measured draft", "simulated"]


def test_a_break_even_that_nothing_reaches_is_said_in_words() -> None:
    view = speculation_view({"break_even": {"accept_length": None}})
    assert view is not None
    assert dict(view["facts"])["break-even accept length"].startswith("none")


def test_communication_sets_prediction_beside_profile_and_tells_cliffs(sections: Sections) -> None:
    view = communication_view(sections.communication)
    assert view is not None
    assert view["rows"][0] | {"bytes": "12 KiB", "alone": "5.90 µs", "share": "3.61 %"} == view["rows"][0]
    assert view["sentences"][0] == (
        "Cliff in default, graph: from 128 KiB to 256 KiB latency grows from 31.0 µs to 74.0 µs, 2.39 times."
    )
    assert view["sentences"][1].startswith("The growth of 2.7 x")


def test_message_sizes_are_exact_where_they_can_be() -> None:
    assert [size(count) for count in (512, 12288, 4 << 20, 1500)] == ["512 B", "12 KiB", "4 MiB", "1.46 KiB"]


def test_absent_parts_are_none_not_empty_tables() -> None:
    assert (speculation_view(None), communication_view({}), profile_view(None)) == (None, None, None)


def test_correctness_says_how_much_agreed_and_what_the_server_counted(verdicts: dict[str, Any]) -> None:
    right = next(v for v in verdicts["variants"] if v["name"] == "eagle3")["correctness"]
    assert correctness_sentences(right) == [
        "the answers agree with the baseline's (tolerance exact)",
        "100 % of tokens agree, of the baseline with itself 100 %",
        "log-probabilities 0.00210 nats apart",
        "output tokens of the windows: the client counts 24,576, the server 24,576",
    ]
    dummy = {"ok": None, "state": "not_comparable", "reason": "another model answers differently"}
    assert correctness_sentences(dummy) == ["not comparable: another model answers differently"]
    assert correctness_sentences(None) == []


def test_a_declared_difference_is_shown_but_not_held_against_the_variant(verdicts: dict[str, Any]) -> None:
    view = report_view(verdicts, Path(), Sections())
    moves = {v["name"]: [c["moves"] for c in v["confounds"]] for v in view["variants"]}
    assert (moves["eagle3"], moves["mem-fraction-090"]) == (["yes, but declared"], ["yes"])


def test_a_host_without_gpus_and_one_that_could_not_be_read_are_different() -> None:
    assert environment_rows({"gpus": []})[0] == ("GPUs", "none")
    rows = dict(environment_rows({"gpus": None, "unreadable": {"gpus": "nvidia-smi failed"}}))
    assert rows == {"GPUs": "–", "not readable: gpus": "nvidia-smi failed"}


def test_what_the_gate_says_against_a_variant_is_its_prediction(verdicts: dict[str, Any]) -> None:
    gate = [
        {
            "id": "nvlink",
            "severity": "fail",
            "passed": passed,
            "scope": scope,
            "found": "no NVLink",
            "why": "it hangs",
            "source": "sglang#1",
        }
        for passed, scope in ((False, "variant:mscclpp"), (True, "variant:ep8"), (False, "host"))
    ]
    view = report_view(verdicts, Path("reports/c"), Sections(gate=gate))
    assert [(p["variant"], p["why"]) for p in view["predictions"]] == [("mscclpp", "no NVLink: it hangs")]
    assert [row["scope"] for row in view["gate"]["passed"]] == ["variant:ep8"]


def test_a_figure_from_elsewhere_keeps_its_colours_and_is_part_of_the_page(
    tmp_path: Path, verdicts: dict[str, Any], sections: Sections
) -> None:
    figure = tmp_path / "accept.svg"
    figure.write_text(
        '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><g fill="#0072b2"/></svg>'
    )
    economics = {**(sections.speculation or {}), "figure": str(figure)}
    write_page(verdicts, tmp_path / "index.html", sections=Sections(speculation=economics))
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<svg role="img" aria-label="Figure: speculation"' in page
    assert '<g fill="#0072b2"/>' in page


def test_many_sources_are_counted_and_few_are_named(verdicts: dict[str, Any]) -> None:
    few = report_view(verdicts | {"generated_from": ["a.json"]}, Path(), Sections())
    many = report_view(
        verdicts | {"generated_from": [f"results/c/{i}.json" for i in range(9)]}, Path(), Sections()
    )
    assert few["generated_from"] == "a.json"
    assert many["generated_from"] == "9 files under results/c"


def test_a_latency_says_how_its_ratio_is_turned(verdicts: dict[str, Any]) -> None:
    verdicts["design"]["primary"]["metric"] = "median_ttft_ms"
    metric = report_view(verdicts, Path(), Sections())["metric"]
    assert metric == "median TTFT on workload chat, baseline over variant, so that more is better"


def test_stacks_are_compared_finding_by_finding_with_the_caution(sections: Sections) -> None:
    view = comparison_view(sections.stacks)
    assert view is not None
    assert "not interleaved" in view["caution"]
    assert view["rows"][0]["a"] == "DEAD_END (bad_flag)"
    assert view["rows"][0]["b"] == "WIN, 1.043 of its baseline"


def test_what_moved_between_two_profiles_is_a_table(verdicts: dict[str, Any], sections: Sections) -> None:
    view = report_view(verdicts, Path(), sections)
    explained = next(v for v in view["variants"] if v["name"] == "graph-bs-128")["explanation"]
    assert explained["moved"] == [
        {"phase": "DECODE", "class": "copy", "before": "0.420 ms", "after": "0.0900 ms", "share": "97.0 %"}
    ]
