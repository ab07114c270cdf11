# ruff: noqa: E501  (log lines are quoted whole)
import json
from pathlib import Path

import pytest
from sglang_sweep.evidence.explain import main

from .conftest import cases, folder_of


def explained(capsys: pytest.CaptureFixture[str], case: str, *options: str) -> dict[str, object]:
    assert main([str(folder_of(case) / "server.log.gz"), "--json", *options]) in (0, 1)
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_json_has_the_agreed_keys_for_every_recording(capsys: pytest.CaptureFixture[str]) -> None:
    for case in cases():
        found = explained(capsys, case)
        keys = {
            "sglang_version",
            "outcome",
            "cause",
            "evidence",
            "engaged",
            "remedies",
            "service",
            "headline",
            "ranks",
        }
        assert keys <= set(found), case
        for line in found["evidence"]:  # type: ignore[attr-defined]
            assert set(line) == {"line", "text"}
        for row in found["engaged"].values():  # type: ignore[attr-defined]
            assert {"state", "line", "text"} <= set(row)
            assert row["state"] in ("engaged", "not_engaged", "unproven")


def test_a_slow_jit_start_is_compiling(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "fusion-jit-slow-start")
    assert (found["outcome"], found["phase"], found["cause"]) == ("compiling", "compiling", None)
    assert found["engaged"]["flashinfer_allreduce_fusion"]["state"] == "unproven"  # type: ignore[index]


def test_a_healthy_server_can_have_fallen_back(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "torch-symm-mem")
    row = found["engaged"]["torch_symm_mem"]  # type: ignore[index]
    assert found["outcome"] == "ready"
    assert (row["state"], row["line"]) == ("not_engaged", 186)
    assert "multicast" in row["text"]


def test_speculation_that_accepts_nothing_is_engaged_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "eagle3-random-draft")
    row = found["engaged"]["speculative"]  # type: ignore[index]
    assert row["state"] == "engaged"
    assert "accept length 1.0" in row["note"] and "no draft token is accepted" in row["note"]


def test_decoding_outside_captured_graphs_is_not_engaged_though_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = "[2026-11-30 09:00:{s:02d} TP0] Decode batch, #running-req: {n}, #token: 1, token usage: 0.01, cuda graph: {g}, gen throughput (token/s): 470.1, #queue-req: 0\n"
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=1)\n"
        "[2026-11-30 09:00:01] Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, 4, 8], avail mem=9.00 GB\n"
        "[2026-11-30 09:00:02] The server is fired up and ready to roll!\n"
        + step.format(s=3, n=1, g="True")
        + "".join(step.format(s=s, n=64, g="False") for s in range(4, 9))
    )
    assert main([str(log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    row = found["engaged"]["cuda_graph"]
    assert (found["outcome"], row["state"]) == ("ready", "not_engaged")
    assert "largest batch 64, largest captured 8" in row["note"]


def test_retractions_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "kv-retraction")
    assert any("evicted" in note and "4 times" in note for note in found["notes"])  # type: ignore[attr-defined]


def test_a_given_version_is_used_and_an_unknown_one_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, "nccl", "--sglang-version", "0.5.16")["sglang_version"] == "0.5.16"
    assert any("0.9.9" in note for note in explained(capsys, "nccl", "--sglang-version", "0.9.9")["notes"])  # type: ignore[attr-defined]


def test_the_version_is_narrowed_from_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, "nccl")["sglang_version"] == ">=0.5.16,<0.5.18"
    assert explained(capsys, "bad-flag")["sglang_version"] is None


def test_output_that_is_no_terminal_is_neither_wrapped_nor_padded_nor_coloured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for case in cases():
        code = main([str(folder_of(case) / "server.log.gz")])
        text = capsys.readouterr().out
        first = text.splitlines()[0]
        assert first.startswith(("READY", "FAILED", "COMPILING")), case
        assert code == {"R": 0, "F": 1, "C": 1}[first[0]], case
        assert "\x1b" not in text
        assert not any(line.endswith("  ") for line in text.splitlines()), case


@pytest.mark.parametrize(
    ("content", "said"), [(None, "no such file"), (b"", "empty"), (b"\x00\x01" * 50, "binary")]
)
def test_a_bad_file_ends_with_status_2_and_a_clear_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    file = tmp_path / "server.log"
    if content is not None:
        file.write_bytes(content)
    assert main([str(file)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and "remedy" in captured.err and captured.out == ""
