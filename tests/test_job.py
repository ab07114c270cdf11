"""What a script's log and a person at the terminal get to see when a step ends badly."""

import errno
import os
from pathlib import Path

import pytest
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.job import logged, told
from sglang_sweep.launch.ownership import Interrupted


def test_what_is_said_reaches_terminal_and_log_and_what_is_printed_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logged(tmp_path / "deep" / "x.log") as say:
        print("detail")
        say("done")
    assert (tmp_path / "deep" / "x.log").read_text() == "detail\ndone\n"
    assert capsys.readouterr().err == "  done\n"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (UserError("no such thing", file="c.yaml", key="a.b", remedy="name it"), "c.yaml:a.b: no such thing"),
        (InfrastructureFault("disk is full", remedy="free some"), "remedy: free some"),
        (Interrupted("SIGTERM"), "stopped by SIGTERM; its server is ended, run again to go on"),
    ],
)
def test_an_expected_error_ends_the_job_without_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: BaseException, shown: str
) -> None:
    with pytest.raises(SystemExit) as ended, logged(tmp_path / "x.log"):
        raise error
    assert ended.value.code == 1
    for text in (capsys.readouterr().err, (tmp_path / "x.log").read_text()):
        assert shown in text
        assert "Traceback" not in text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_ends_the_job_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    with pytest.raises(SystemExit, match="this host does not let us write or open results/x"):  # noqa: SIM117
        with logged(tmp_path / "x.log"):
            raise OSError(number, os.strerror(number), "results/x")
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(SystemExit, match="remedy: free some space"), logged("/proc/no/x.log"):
        pass


def test_an_unexpected_error_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), logged(tmp_path / "x.log"):
        _ = 1 / 0
    assert "ZeroDivisionError" in (tmp_path / "x.log").read_text()


def test_a_target_for_people_prints_and_keeps_what_it_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="no such thing"), told(tmp_path / "x.log"):
        print("a table")
        raise UserError("no such thing")
    assert capsys.readouterr().out == "a table\n"
    assert (tmp_path / "x.log").read_text() == "a table\n"
