"""``python -m sglang_sweep``: of use at night, also with useless arguments."""

from pathlib import Path

import pytest
from sglang_sweep.__main__ import main

RECORDED = Path(__file__).parent / "recordings" / "cpu-sglang-0.5.23" / "cpu-tp2" / "server.log.gz"


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["explain"]])
def test_without_a_known_command_the_commands_are_listed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert "usage: python -m sglang_sweep" in told
    assert "explain-log" in told and "analyze-trace" in told


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "what happened to this SGLang server?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain-log", "analyze-trace"])
@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\xfe\x01" * 500, b"\x1f\x8bnot gzip"])
def test_a_file_of_no_use_is_told_without_traceback(
    tmp_path: Path, command: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "given"
    if content is not None:
        file.write_bytes(content)
    assert main([command, str(file)]) == 2
    told = capsys.readouterr().err
    assert str(file) in told
    assert "Traceback" not in told


@pytest.mark.parametrize("command", ["explain-log", "analyze-trace"])
def test_a_command_without_a_file_says_how_it_is_used(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([command])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert "usage" in capsys.readouterr().err


def test_a_recorded_server_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-log", str(RECORDED)]) == 0
    assert "invalid_configuration" in capsys.readouterr().out
