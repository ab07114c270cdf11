"""Flags and variables: exact names and values that the real parser takes pass, near ones are suggested."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_sweep.campaign.flags import (
    client_flag_problems,
    command_line,
    flag_problems,
    gpus_here,
    gpus_needed,
    recorded_table,
    variable_problems,
)

TABLE = recorded_table("0.5.23")
FILE = Path("c.yaml")


def told(flags: dict[str, Any], version: str = "0.5.23") -> str:
    return "\n".join(map(str, flag_problems(flags, recorded_table(version), FILE, "baseline.flags")))


def test_what_the_parser_takes_passes() -> None:
    assert not told(
        {
            "tp-size": 2,
            "disable-radix-cache": True,
            "mem-fraction-static": 0.9,
            "schedule-policy": "lpm",
            "chunked-prefill-size": -1,
            "load-format": "dummy",
            "cuda-graph-bs-decode": [1, 2, 4],
            "speculative-draft-model-path": {"model": "draft"},
            "attention-backend": None,
        }
    )


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
    assert f"c.yaml:baseline.flags.{name}: SGLang 0.5.23 has no flag --{name}" in told({name: 1})
    assert suggested in told({name: 1})


def test_a_prefix_that_argparse_would_take_is_refused_and_explained() -> None:
    assert "argparse would silently take it for --mem-fraction-static" in told({"mem-fraction": 1})


WRONG = {
    "switched off without an off form": ({"disable-radix-cache": False}, "null takes away"),
    "off read as false by YAML": ({"schedule-policy": False}, "put the word in quotes"),
    "not one of the choices": ({"schedule-policy": "lmp"}, "did you mean lpm?"),
    "a word for a number": ({"max-running-requests": "four"}, "a whole number"),
    "half a request": ({"max-running-requests": 2.5}, "a whole number"),
    "below nothing": ({"max-running-requests": -4}, "from 0 on"),
    "several where one is meant": ({"max-running-requests": [4, 8]}, "one value, not a list"),
    "a value on a bare flag": ({"disable-radix-cache": 3}, "takes no value"),
    "no value where one is needed": ({"max-running-requests": True}, "needs a value"),
    "too many tokens to be meant": ({"max-total-tokens": 10**20}, "cannot be"),
    "ours": ({"port": 30000}, "binds a free port"),
    "the model's": ({"model-path": "x"}, "write model:"),
    "written with dashes": ({"--tp-size": 2}, "write tp-size:"),
    "one option by two names": ({"tp-size": 2, "tensor-parallel-size": 4}, "are one option"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_the_parser_would_refuse_is_refused_first(what: str) -> None:
    flags, said = WRONG[what]
    text = told(flags)
    assert said in text
    assert "c.yaml:baseline.flags." in text and "remedy:" in text


def test_false_is_the_no_form_where_the_parser_has_one() -> None:
    switch = next(name for name, option in TABLE.options.items() if option.kind == "bool")
    assert told({switch: False}) == ""
    assert command_line({switch: False}) == [f"--no-{switch}"]


def test_a_version_without_a_table_is_checked_against_its_nearest_elder() -> None:
    table = recorded_table("0.5.17")
    assert table.version == "0.5.16"
    assert table.note and "0.5.17" in table.note
    assert recorded_table("0.4.0").version == "0.5.6.post2"


def test_every_recorded_table_is_a_whole_parser() -> None:
    for version in (path.stem for path in Path("config/knowledge/flags").glob("*.tsv")):
        table = recorded_table(version)
        assert table.note is None
        assert {"tp-size", "model-path", "host", "port", "mem-fraction-static"} <= table.names, version
        assert table.options["tp-size"] is table.options["tensor-parallel-size"], version
        assert table.options["tp-size"].kind == "int" and table.options["schedule-policy"].choices, version
        assert len(table.names) >= 300, version


def test_a_command_line_is_the_same_for_any_order_of_flags() -> None:
    flags = {"tp-size": 2, "a-list": [1, 2], "skip": True, "gone": None, "json": {"b": 1, "a": 2}}
    words = ["--a-list", "1", "2", "--json", '{"a":2,"b":1}', "--skip", "--tp-size", "2"]
    assert command_line(flags) == words
    assert command_line(dict(reversed(flags.items()))) == words


def test_a_misspelt_variable_gets_the_name_that_is_read() -> None:
    (problem,) = variable_problems(
        {"NCCL_AGLO": "Ring", "NCCL_ALGO": "x", "MY_OWN": "1"}, FILE, "baseline.env"
    )
    assert "did you mean NCCL_ALGO?" in str(problem)
    assert "SGLANG_SIMULATE_ACC_LEN" in str(
        variable_problems({"SGLANG_SIMULATE_ACC_LENS": "2"}, FILE, "baseline.env")[0]
    )


def test_a_misspelt_flag_of_the_load_client_is_refused() -> None:
    (problem,) = client_flag_problems({"temprature": 0, "top-p": 1}, FILE, "workloads.chat.bench_flags")
    assert "did you mean --temperature?" in str(problem)


@given(
    tp=st.integers(1, 16), pp=st.integers(1, 4), dp=st.integers(1, 8), attention=st.booleans(),
    nodes=st.sampled_from([1, 2, 4]), aliases=st.booleans(),
)  # fmt: skip
def test_gpus_are_counted_as_sglang_starts_its_schedulers(
    tp: int, pp: int, dp: int, attention: bool, nodes: int, aliases: bool
) -> None:
    """DataParallelController starts ``dp_size`` groups of tp x pp schedulers; with DP attention one group."""
    names = (
        ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
        if aliases
        else ("tp-size", "pp-size", "dp-size")
    )
    flags = dict(zip(names, (tp, pp, dp), strict=True)) | {"nnodes": nodes}
    if attention:
        flags["enable-dp-attention"] = True
    groups = 1 if attention else dp
    assert gpus_needed(flags) == sum(1 for _ in range(groups) for _ in range(tp) for _ in range(pp))
    assert (gpus_here(flags) - 1) * nodes < gpus_needed(flags) <= gpus_here(flags) * nodes
