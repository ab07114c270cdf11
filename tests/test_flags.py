"""Flag names: exact ones pass, near ones are suggested, secrets never show."""

from pathlib import Path

import pytest
from sglang_sweep.campaign.flags import FlagTable, command_line, recorded_table, unknown_flags

TABLE = recorded_table("0.5.23")
FILE = Path("c.yaml")


def told(name: str, table: FlagTable = TABLE) -> str:
    return "\n".join(map(str, unknown_flags({name: 1}, table, FILE, "baseline.flags")))


@pytest.mark.parametrize("name", ["tp-size", "disable-radix-cache", "mem-fraction-static", "config"])
def test_an_exact_name_passes(name: str) -> None:
    assert told(name) == ""


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("enable-msclpp", "--enable-mscclpp"),
        ("tp", "--tp-size"),
        ("mem-fraction", "--mem-fraction-static"),
        ("max-running-request", "--max-running-requests"),
        ("disable-radix", "--disable-radix-cache"),
    ],
)
def test_the_nearest_real_flag_is_suggested(name: str, suggested: str) -> None:
    assert f"c.yaml:baseline.flags.{name}: SGLang 0.5.23 has no flag --{name}" in told(name)
    assert suggested in told(name)


def test_a_prefix_that_argparse_would_take_is_refused_and_explained() -> None:
    assert "argparse would silently take it for --mem-fraction-static" in told("mem-fraction")


def test_dashes_are_not_part_of_a_name() -> None:
    assert "remedy: write tp-size:" in told("--tp-size")


def test_a_version_without_a_table_is_checked_against_its_nearest_elder() -> None:
    table = recorded_table("0.5.17")
    assert table.version == "0.5.16"
    assert table.note and "0.5.17" in table.note
    assert recorded_table("0.4.0").version == "0.5.6.post2"


@pytest.mark.parametrize("version", [path.stem for path in Path("config/knowledge/flags").glob("*.txt")])
def test_every_recorded_table_is_a_whole_parser(version: str) -> None:
    table = recorded_table(version)
    assert table.note is None
    assert {"tp-size", "model-path", "host", "port", "mem-fraction-static"} <= table.names
    assert len(table.names) >= 300


def test_a_command_line_is_the_same_for_any_order_of_flags() -> None:
    flags = {
        "tp-size": 2,
        "a-list": [1, 2],
        "skip": True,
        "off": False,
        "gone": None,
        "json": {"b": 1, "a": 2},
    }
    words = ["--a-list", "1", "2", "--json", '{"a":2,"b":1}', "--skip", "--tp-size", "2"]
    assert command_line(flags) == words
    assert command_line(dict(reversed(flags.items()))) == words
