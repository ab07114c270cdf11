"""Configuration documentation and schemas agree."""

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from sglang_sweep.campaign.reference import README, with_references

SCHEMAS = sorted(Path("config/schemas").glob("*.schema.yaml"))
KEYWORDS = {
    "$schema", "$id", "$ref", "$defs", "title", "description", "type", "properties", "required",
    "items", "enum", "const", "default", "additionalProperties", "patternProperties", "propertyNames",
    "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "pattern", "minLength", "maxLength",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
    "minProperties", "maxProperties", "format", "examples", "uniqueItems", "prefixItems",
    "dependentRequired", "contains", "unevaluatedProperties", "$comment", "dependentSchemas",
}  # fmt: skip


def test_the_reference_in_the_readme_is_the_schemas() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_references(text) == text, "run python -m sglang_sweep.campaign.reference"


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_a_schema_is_valid_and_uses_no_unknown_keyword(path: Path) -> None:
    schema = yaml.safe_load(path.read_text())
    Draft202012Validator.check_schema(schema)
    walk(schema, path.name)


def walk(node: object, where: str) -> None:
    """A description cut at a comma of a flow mapping would show up as an unknown keyword."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            walk(item, f"{where}[{index}]")
    if not isinstance(node, dict):
        return
    assert set(node) <= KEYWORDS, f"{where}: {set(node) - KEYWORDS}"
    for key, value in node.items():
        if key in ("properties", "$defs", "patternProperties", "dependentSchemas"):
            for name, sub in value.items():
                walk(sub, f"{where}.{name}")
        elif key not in ("default", "enum", "const", "examples", "required", "dependentRequired"):
            walk(value, f"{where}.{key}")
