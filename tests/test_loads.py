"""Kinds of load: their files are judged before a launch, and a ladder is one workload a level."""

import json
from pathlib import Path

import pytest
from sglang_sweep.campaign import loads
from sglang_sweep.campaign.declared import Workload
from sglang_sweep.campaign.keys import _asked
from sglang_sweep.campaign.model import load_campaign

TALK = {"conversations": [{"content": "a", "value": "a"}, {"content": "b", "value": "b"}]}
CHAT = {"messages": [{"role": "user", "content": "a"}]}
ARRIVAL = {"timestamp": 1, "hash_ids": [1], "output_length": 4}
DOCUMENT = dict.fromkeys(("context", "question", "choice_A", "choice_B", "choice_C", "choice_D"), "x")
GOOD = {
    "custom": [TALK, TALK], "openai": [CHAT, CHAT], "mooncake": [ARRIVAL, ARRIVAL], "longbench_v2": [DOCUMENT] * 2,
    "sharegpt": [TALK, TALK], "random": [TALK, TALK], "agentic-trace": [[CHAT, CHAT], [CHAT]],
}  # fmt: skip
KINDS = sorted(GOOD)


def written(kind: str, items: list[object]) -> bytes:
    if loads.KINDS[kind].jsonl:
        return "".join(json.dumps(item) + "\n" for item in items).encode()
    within = loads.KINDS[kind].within
    return json.dumps({within: items} if within else items, indent=1).encode()


def faults(tmp_path: Path, kind: str, content: bytes, **more: object) -> list[tuple[str, str]]:
    file = tmp_path / "prompts"
    file.write_bytes(content)
    load = Workload.model_validate(
        {"name": "w", "dataset": kind, "concurrency": 1, "prompts": 2, "path": str(file), "output_tokens": 4}
        | more
    )
    return list(loads.file_faults(load))


def test_every_kind_with_a_file_is_tried_here() -> None:
    assert {name for name, kind in loads.KINDS.items() if kind.judge} == set(GOOD)


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_file_has_no_fault(tmp_path: Path, kind: str) -> None:
    assert faults(tmp_path, kind, written(kind, GOOD[kind])) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda good, lines: b"", "holds 0"),
        (lambda good, lines: good[: len(good) - 20], "is no JSON"),
        (lambda good, lines: good.replace(b"{", b"{\xff", 1), "UTF-8"),
        (lambda good, lines: b'"a word"\n', ""),
        (lambda good, lines: b'{"other": 1}\n', ""),
        (lambda good, lines: b"[1, 2]\n", ""),
    ],
    ids=["empty", "truncated", "not-utf-8", "a-text", "a-mapping", "numbers"],
)
def test_a_bad_file_of_any_kind_is_refused_with_its_place(
    tmp_path: Path, kind: str, harm: object, said: str
) -> None:
    good = written(kind, GOOD[kind])
    assert callable(harm)
    [(where, wrong)] = faults(tmp_path, kind, harm(good, None))
    assert said in wrong
    assert where.split()[0] in ("line", "conversation", "the")


@pytest.mark.parametrize("kind", KINDS)
def test_a_million_tokens_in_one_line_are_refused(tmp_path: Path, kind: str) -> None:
    huge = json.loads(json.dumps(GOOD[kind]).replace('"x"', '"' + "x " * 600_000 + '"', 1))
    if kind == "mooncake":
        huge[0]["hash_ids"] = list(range(200_000))
    elif kind != "longbench_v2":
        huge = json.loads(json.dumps(GOOD[kind]).replace('"a"', json.dumps("a " * 600_000), 2))
    [(where, wrong)] = faults(tmp_path, kind, written(kind, huge))
    assert where in ("line 1", "conversation 1")
    assert "1,000,000" in wrong


def test_a_file_of_fewer_prompts_than_asked_is_refused(tmp_path: Path) -> None:
    [(_, wrong)] = faults(tmp_path, "custom", written("custom", [TALK]))
    assert "holds 1 conversations, 2 are asked" in wrong


def test_later_turns_are_not_cut_in_silence(tmp_path: Path) -> None:
    long = written("custom", [{"conversations": TALK["conversations"] * 2}] * 2)
    [(where, wrong)] = faults(tmp_path, "custom", long)
    assert (where, "first_turn_only" in wrong) == ("line 1", True)
    assert faults(tmp_path, "custom", long, first_turn_only=True) == []


def test_a_ladder_is_one_workload_a_level_and_the_primary_names_one() -> None:
    ladder = {"name": "chat", "concurrency": [1, 8], "prompts": [2, 16], "dataset": "random-ids"}
    raw = loads.expanded({"workloads": [ladder], "design": {"primary": {"workload": "chat", "level": 8}}})
    assert [(w["name"], w["concurrency"], w["prompts"], w["ladder"]) for w in raw["workloads"]] == [
        ("chat-1", 1, 2, "chat"),
        ("chat-8", 8, 16, "chat"),
    ]
    assert raw["design"]["primary"] == {"workload": "chat-8"}


@pytest.mark.parametrize("levels", [[8, 1], [1, 1], [], ["1", 2], [True, 2]])
def test_what_is_no_rising_ladder_is_left_for_the_model_to_tell(levels: list[object]) -> None:
    raw = {"workloads": [{"name": "chat", "concurrency": levels}]}
    assert loads.expanded(raw) == raw


def test_every_turn_asks_for_an_answer() -> None:
    load = next(w for w in load_campaign("cpu-loads").workloads if w.name == "talk")
    assert loads.answers(load) == 6
    assert loads.answers(load.model_copy(update={"turns": 2})) == 4


def test_the_key_holds_what_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("one")
    load = Workload(name="w", dataset="custom", concurrency=1, prompts=1, path=str(file))
    before = _asked(load)
    file.write_text("two")
    assert _asked(load)["path"] != before["path"]
    assert not {"turns", "ladder", "first_turn_only"} & set(before)


def test_objectives_by_percentile_enter_a_key_as_written_and_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    load = next(w for w in load_campaign("h200-8b").workloads if w.ladder)
    assert _asked(load)["slo"] == {"ttft_ms": {"p99": 500}, "tpot_ms": {"p99": 20}}
    assert not recwarn.list
