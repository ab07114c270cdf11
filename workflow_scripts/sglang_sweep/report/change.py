"""Shows a declared change as the lines it adds to and removes from the baseline's command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any


def change_lines(change: Mapping[str, Any] | None, baseline: Mapping[str, Any] | None = None) -> list[str]:
    """Return diff lines: `-` what the baseline had, `+` what the variant has; empty for no change.

    `change` is the campaign's `{flags, env, stack, model, patch}`; `baseline` has the same keys and, where
    given, supplies the replaced values. A flag set to null is removed, one set to true is bare.
    """
    if not change:
        return []
    before = baseline or {}
    lines: list[str] = []
    for flag, value in (change.get("flags") or {}).items():
        lines += _pair(
            _flag(flag, value), _flag(flag, (before.get("flags") or {}).get(flag)), value is None, flag
        )
    for name, value in (change.get("env") or {}).items():
        lines += _pair(
            _variable(name, value), _variable(name, (before.get("env") or {}).get(name)), value is None, name
        )
    for key in ("stack", "model"):
        if change.get(key) is not None:
            old = before.get(key)
            lines += [f"- {key}: {_plain(old)}"] if old is not None else []
            lines.append(f"+ {key}: {_plain(change[key])}")
    if change.get("patch"):
        lines.append(f"+ source patch: {_plain(change['patch'])}")
    known = {"flags", "env", "stack", "model", "patch"}
    lines += [f"+ {key}: {_plain(value)}" for key, value in change.items() if key not in known and value]
    return lines


def command_lines(arm: Mapping[str, Any] | None) -> list[str]:
    """Return what an arm sets, a line each: its flags, then its environment."""
    shown = arm or {}
    flags = [_flag(name, value) for name, value in (shown.get("flags") or {}).items()]
    return [
        line
        for line in (*flags, *(_variable(n, v) for n, v in (shown.get("env") or {}).items()))
        if line is not None
    ]


def _pair(new: str | None, old: str | None, removed: bool, name: str) -> list[str]:
    if removed:
        return [f"- {old or (name if '=' in name else _bare(name))}"]
    if new == old:
        return [f"  {new}"]
    return ([f"- {old}"] if old else []) + [f"+ {new}"]


def _bare(name: str) -> str:
    # Environment variables are upper case, flags are not.
    return name if name.isupper() else f"--{name.removeprefix('--')}"


def _flag(name: str, value: Any) -> str | None:
    flag = f"--{name.removeprefix('--')}"
    if value is None or value is False:
        return None
    if value is True:
        return flag
    if isinstance(value, Mapping):  # a model by its name, or JSON
        value = value["model"] if set(value) == {"model"} else json.dumps(value, sort_keys=True)
    values = value if isinstance(value, list) else [value]
    return " ".join([flag, *(shlex.quote(str(item)) for item in values)])


def _variable(name: str, value: Any) -> str | None:
    return None if value is None else f"{name}={shlex.quote(str(value))}"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return str(value)
