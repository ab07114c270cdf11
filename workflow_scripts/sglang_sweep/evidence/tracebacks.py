"""Collects Python tracebacks from a stream of log lines: chained exceptions stay together, ranks stay apart."""

import re
from dataclasses import dataclass, field
from datetime import datetime

HEADER = b"Traceback (most recent call last)"
CHAINED = (b"The above exception was the direct cause", b"During handling of the above exception")
MOST_FRAMES = 80
MOST_MESSAGE_LINES = 20
LONGEST_SAID = 360

_RANKED = re.compile(rb"^\[rank\d+\]:\s?")
_STAMPED = re.compile(rb"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?::\s?(?P<message>.*))?$", re.DOTALL)
_OF_ARGUMENTS = re.compile(r"server_args\.py in |arg_groups/|prepare_server_args")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$')


@dataclass
class Raised:
    """One exception of a chain, with where it was raised."""

    type: str
    message: str
    line: int
    frames: list[str] = field(default_factory=list)
    code: str = ""
    """The innermost frame's own source line."""
    at: str = ""
    """The innermost frame, as ``file.py:117 in create_buffer``."""

    @property
    def text(self) -> str:
        """``ValueError: what was said``, the first line, cut to a readable length; a bare assert says its condition."""
        first = self.message.partition("\n")[0][:LONGEST_SAID]
        if not first and self.type == "AssertionError" and self.code.startswith("assert"):
            return f"{self.type}: {self.code[:LONGEST_SAID]} ({self.at})"
        return f"{self.type}: {first}" if first else self.type


@dataclass
class Block:
    """One traceback with everything chained to it."""

    header: str
    line: int
    rank: str | None
    phase: str | None
    exceptions: list[Raised] = field(default_factory=list)
    time: datetime | None = None
    before: str = ""
    """The line above one that begins with the bare word Traceback: a logger's message, or nothing to do with it."""

    @property
    def of_arguments(self) -> bool:
        """Whether the interpreter printed it while the command line was being resolved: nothing runs after that."""
        frames = (frame for raised in self.exceptions for frame in raised.frames)
        return not self.header and any(map(_OF_ARGUMENTS.search, frames))


class Collector:
    """A state machine fed with lines; ``open`` is true while it is inside a traceback."""

    def __init__(self) -> None:
        self.block: Block | None = None
        self._frames: list[str] = []
        self._code, self._at = "", ""
        self._raised: Raised | None = None
        self._message_lines = 0
        self._chaining = False

    @property
    def open(self) -> bool:
        return self.block is not None

    def begin(self, block: Block) -> None:
        """Starts a block at a line that holds ``Traceback (most recent call last)``."""
        self.block = block
        self._frames, self._raised, self._message_lines, self._chaining = [], None, 0, False

    def feed(self, raw: bytes, line: int) -> Block | None:
        """Takes the next line; returns the block when this line ends it (the line itself is then not part of it)."""
        assert self.block is not None
        raw = _RANKED.sub(b"", raw)
        if HEADER in raw and self._raised is None and not self._frames:
            return None
        if HEADER in raw:
            if not (self._chaining and raw.startswith(HEADER)):
                return self.close()
            self._frames, self._raised, self._chaining = [], None, False
            return None
        if self._raised is None:
            return self._frame_or_exception(raw, line)
        if any(phrase in raw for phrase in CHAINED):
            self._chaining = True
            return None
        if self._chaining or not raw.strip():
            return None if self._message_lines < 2 * MOST_MESSAGE_LINES and self._count() else self.close()
        if _STAMPED.match(raw) or self._message_lines >= MOST_MESSAGE_LINES:
            return self.close()
        self._count()
        self._raised.message += "\n" + raw.decode("utf-8", "replace")[:2000]
        return None

    def _count(self) -> bool:
        self._message_lines += 1
        return True

    def _frame_or_exception(self, raw: bytes, line: int) -> Block | None:
        text = raw.decode("utf-8", "replace")[:4000]
        if not text or text[0] in " \t|+":
            if match := _FRAME.match(text):
                self._frames = [*self._frames[-MOST_FRAMES:], f"{match['file']} in {match['function']}"]
                file = match["file"].rpartition("/")[2]
                self._code, self._at = "", f"{file}:{match['line']} in {match['function']}"
            elif not self._code and text.strip(" \t^~|+"):
                self._code = text.strip()
            return None
        if _STAMPED.match(raw):
            return self.close()
        match = _RAISED.match(text)
        self._raised = Raised(
            match["type"] if match else text[:200],
            (match["message"] or "") if match else "",
            line,
            self._frames,
            self._code,
            self._at,
        )
        self._message_lines = 0
        assert self.block is not None
        self.block.exceptions.append(self._raised)
        return None

    def close(self) -> Block | None:
        """Ends the block in progress, at the end of the file or at a line of another kind."""
        block, self.block = self.block, None
        return block if block and block.exceptions else None
