"""``python -m sglang_sweep``: of use at night, also with useless arguments."""

from importlib import import_module
from pathlib import Path

import pytest
from sglang_sweep.__main__ import COMMANDS, main

RECORDED = Path(__file__).parent / "recordings" / "cpu-sglang-0.5.23" / "cpu-tp2" / "server.log.gz"


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = capsys.readouterr().err
    assert "usage: sglang-sweep" in told
    assert all(command in told for command in COMMANDS)


@pytest.mark.parametrize(
    ("command", "meant"), [("frobnicate", "there are explain-log"), ("explain", "explain-log?")]
)
def test_an_unknown_command_says_so(command: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    told = capsys.readouterr().err
    assert f"there is no command '{command}'" in told and meant in told


def test_help_and_version_are_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "what happened to this SGLang server?" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sglang-sweep ")


def test_every_command_is_there() -> None:
    for module, _ in COMMANDS.values():
        assert callable(import_module(f"sglang_sweep.{module}").main)


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
    assert main(["explain-log", str(RECORDED)]) == 1  # it failed
    assert "invalid_configuration" in capsys.readouterr().out
