"""What a launch reads is in its key by content, and a data set that the client would thin silently is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.campaign.keys import launch_identity, launch_key
from sglang_sweep.campaign.model import Campaign, load_campaign
from sglang_sweep.errors import UserError

TURNS = json.dumps({"conversations": [{"content": "How are you?"}, {"content": "Well."}]})


def campaign(folder: Path, path: Path, **flags: Any) -> Campaign:
    (folder / "c.yaml").write_text(
        f"""
question: Does what is read enter the key?
stack: cpu
model: m
baseline: {{flags: {json.dumps(flags)}}}
workloads: [{{name: w, dataset: custom, path: {path}, concurrency: 1, prompts: 2}}]
design: {{primary: {{workload: w, metric: output_throughput}}}}
"""
    )
    return load_campaign("c", folder)


def key(asked: Campaign) -> str:
    identity = launch_identity(
        asked, asked.baseline, stack_digest="s", model_digests={}, host_class="h", server_env={}
    )
    return launch_key(identity)


def test_a_data_set_is_in_the_key_by_what_is_in_it(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "prompts.jsonl", tmp_path / "same.jsonl"
    for path in (data, elsewhere):
        path.write_text(f"{TURNS}\n" * 3)
    before = key(campaign(tmp_path, data))
    assert key(campaign(tmp_path, elsewhere)) == before
    data.write_text(f"{TURNS}\n" * 2)
    assert key(campaign(tmp_path, data)) != before


@pytest.mark.parametrize("flag", ["chat-template", "lora-paths"])
def test_a_file_that_a_flag_names_is_in_the_key_by_what_is_in_it(tmp_path: Path, flag: str) -> None:
    data, read = tmp_path / "prompts.jsonl", tmp_path / "adapter" / "template.jinja"
    data.write_text(f"{TURNS}\n" * 3)
    read.parent.mkdir()
    read.write_text("{{ messages }}")
    value = str(read) if flag == "chat-template" else [f"mine={read.parent}"]
    before = key(campaign(tmp_path, data, **{flag: value}))
    read.write_text("{{ messages[0] }}")
    assert key(campaign(tmp_path, data, **{flag: value})) != before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"c.yaml:workloads\[w\].path: .*holds 0 conversations, 2 are asked"),
        (f"{TURNS}\n", "holds 1 conversations, 2 are asked"),
        (f"{TURNS}\n{{broken\n", "prompts.jsonl: line 2 is no JSON"),
        (f"{TURNS}\n[]\n", "line 2 has no conversation of two turns"),
        (f'{TURNS}\n{{"conversations": [{{"content": "x"}}, {{"content": ""}}]}}\n', "a turn without text"),
    ],
)
def test_what_the_client_would_leave_out_is_an_error_with_its_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "prompts.jsonl").write_text(text)
    with pytest.raises(UserError, match=expected):
        campaign(tmp_path, tmp_path / "prompts.jsonl")


def test_a_data_set_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        campaign(tmp_path, tmp_path / "prompts.jsonl")
