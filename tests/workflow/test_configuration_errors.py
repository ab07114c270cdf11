"""A mistake in the configuration ends snakemake before anything runs, with file, key, reason and remedy."""

from pathlib import Path

import pytest
from clone import Clone

pytestmark = pytest.mark.workflow

MSCCLPP = "{flags: {enable-mscclpp: true}}"
SLIPPED, TP2 = "  - name: slipped\n", "  - name: tp2\n"


def refused(project: Clone) -> str:
    text = project.snakemake("-n", code=1)
    assert "Traceback" not in text
    assert "remedy: " in text
    assert "Job stats" not in text
    return text


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (
            {
                "stack: cpu\n": "stack: cpu\nstak: cpu\n",
                SLIPPED: "  - name: MSCCLPP\n",
                TP2: "  - name: ../x\n",
                "blocks: 2": "blocks: 0",
            },
            [
                "tiny.yaml: unknown key 'stak'",
                "did you mean 'stack'?",
                "tiny.yaml:variants[MSCCLPP].name: 'MSCCLPP' is not a valid name",
                "tiny.yaml:variants[../x].name: '../x' is not a valid name",
                "remedy: Lower-case letters, digits and dashes",
                "tiny.yaml:design.blocks: 0 is less than the minimum of 1",
            ],
        ),
        (
            {SLIPPED: "  - name: mscclpp\n", TP2: TP2 + "    parent: nobody\n"},
            [
                "tiny.yaml:variants[mscclpp].name: 'mscclpp' is also the name of a variant above",
                "tiny.yaml:variants[tp2].parent: unknown parent 'nobody'",
                "remedy: name the baseline or a variant above this one: baseline",
            ],
        ),
        (
            {MSCCLPP: "{flags: {enable-msclpp: true, mem-fraction: 0.8, --enable-mscclpp: true}}"},
            [
                "tiny.yaml:variants[mscclpp].change.flags.enable-msclpp: SGLang 0.5.23 has no flag --enable-msclpp",
                "did you mean --enable-mscclpp?",
                "argparse would silently take it for --mem-fraction-static",
                "remedy: write enable-mscclpp:",
            ],
        ),
        (
            {MSCCLPP: "{flags: {disable-radixcache: null}}"},
            ["variants[mscclpp].change.flags.disable-radixcache: SGLang 0.5.23 has no flag --disable-radixcache"],
        ),
        (
            {MSCCLPP: "{flags: {max-total-tokens: 4096}}"},
            ["tiny.yaml:variants[mscclpp].change: changes nothing: this is the baseline's own command", "take it out"],
        ),
        (
            {MSCCLPP: "{flags: {tp-size: two}, env: {A=B: x}}"},
            ["tiny.yaml:variants[mscclpp].change.env.A=B: 'A=B' is not a valid name"],
        ),
        (
            {MSCCLPP: "{flags: {tp-size: two}}"},
            ["tiny.yaml:variants[mscclpp].change.flags.tp-size: 'two' is no number of ranks"],
        ),
        ({"stack: cpu\n": "stack: cpu2\n"}, ["envs/cpu2/stack.yaml: there is no stack 'cpu2'", "the stacks here are"]),
        ({"model: tiny-llama\n": "model: tiny\n"}, ["config/models.yaml: there is no model 'tiny'", "tiny-llama"]),
        ({"question: ": "question: Is it: so? "}, ["tiny.yaml: line 2: ", "quote texts that hold ': '"]),
    ],
    ids=["schema", "names", "flags", "null-flag", "no-change", "variable", "ranks", "stack", "model", "yaml"],
)  # fmt: skip
def test_the_mistakes_of_a_campaign_are_named_all_at_once(
    project: Clone, edits: dict[str, str], expected: list[str]
) -> None:
    project.site(campaigns=["tiny"])
    for old, new in edits.items():
        project.edit(old, new)
    text = refused(project)
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"campaigns": ["nothing-here"]}, ["nothing-here.yaml", "no such campaign", "known campaigns: cpu-aa"]),
        ({"campaigns": ["tiny"], "shop": "x"}, ["config/config.yaml", "unknown key 'shop'"]),
        ({"campaigns": ["tiny"], "limits": {"stall_s": 0}}, ["config/config.yaml:limits.stall_s"]),
        ({"campaigns": []}, ["config/config.yaml:campaigns"]),
    ],
)  # fmt: skip
def test_the_mistakes_of_a_site_are_named(project: Clone, settings: dict, expected: list[str]) -> None:
    project.site(**settings)
    text = project.snakemake("-n", code=1)
    assert "Traceback" not in text
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("campaigns: [tiny]\ncampaigns: [cpu-demo]\n", "line 2: the key 'campaigns' stands twice"),
        ("", "config/config.yaml: it says nothing"),
        ("campaigns:\n\t- tiny\n", "config/config.yaml: line 2"),
    ],
)
def test_a_broken_file_of_the_site_is_named(project: Clone, text: str, expected: str) -> None:
    (project.folder / "config" / "config.yaml").write_text(text)
    assert expected in refused(project)


def test_one_campaign_may_be_named_on_the_command_line(project: Clone) -> None:
    assert "launch of mscclpp" in project.snakemake("-n", "--config", "campaigns=tiny")


def test_a_report_of_an_unknown_campaign_is_refused_readably(project: Clone) -> None:
    text = project.snakemake("-n", "reports/nothing-here/findings.md", code=1)
    assert "no such campaign" in text
    assert "Traceback" not in text


def test_a_variable_that_a_campaign_forbids_is_refused_of_the_site_too(project: Clone, store: Path) -> None:
    project.campaign("tiny", forbidden={"reason": "it harms others", "env": ["NCCL_NVLS_ENABLE"]})
    project.site(campaigns=["tiny"], store=str(store), server_env={"NCCL_NVLS_ENABLE": "1"})
    text = refused(project)
    assert (
        "config/config.yaml:server_env.NCCL_NVLS_ENABLE: NCCL_NVLS_ENABLE must not run here: it harms others"
        in text
    )
