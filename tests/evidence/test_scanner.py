# ruff: noqa: E501  (log lines are quoted whole)
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sglang_sweep.errors import UserError
from sglang_sweep.evidence import knowledge as module
from sglang_sweep.evidence.explanation import explain
from sglang_sweep.evidence.scanner import scan

from .conftest import recorded

KNOWLEDGE = module.load()
DECODE = "[2026-11-30 09:20:04 TP0] Decode batch, #running-req: {n}, #token: 0, token usage: 0.00, {accept}cuda graph: {graph}, gen throughput (token/s): 1.0, #queue-req: 0\n"


def scanned(tmp_path: Path, text: str | bytes):  # type: ignore[no-untyped-def]
    file = tmp_path / "server.log"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return scan(file, KNOWLEDGE)


def test_line_numbers_are_those_of_an_editor_even_with_progress_bars(tmp_path: Path) -> None:
    bar = "Capturing batches:  0%|  | 0/36\rCapturing batches: 50%|  | 18/36\r[2026-11-30 09:00:00 TP1] Memory pool end. avail mem=3.00 GB\n"
    log = scanned(
        tmp_path, "first\n" + bar + "[2026-11-30 09:00:09] The server is fired up and ready to roll!\n"
    )
    assert [(m.phase, m.line.number, m.rank) for m in log.marks] == [
        ("memory-pool-done", 2, "TP1"),
        ("ready", 3, None),
    ]


@pytest.mark.parametrize(
    "prefix",
    [
        "sglang-1  | ",
        "\x1b[36msglang-1  |\x1b[0m ",
        "2026-11-30T09:00:00.123456789Z stdout F ",
        "2026-11-30T09:00:00.123456789Z ",
        "Nov 30 09:00:00 gpubox sglang[4242]: ",
    ],
)
def test_what_containers_and_journals_put_before_a_line_is_taken_off(tmp_path: Path, prefix: str) -> None:
    lines = [
        "[2026-11-30 09:00:00 TP0] Load weight begin. avail mem=138.25 GB",
        "[2026-11-30 09:00:01 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/site/a.py", line 1, in f',
        "RuntimeError: NCCL error: invalid usage",
        "",
    ]
    log = scanned(tmp_path, "".join(f"{prefix}{line}\n" for line in lines))
    assert [mark.phase for mark in log.marks] == ["load"]
    assert [raised.text for raised in log.blocks[0].exceptions] == ["RuntimeError: NCCL error: invalid usage"]


def test_phases_are_kept_for_each_rank() -> None:
    log = recorded("nccl").log
    assert log is not None
    assert {m.rank for m in log.marks if m.phase == "load-done"} == {"TP0", "TP1"}
    ready = log.mark("ready")
    assert ready is not None and log.first_time is not None and ready.time is not None
    assert ready.time > log.first_time


def test_decode_steps_are_weighted_by_the_requests_they_served(tmp_path: Path) -> None:
    steps = DECODE.format(n=1, accept="", graph="True") + DECODE.format(n=9, accept="", graph="False")
    log = scanned(tmp_path, steps)
    assert log.batches.decode == 2
    assert log.batches.share_outside_graph == pytest.approx(0.9)
    assert log.batches.most_running == 9


def test_the_accept_length_is_a_weighted_mean_and_not_the_block_accept_length(tmp_path: Path) -> None:
    one = DECODE.format(
        n=1, accept="accept len: 2.00, accept rate: 0.33, block accept len: 9.00, ", graph="True"
    )
    three = DECODE.format(n=3, accept="accept len: 4.00, accept rate: 0.99, ", graph="True")
    assert scanned(tmp_path, one + three).batches.accept_length == pytest.approx(3.5)


def test_a_log_without_decode_steps_has_no_shares(tmp_path: Path) -> None:
    batches = scanned(tmp_path, "nothing\n").batches
    assert batches.accept_length is None and batches.share_outside_graph is None


def test_ncclss_choices_are_counted_by_size() -> None:
    log = recorded("nccl-tree").log
    assert log is not None
    choice = log.collectives[("AllReduce", 8192, "TREE", "LL")]
    assert (choice.count, choice.channels) == (390, 2)


def test_colours_are_stripped(tmp_path: Path) -> None:
    log = scanned(
        tmp_path, "\x1b[1;33m[2026-11-30 09:00:09] The server is fired up and ready to roll!\x1b[0m\n"
    )
    ready = log.mark("ready")
    assert ready is not None and "\x1b" not in ready.line.text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=2000))
def test_any_bytes_are_explained_or_refused_in_words(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "fuzz.log"
    file.write_bytes(content)
    try:
        found = explain(file, None, KNOWLEDGE)
    except UserError:
        return
    assert {one.outcome for one in found} <= {"ready", "failed", "compiling", "hung_or_cut", "unknown"}


FRAGMENTS = [
    example
    for entry in KNOWLEDGE.entries()
    if entry.data.get("in", "log") == "log"
    for example in entry.examples
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.sampled_from(FRAGMENTS),
            st.sampled_from(
                ["Traceback (most recent call last):", '  File "/a.py", line 1, in f', "", "KeyError: 1"]
            ),
            st.text(max_size=60),
        ),
        max_size=30,
    )
)
def test_any_mixture_of_known_lines_is_explained(tmp_path: Path, lines: list[str]) -> None:
    file = tmp_path / "fuzz.log"
    file.write_text("start\n" + "\n".join(lines), encoding="utf-8", errors="replace")
    try:
        found = explain(file, "0.5.16", KNOWLEDGE)
    except UserError:
        return
    for one in found:
        assert (one.outcome == "failed") is (one.cause is not None)
        assert all(row["line"] >= 1 for row in one.evidence)
