"""What a dry run lists: exactly what is missing, and what follows from it."""

import re
import shutil
from pathlib import Path

import pytest
from clone import Clone, Jobs

pytestmark = pytest.mark.workflow

BLOCKS = (1, 2)
TINY = {
    (arm, block) for arm in ("baseline", "baseline-prime", "mscclpp", "slipped", "tp2") for block in BLOCKS
}
DERIVED = {"verdict": 1, "gather": 1, "documents": 1, "all": 1}


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file but Snakemake's own records and logs."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".snakemake" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_dry_run_of_a_fresh_clone_lists_every_launch_and_writes_nothing(project: Clone) -> None:
    before = snapshot(project.folder)
    jobs = project.would_run()
    arms = ("baseline", "baseline-prime", "radix-off", "policy-lpm", "mscclpp", "tp2")
    assert jobs.launches == {(arm, block) for arm in arms for block in (1, 2, 3)}
    assert jobs == {**DERIVED, "launch": 18, "evidence": 6, "ready": 1}
    assert snapshot(project.folder) == before


def test_stacks_and_models_that_are_not_there_are_built_first(project: Clone, tmp_path: Path) -> None:
    project.site(campaigns=["cpu-demo"], store=str(tmp_path / "elsewhere"))
    jobs = project.would_run()
    assert (jobs["stack"], jobs["model"], jobs["launch"]) == (1, 1, 18)


def test_the_campaign_for_eight_gpus_can_be_planned_on_any_host(project: Clone) -> None:
    project.site(campaigns=["rtx-pro-6000-x8"])
    jobs = project.would_run()
    arms = {arm for arm, _ in jobs.launches}
    assert {"baseline", "baseline-prime"} < arms
    assert jobs["launch"] == len(jobs.launches) == len(arms) * len({block for _, block in jobs.launches})


def test_collectives_are_measured_again_when_something_else_is_asked_of_them(project: Clone) -> None:
    project.site(campaigns=["rtx-pro-6000-x8"])
    jobs = project.would_run()
    (made,) = re.findall(r"communication/\S+/[0-9a-f]{10}\.json", jobs.text.partition("rule all")[0])[:1]
    path = project.folder / "results" / made
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert "communication" not in project.would_run()
    project.edit("repeats: 20", "repeats: 50", "rtx-pro-6000-x8")
    assert project.would_run()["communication"] == 1


def test_what_was_measured_is_not_listed_again_even_where_the_clone_was_moved(measured: Clone) -> None:
    assert "Nothing to be done" in measured.would_run().text


def test_editing_one_variant_lists_its_launches_and_what_follows(measured: Clone) -> None:
    measured.edit("{enable-mscclpp: true}", "{schedule-policy: lpm}")
    jobs = measured.would_run()
    assert jobs.launches == {("mscclpp", 1), ("mscclpp", 2)}
    assert jobs == {**DERIVED, "launch": 2, "evidence": 1, "ready": 1}


def test_one_launch_more_does_not_need_the_others_again_where_no_stack_is_built(
    measured: Clone, tmp_path: Path
) -> None:
    measured.site(campaigns=["tiny"], store=str(tmp_path / "elsewhere"))
    measured.edit("{enable-mscclpp: true}", "{schedule-policy: lpm}")
    jobs = measured.would_run()
    assert jobs.launches == {("mscclpp", 1), ("mscclpp", 2)}
    assert (jobs["stack"], jobs["model"], jobs["ready"]) == (1, 1, 1)


def test_a_report_of_what_is_there_launches_nothing_even_where_no_stack_is(
    measured: Clone, tmp_path: Path
) -> None:
    measured.site(campaigns=["tiny"], store=str(tmp_path / "elsewhere"))
    measured.launch_file("baseline", 2).unlink()
    measured.edit("{enable-mscclpp: true}", "{schedule-policy: lpm}")
    everything = measured.would_run(
        "--forceall", "--config", "measure=false"
    )  # as where a launch was interrupted
    assert "launch" not in everything and "profile" not in everything
    text = measured.snakemake("--cores", "all", "--config", "measure=false")
    assert "launch of" not in text
    launches = {v["name"]: len(v["launches"]) for v in measured.verdicts()["variants"]}
    assert launches["mscclpp"] == 0  # as edited, it was not launched yet
    assert launches["tp2"] == launches["baseline-prime"] == 2
    assert "Not measured yet:" in (measured.folder / "reports" / "tiny" / "findings.md").read_text()
    assert measured.would_run().launches == {("baseline", 2), ("mscclpp", 1), ("mscclpp", 2)}


def test_a_report_follows_the_launches_that_are_there(measured: Clone) -> None:
    shutil.rmtree(measured.launch_file("slipped", 1).parents[1])
    measured.launch_file("mscclpp", 2).unlink()
    measured.snakemake("--cores", "all", "--config", "measure=false")
    rows = {v["name"]: v for v in measured.verdicts()["variants"]}
    assert (rows["slipped"]["verdict"], len(rows["mscclpp"]["launches"])) == ("PLANNED", 1)
    plan = measured.snakemake("--cores", "1", "plan", "--config", "measure=false")
    assert "3 launches to run" in plan  # what is missing is missing, whether anything may be measured or not


def test_a_report_of_nothing_does_not_replace_one_of_launches_under_other_keys(measured: Clone) -> None:
    before = measured.verdicts()
    measured.edit("max-total-tokens: 4096", "max-total-tokens: 2048")
    text = measured.snakemake("--cores", "all", "--config", "measure=false", code=1)
    assert "none of the 10 launches here has one of this campaign's keys" in text
    assert measured.verdicts() == before


def test_every_deleted_outcome_is_made_again(measured: Clone) -> None:
    deleted = [measured.folder / "reports" / "tiny" / name for name in ("ratios.svg", "verdicts.csv")]
    deleted += [measured.folder / "results" / "tiny" / name for name in ("report.json", "declaration.json")]
    for path in deleted:
        path.unlink()
    measured.snakemake("--cores", "all", "--config", "measure=false")
    assert all(path.exists() for path in deleted)


def test_a_summary_older_than_launches_says_so(measured: Clone) -> None:
    launch = measured.launch_file("tp2", 1)
    launch.unlink()
    text = measured.snakemake("--cores", "all", str(launch.relative_to(measured.folder)))
    assert "without 1 newer launch: snakemake --cores all reports/tiny/findings.md" in text


def test_a_changed_stack_marker_hides_no_missing_launch(measured: Clone, tmp_path: Path, store: Path) -> None:
    """Snakemake drops what is missing behind an ancient input that is itself outdated."""
    shutil.copytree(store, tmp_path / "rebuilt")
    for marker in (tmp_path / "rebuilt").rglob("stack.json"):
        marker.write_text(marker.read_text() + " ")
    measured.site(campaigns=["tiny"], store=str(tmp_path / "rebuilt"))
    measured.launch_file("tp2", 1).unlink()
    assert measured.would_run().launches == {("tp2", 1)}


def test_order_comments_and_white_space_list_nothing(measured: Clone) -> None:
    measured.edit(
        "    device: cpu\n    dtype: float32\n", "    dtype:   float32   # as before\n    device: cpu\n"
    )
    measured.edit("    concurrency: 2\n    prompts: 4\n", "\n    prompts: 4\n    concurrency: 2\n")
    measured.edit("design:\n", "# How many launches.\ndesign:\n")
    assert "Nothing to be done" in measured.would_run().text


def test_another_note_changes_the_documents_alone(measured: Clone) -> None:
    measured.edit("question:", "notes: Seen before.\nquestion:")
    assert measured.would_run() == {"gather": 1, "documents": 1, "all": 1}


def test_another_hypothesis_is_reported_and_measures_nothing(measured: Clone) -> None:
    measured.edit("Accepted, and idle with one rank.", "It would help if there were two ranks.")
    jobs = measured.would_run()
    assert jobs.launches == set()
    assert jobs["documents"] == 1


def test_results_copied_into_a_fresh_clone_are_believed(measured_once: Clone, tmp_path: Path) -> None:
    clone = Clone.fresh(tmp_path / "clone")
    shutil.copy2(measured_once.folder / "config" / "config.yaml", clone.folder / "config")
    shutil.copytree(measured_once.folder / "results", clone.folder / "results", copy_function=shutil.copyfile)
    assert clone.would_run().launches == set()


def test_a_touched_script_or_another_store_measures_nothing(measured: Clone, tmp_path: Path) -> None:
    for script in (measured.folder / "workflow_scripts").rglob("*.py"):
        script.touch()
    measured.site(campaigns=["tiny"], store=str(tmp_path / "moved"))
    jobs = measured.would_run()
    assert jobs.launches == set()
    assert "profile" not in jobs


@pytest.mark.parametrize(("arm", "evidence"), [("slipped", 1), ("baseline", 5)])
def test_a_deleted_launch_is_made_again_with_what_follows(measured: Clone, arm: str, evidence: int) -> None:
    """Every arm's evidence is a comparison with the baseline's launches."""
    measured.launch_file(arm, 2).unlink()
    jobs = measured.would_run()
    assert jobs.launches == {(arm, 2)}
    assert jobs == {**DERIVED, "launch": 1, "evidence": evidence}


def test_more_blocks_leave_the_old_ones_alone(measured: Clone) -> None:
    measured.edit("blocks: 2", "blocks: 3")
    assert measured.would_run().launches == {(arm, 3) for arm, _ in TINY}


def test_a_late_variant_joins_the_blocks_that_are_there(measured: Clone) -> None:
    late = "  - {name: late, hypothesis: Later., change: {flags: {schedule-policy: lpm}}}\n"
    measured.edit("workloads:\n", late + "workloads:\n")
    assert measured.would_run().launches == {("late", 1), ("late", 2)}


def test_another_campaign_with_one_variant_more_launches_that_one_alone(measured: Clone, store: Path) -> None:
    """The README's "add your variant": the baseline was measured minutes ago, under the same key."""
    measured.campaign_file("mine").write_text(
        "extends: tiny\nquestion: Does another policy help here?\n"
        "variants:\n  - {name: late, hypothesis: Later., change: {flags: {schedule-policy: lpm}}}\n"
    )
    asked = "reports/mine/findings.md"
    assert measured.would_run(asked).launches == {("late", 1), ("late", 2)}
    ran = Jobs(measured.snakemake("--cores", "all", asked))
    assert ran["launch"] == 2
    assert {row["name"] for row in measured.verdicts("mine")["variants"]} >= {"late", "slipped"}
    assert "Nothing to be done" in measured.would_run(asked).text
    measured.site(campaigns=["mine", "tiny"], store=str(store))
    assert measured.would_run().launches == set()


def test_a_tree_of_an_earlier_version_is_read_where_it_is(measured: Clone) -> None:
    shutil.move(measured.folder / "results" / "launches", measured.folder / "results" / "tiny" / "launches")
    assert measured.would_run().launches == set()


def test_a_variant_that_is_taken_out_and_put_back_is_found_again(measured: Clone) -> None:
    kept = measured.campaign_text()
    variant = kept[kept.index("  - name: slipped") : kept.index("  - name: tp2")]
    measured.edit(variant, "")
    assert measured.would_run().launches == set()
    measured.campaign_file().write_text(kept)
    assert measured.would_run().launches == set()


def test_deleted_findings_are_written_again_from_what_is_there(measured: Clone) -> None:
    findings = measured.folder / "reports" / "tiny" / "findings.md"
    text = findings.read_text()
    findings.unlink()
    assert measured.would_run() == {"documents": 1, "all": 1}
    ran = Jobs(measured.snakemake("--cores", "all", "reports/tiny/findings.md"))
    assert ran == {"documents": 1}
    assert findings.read_text() == text
    assert "Nothing to be done" in measured.would_run().text


def test_a_campaign_that_config_does_not_name_is_a_target_too(measured: Clone, store: Path) -> None:
    measured.site(campaigns=["cpu-demo"], store=str(store))
    assert "Nothing to be done" in measured.would_run("reports/tiny/findings.md").text
