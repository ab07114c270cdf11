"""A stack as declared in ``envs/<name>/stack.yaml``: its identity, and where it lies once it is built."""

import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import StringConstraints, model_validator

from sglang_sweep.campaign.declared import Environment
from sglang_sweep.errors import UserError
from sglang_sweep.files import yaml_files
from sglang_sweep.files.digest import digest, file_sha256
from sglang_sweep.files.models import Declared, Items, Number, require
from sglang_sweep.files.records import read_json, write_json

CPYTHON_MINORS = range(11, 20)
"""Of Python 3, the ones a stack may ask for."""

NOT_SOURCES = {"build", "dist", "__pycache__"}
"""Folders of a package that installing it may leave behind."""


class StackFile(Declared):
    """The software a server runs in. One folder under envs/, this is its stack.yaml."""

    description: str
    """What it is for, in a sentence."""
    kind: Literal["lock", "existing", "container"]
    """lock: built here from a lock file. existing: an interpreter that is already there. container: an image
    that Apptainer runs."""
    sglang: str | None = None
    """SGLang's version. For an existing interpreter it is read from there."""
    torch: str | None = None
    """Version of torch in the lock."""
    cuda: str | None = None
    """CUDA runtime that torch is built for; null for a stack that needs none."""
    gpu_architectures: Items[Annotated[str, StringConstraints(pattern=r"^sm_[0-9]+[a-z]?$")]] = ()
    """Compute capabilities its kernels were built for, such as sm_120; empty when unknown or without GPU."""
    python: str = ">=3.11"
    """Interpreter versions it can be built for, such as '>=3.11,<3.14'."""
    platforms: Items[str] = ()
    """Platforms its lock was made for."""
    launcher: Items[str] = ("-m", "sglang.launch_server")
    """What follows the interpreter in a server's command line, before the flags."""
    env: Environment = {}
    """Environment variables that every server of this stack needs."""
    lock: str = "requirements.lock"
    """Lock file beside this one, every requirement pinned and hashed."""
    left_out: dict[str, Items[str]] = {}
    """Requirements of SGLang that the lock leaves out, with what then does not work. They are named again when
    the lock is made anew."""
    exclude_newer: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    """Day after which nothing is taken when the lock is made: an old SGLang leaves its dependencies open
    upwards, and what came later never ran with it."""
    packages: Items[str] = ()
    """Folders of our own packages, installed after the lock."""
    prune: Items[str] = ()
    """Files removed from site-packages after installation, as glob patterns: what nothing loads in this stack."""
    download_gb: Number | None = None
    """What building it downloads, for the estimate."""
    disk_gb: Number = 16
    """Free disk that building it needs at most."""
    interpreter: str | None = None
    """Of an existing stack, the path of its python."""
    image: str | None = None
    """Of a container stack, such as docker://lmsysorg/sglang:v0.5.16."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needs = {"lock": ("sglang", "torch"), "existing": ("interpreter",), "container": ("image", "sglang")}
        require(self, f"a stack of kind {self.kind}", needs[self.kind])
        return self


def read_stack_file(file: Path) -> dict[str, Any]:
    """A stack.yaml as plain data, defaults filled in. Raises UserError(s)."""
    return StackFile.of(yaml_files.read_yaml(file), file).model_dump(mode="json")


@dataclass(frozen=True)
class Stack:
    """The software a server runs in. ``digest`` names it, so that an edit makes a new stack beside the old."""

    name: str
    kind: str
    digest: str
    directory: Path
    python_version: str
    declared: dict[str, Any] = field(repr=False, compare=False)

    @property
    def sglang_version(self) -> str:
        """As declared; what is really there stands in ``stack.json`` once it is built."""
        return str(self.declared["sglang"])

    @property
    def cuda(self) -> str | None:
        """CUDA runtime it needs, or None."""
        cuda: str | None = self.declared["cuda"]
        return cuda

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that every server of this stack needs."""
        return dict(self.declared["env"])

    @property
    def lock(self) -> Path:
        """The lock file; only of a stack of kind ``lock``."""
        return self.directory / str(self.declared["lock"])

    @property
    def packages(self) -> list[Path]:
        """Our own packages, installed after the lock."""
        return [self.directory / name for name in self.declared["packages"]]

    def folder(self, store: Path) -> Path:
        """Where it lies; complete when ``stack.json`` is in it."""
        return store / "stacks" / f"{self.name}-{self.digest}"

    def python(self, store: Path) -> Path:
        """Its interpreter on this host. Raises UserError for a container, which has none here."""
        if self.kind == "existing":
            return interpreter_of(self.declared, self.directory / "stack.yaml")
        if self.kind == "container":
            raise UserError(
                f"the stack {self.name} is a container: it has no interpreter on this host",
                file=self.directory / "stack.yaml",
                remedy="let a stack of kind lock or existing be the baseline's; the load client runs in that one",
            )
        return self.folder(store) / "bin" / "python"

    def run(self, store: Path) -> list[str]:
        """What starts its interpreter: a path, or the container's runner with the image."""
        if self.kind == "container":
            return ["apptainer", "exec", "--nv", str(self.declared["image"]), "python3"]
        return [str(self.python(store))]

    def launcher(self, store: Path) -> list[str]:
        """A server's command line up to its flags."""
        return [*self.run(store), *self.declared["launcher"]]


def load_stack(envs_dir: Path, name: str, recorded: Path | None = None) -> Stack:
    """The stack ``envs_dir/name``. Raises UserError(s) when it is not there or not declared properly.

    ``recorded`` is a folder of what :func:`record_existing` noted on the host that has the interpreter, for one
    that has not.
    """
    directory = envs_dir / name
    file = directory / "stack.yaml"
    if not file.is_file():
        known = sorted(path.parent.name for path in envs_dir.glob("*/stack.yaml"))
        raise UserError(
            f"there is no stack {name!r}",
            file=file,
            remedy=f"the stacks here are: {', '.join(known) or 'none'}",
        )
    declared = read_stack_file(file)
    kind = declared["kind"]
    version = python_for(declared["python"], file)
    contents: dict[str, Any]
    if kind == "existing" and declared["sglang"] and not _is_there(declared["interpreter"]):
        # On another machine the campaign can still be read, planned and reported; a launch asks for the interpreter
        # itself.
        noted = _noted(recorded, name, declared)
        if noted:
            return Stack(name, kind, noted["digest"], directory, noted["python"], declared)
        contents = {"absent": declared["interpreter"]}
    elif kind == "existing":
        found = distributions(interpreter_of(declared, file), declared["env"])
        declared["sglang"] = found["distributions"].get("sglang", declared["sglang"])
        if declared["sglang"] is None:
            raise UserError(
                f"{declared['interpreter']} has no sglang",
                file=file,
                key="interpreter",
                remedy="install sglang there",
            )
        version, contents = found["python"], found
    elif kind == "container":
        contents = {"image": declared["image"]}
    else:
        contents = _lock_contents(directory, declared, file)
    return Stack(
        name=name,
        kind=kind,
        digest=digest({"declared": _identity(declared), "python": version, "contents": contents}),
        directory=directory,
        python_version=version,
        declared=declared,
    )


DESCRIBES = {
    *("description", "left_out", "download_gb", "disk_gb", "gpu_architectures", "platforms", "python"),
    "exclude_newer",
}
"""Keys of stack.yaml that change nothing about what is built."""


def _identity(declared: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in declared.items() if key not in DESCRIBES}


def record_existing(stack: Stack, recorded: Path) -> None:
    """Notes under which digest an interpreter that is on this host entered the launch keys.

    Results are then the same results on a machine without it, where they are brought to be reported.
    """
    if stack.kind == "existing" and _is_there(stack.declared["interpreter"]):
        note = {
            "interpreter": stack.declared["interpreter"],
            "sglang": stack.sglang_version,
            "python": stack.python_version,
            "declared": digest(_identity(stack.declared)),
            "digest": stack.digest,
        }
        write_json(recorded / f"{stack.name}.json", note)


def _noted(recorded: Path | None, name: str, declared: dict[str, Any]) -> dict[str, Any] | None:
    """The note, unless stack.yaml says something else by now."""
    file = recorded / f"{name}.json" if recorded else None
    if file is None or not file.exists():
        return None
    note: dict[str, Any] = read_json(file)
    return note if note["declared"] == digest(_identity(declared)) else None


def _lock_contents(directory: Path, declared: dict[str, Any], file: Path) -> dict[str, Any]:
    lock = directory / declared["lock"]
    if not lock.is_file():
        raise UserError(f"its lock file {lock.name} is missing", file=file, key="lock", remedy=LOCK_REMEDY)
    packages = {}
    for name in declared["packages"]:
        if not (directory / name / "pyproject.toml").is_file():
            raise UserError(f"{name} is not a package (no pyproject.toml)", file=file, key="packages")
        packages[name] = source_digests(directory / name)
    return {"lock": pins(lock.read_text(encoding="utf-8")), "packages": packages}


LOCK_REMEDY = "make it with `python -m sglang_sweep lock`"


def pins(lock: str) -> list[str]:
    """The lines of a lock file that decide what is installed, without comments and continuation marks."""
    lines = (line.partition(" #")[0].strip().removesuffix("\\").strip() for line in lock.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def source_digests(package: Path) -> dict[str, str]:
    """SHA-256 of each file that ends up installed, by relative path; documentation does not count."""
    files = (path for path in package.rglob("*") if path.suffix in {".py", ".toml"} and path.is_file())
    return {
        relative.as_posix(): file_sha256(package / relative)
        for relative in sorted(path.relative_to(package) for path in files)
        if not any(part in NOT_SOURCES or part.endswith(".egg-info") for part in relative.parts)
    }


def python_for(specifier: str, file: Path, running: str | None = None) -> str:
    """The minor version, such as ``"3.12"``, to build for: the running one if it fits, else the newest that does."""
    running = running or ".".join(platform.python_version_tuple()[:2])
    try:
        allowed = SpecifierSet(specifier)
    except InvalidSpecifier:
        raise UserError(
            f"{specifier!r} is not a version range",
            file=file,
            key="python",
            remedy="write it like '>=3.11,<3.14'",
        ) from None
    # An exact or upper bound such as ==3.12.* or <3.14 is about minors, so any patch release stands for one.
    fitting = [f"3.{minor}" for minor in CPYTHON_MINORS if allowed.contains(f"3.{minor}.9")]
    if not fitting:
        raise UserError(f"no Python 3 satisfies {specifier!r}", file=file, key="python")
    return running if running in fitting else fitting[-1]


def _is_there(interpreter: str) -> bool:
    return shutil.which(Path(interpreter).expanduser()) is not None


def interpreter_of(declared: dict[str, Any], file: Path) -> Path:
    """The interpreter an existing stack names. Raises UserError when it cannot be run."""
    given = str(declared["interpreter"])
    found = shutil.which(str(Path(given).expanduser()))
    if found is None:
        raise UserError(
            f"there is no interpreter {given}",
            file=file,
            key="interpreter",
            remedy="give the path of a python executable",
        )
    return Path(found)


def distributions(python: Path, env: dict[str, str]) -> dict[str, Any]:
    """``{"python": "3.12", "distributions": {name: version}}`` of an interpreter, without importing any of them.

    ``env`` is the stack's own, since a PYTHONPATH in it decides what is there.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | env
    program = (
        "import json, sys, importlib.metadata as m; found = {}\n"
        "for d in m.distributions():  # the first on the path is the one that is imported\n"
        "    if d.metadata['Name']: found.setdefault(d.metadata['Name'], d.version)\n"
        "print(json.dumps({'python': '%d.%d' % sys.version_info[:2], 'distributions': found}))"
    )
    done = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    if done.returncode:
        raise UserError(f"{python} does not run: {done.stderr.strip()[-300:]}", key="interpreter")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["distributions"] = {
        _normal(name): version for name, version in sorted(found["distributions"].items())
    }
    return found


def _normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
