"""Models by name, folder and hub id; making them with a stand-in for the stack's interpreter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files.digest import file_sha256
from sglang_sweep.stacks.models import Model, load_model, make_model, weights_gib
from sglang_sweep.stacks.stack import Stack

KEPT = Path(__file__).parents[2] / "config" / "models.yaml"


@pytest.fixture
def models_yaml(tmp_path: Path) -> Path:
    return Path(shutil.copy(KEPT, tmp_path / "models.yaml"))


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Its interpreter is a shell script that writes what it was given into the model's folder."""
    made = Stack("small", "lock", "abc", tmp_path, "3.12", {})
    python = made.python(tmp_path)
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncp "$2" "$4/config.json"\necho made >> "$(dirname "$0")/made"\n')
    python.chmod(0o755)
    return made


@pytest.mark.parametrize("name", yaml.safe_load(KEPT.read_text()))
def test_every_kept_model_loads_and_is_made_into_a_folder_of_its_own(name: str, tmp_path: Path) -> None:
    model = load_model(name, KEPT)
    assert model.marker(tmp_path) == tmp_path / "models" / f"{name}-{model.digest}" / "model.json"
    assert model.path(tmp_path) == tmp_path / "models" / f"{name}-{model.digest}"


def test_a_description_does_not_change_a_model_and_a_seed_does(models_yaml: Path) -> None:
    before = load_model("tiny-llama", models_yaml).digest
    declared = yaml.safe_load(models_yaml.read_text())
    declared["tiny-llama"]["description"] = "other words"
    models_yaml.write_text(yaml.safe_dump(declared))
    assert load_model("tiny-llama", models_yaml).digest == before
    declared["tiny-llama"]["seed"] = 1
    models_yaml.write_text(yaml.safe_dump(declared))
    assert load_model("tiny-llama", models_yaml).digest != before


def test_an_unknown_model_is_reported_with_the_ones_there_are() -> None:
    with pytest.raises(UserError, match=r"there is no model 'smollm'(.|\n)*smollm2-135m"):
        load_model("smollm", KEPT)


def test_a_wheel_without_a_hash_is_refused(models_yaml: Path) -> None:
    declared = yaml.safe_load(models_yaml.read_text())
    del declared["smollm2-135m"]["sha256"]
    models_yaml.write_text(yaml.safe_dump(declared))
    with pytest.raises(UserError, match="sha256"):
        load_model("smollm2-135m", models_yaml)


def test_a_folder_is_known_by_its_contents_not_its_place(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "model", tmp_path / "b" / "model"
    for folder in (first, second):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"0" * 3_000_000)
    one, other = (load_model({"path": str(folder)}, KEPT) for folder in (first, second))
    assert one.digest == other.digest
    assert one.path(tmp_path) == first
    assert one.marker(tmp_path) is None
    (second / "model.safetensors").write_bytes(b"0" * 2_999_999 + b"1")
    assert load_model({"path": str(second)}, KEPT).digest != one.digest


def test_a_folder_without_config_json_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        load_model({"path": str(tmp_path)}, KEPT)


def test_a_hub_id_is_passed_on_and_nothing_is_made(tmp_path: Path, stack: Stack) -> None:
    model = load_model({"hub": "org/name"}, KEPT)
    assert model.path(tmp_path) == "org/name"
    assert model.marker(tmp_path) is None
    make_model(model, stack, tmp_path, print)
    assert not (tmp_path / "models").exists()


def test_a_model_is_made_once_and_its_marker_holds_the_hashes_of_its_files(
    tmp_path: Path, stack: Stack
) -> None:
    model = load_model("llama-8b-shape", KEPT)
    for _ in range(2):
        make_model(model, stack, tmp_path, print)
    marker = model.marker(tmp_path)
    assert marker is not None
    facts = json.loads(marker.read_text())
    assert facts["files"] == {"config.json": file_sha256(marker.with_name("config.json"))}
    assert (stack.python(tmp_path).parent / "made").read_text() == "made\n"
    assert [path.name for path in marker.parent.parent.iterdir() if path.is_dir()] == [marker.parent.name]


def test_a_failed_making_leaves_nothing_and_tells_the_last_words(tmp_path: Path, stack: Stack) -> None:
    stack.python(tmp_path).write_text("#!/bin/sh\necho 'No module named gguf' >&2\nexit 1\n")
    model = load_model("tiny-llama", KEPT)
    with pytest.raises(InfrastructureFault, match=r"No module named gguf(.|\n)*remedy"):
        make_model(model, stack, tmp_path, print)
    assert not any(path.is_dir() for path in (tmp_path / "models").iterdir())


def test_the_eagle3_draft_has_the_width_and_vocabulary_of_its_target() -> None:
    def config(name: str) -> dict[str, object]:
        recipe: Model = load_model(name, KEPT)
        return dict(recipe.recipe["config"])

    for target, draft in (("llama-8b-shape", "eagle3-random-draft"), ("tiny-llama", "tiny-eagle3-draft")):
        assert config(draft)["target_hidden_size"] == config(target)["hidden_size"]
        assert config(draft)["draft_vocab_size"] == config(target)["vocab_size"]
        assert config(draft)["num_hidden_layers"] == 1


def test_the_index_of_a_checkpoint_says_what_its_weights_weigh(tmp_path: Path) -> None:
    assert weights_gib(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(b"0" * 1024)
    assert weights_gib(tmp_path) == 1024 / 2**30
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 3221225472}}')
    assert weights_gib(tmp_path) == 3
