"""What we ask our server over HTTP: never through a proxy, with its key, bounded in time and size; and the probe."""

import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, NamedTuple

import requests

PROMPTS = (
    "The capital of France is",
    "1, 2, 3, 4, 5,",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees Celsius, which in Fahrenheit is",
)
"""Few, short and of different kinds; changing them changes the meaning of old probes (raise MEASURING_VERSION)."""

NEW_TOKENS = 16

ANSWER_LIMIT = 64 << 20
"""Bytes of one answer; the largest known, /server_info of eight ranks, is below one million."""


KEY_FLAGS = ("--api-key", "--admin-api-key")


class NoAnswer(requests.RequestException):
    """Nothing whole came within the time allowed."""


class BadAnswer(Exception):
    """The server answered, but not as SGLang does: an error, garbage, or without end."""


class Answer(NamedTuple):
    """A whole answer; a header that says otherwise is not believed."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Raises BadAnswer."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadAnswer(f"no JSON: {' '.join(self.text.split())[:200]!r}") from None


@dataclass(frozen=True)
class Asking:
    """A server at ``url`` and the keys it was started with, the one that most endpoints want first."""

    url: str
    keys: tuple[str, ...] = ()

    def ask(self, path: str, timeout_s: float, body: Any = None, *, post: bool = False) -> Answer:
        """One request, with an answer that is there as a whole ``timeout_s`` seconds later.

        Raises requests.RequestException, NoAnswer among them, and BadAnswer for one that is too long.
        """
        answer = Answer(401, b"")
        for key in self.keys or (None,):
            answer = self._ask(path, timeout_s, body, post or body is not None, key)
            if answer.status not in (401, 403):
                break
        return answer

    def _ask(self, path: str, timeout_s: float, body: Any, post: bool, key: str | None) -> Answer:
        got: list[Answer | Exception] = []

        def work() -> None:
            try:
                with requests.Session() as session:
                    session.trust_env = False  # a proxy, or a password from ~/.netrc
                    if key:
                        session.headers["Authorization"] = f"Bearer {key}"
                    with session.request(
                        "POST" if post else "GET",
                        self.url + path,
                        json=body,
                        timeout=timeout_s,
                        stream=True,
                        allow_redirects=False,
                    ) as answer:
                        found = bytearray()
                        for piece in answer.iter_content(1 << 16):
                            found += piece
                            if len(found) > ANSWER_LIMIT:
                                raise BadAnswer(f"more than {ANSWER_LIMIT} bytes")
                        got.append(Answer(answer.status_code, bytes(found)))
            except Exception as error:  # it is raised again in the thread that asked
                got.append(error)

        # The time-out of requests starts anew with every byte; this one does not.
        asking = Thread(target=work, daemon=True)
        asking.start()
        asking.join(timeout_s)
        if not got:
            raise NoAnswer(f"no whole answer to {path} within {timeout_s:g} s")
        if isinstance(got[0], requests.RequestException | BadAnswer):
            raise got[0]
        if isinstance(got[0], Exception):
            raise BadAnswer(f"{type(got[0]).__name__}: {got[0]}") from None
        return got[0]


def keys_of(command: Sequence[str]) -> tuple[str, ...]:
    """The keys in a server's command line, the ordinary one first."""
    return tuple(command[place][at:] for name in KEY_FLAGS for place, at in _keys(command, name))


def _keys(command: Sequence[str], name: str) -> list[tuple[int, int]]:
    """Where the values of a flag are: word, and place in it."""
    after = [(place + 1, 0) for place, word in enumerate(command[:-1]) if word == name]
    return after + [
        (place, len(name) + 1) for place, word in enumerate(command) if word.startswith(f"{name}=")
    ]


def random_key() -> str:
    """A key that nobody can guess; it lives as long as its server."""
    return secrets.token_urlsafe(24)


def run_probe(server: Asking, timeout_s: float) -> list[dict[str, Any]]:
    """Greedy answers to fixed prompts, one at a time: readiness proof, and the correctness evidence of a launch.

    Raises requests.RequestException where none comes, BadAnswer where it is not SGLang's.
    """
    return [_probe(server, prompt, timeout_s) for prompt in PROMPTS]


def _probe(server: Asking, prompt: str, timeout_s: float) -> dict[str, Any]:
    answer = server.ask(
        "/generate",
        timeout_s,
        {
            "text": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True},
            "return_logprob": True,
        },
    )
    if not answer.ok:
        raise BadAnswer(f"status {answer.status}: {' '.join(answer.text.split())[:200]}")
    body = answer.json()
    try:
        meta = body["meta_info"]
        tokens = meta.get("output_token_logprobs") or []
        return {
            "prompt": prompt,
            "text": body.get("text", ""),
            "output_ids": body.get("output_ids") or [token[1] for token in tokens],
            "logprobs": [_finite(token[0]) for token in tokens],
            "prompt_tokens": meta.get("prompt_tokens"),
            "completion_tokens": meta.get("completion_tokens"),
            "cached_tokens": meta.get("cached_tokens"),
            "finish_reason": (meta.get("finish_reason") or {}).get("type"),
            "spec_accept_length": meta.get("spec_accept_length"),
            "spec_verify_ct": meta.get("spec_verify_ct"),
        }
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise BadAnswer(f"not an answer of SGLang's ({error!r}): {answer.text[:200]!r}") from None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 5)
