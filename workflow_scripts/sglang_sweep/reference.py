"""What is made from the models of people's files: JSON Schemas for editors, and the key tables of config/README.md.

``python -m sglang_sweep reference`` rewrites them; a test keeps them current.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.declared import CampaignFile
from sglang_sweep.campaign.site import Site
from sglang_sweep.files.models import Declared, described
from sglang_sweep.stacks.models import ModelsFile
from sglang_sweep.stacks.stack import StackFile

CONFIG = Path(__file__).parents[2] / "config"
README = CONFIG / "README.md"
FILES: dict[str, type[Declared]] = {
    "campaign": CampaignFile,
    "config": Site,
    "stack": StackFile,
    "models": ModelsFile,
}


def schemas() -> dict[Path, str]:
    """The text of every schema file."""
    return {
        CONFIG / "schemas" / f"{name}.schema.json": json.dumps(editor_schema(name), indent=1) + "\n"
        for name in FILES
    }


def editor_schema(name: str) -> dict[str, Any]:
    """For completion and descriptions while writing. What must be there the program says: with ``extends`` much of it
    is in another file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **FILES[name].model_json_schema()}
    if name == "campaign":
        drop = {
            "type": "boolean",
            "description": "true leaves out this one of the campaign that is extended.",
        }
        for part in [schema, *schema["$defs"].values()]:
            part.pop("required", None)
        for part in ("DeclaredVariant", "Workload"):
            schema["$defs"][part] |= {"required": ["name"]}
            schema["$defs"][part]["properties"]["drop"] = drop
    if name == "models":
        schema |= schema.pop("properties")["models"]
        del schema["required"], schema["additionalProperties"]
        schema["additionalProperties"] = {"$ref": "#/$defs/Recipe"}
    return schema


def table(name: str) -> str:
    """A Markdown table of every key of a file."""
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for key, node, needed in described(FILES[name].model_json_schema()):
        default = node.get("default")
        shown = (
            ""
            if default in (None, {}, []) or isinstance(default, dict)
            else f"`{json.dumps(default).strip(chr(34))}`"
        )
        meaning = str(node.get("description", "")).replace("|", "\\|")
        rows.append(f"| `{key}`{' (required)' * needed} | {_values(node)} | {shown} | {meaning} |")
    return "\n".join(rows)


def _values(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "anyOf" in node:
        return "text or mapping"
    kinds = {
        "object": "mapping",
        "array": "list",
        "string": "text",
        "integer": "whole number",
        "boolean": "true, false",
    }
    kind = str(node.get("type", "any"))
    return kinds.get(kind, kind)


def with_tables(text: str) -> str:
    """``text`` with the tables between ``<!-- keys: NAME -->`` and ``<!-- end -->`` made anew."""
    return re.sub(
        r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{table(match[2])}\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


def main(_: Sequence[str] = ()) -> int:
    """Writes the tables and schemas."""
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    for file, content in schemas().items():
        file.write_text(content, encoding="utf-8")
    return 0
