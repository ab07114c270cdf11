"""Secrets are not written down, and nothing else is hidden."""

import pytest
from sglang_sweep.files.redaction import redacted, redacted_environment


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
