"""The targets a person asks for: plan, environment, one report, Snakemake's own report."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from clone import Clone

pytestmark = pytest.mark.workflow


def test_plan_prints_what_would_run_and_what_it_costs(project: Clone) -> None:
    text = project.snakemake("--cores", "1", "plan")
    assert "Plan of cpu-demo" in text
    assert "never measured" in text
    assert "18 launches to run, about 15 minutes (from an assumed 50 s a launch" in text
    assert "Predicted here, before any GPU time" in text
    assert list((project.folder / "results").glob("*/launches")) == []


def test_plan_says_which_part_of_a_key_moved(measured: Clone) -> None:
    measured.edit("max-total-tokens: 4096", "max-total-tokens: 2048")
    text = measured.snakemake("--cores", "1", "plan")
    assert "changed: flags.max-total-tokens" in text
    assert "10 launches to run" in text
    assert "launches of this campaign" in text


def test_environment_accepts_the_default_campaign_on_any_host(project: Clone) -> None:
    text = project.snakemake("--cores", "1", "environment")
    assert "cpu-demo" in text
    assert "Refused" not in text
    host = json.loads((project.folder / "results" / "environment.json").read_text())
    assert host["class_digest"]


def test_environment_refuses_what_this_host_cannot_run_and_says_why(project: Clone, store: Path) -> None:
    project.site(campaigns=["rtx-pro-6000-x8"], store=str(store))
    text = project.snakemake("--cores", "1", "environment", code=1)
    assert "Refused, for" in text
    assert "Traceback" not in text


DOCUMENTS = {"index.html", "ratios.svg", "verdicts.csv"}
"""What a rule marks for Snakemake's own report: the page holds all the rest."""


def shown(page: str, variable: str) -> Any:
    """A JavaScript variable of Snakemake's report."""
    _, _, script = page.partition(f'<script id="{variable}">')
    _, _, rest = script.partition(f"var {variable} = ")
    return json.JSONDecoder().raw_decode(rest)[0]


def test_snakemakes_own_report_holds_every_document_with_caption_and_category(measured: Clone) -> None:
    measured.snakemake("--report", "report.zip")
    with zipfile.ZipFile(measured.folder / "report.zip") as report:
        page = report.read("report/report.html").decode()
        assert {Path(name).name for name in report.namelist()} >= DOCUMENTS
    measured.snakemake("--report", "report.html")
    for text in (page, (measured.folder / "report.html").read_text()):
        results = shown(text, "results")
        assert {Path(name).name for name in results} == DOCUMENTS
        assert list(shown(text, "categories")) == ["tiny"]
        for result in results.values():
            assert "tiny" in result["caption"]
            assert result["labels"]["what"]
