"""A host as a file: everything a fingerprint asked and was told, to be replayed in a test or a bug report.

``python -m sglang_sweep record-host FILE`` records the host it runs on.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from sglang_sweep.errors import UserError
from sglang_sweep.host.fingerprint import fingerprint
from sglang_sweep.host.sources import Sources, Unreadable
from sglang_sweep.host.system import relevant_arguments
from sglang_sweep.host.tools import relevant_variables

KINDS = ("files", "folders", "resolved", "programs", "commands", "nvml", "disks", "limits")


def recorded_host(path: Path) -> "RecordedSources":
    """Read a recording. ``{file: name}`` in place of a text means the file of that name beside it."""
    document = yaml.safe_load(path.read_text())

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) == {"file"}:
                return (path.parent / value["file"]).read_text()
            return {key: fill(item) for key, item in value.items()}
        return value

    return RecordedSources(fill(document))


class RecordedSources(Sources):
    """Answers from a recording; what was never asked there counts as not there.

    The recording holds ``label``, ``architecture``, ``now``, ``environment`` and one mapping for each of
    :data:`KINDS`. An answer that is ``{unreadable: reason}`` raises.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__()
        self.document = document

    def _answer(self, kind: str, key: str) -> Any:
        answers = self.document.get(kind) or {}
        if key not in answers:
            if kind == "nvml" and "error" in answers:
                raise Unreadable(f"NVML: {answers['error']}")
            if kind == "nvml":
                raise Unreadable(f"{key}: Not Supported")
            if kind == "commands":
                raise Unreadable(f"{key.split()[0]}: not found")
            raise FileNotFoundError(2, "No such file or directory", key)
        answer = answers[key]
        if isinstance(answer, dict) and "unreadable" in answer:
            raise Unreadable(answer["unreadable"])
        return answer

    def read_bytes(self, path: str) -> bytes:
        answer = self._answer("files", path)
        return bytes.fromhex(answer["hex"]) if isinstance(answer, dict) else str(answer).encode()

    def list_folder(self, path: str) -> list[str]:
        return list(self._answer("folders", path))

    def resolve(self, path: str) -> str:
        return str(self._answer("resolved", path))

    def which(self, program: str) -> str | None:
        return (self.document.get("programs") or {}).get(program)

    def start(self, commands: Iterable[Sequence[str]]) -> None:
        """Nothing to do: the answers are here."""

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        answer = self._answer("commands", " ".join(command))
        return answer["code"], answer["output"]

    def nvml(self, function: str, *arguments: Any) -> Any:
        return self._answer("nvml", _call(function, arguments))

    def nvml_gpu(self, index: int, function: str, *arguments: Any) -> Any:
        key = _call(function, arguments)
        gpus = self._answer("nvml", "gpus")
        if key not in gpus[index]:
            raise Unreadable(f"{function}: Not Supported")
        return gpus[index][key]

    def environment(self) -> dict[str, str]:
        return dict(self.document.get("environment") or {})

    def disk_usage(self, path: str) -> tuple[int, int]:
        total, free = self._answer("disks", path)
        return total, free

    def limit(self, name: str) -> int | None:
        answer: int | None = self._answer("limits", name)
        return answer

    def architecture(self) -> str:
        return str(self.document["architecture"])

    def now(self) -> str:
        return str(self.document["now"])


class RecordingSources(Sources):
    """The real host, remembering every answer in ``document``."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.document: dict[str, Any] = {"label": label, "kind": "recorded", "environment": {}}
        self.document |= {kind: {} for kind in KINDS}

    def _keep(self, kind: str, key: str, read: Any) -> Any:
        try:
            value = read()
        except FileNotFoundError:
            raise  # absence is recorded by absence
        except (Unreadable, OSError) as error:
            self.document[kind][key] = {"unreadable": str(error)}
            raise
        self.document[kind][key] = value
        return value

    def read_bytes(self, path: str) -> bytes:
        def read() -> Any:
            data = Path(path).read_bytes()
            try:
                return data.decode()
            except UnicodeDecodeError:
                return {"hex": data.hex()}

        value = self._keep("files", path, read)
        return bytes.fromhex(value["hex"]) if isinstance(value, dict) else str(value).encode()

    def list_folder(self, path: str) -> list[str]:
        names: list[str] = self._keep(
            "folders", path, lambda: super(RecordingSources, self).list_folder(path)
        )
        return names

    def resolve(self, path: str) -> str:
        return str(self._keep("resolved", path, lambda: super(RecordingSources, self).resolve(path)))

    def which(self, program: str) -> str | None:
        found = super().which(program)
        if found:
            self.document["programs"][program] = found
        return found

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        def read() -> dict[str, Any]:
            code, output = super(RecordingSources, self).run(command)
            return {"code": code, "output": output}

        answer = self._keep("commands", " ".join(command), read)
        return answer["code"], answer["output"]

    def nvml(self, function: str, *arguments: Any) -> Any:
        if arguments and not isinstance(arguments[0], int):
            return super().nvml(function, *arguments)  # a GPU's handle: kept by nvml_gpu
        try:
            value = super().nvml(function, *arguments)
        except Unreadable as error:
            if function == "nvmlDeviceGetCount":  # NVML as a whole does not answer
                self.document["nvml"]["error"] = str(error).removeprefix("NVML: ")
            raise
        self.document["nvml"][_call(function, arguments)] = value
        return value

    def nvml_gpu(self, index: int, function: str, *arguments: Any) -> Any:
        value = super().nvml_gpu(index, function, *arguments)
        gpus = self.document["nvml"].setdefault("gpus", [])
        gpus.extend({} for _ in range(index + 1 - len(gpus)))
        gpus[index][_call(function, arguments)] = value
        return value

    def environment(self) -> dict[str, str]:
        everything = super().environment()
        self.document["environment"] = relevant_variables(everything)
        return everything

    def disk_usage(self, path: str) -> tuple[int, int]:
        total, free = self._keep("disks", path, lambda: list(super(RecordingSources, self).disk_usage(path)))
        return total, free

    def limit(self, name: str) -> int | None:
        value: int | None = self._keep("limits", name, lambda: super(RecordingSources, self).limit(name))
        return value

    def architecture(self) -> str:
        self.document["architecture"] = super().architecture()
        return str(self.document["architecture"])

    def now(self) -> str:
        self.document["now"] = super().now()
        return str(self.document["now"])


def shareable(document: dict[str, Any]) -> dict[str, Any]:
    """The recording without what names this one machine: GPU UUIDs are numbered, the host is called ``host``,
    of the kernel's arguments only those remain that a fingerprint keeps."""
    text = dump(document)
    for number, uuid in enumerate(dict.fromkeys(re.findall(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}", text))):
        text = text.replace(uuid, f"GPU-00000000-0000-0000-0000-{number:012d}")
    shared: dict[str, Any] = yaml.safe_load(text)
    files = shared.get("files", {})
    if isinstance(arguments := files.get("/proc/cmdline"), str):
        files["/proc/cmdline"] = " ".join(relevant_arguments(arguments)) + "\n"
    if "/proc/sys/kernel/hostname" in files:
        files["/proc/sys/kernel/hostname"] = "host\n"
    return shared


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, so that a recording can be read."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text.strip() else None
    ),
)


def dump(document: Any) -> str:
    """The YAML text of a recording."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def _call(function: str, arguments: Sequence[Any]) -> str:
    return function if not arguments else f"{function}({', '.join(map(str, arguments))})"


def main(argv: Sequence[str]) -> int:
    """Writes the recording to the file that is named."""
    if len(argv) != 1:
        raise UserError("name the file to write", remedy="python -m sglang_sweep record-host host.yaml")
    sources = RecordingSources("a host recorded by sglang_sweep.host.recording")
    fingerprint(sources, folders=["/"])
    Path(argv[0]).write_text(dump(shareable(sources.document)))
    return 0
