"""Short digests of plain data: the names under which results are found again."""

import hashlib
import json
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """One text for one meaning: key order, comments and white space of the YAML are gone."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any, length: int = 10) -> str:
    """First ``length`` hex digits of the SHA-256 of the canonical JSON of ``value``.

    Ten digits (40 bits) make a collision among the launches of one campaign a matter of one in millions.
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
