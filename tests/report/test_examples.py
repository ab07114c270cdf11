"""A published example is rebuilt from its results: evidence, verdicts and both documents."""

import json
import shutil
from pathlib import Path

import pytest
from sglang_sweep.evidence.arm import assess_arm
from sglang_sweep.report.figures import figure_blocks, figure_ratios, figure_windows
from sglang_sweep.report_documents import write_documents
from sglang_sweep.verdicts import build_verdicts

EXAMPLES = Path(__file__).parents[2] / "reports" / "examples"


@pytest.fixture(
    params=sorted(path.parent for path in EXAMPLES.glob("*/findings.md")), ids=lambda path: path.name
)
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, with the working directory in it: every path in an example is relative to its folder."""
    folder = tmp_path / request.param.name
    shutil.copytree(request.param, folder)
    monkeypatch.chdir(folder)
    return folder


def test_evidence_verdicts_and_documents_are_rebuilt_from_the_results(example: Path) -> None:
    results = next((example / "results").glob("*/declaration.json")).parent.relative_to(example)
    declared = json.loads((results / "declaration.json").read_text())
    launches = {
        folder: sorted((results / "launches" / folder).glob("block-*/launch.json"))
        for folder in declared["arms"]
    }
    baseline = [path for folder in list(declared["arms"])[:2] for path in launches[folder]]
    for folder, arm in declared["arms"].items():
        profile = results / "profiles" / folder / "profile.json"
        shown = assess_arm(arm, launches[folder], baseline, profile if profile.exists() else None)
        (results / "evidence" / f"{folder}.json").write_text(json.dumps(shown))
    evidence = [results / "evidence" / f"{folder}.json" for folder in declared["arms"]]
    verdicts = build_verdicts(declared, [path for paths in launches.values() for path in paths], evidence)
    published = json.loads((results / "verdicts.json").read_text())
    assert [(v["name"], v["verdict"], v["ratio"]) for v in verdicts["variants"]] == [
        (v["name"], v["verdict"], v["ratio"]) for v in published["variants"]
    ]
    assert verdicts == published
    kept = {name: (example / name).read_text() for name in ("findings.md", "index.html")}
    records = [json.loads(path.read_text()) for paths in launches.values() for path in paths]
    figures = [Path(name) for name in ("ratios.svg", "blocks.svg", "windows.svg")]
    figure_ratios(verdicts, figures[0])
    figure_blocks(records, figures[1], verdicts=verdicts)
    figure_windows(records, figures[2], verdicts=verdicts)
    write_documents(
        results / "verdicts.json", results / "report.json", figures, Path("findings.md"), Path("index.html")
    )
    assert (example / "findings.md").read_text() == kept["findings.md"]
    assert len((example / "index.html").read_text()) == pytest.approx(len(kept["index.html"]), rel=0.02)
