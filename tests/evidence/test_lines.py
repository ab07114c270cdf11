import gzip
from pathlib import Path

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.evidence.lines import LONGEST, read_lines


def test_memory_stays_bounded_on_an_endless_line(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(b"x" * (3 * LONGEST) + b"\nsecond\n")
    lines = list(read_lines(file))
    assert len(lines) == 2 and lines[1] == b"second"


def test_a_short_cut_gzip_file_is_read_too(tmp_path: Path) -> None:
    text = b"".join(b"line %d %d\n" % (n, n * 7919 % 104729) for n in range(3000))
    file = tmp_path / "server.log.gz"
    file.write_bytes(gzip.compress(text)[:-5000])
    lines = list(read_lines(file))
    assert lines[:2] == [b"line 0 0", b"line 1 7919"] and 1000 < len(lines) < 3000


def test_a_cut_gzip_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(200_000)))
    file = tmp_path / "server.log.gz"
    file.write_bytes(whole[: len(whole) // 2])
    assert sum(1 for _ in read_lines(file)) > 1000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\x7fELF\x00\x00\x01", "binary"),
        (b"\x1f\x8b\x08\x00broken", "empty"),
        (None, "no such file"),
    ],
)
def test_a_file_that_is_no_log_is_an_error_in_words(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "server.log"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        list(read_lines(file))
    with pytest.raises(UserError, match="folder"):
        list(read_lines(tmp_path))
