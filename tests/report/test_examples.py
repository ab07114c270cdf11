"""A published campaign is rebuilt from its results: evidence, verdicts and both documents."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.evidence.artifacts import of_launch
from sglang_sweep.evidence.knowledge import load
from sglang_sweep.plan.declaration import collectives_file
from sglang_sweep.publish import publish, rebuild

CURVES = Path(__file__).parents[1] / "recordings" / "communication" / "h200x2-nccl-2.28.9.json"
EXAMPLES = Path(__file__).parents[2] / "reports" / "examples"


@pytest.fixture(
    params=sorted(path.parent for path in EXAMPLES.glob("*/findings.md")), ids=lambda path: path.name
)
def example(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def concluded(folder: Path) -> dict[str, Any]:
    verdicts: dict[str, Any] = json.loads(next(folder.glob("results/*/verdicts.json")).read_text())
    return verdicts


def assert_same_campaign(made: Path, kept: Path) -> None:
    assert [(v["name"], v["verdict"], v["ratio"]) for v in concluded(made)["variants"]] == [
        (v["name"], v["verdict"], v["ratio"]) for v in concluded(kept)["variants"]
    ]
    assert concluded(made) == concluded(kept)
    # Words may change without the example: what they say is tested where they are made.
    for name in ("findings.md", "index.html"):
        assert concluded(kept)["campaign"] in (made / name).read_text()


def test_evidence_verdicts_and_documents_are_rebuilt_from_the_results(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / example.name
    shutil.copytree(example / "results", folder / "results")
    rebuild(folder, folder.name)
    assert_same_campaign(folder, example)


def test_what_was_published_can_be_published_again(example: Path, tmp_path: Path) -> None:
    campaign = next(example.glob("results/*/declaration.json")).parent
    publish(campaign, tmp_path / "again")
    assert_same_campaign(tmp_path / "again", example)


def test_the_collectives_measured_alone_are_published_too(example: Path, tmp_path: Path) -> None:
    shutil.copytree(example / "results", tmp_path / "results")
    campaign = next(tmp_path.glob("results/*/declaration.json")).parent
    declared = json.loads((campaign / "declaration.json").read_text()) | {"communication": {"repeats": 9}}
    (campaign / "declaration.json").write_text(json.dumps(declared))
    curves = collectives_file(campaign, next(iter(declared["arms"])), declared["communication"])
    assert curves
    curves.parent.mkdir(parents=True)
    shutil.copyfile(CURVES, curves)
    publish(campaign, tmp_path / "out")
    assert (tmp_path / "out" / curves.relative_to(tmp_path)).exists()
    assert_same_campaign(tmp_path / "out", example)  # its report did not show them


def test_an_arm_that_only_its_trace_shows_engaged_is_engaged_in_the_published_folder(
    example: Path, tmp_path: Path
) -> None:
    shutil.copytree(example / "results", tmp_path / "results")
    campaign = next(tmp_path.glob("results/*/declaration.json")).parent
    profile = next(campaign.glob("profiles/*/profile.json"), None)
    if profile is None:
        pytest.skip("nothing was profiled in this campaign")
    trace = profile.parent / "attempt-1" / "traces" / "r-TP-0-DECODE.trace.json"
    trace.parent.mkdir(parents=True, exist_ok=True)
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "only_in_the_trace",
        "ts": 1.0,
        "dur": 1.0,
        "pid": 0,
        "tid": 7,
    }
    trace.write_text(json.dumps({"traceEvents": [kernel | {"args": {"stream": 7}}]}))
    publish(campaign, tmp_path / "out")
    copied = tmp_path / "out" / profile.relative_to(tmp_path)
    seen = of_launch(copied, load())
    assert seen.kernels == ["only_in_the_trace"]
    before = json.loads((campaign / "verdicts.json").read_text())
    assert concluded(tmp_path / "out") == before  # copied, not judged again


def test_nothing_outside_a_campaign_is_published(example: Path, tmp_path: Path) -> None:
    shutil.copytree(example / "results", tmp_path / "results")
    campaign = next(tmp_path.glob("results/*/declaration.json")).parent
    (tmp_path / "secret").write_text("mine")
    log = next(tmp_path.glob("results/**/attempt-*/server.log"))
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="leads out of its folder"):
        publish(campaign, tmp_path / "out")
    declared = json.loads((campaign / "declaration.json").read_text())
    declared["arms"]["../../../secret"] = next(iter(declared["arms"].values()))
    (campaign / "declaration.json").write_text(json.dumps(declared))
    with pytest.raises(UserError, match="no name of an arm"):
        publish(campaign, tmp_path / "out")


def test_every_link_of_a_published_report_leads_to_a_file(example: Path) -> None:
    findings = (example / "findings.md").read_text()
    targets = [part.split(")")[0].split("#")[0] for part in findings.split("](")[1:]]
    files = [target for target in targets if target and "://" not in target]
    assert files
    assert [target for target in files if not (example / target).exists()] == []


def test_a_folder_holds_one_campaign(example: Path, tmp_path: Path) -> None:
    shutil.copytree(example / "results" / example.name, tmp_path / "results" / "other")
    with pytest.raises(UserError, match="holds the campaign"):
        publish(tmp_path / "results" / "other", example)


def test_a_campaign_without_a_report_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no declaration\.json"):
        publish(tmp_path / "results" / "mine", tmp_path / "out")
