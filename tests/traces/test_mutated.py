"""A damaged or hostile trace ends in one sentence, in bounded memory."""

import json
import random
from pathlib import Path

import pytest
from sglang_sweep.traces.cli import main

KERNEL = {
    "ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 2.0, "pid": 0, "tid": 7,
    "args": {"stream": 7, "correlation": 1, "device": 0, "In msg nelems": 4, "dtype": "Half"},
}  # fmt: skip
STEP = {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=1]", "ts": 0.5, "dur": 5, "tid": 1}
WHOLE = {
    "distributedInfo": {"rank": 0, "world_size": 1},
    "traceEvents": [KERNEL | {"ts": float(n)} for n in range(4)] + [STEP, STEP | {"ts": 9.0}],
}
ODD = [None, True, -1, 1e308, 10**400, "x", [], {}, [[]], {"a": None}, ""]


def _places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inner for found in _places(one, (*path, key)))]


@pytest.mark.parametrize("seed", range(4))
def test_no_value_anywhere_in_a_trace_is_a_traceback(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    for number in range(60):
        whole = json.loads(json.dumps(WHOLE))
        *path, last = chosen.choice(_places(whole)[1:])
        at = whole
        for key in path:
            at = at[key]
        at[last] = chosen.choice(ODD)
        file = tmp_path / f"{number}-TP-0.trace.json"
        file.write_text(json.dumps(whole))
        assert main([str(file)]) in (0, 2)


@pytest.mark.parametrize(
    "text", ["[" * (1 << 20), '{"a":' * (1 << 18), '{"traceEvents": [' + "[" * (1 << 20)]
)
def test_deep_nesting_is_refused_before_it_costs_memory(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "TP-0.trace.json"
    file.write_text(text)
    assert main([str(file)]) == 2
    assert capsys.readouterr().err.startswith("analyze-trace: ")
