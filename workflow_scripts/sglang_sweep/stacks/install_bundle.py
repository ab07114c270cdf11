"""Installs a bundle on a host without network: ``python3 install_bundle.py --into FOLDER``.

Standard library only, and run where nothing else of this project need be. Checks every part against
``manifest.json``, then makes one environment a group, ``FOLDER/<group>/bin/python``: its own packages first, the
packages of the Python that runs this script after them (that is where the host's torch comes from).
"""

import argparse
import hashlib
import importlib.metadata
import io
import json
import lzma
import os
import shutil
import site
import sys
import tarfile
import venv
from pathlib import Path

MARKER = "bundle.json"


class Joined(io.RawIOBase):
    """The parts, read one after the other as one file."""

    def __init__(self, parts: list[Path]) -> None:
        self._waiting = [*parts]
        self._stream = self._waiting.pop(0).open("rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        count = self._stream.readinto(buffer)
        while not count and self._waiting:
            self._stream.close()
            self._stream = self._waiting.pop(0).open("rb")
            count = self._stream.readinto(buffer)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def problems(manifest: dict, folder: Path) -> list[str]:
    """Why the bundle cannot be installed with this Python from these parts; empty when it can."""
    found = []
    names = [part["file"] for part in manifest["parts"]]
    for name in [*names, *manifest["groups"]]:
        if not inside(name) or len(Path(name).parts) > 1:
            return [f"the manifest names {name!r}: not made by this project, or damaged"]
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != manifest["python"]:
        found.append(
            f"made for Python {manifest['python']}, this is {running}: run it with python{manifest['python']}"
        )
    for part in manifest["parts"]:
        path = folder / part["file"]
        if not path.is_file():
            found.append(f"{part['file']} is missing: carry it here, beside manifest.json")
            continue
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != part["sha256"]:
            found.append(
                f"{part['file']} is damaged (its SHA-256 is not the manifest's): carry it here again"
            )
    for name, group in manifest["groups"].items():
        for package, wanted in group["host_has"].items():
            try:
                version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found.append(f"{name}: this Python has no {package}, which the bundle counts on")
                continue
            if wanted and version.partition("+")[0] != wanted:
                found.append(f"{name}: this Python has {package} {version}, the bundle is made for {wanted}")
    return found


def inside(name: str) -> bool:
    """Whether a relative name stays in its folder."""
    return bool(name) and not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name


def install(manifest: dict, folder: Path, into: Path) -> dict[str, Path]:
    """Makes the environments and returns their interpreters by group."""
    if (into / MARKER).is_file():  # an earlier one, made by this script
        shutil.rmtree(into)
    packages, interpreters = {}, {}
    for name in manifest["groups"]:
        venv.EnvBuilder(with_pip=False, symlinks=True).create(into / name)
        interpreters[name] = into / name / "bin" / "python"
        packages[name] = into / name / "lib" / f"python{manifest['python']}" / "site-packages"
        hosts = [path for path in site.getsitepackages() if Path(path).is_dir()]
        lines = [f"import site; site.addsitedir({path!r})" for path in hosts]
        (packages[name] / "zz-host.pth").write_text("\n".join(lines) + "\n")
    parts = [folder / part["file"] for part in manifest["parts"]]
    with (
        io.BufferedReader(Joined(parts), 1 << 20) as joined,
        lzma.open(joined) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            group, _, rest = member.name.partition("/")
            program = rest.startswith("bin/")
            if group not in packages or not inside(rest) or not member.isfile():
                raise SystemExit(f"unexpected member of the archive: {member.name}")
            place = into / group / rest if program else packages[group] / rest
            place.parent.mkdir(parents=True, exist_ok=True)
            contents = archive.extractfile(member)
            assert contents is not None  # it is a file
            with contents, place.open("wb") as target:
                shutil.copyfileobj(contents, target, 1 << 20)
            place.chmod(member.mode & 0o777)
            if program:
                _own_interpreter(place, interpreters[group])
    (into / MARKER).write_text(json.dumps(manifest) + "\n")
    return interpreters


def _own_interpreter(program: Path, interpreter: Path) -> None:
    """A script's first line names the Python that it was installed with on the connected machine."""
    with program.open("rb") as stream:
        if stream.read(2) != b"#!":
            return
        first, rest = stream.readline(), stream.read()
    if b"python" in first or first.strip() == b"/bin/sh":
        lines = rest.split(b"\n")
        if first.strip() == b"/bin/sh":  # a long path is wrapped: '''exec' "PYTHON" "$0" "$@" / ' '''
            lines = lines[2:] if lines and lines[0].startswith(b"'''exec'") else lines
        program.write_bytes(b"#!" + os.fsencode(interpreter.absolute()) + b"\n" + b"\n".join(lines))


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--into", type=Path, required=True, help="folder to make; an earlier installation there is replaced"
    )
    parser.add_argument(
        "--from", dest="source", type=Path, default=here, help="where the parts are (default: here)"
    )
    arguments = parser.parse_args()
    manifest = json.loads((arguments.source / "manifest.json").read_text(encoding="utf-8"))
    found = problems(manifest, arguments.source)
    into = arguments.into
    if into.exists() and not (into / MARKER).is_file() and (not into.is_dir() or any(into.iterdir())):
        found.append(f"{into} is there and is no earlier installation of a bundle: name a folder of its own")
    if found:
        sys.exit(f"{manifest['name']} cannot be installed here:\n  " + "\n  ".join(found))
    for name, interpreter in install(manifest, arguments.source, arguments.into).items():
        print(f"{name}: {interpreter}")


if __name__ == "__main__":
    main()
