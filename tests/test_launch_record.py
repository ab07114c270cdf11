"""A record is believed only as it was measured: in its place, sealed, with the raw files it came with."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launch_records import launch, window, write
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files.launches import damage, read_launch, sealed, set_aside
from sglang_sweep.files.records import write_json

EXAMPLES = sorted(Path("reports/examples").glob("*/results/*/launches/*/*/launch.json"))


def place(folder: Path, **changed: Any) -> Path:
    whole = launch(**changed)
    arm = f"{whole['variant']}-{whole['key']}"
    path = folder / whole["campaign"] / "launches" / arm / f"block-{whole['block']}" / "launch.json"
    raw = path.parent / "attempt-1" / "bench.jsonl"
    raw.parent.mkdir(parents=True)
    raw.write_text('{"output_throughput": 100.0}\n')
    return write(path, **changed | {"files": {"bench": "attempt-1/bench.jsonl"}})


def test_published_records_of_the_first_version_are_read_as_they_stand() -> None:
    assert EXAMPLES
    for path in EXAMPLES:
        assert damage(path) is None
        assert read_launch(path).as_read() == json.loads(path.read_text())


def test_a_record_in_its_place_is_sound(tmp_path: Path) -> None:
    assert damage(place(tmp_path)) is None


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["windows"][0]["metrics"].update(output_throughput=900.0),
        lambda d: d.update(measuring_version=1),
        lambda d: d["stack"].update(digest="other"),
        lambda d: d["identity"].update(flags={"x": 1}),
        lambda d: d.update(campaign="other"),
        lambda d: d.pop("seal"),
        lambda d: d["windows"][0].update(duration_s="1"),
        lambda d: d["windows"][0]["metrics"].update(output_throughput=float("nan")),
        lambda d: d.update(started_at="2026-11-30T12:00:00"),
        lambda d: d.update(unknown=1),
        lambda d: d["files"].update(bench="../../other/bench.jsonl"),
        lambda d: d["files"].update(bench="/etc/hostname"),
    ],
)
def test_an_edited_record_is_not_read(tmp_path: Path, edit: Any) -> None:
    path = place(tmp_path)
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises((UserError, InfrastructureFault), match=r"launch\.json"):
        read_launch(path)


@pytest.mark.parametrize(
    "target",
    ["variant-0123456789/block-1", "baseline-{key}/block-2"],
)
def test_a_record_copied_to_another_place_is_not_read(tmp_path: Path, target: str) -> None:
    path = place(tmp_path)
    copy = path.parents[2] / target.format(key=launch()["key"]) / "launch.json"
    copy.parent.mkdir(parents=True)
    copy.write_text(path.read_text())
    with pytest.raises(UserError, match="belongs to"):
        read_launch(copy)


def test_a_raw_file_changed_after_measuring_damages_its_record(tmp_path: Path) -> None:
    path = place(tmp_path)
    (path.parent / "attempt-1" / "bench.jsonl").write_text('{"output_throughput": 900.0}\n')
    assert "bench.jsonl was changed" in (damage(path) or "")


def test_what_is_damaged_is_kept_aside_and_its_launch_is_missing_again(tmp_path: Path) -> None:
    path = place(tmp_path)
    text = path.read_text().replace("100.0", "900.0")
    for _ in range(2):
        path.write_text(text)
        assert "set aside" in set_aside(path.parents[3])[0]
    assert not path.exists()
    assert {p.name for p in path.parent.glob("*.json")} == {"launch.damaged-1.json", "launch.damaged-2.json"}
    assert (path.parent / "launch.damaged-1.json").read_text() == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, key=st.sampled_from([*launch(), None]))
def test_any_value_in_any_place_is_a_sentence_or_a_record(
    tmp_path_factory: pytest.TempPathFactory, value: Any, key: str | None
) -> None:
    path = tmp_path_factory.mktemp("record") / "launch.json"
    data = sealed(launch(), path.parent)
    path.write_text(json.dumps(value if key is None else {**data, key: value}))
    told = damage(path)
    assert told is None or "launch.json" in told


@given(raw=st.binary(max_size=64) | st.just(b"[" * 100_000))
def test_any_bytes_are_a_sentence(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("record") / "launch.json"
    path.write_bytes(raw)
    assert "launch.json" in (damage(path) or "")


@given(value=JSON)
def test_what_is_written_holds_no_nan(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("written") / "a.json"
    write_json(path, {"x": value, "windows": [window()]})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(path.read_text(), parse_constant=refuse)
