"""A declared change is shown as the lines it adds and removes."""

from __future__ import annotations

import pytest
from sglang_sweep.report.change import change_lines


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"flags": {"enable-torch-symm-mem": True}}, ["+ --enable-torch-symm-mem"]),
        ({"flags": {"disable-radix-cache": None}}, ["- --disable-radix-cache"]),
        ({"flags": {"cuda-graph-bs": [1, 2, 4]}}, ["+ --cuda-graph-bs 1 2 4"]),
        ({"env": {"NCCL_ALGO": "allreduce:tree"}}, ["+ NCCL_ALGO=allreduce:tree"]),
        ({"env": {"NCCL_ALGO": None}}, ["- NCCL_ALGO"]),
        ({"env": {"A": "two words"}}, ["+ A='two words'"]),
        ({"stack": "cu128", "patch": "allow PCIe"}, ["+ stack: cu128", "+ source patch: allow PCIe"]),
        ({"model": {"path": "/m"}}, ["+ model: path /m"]),
        ({"flags": {"draft": {"model": "d"}}}, ["+ --draft d"]),
        ({"flags": {"json": {"b": 1, "a": 2}}}, ["""+ --json '{"a": 2, "b": 1}'"""]),
        ({}, []),
        (None, []),
    ],
)
def test_each_kind_of_change_has_its_line(change: dict[str, object] | None, lines: list[str]) -> None:
    assert change_lines(change) == lines


def test_a_replaced_value_is_shown_beside_the_new_one() -> None:
    baseline = {"flags": {"cuda-graph-max-bs": 512, "page-size": 1}, "env": {"NCCL_PROTO": "LL"}}
    assert change_lines(
        {"flags": {"cuda-graph-max-bs": 128, "page-size": None}, "env": {"NCCL_PROTO": None}}, baseline
    ) == ["- --cuda-graph-max-bs 512", "+ --cuda-graph-max-bs 128", "- --page-size 1", "- NCCL_PROTO=LL"]
