"""Logs as they reached people who asked for help, and every recording in every wrapping: the same answer from each."""

import gzip
import json
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.evidence.explain import DEGRADED, POLL_S, main
from sglang_sweep.evidence.explanation import Explanation, explain

from .conftest import RECORDINGS, cases, folder_of

PUBLIC = RECORDINGS / "public"

ALL4 = ["TP0", "TP1", "TP2", "TP3"]
EXPECTED: dict[str, tuple[str, str | None, int | None, list[str], str]] = {
    # case: outcome, cause, line of the evidence, ranks, what the headline says
    "02-23272-pd-two-servers-compose": ("ready", None, 35, [], "but 5 x transport failed"),
    "04-3065-mpirun-prefix": ("failed", "missing_library", 29, ["TP8"], "(node 1 of 2) at start"),
    "05-25118-mi300-bare-assert": ("failed", "internal_check", 27, ALL4, "on all 4 ranks"),
    "06-dynamo3111-deepgemm-cri": ("failed", "jit_failed", 16, ["TP0"], "after 5 min of serving"),
    "10-26107-blockn-crlf": (
        "failed",
        "invalid_configuration",
        27,
        ALL4,
        "in phase 'weights loading' on all 4",
    ),
    "12-40558-sm120-ansi": (
        "failed",
        "unsupported_hardware",
        26,
        ["TP0", "TP1"],
        "at the warm-up request on TP0, TP1 of 8",
    ),
    "14-37215-dp8-ports-json-file": ("failed", "port_in_use", 41, ["DP3"], "on DP3 of 8 ranks"),
    "18-10856-health-503-while-compiling": ("ready", None, 18, [], "while kernels were compiled"),
    "19-35822-spin-in-verify": (
        "failed",
        "forward_hang",
        37,
        ["TP0", "TP1"],
        "after 6 min of serving on all 2",
    ),
    "22-5695-two-launches-appended": ("failed", "missing_library", 25, ["TP0"], "at the warm-up request"),
    "P1-derived-healthy-worker-node": ("ready", None, 42, [], "READY as a further node"),
    "P2-derived-runtime-oom-on-tp1-old-format": (
        "failed",
        "out_of_memory_runtime",
        37,
        ["TP1"],
        "after 38 min",
    ),
    "P2b-same-on-tp0": ("failed", "out_of_memory_runtime", 37, ["TP0"], "on TP0 of 2 ranks"),
    "P3-ray-prefix-oom-load": ("failed", "out_of_memory_load", 27, ALL4, "on all 4 ranks"),
    "P3c-control-no-prefix": ("failed", "out_of_memory_load", 27, ALL4, "on all 4 ranks"),
}
REMEDIES = {
    "04-3065-mpirun-prefix": "~/.triton/cache",
    "06-dynamo3111-deepgemm-cri": "CUDA's development headers",
    "10-26107-blockn-crlf": "--ep-size",
    "12-40558-sm120-ansi": "another --attention-backend",
    "14-37215-dp8-ports-json-file": "port 18121 is an internal rendezvous port",
    "18-10856-health-503-while-compiling": "sglang.compile_deep_gemm",
    "19-35822-spin-in-verify": "without --speculative-algorithm",
    "22-5695-two-launches-appended": "~/.cache/flashinfer",
}


def test_public_cases_are_explained_right() -> None:
    assert set(EXPECTED) == {path.name for path in PUBLIC.iterdir()}
    for case, (outcome, cause, line, ranks, said) in EXPECTED.items():
        found = explain(PUBLIC / case / "server.log.gz")[0]
        shown = (
            found.service["problems"][0]["first_line"]
            if found.service and found.service["problems"]
            else None
        )
        shown = shown or found.evidence[0]["line"]
        assert (found.outcome, found.cause, shown, found.ranks) == (outcome, cause, line, ranks), case
        assert said in found.headline, case
        assert REMEDIES.get(case, "") in "\n".join(found.remedies), case
        assert "Traceback" not in (found.reason or "") and '  File "' not in found.evidence[0]["text"], case


def test_a_bare_assert_says_its_condition_and_its_function() -> None:
    found = explain(PUBLIC / "05-25118-mi300-bare-assert" / "server.log.gz")[0]
    assert "assert self.store_dtype == torch.uint8" in (found.reason or "")
    assert "in create_buffer" in (found.reason or "")
    assert any("exit code: -3" in row["text"] for row in found.cascade)


def test_two_servers_in_one_file_each_get_an_answer() -> None:
    roles = explain(PUBLIC / "02-23272-pd-two-servers-compose" / "server.log.gz")
    assert {one.server.split("-")[-3] for one in roles} == {"prefill", "decode"}
    assert {one.settings["disaggregation"] for one in roles} == {"prefill", "decode"}
    launches = explain(PUBLIC / "22-5695-two-launches-appended" / "server.log.gz")
    assert [(one.outcome, one.first_line) for one in launches] == [("failed", 1), ("ready", 29)]


def _failing() -> dict[str, Path]:
    """Failing recordings of one server that have no wrapping of their own."""
    wrapped = ("02", "04", "06", "14", "22", "P3-")
    recorded = {case: folder_of(case) / "server.log.gz" for case in cases()}
    public = {c: PUBLIC / c / "server.log.gz" for c in EXPECTED if not c.startswith(wrapped)}
    found = {case: path for case, path in (recorded | public).items() if explain(path)[0].outcome == "failed"}
    assert len(found) > 10
    return found


def _each(make: Callable[[int, str], str]) -> Callable[[list[str]], str]:
    return lambda lines: "".join(make(number, line) for number, line in enumerate(lines))


def _kibana(lines: list[str]) -> str:
    """Newest first, as an export has it."""
    rows = [
        json.dumps(
            {"@timestamp": f"2026-11-30T09:00:{n:06d}Z", "kubernetes": {"pod_name": "s-0"}, "message": line}
        )
        for n, line in enumerate(lines)
    ]
    return "\n".join(reversed(rows)) + "\n"


WRAPPINGS: dict[str, Callable[[list[str]], str]] = {
    "compose": _each(lambda n, line: f"sglang-server-1  | {line}\n"),
    "kubectl": _each(lambda n, line: f"[pod/sglang-0/server] {line}\n"),
    "CRI": _each(lambda n, line: f"2026-11-30T09:00:00.{n:09d}Z stderr F {line}\n"),
    "docker logs -t": _each(lambda n, line: f"2026-11-30T09:00:00.{n:09d}Z {line}\n"),
    "journald": _each(lambda n, line: f"Nov 30 09:00:{n % 60:02d} gpu-7 sglang[4711]: {line}\n"),
    "Ray": _each(lambda n, line: f"(SGLangEngine pid=6680, ip=10.0.0.7) {line}\n"),
    "mpirun": _each(lambda n, line: f"Thu Jan 23 11:55:{n % 60:02d} 2025[1,0]<stderr>:{line}\n"),
    "json-file": _each(lambda n, line: json.dumps({"log": line + "\n", "stream": "stderr", "time": str(n)}) + "\n"),
    "Kibana": _kibana,
    "Loki": _each(lambda n, line: json.dumps({"line": line, "timestamp": str(n), "labels": {"pod": "s-0"}}) + "\n"),
    "CSV": lambda lines: "time,message\n" + "".join(
        f'"Nov 30, 2026 @ 09:00:00.{n:03d}","{line.replace(chr(34), chr(34) * 2)}"\n' for n, line in enumerate(lines)
    ),
    "ANSI": _each(lambda n, line: f"\x1b[32m{line}\x1b[0m\n"),
    "CRLF": _each(lambda n, line: f"{line}\r\n"),
}  # fmt: skip


def _answer(found: list[Explanation]) -> Any:
    one = found[0]
    return (
        len(found),
        one.outcome,
        one.cause,
        one.reason,
        one.ranks,
        [row["text"].strip('"') for row in one.evidence],
    )


def test_every_failing_recording_is_explained_alike_in_every_wrapping(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    for case, path in _failing().items():
        lines = gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines()
        if len(lines) > 3000:
            continue
        file.write_text("\n".join(lines) + "\n")
        plain = _answer(explain(file))
        for name, wrap in WRAPPINGS.items():
            file.write_text(wrap(lines))
            assert _answer(explain(file)) == plain, (case, name)


def test_two_recordings_in_one_file_give_both_answers(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    texts = {}
    for case in (
        "nccl",
        "kv-retraction",
        "nccl-tree-unscoped",
        "ep2-flashinfer-a2a",
        "cpu-healthy",
        "cpu-tp2",
    ):
        texts[case] = gzip.decompress((folder_of(case) / "server.log.gz").read_bytes())
    single = {}
    for case, text in texts.items():
        file.write_bytes(text)
        single[case] = [(one.outcome, one.cause, one.reason) for one in explain(file)]
    for first, one in texts.items():
        for second, other in texts.items():
            file.write_bytes(one.rstrip(b"\n") + b"\n" + other)
            both = sorted((x.outcome, x.cause or "", x.reason or "") for x in explain(file))
            wanted = sorted((o, c or "", r or "") for o, c, r in single[first] + single[second])
            assert both == wanted, (first, second)


def test_the_exit_status_tells_healthy_failed_bad_input_and_degraded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([str(folder_of("nccl") / "server.log.gz")]) == 0
    assert main([str(PUBLIC / "P2b-same-on-tp0" / "server.log.gz")]) == 1
    assert main([str(tmp_path / "absent.log")]) == 2
    assert main([str(PUBLIC / "18-10856-health-503-while-compiling" / "server.log.gz")]) == DEGRADED
    text = gzip.decompress((PUBLIC / "P2b-same-on-tp0" / "server.log.gz").read_bytes())
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
    assert main(["-"]) == 1
    assert "standard input" in capsys.readouterr().out


def test_several_files_are_nodes_of_one_answer(capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        str(PUBLIC / c / "server.log.gz") for c in ("P1-derived-healthy-worker-node", "04-3065-mpirun-prefix")
    ]
    assert main(files) == 1
    text = capsys.readouterr().out
    assert text.startswith("2 nodes of one server: 1 failed, 1 ready")
    assert text.index("FAILED (node 1 of 2)") < text.index("READY as a further node")


def test_a_log_that_just_ends_says_what_each_rank_did_last(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text(
        "[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=2)\n"
        "[2026-11-30 09:00:05 TP0] Init torch distributed begin.\n"
        "[2026-11-30 09:00:05 TP1] Init torch distributed begin.\n"
        "[2026-11-30 09:00:06 TP0] Load weight begin. avail mem=76.80 GB\n"
    )
    found = explain(file)[0]
    assert found.outcome == "hung_or_cut"
    assert "'weights loading', since 09:00:06 on 2 ranks" in found.headline
    assert {rank: row["line"] for rank, row in found.last_of_rank.items()} == {"TP0": 4, "TP1": 3}


def test_a_log_cannot_speak_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(
        b"[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=1)\n\x00\n"
        b"[2026-11-30 09:00:05] Scheduler hit an exception: Traceback (most recent call last):\n"
        b'  File "/sglang/srt/x.py", line 1, in f\nValueError: \x1b]0;owned\x07\x1b[2J\x9b31m gone\n\n'
    )
    assert main([str(file)]) == 1
    assert not {"\x1b", "\x07", "\x9b", "\x00"} & set(capsys.readouterr().out)


def test_a_log_that_begins_while_the_server_serves_is_read_as_one_that_is_up(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    step = (
        "[2026-11-30 09:00:0{} TP0] Decode batch, #running-req: 8, #token: 9000, token usage: 0.03, cuda graph: True, "
        "gen throughput (token/s): 301.20, #queue-req: 0\n"
    )
    steps = "".join(map(step.format, range(5)))
    file.write_text(steps)
    assert explain(file)[0].outcome == "ready"
    file.write_text(
        steps
        + "[rank1]:[E1130 09:35:24.1 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4096) ran for 600012 milliseconds before timing out.\n"
    )
    found = explain(file)[0]
    assert found.cause == "collective_hang"
    assert "while serving" in found.headline


def test_following_a_log_says_each_change_of_state_and_ends_with_the_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = gzip.decompress((PUBLIC / "P2b-same-on-tp0" / "server.log.gz").read_bytes()).splitlines(
        keepends=True
    )
    file = tmp_path / "server.log"
    pieces = [lines[:5], lines[5:25], lines[25:]]

    def server_goes_on(seconds: float) -> None:
        if pieces and seconds == POLL_S:
            with file.open("ab") as log:
                log.writelines(pieces.pop(0))

    monkeypatch.setattr("sglang_sweep.evidence.explain.time.sleep", server_goes_on)
    assert main(["--follow", str(file)]) == 1
    heads = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(("HUNG", "READY", "FAILED"))
    ]
    assert [head.split()[0].rstrip(":") for head in heads] == ["HUNG", "READY", "FAILED"]
