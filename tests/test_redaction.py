"""Secrets are not written down, and nothing else is hidden."""

import json
from pathlib import Path
from typing import Any

import pytest
from launch_records import launch
from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.files.launches import sealed
from sglang_sweep.files.records import write_json
from sglang_sweep.files.redaction import (
    printable,
    redact_file,
    redacted,
    redacted_data,
    redacted_environment,
    secrets_of,
)
from sglang_sweep.launch.environment import ambient
from sglang_sweep.plan.schedule import arms_of


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("HF_TOKEN", "hf_abc", "<redacted>"),
        ("SGLANG_API_KEY", "k", "<redacted>"),
        ("NCCL_DEBUG", "INFO", "INFO"),
        ("HF_ENDPOINT", "https://me:word@mirror.example/hf", "https://<redacted>@mirror.example/hf"),
        ("HF_TOKEN", "", ""),
        ("TORCH_EXTENSIONS_DIR", "/x", "/x"),
        ("AWS_SECRET_KEY", "x", "<redacted>"),
        ("MY_API_KEY", "x", "<redacted>"),
        ("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "128", "128"),
        ("TOKENIZERS_PARALLELISM", "false", "false"),
    ],
)
def test_secrets_are_redacted_and_the_rest_is_kept(name: str, value: str, shown: str) -> None:
    assert redacted(name, value) == shown


def test_an_environment_is_redacted_by_name() -> None:
    assert redacted_environment({"NCCL_ALGO": "Ring", "HF_TOKEN": "x"}) == {
        "HF_TOKEN": "<redacted>",
        "NCCL_ALGO": "Ring",
    }


S = "S3cretS3cretS3cret"
PLANTED: list[Any] = [
    {"env": {"HF_TOKEN": S}}, {"env": {"OPENAI_API_KEY": S}}, {"env": {"GITHUB_PAT": S}}, {"env": {"DB_PASS": S}},
    {"env": {"PGPASSWORD": S}}, {"env": {"AWS_SECRET_ACCESS_KEY": S}}, {"env": {"WANDB_KEY": S}},
    {"env": {"MIRROR": f"https://me:{S}@mirror.example/hf"}}, {"env": {"MIRROR": f"https://x.example/?token={S}"}},
    {"env": {"MIRROR": f"https://x.example/a?b=1&access_token={S}"}}, {"env": {"URL": f"s3://b/x?sig={S}&d=1"}},
    {"env": {"HEADERS": f"Authorization: Bearer {S}"}}, {"env": {"NOTE": f"hf_{S}"}},
    {"env": {"NOTE": f"use ghp_{S}"}}, {"env": {"NOTE": f"sk-{S}"}}, {"env": {"NOTE": f"glpat-{S}"}},
    {"flags": {"api-key": S}}, {"flags": {"admin-api-key": S}}, {"flags": {"ssl-keyfile-password": S}},
    {"command": ["python", "--api-key", S]}, {"command": ["python", f"--api-key={S}"]},
    {"internal_states": [{"admin_api_key": S}]}, {"credentials": {"password": S}},
]  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_a_planted_secret_is_in_nothing_that_is_written(planted: dict[str, Any], tmp_path: Path) -> None:
    write_json(tmp_path / "any.json", {"deep": [planted]})
    environment = planted.get("env", {})
    command = planted.get("command") or ["python", *(w for n, v in planted.get("flags", {}).items()
                                                     for w in (f"--{n}", v))]  # fmt: skip
    record = launch(environment=environment, command=command)
    write_json(tmp_path / "launch.json", sealed(record, tmp_path))
    log = tmp_path / "server.log"
    log.write_text(f"line one\nServerArgs({planted!r}) {' '.join(command)}\n")
    redact_file(log, secrets_of(environment, command))
    found = [file.name for file in tmp_path.iterdir() if S in file.read_text()]
    assert found == ([] if "env" in planted or "flags" in planted or "command" in planted else ["server.log"])
    assert redacted_data(redacted_data(planted)) == redacted_data(planted)


def test_variants_with_different_secrets_have_different_keys_and_none_is_in_them() -> None:
    from dataclasses import replace

    loaded = load_campaign("cpu-demo")
    keys = set()
    for secret in ("first-secret", "other-secret"):
        baseline = replace(loaded.baseline, env={"HF_TOKEN": secret}, flags={"api-key": secret})
        arm = arms_of(
            replace(loaded, baseline=baseline, variants=()), {"cpu": "s"}, {"smollm2-135m": "m"}, "h", {}
        )[0]
        assert secret not in json.dumps(arm.identity)
        keys.add(arm.key)
    assert len(keys) == 2


def test_a_secret_in_the_shell_compares_equal_to_its_recorded_form() -> None:
    shell = {"SGLANG_API_KEY": "secret", "NCCL_DEBUG": "INFO"}
    assert ambient(redacted_environment(shell)) == ambient(shell) == ambient(ambient(shell))
    assert "secret" not in str(ambient(shell))


@pytest.mark.parametrize(
    "data",
    [{"key": "a69a9ef2a8"}, {"speculative-token-map": "/m/map.pt"}, {"text": "Basic arithmetic is taught early"},
     {"total_output_tokens": 5}, {"tokenizer-path": "/m"}, {"class_key": "x"}, ["--tokenizer-mode", "auto"]],
)  # fmt: skip
def test_what_is_no_secret_is_kept(data: Any) -> None:
    assert redacted_data(data) == data


def test_a_terminal_gets_no_escapes() -> None:
    assert printable("\x1b]0;owned\x07a\x1b[31mb\x1b[0m\rc\x9bd\u202ee\tf\n") == "abcde\tf\n"
