"""Kinds of load: the keys each needs, the client's flags they become, and what its file must hold, read beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang_sweep.campaign.declared import Workload

LONGEST = 1_000_000
"""Characters in a line, or in one text of a JSON document: beyond it a file is broken or of another kind."""

Fault = tuple[str, str]
"""Where in the file (``line 3``, ``conversation 2``), and what is wrong there."""

Judge = Callable[[Any, "Workload"], str | None]
"""What is wrong with one item of a file; None where nothing is."""


@dataclass(frozen=True)
class Kind:
    """``needs``: keys of the workload. ``flags``: keys and the client's flags they become. ``chat``: its prompts are
    lists of messages, which SGLang's client sends through the chat endpoint only. ``items``: JSONL, or the key of a
    JSON document that holds the list (``""``: the document is the list); None where there is no file."""

    needs: tuple[str, ...]
    flags: Mapping[str, str]
    judge: Judge | None = None
    jsonl: bool = True
    within: str = ""
    chat: bool = False


def _texts(messages: Any, key: str) -> bool:
    return isinstance(messages, list) and all(
        isinstance(message, dict) and isinstance(message.get(key), str) and message[key].strip()
        for message in messages
    )


def _conversation(item: Any, workload: Workload) -> str | None:
    turns = item.get("conversations", item.get("conversation")) if isinstance(item, dict) else None
    if not isinstance(turns, list) or len(turns) < 2:
        return "has no conversation of two turns, {conversations: [question, answer]}"
    keys = ("value",) if workload.dataset in ("sharegpt", "random") else ("content", "value")
    if not any(_texts(turns[:2], key) for key in keys):
        return f"has a turn without text under {' or '.join(map(repr, keys))}"
    if len(turns) > 2 and not workload.first_turn_only and workload.dataset != "random":
        return (
            f"has {len(turns)} messages and SGLang's client sends the first alone: say first_turn_only: true, or "
            "write an agentic-trace"
        )
    return None


def _messages(item: Any, workload: Workload) -> str | None:
    messages = item.get("messages") if isinstance(item, dict) else None
    good = messages and _texts(messages, "role") and all("content" in message for message in messages)
    return None if good else "has no {messages: [{role, content}, ...]}"


def _arrival(item: Any, workload: Workload) -> str | None:
    if not isinstance(item, dict) or not isinstance(item.get("timestamp"), int | float):
        return "has no timestamp in ms"
    if not isinstance(item.get("hash_ids"), list) or not isinstance(item.get("output_length"), int):
        return "has no hash_ids (a list) with output_length (a whole number)"
    return None


def _trace(item: Any, workload: Workload) -> str | None:
    if not isinstance(item, list) or not item:
        return "is no list of turns"
    wrong = next((n for n, turn in enumerate(item, 1) if _messages(turn, workload)), None)
    return None if wrong is None else f"has in turn {wrong} no {{messages: [{{role, content}}, ...]}}"


def _document(item: Any, workload: Workload) -> str | None:
    keys = ("context", "question", "choice_A", "choice_B", "choice_C", "choice_D")
    absent = [key for key in keys if not isinstance(item, dict) or not isinstance(item.get(key), str)]
    return f"has no text {absent[0]!r}" if absent else None


_LENGTH = {"output_tokens": "sharegpt-output-len"}
_FILE = {"path": "dataset-path", **_LENGTH}
_RANDOM = {"input_tokens": "random-input-len", "output_tokens": "random-output-len"}
_LENGTHS = ("prompts", "input_tokens", "output_tokens")

KINDS: dict[str, Kind] = {
    "random-ids": Kind(_LENGTHS, _RANDOM),
    "random": Kind(("path", *_LENGTHS), {"path": "dataset-path", **_RANDOM}, _conversation, jsonl=False),
    "generated-shared-prefix": Kind(
        ("groups", "prompts_per_group", "prefix_tokens", "input_tokens", "output_tokens"),
        {
            "prefix_tokens": "gsp-system-prompt-len",
            "input_tokens": "gsp-question-len",
            "output_tokens": "gsp-output-len",
            "turns": "gsp-num-turns",
        },
    ),
    "custom": Kind(("path", "prompts"), _FILE, _conversation),
    "sharegpt": Kind(("path", "prompts"), _FILE, _conversation, jsonl=False),
    "openai": Kind(("path", "prompts"), _FILE, _messages, chat=True),
    "mooncake": Kind(("path", "prompts"), {"path": "dataset-path"}, _arrival),
    "agentic-trace": Kind(
        ("path", "prompts", "output_tokens"), {**_FILE, "turns": "agentic-max-turns"},
        _trace, jsonl=False, within="conversations", chat=True,
    ),
    "longbench_v2": Kind(("path", "prompts"), _FILE, _document),
    "image": Kind(_LENGTHS, _RANDOM, chat=True),
}  # fmt: skip
"""By the client's own name."""


def flags_of(workload: Workload, requests: int | None = None) -> dict[str, Any]:
    """The client's flags of this load; ``requests`` shortens the pass."""
    kind = KINDS[workload.dataset]
    flags: dict[str, Any] = {"dataset-name": workload.dataset, "num-prompts": requests or workload.prompts}
    flags |= {flag: getattr(workload, key) for key, flag in kind.flags.items() if getattr(workload, key)}
    if kind.chat or (workload.turns or 1) > 1:
        flags["backend"] = "sglang-oai-chat"
    if workload.dataset == "generated-shared-prefix":
        groups = workload.groups or 1
        per_group = -(-requests // groups) if requests else workload.prompts_per_group or 1
        flags |= {
            "gsp-num-groups": groups,
            "gsp-prompts-per-group": per_group,
            "gsp-system-prompt-len": workload.prefix_tokens,
            "num-prompts": groups * per_group,
        }
    elif workload.dataset in ("random-ids", "random", "image"):
        flags["random-range-ratio"] = 1.0
        if workload.dataset == "random-ids":
            # As ids: the text of random ids is another number of tokens when it is tokenised again (seen on the
            # H200 campaign, where 128 were 1,100).
            flags["tokenize-prompt"] = True
    elif workload.dataset == "mooncake":
        flags["use-trace-timestamps"] = True
    return flags


def answers(workload: Workload) -> int:
    """How many answers one window asks for: every turn of a conversation is one."""
    if workload.dataset == "agentic-trace":
        turns = _turns(str(workload.path))[: workload.requests]
        return sum(min(count, workload.turns or count) for count in turns)
    return workload.requests * (workload.turns or 1)


@cache
def _turns(path: str) -> list[int]:
    return [len(item) for item in json.loads(Path(path).read_text(encoding="utf-8"))["conversations"]]


def file_faults(workload: Workload) -> Iterator[Fault]:
    """The first thing wrong with the file of a load, as its kind of load must be written."""
    kind = KINDS[workload.dataset]
    if kind.judge is None or workload.path is None:
        return
    found = 0
    for where, item in _items(Path(workload.path), kind):
        wrong = item if isinstance(item, Unread) else kind.judge(item, workload)
        if wrong:
            yield where, str(wrong)
            return
        found += 1
    if not found or found < (workload.prompts or 0):
        what = "conversations" if kind.judge in (_conversation, _trace) else "requests"
        yield "the file", f"holds {found} {what}, {workload.prompts} are asked"


class Unread(str):
    """What is wrong, in place of an item that cannot be read."""


def _items(file: Path, kind: Kind) -> Iterator[tuple[str, Any]]:
    """Every item with its place; a `Unread` in place of one that cannot be read."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        yield "the file", Unread(f"cannot be read: {error.strerror}")
        return
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield f"line {number}", Unread(f"is not UTF-8 (byte {error.start + 1})")
            return
        if kind.jsonl and len(line) > LONGEST:
            yield f"line {number}", Unread(f"has {len(line):,} characters, more than {LONGEST:,}")
            return
    if kind.jsonl:
        for number, text in enumerate(texts, 1):
            if text.strip():
                try:
                    yield f"line {number}", json.loads(text)
                except ValueError as error:
                    yield f"line {number}", Unread(f"is no JSON: {error}")
        return
    whole = "\n".join(texts)
    if not whole.strip():
        return
    try:
        data = json.loads(whole)
    except json.JSONDecodeError as error:
        yield f"line {error.lineno}", Unread(f"is no JSON: {error.msg}; {_shape(kind)}")
        return
    if kind.within:
        data = data.get(kind.within) if isinstance(data, dict) else None
    if not isinstance(data, list):
        yield "the file", Unread(f"has another shape; {_shape(kind)}")
        return
    for number, item in enumerate(data, 1):
        long = len(json.dumps(item)) > LONGEST
        yield f"conversation {number}", Unread(f"has more than {LONGEST:,} characters") if long else item


def _shape(kind: Kind) -> str:
    return (
        f"one JSON document {{{kind.within}: [...]}} is needed"
        if kind.within
        else "one JSON list of conversations is needed"
    )


# ---- ladders

_BY_LEVEL = ("concurrency", "request_rate", "prompts", "prompts_per_group")


def expanded(raw: dict[str, Any]) -> dict[str, Any]:
    """The campaign as written, with every ladder as one workload a level.

    ``{name: chat, concurrency: [1, 8], prompts: [4, 32]}`` becomes ``chat-1`` and ``chat-8``, and a primary
    ``{workload: chat, level: 8}`` names ``chat-8``. What is malformed is left for the model to tell.
    """
    loads = raw.get("workloads")
    if not isinstance(loads, list):
        return raw
    levels = [level for load in loads for level in (_levels(load) if isinstance(load, dict) else [load])]
    raw = {**raw, "workloads": levels}
    design = raw.get("design")
    primary = design.get("primary") if isinstance(design, dict) else None
    if isinstance(primary, dict) and isinstance(primary.get("level"), int | float):
        primary = {**primary, "workload": f"{primary.get('workload')}-{_spelt(primary['level'])}"}
        raw["design"] = {**raw["design"], "primary": {k: v for k, v in primary.items() if k != "level"}}
    return raw


def _levels(load: dict[str, Any]) -> list[dict[str, Any]]:
    key = next((key for key in ("concurrency", "request_rate") if isinstance(load.get(key), list)), None)
    numbers = key and load[key] and all(type(level) in (int, float) for level in load[key])
    if key is None or not numbers or load[key] != sorted(set(load[key])):
        return [load]  # what is no ladder is told by the model: a whole number belongs there
    count = len(load[key])
    lists = {k: load[k] for k in _BY_LEVEL if isinstance(load.get(k), list) and len(load[k]) == count}
    return [
        {
            **load,
            **{k: values[index] for k, values in lists.items()},
            "name": f"{load.get('name')}-{_spelt(level)}",
            "ladder": load.get("name"),
        }
        for index, level in enumerate(load[key])
    ]


def _spelt(level: float) -> str:
    return f"{level:g}".replace(".", "-")
