"""Reading and writing ``launch.json`` and other result files: whole or not at all."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sglang_sweep.errors import InfrastructureFault


def write_json(path: Path, value: Any) -> None:
    """Writes under a temporary name and renames, so that a killed job leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(
        json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8"
    )
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InfrastructureFault naming one that is damaged, as a broken copy leaves it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InfrastructureFault(
            f"{path} is damaged: {error}", remedy="copy it again, or delete it to have it made anew"
        ) from None


def now() -> str:
    """ISO-8601 UTC with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
