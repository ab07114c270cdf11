"""What is made from the models of people's files is current, and an editor can use it."""

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from sglang_sweep.reference import README, editor_schema, schemas, with_tables

REMAKE = "run python -m sglang_sweep reference"
KEPT = sorted(Path("config/schemas").glob("*.schema.yaml"))


def test_the_tables_and_schemas_are_those_of_the_models() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_tables(text) == text, REMAKE
    for file, content in schemas().items():
        assert file.read_text(encoding="utf-8") == content, REMAKE


def test_an_editor_accepts_what_is_shipped_and_finds_a_typo() -> None:
    shipped = {
        "campaign": sorted(Path("config/campaigns").glob("*.yaml")),
        "config": [Path("config/config.yaml")],
        "models": [Path("config/models.yaml")],
        "stack": sorted(Path("envs").glob("*/stack.yaml")),
    }
    for name, files in shipped.items():
        Draft202012Validator.check_schema(editor_schema(name))
        validator = Draft202012Validator(editor_schema(name))
        for file in files:
            text = file.read_text(encoding="utf-8")
            content = yaml.safe_load(text)
            assert not list(validator.iter_errors(content)), file
            assert name == "models" or list(validator.iter_errors(content | {"typo": 1})), file
            asked = "# yaml-language-server: $schema=../schemas/campaign.schema.json"
            assert name != "campaign" or text.startswith(asked), file


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_schema_that_is_kept_by_hand_is_valid(path: Path) -> None:
    Draft202012Validator.check_schema(yaml.safe_load(path.read_text()))
