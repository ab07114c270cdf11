"""Reading and writing ``launch.json`` and other result files: whole or not at all."""

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.files.redaction import redacted_data


def write_json(path: Path, value: Any) -> None:
    """Writes under a temporary name and renames, so that a killed job leaves no half file.

    Secrets are left out, whatever field they are in, and NaN, which is no JSON, is null.
    Raises InfrastructureFault on a full or read-only disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(_text(value) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InfrastructureFault(
            f"{path} cannot be written: {error.strerror}",
            remedy="make room there, or make the folder writable, then run again",
        ) from None


def _text(value: Any) -> str:
    value = redacted_data(value)
    try:
        return json.dumps(value, indent=1, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), indent=1, ensure_ascii=False, default=str, allow_nan=False)


def finite(value: Any) -> Any:
    """``value`` with null for NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InfrastructureFault naming one that is damaged, as a broken copy leaves it."""
    try:
        return from_json(path.read_bytes(), allow_inf_nan=False)
    except (ValueError, OSError) as error:
        raise InfrastructureFault(
            f"{path} is damaged: {error}", remedy="copy it again, or delete it to have it made anew"
        ) from None


def now() -> str:
    """ISO-8601 UTC with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
