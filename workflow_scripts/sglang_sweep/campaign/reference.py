"""The key tables of config/README.md, made from the schemas so that they cannot drift.

``python -m sglang_sweep.campaign.reference`` rewrites them.
"""

import re
from pathlib import Path
from typing import Any

from sglang_sweep.files.yaml_files import schema

README = Path(__file__).parents[3] / "config" / "README.md"


def reference(name: str) -> str:
    """A Markdown table of every key of ``config/schemas/<name>.schema.yaml``."""
    root = schema(name)
    rows = ["| key | values | default | meaning |", "|---|---|---|---|", *_rows(root, root, "")]
    return "\n".join(rows)


def _rows(node: dict[str, Any], root: dict[str, Any], prefix: str) -> list[str]:
    rows = []
    for key, sub in node.get("properties", {}).items():
        target = {**root["$defs"][sub["$ref"].rsplit("/", 1)[1]], **sub} if "$ref" in sub else sub
        name = f"{prefix}{key}"
        if "properties" not in target or "description" in target:
            default = "" if target.get("default") in (None, {}) else f"`{target['default']}`".lower()
            needed = " (required)" if key in node.get("required", []) else ""
            rows.append(f"| `{name}`{needed} | {_values(target)} | {default} | {_meaning(target)} |")
        inner = target.get("items", {}) if target.get("type") == "array" else target
        if "properties" in inner:
            rows += _rows(inner, root, f"{name}{'[]' if inner is not target else ''}.")
    return rows


def _values(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "oneOf" in node:
        return "text or mapping"
    kinds = node.get("type", "any")
    return ", ".join(kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null").replace(
        "object", "mapping"
    ).replace("array", "list")  # fmt: skip


def _meaning(node: dict[str, Any]) -> str:
    return str(node.get("description", "")).replace("|", "\\|")


def with_references(text: str) -> str:
    """``text`` with the tables between ``<!-- keys: NAME -->`` and ``<!-- end -->`` made anew."""
    return re.sub(
        r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{reference(match[2])}\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    README.write_text(with_references(README.read_text(encoding="utf-8")), encoding="utf-8")
