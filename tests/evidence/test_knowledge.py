import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version
from sglang_sweep.errors import UserError
from sglang_sweep.evidence import knowledge as module
from sglang_sweep.evidence.cause import diagnose
from sglang_sweep.evidence.explanation import of_scan
from sglang_sweep.evidence.features import match
from sglang_sweep.evidence.knowledge import Entry, Knowledge

from .conftest import all_matches, cases, folder_of, recorded, recorded_with

KNOWLEDGE = module.load()
ENTRIES = list(KNOWLEDGE.entries())
SEEN = [entry for entry in ENTRIES if entry.seen]
READ = [entry for entry in ENTRIES if not entry.seen]
NEVER = re.compile(rb"(?!)")

BY_HAND: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "overlap-off": ({"disable_overlap_schedule": True}, {"disable_overlap_schedule": False}),
    "chunked-off": ({"chunked_prefill_size": -1}, {"chunked_prefill_size": 8192}),
    "mixed-on": ({"enable_mixed_chunk": True}, {"enable_mixed_chunk": False}),
    "compile-asked": ({"enable_torch_compile": True}, {"enable_torch_compile": False}),
    "ep-asked": ({"ep_size": 8}, {"ep_size": 1}),
    "dp-attention-on": ({"enable_dp_attention": True}, {"enable_dp_attention": False}),
    "dp-attention-size": ({"attn_dp_size": 8}, {"attn_dp_size": 1}),
}
"""/server_info that must and must not match, for entries on values that no recording shows."""


def mutated(knowledge: Knowledge, entry: Entry) -> Knowledge:
    """The knowledge with one entry that matches nothing."""
    broken = replace(
        entry,
        pattern=NEVER if entry.pattern else None,
        data={**entry.data, "is": "== never", "when": {"no": "never"}},
    )

    def swap(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple(broken if one is entry else one for one in entries)

    features = {
        name: replace(feature, evidence=swap(feature.evidence))
        for name, feature in knowledge.features.items()
    }
    return replace(
        knowledge,
        phases=swap(knowledge.phases),
        facts=swap(knowledge.facts),
        signatures=swap(knowledge.signatures),
        features=features,
    )


def classification(case: str, knowledge: Knowledge) -> dict[str, Any]:
    """All that is concluded about a recording."""
    artifacts = recorded_with(knowledge, case)
    assert artifacts.log is not None
    return {
        "explained": of_scan(artifacts.log, None, knowledge).as_dict(),
        "causes": diagnose(artifacts.log, knowledge).entries,
        "lines": sorted(artifacts.log.hits),
        "features": {name: vars(all_matches(f, artifacts)) for name, f in knowledge.features.items()},
    }


def smallest(entry: Entry) -> str:
    return min(entry.seen, key=lambda case: (folder_of(case) / "server.log.gz").stat().st_size)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_entry_matches_its_examples(entry: Entry) -> None:
    assert entry.matches_its_examples()
    if entry.pattern is not None:
        assert not replace(entry, pattern=NEVER).matches_its_examples()


@pytest.mark.parametrize("entry", SEEN, ids=lambda entry: entry.id)
def test_breaking_a_seen_entry_changes_what_is_concluded_about_its_recording(entry: Entry) -> None:
    case = smallest(entry)
    assert classification(case, mutated(KNOWLEDGE, entry)) != _whole(case)


_WHOLE: dict[str, dict[str, Any]] = {}


def _whole(case: str) -> dict[str, Any]:
    if case not in _WHOLE:
        _WHOLE[case] = classification(case, KNOWLEDGE)
    return _WHOLE[case]


@pytest.mark.parametrize("entry", SEEN, ids=lambda entry: entry.id)
def test_a_seen_entry_is_found_in_every_recording_it_names(entry: Entry) -> None:
    for case in entry.seen:
        artifacts = recorded(case)
        assert artifacts.log is not None
        if entry in KNOWLEDGE.signatures and entry.data["where"] == "exception":
            subjects = [f"{r.type}: {r.message}" for block in artifacts.log.blocks for r in block.exceptions]
            assert any(entry.pattern.search(subject.encode()) for subject in subjects), case
        elif entry.data.get("in", "log") == "log":
            assert entry.id in artifacts.log.hits, case
        else:
            assert match(entry, artifacts) is not None, case


@pytest.mark.parametrize(
    "entry", [e for e in READ if e.data.get("in") == "server_info"], ids=lambda entry: entry.id
)
def test_an_entry_on_values_that_no_recording_shows_is_tried_by_hand(entry: Entry) -> None:
    yes, no = BY_HAND[entry.id]
    artifacts = copy.copy(recorded("bad-flag"))
    artifacts.server_info, artifacts.server_info_file = yes, Path("server_info.json")
    assert match(entry, artifacts) is not None
    artifacts.server_info = no
    assert match(entry, artifacts) is None


@pytest.mark.parametrize("case", cases())
def test_no_two_entries_of_a_feature_contradict_each_other_on_a_recording(case: str) -> None:
    for name, feature in KNOWLEDGE.features.items():
        matches = all_matches(feature, recorded(case))
        assert not (matches.on and matches.off), (name, matches)


@pytest.mark.parametrize("case", cases())
def test_the_signatures_of_one_traceback_agree_with_the_chosen_cause_or_are_more_general(case: str) -> None:
    log = recorded(case).log
    assert log is not None
    found = diagnose(log, KNOWLEDGE)
    by_id = {entry.id: entry for entry in KNOWLEDGE.signatures}
    chosen = [entry for entry in found.entries if by_id[entry].data["cause"] == found.cause]
    assert found.entries[: len(chosen)] == chosen


def _copy(tmp_path: Path) -> Path:
    for file in module.FOLDER.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


def _edit(folder: Path, name: str, change: Any) -> None:
    document = yaml.safe_load((folder / name).read_text())
    change(document)
    (folder / name).write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("causes.yaml", lambda d: d["signatures"][0].update(pattern="(unclosed"), "regular expression"),
        ("causes.yaml", lambda d: d["signatures"][0].update(pattern="Errno 98"), "literal digit"),
        ("causes.yaml", lambda d: d["signatures"][0].update(versions="newer than 5"), "no version range"),
        ("causes.yaml", lambda d: d["signatures"][0].update(cause="bad_luck"), "bad_luck"),
        ("causes.yaml", lambda d: d["signatures"][0].update(colour="red"), "colour"),
        ("causes.yaml", lambda d: d["signatures"][0].update(example="something else"), "does not match"),
        ("causes.yaml", lambda d: d["signatures"][0].pop("seen"), "argparse"),
        ("causes.yaml", lambda d: d["signatures"].append(dict(d["signatures"][0])), "two entries"),
        ("engagement.yaml", lambda d: d["flags"].update({"x": {"feature": "warp_drive"}}), "warp_drive"),
        (
            "engagement.yaml",
            lambda d: d["features"]["mscclpp"]["evidence"][0].update(means="perhaps"),
            "perhaps",
        ),
    ],
)
def test_a_mistake_in_a_knowledge_file_is_named(tmp_path: Path, name: str, change: Any, said: str) -> None:
    folder = _copy(tmp_path)
    _edit(folder, name, change)
    with pytest.raises(UserError, match=re.escape(said)):
        module.load(folder)


def test_a_known_version_is_used_as_it_is() -> None:
    assert module.known_version("0.5.16") == (Version("0.5.16"), None)


@pytest.mark.parametrize(
    ("asked", "used"), [("0.6.2", "0.5.23"), ("0.4.9.post1", "0.5.6"), ("1.0rc1", "0.5.23")]
)
def test_an_unknown_version_uses_the_nearest_known_one_and_says_so(asked: str, used: str) -> None:
    version, note = module.known_version(asked)
    assert version == Version(used)
    assert note is not None and used in note and asked in note


def test_a_version_that_is_no_version_excludes_nothing() -> None:
    version, note = module.known_version("main")
    assert version is None and note is not None
