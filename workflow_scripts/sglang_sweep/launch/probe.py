"""Greedy answers to fixed prompts: readiness proof, and the correctness evidence of a launch."""

from typing import Any

import requests

PROMPTS = (
    "The capital of France is",
    "1, 2, 3, 4, 5,",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees Celsius, which in Fahrenheit is",
)
"""Few, short and of different kinds; changing them changes the meaning of old probes (raise MEASURING_VERSION)."""

NEW_TOKENS = 16


def run_probe(url: str, timeout_s: float) -> list[dict[str, Any]]:
    """One greedy ``/generate`` per prompt, one at a time. Raises requests.RequestException when one fails."""
    return [_ask(url, prompt, timeout_s) for prompt in PROMPTS]


def _ask(url: str, prompt: str, timeout_s: float) -> dict[str, Any]:
    answer = requests.post(
        f"{url}/generate",
        json={
            "text": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True},
            "return_logprob": True,
        },
        timeout=timeout_s,
    )
    answer.raise_for_status()
    body = answer.json()
    meta = body["meta_info"]
    tokens = meta.get("output_token_logprobs") or []
    return {
        "prompt": prompt,
        "text": body.get("text", ""),
        "output_ids": body.get("output_ids") or [token[1] for token in tokens],
        "logprobs": [round(token[0], 5) if token[0] is not None else None for token in tokens],
        "prompt_tokens": meta.get("prompt_tokens"),
        "completion_tokens": meta.get("completion_tokens"),
        "cached_tokens": meta.get("cached_tokens"),
        "finish_reason": (meta.get("finish_reason") or {}).get("type"),
        "spec_accept_length": meta.get("spec_accept_length"),
        "spec_verify_ct": meta.get("spec_verify_ct"),
    }
