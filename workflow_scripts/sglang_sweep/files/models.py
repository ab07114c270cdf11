"""The base of every typed record: validated when written and when read, with its mistakes told in sentences."""

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from sglang_sweep.errors import UserError, UserErrors
from sglang_sweep.files.records import read_json, write_json


class Part(BaseModel):
    """A piece of a record. Unknown keys and NaN are refused; a value is never changed after it was made."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Record(Part):
    """A file between two steps. Subclasses raise ``VERSION`` when their form changes and say in ``older`` how an
    earlier form becomes this one."""

    VERSION: ClassVar[int] = 1
    schema_version: int

    @classmethod
    def older(cls, data: dict[str, Any]) -> dict[str, Any]:
        """A record of an earlier version in today's form."""
        return data

    @classmethod
    def of(cls, data: Any, file: Path) -> Self:
        """The record in ``data``. Raises UserErrors naming ``file`` and every key that is wrong."""
        if not isinstance(data, dict):
            raise UserError("a record is a mapping of keys", file=file, remedy=_DAMAGED)
        version = data.get("schema_version")
        if not isinstance(version, int) or version > cls.VERSION:
            raise UserError(
                f"version {version!r} of {cls.__name__}, this program reads up to {cls.VERSION}",
                file=file,
                key="schema_version",
                remedy="use the version that wrote it, or a newer one",
            )
        try:
            return cls.model_validate(cls.older(data) if version < cls.VERSION else data)
        except ValidationError as error:
            raise UserErrors(problems(error, file, _DAMAGED)) from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """The record at ``path``. Raises UserError(s) where it is damaged or of another form."""
        return cls.of(read_json(path), path)

    def write(self, path: Path) -> None:
        """Writes the record whole or not at all."""
        write_json(path, self.model_dump(mode="json"))


_DAMAGED = "the file is damaged or not ours: put it aside and run again"


def problems(error: ValidationError, file: Path, remedy: str | None = None) -> list[UserError]:
    """Every violation as an error that names file and key."""
    return [
        UserError(_sentence(found), file=file, key=".".join(map(str, found["loc"])) or None, remedy=remedy)
        for found in error.errors(include_url=False, include_context=False)
    ]


def _sentence(found: Any) -> str:
    message = str(found["msg"])
    return (
        message[:1].lower() + message[1:]
        if found["type"] == "missing"
        else f"{message}, not {found['input']!r:.80}"
    )
