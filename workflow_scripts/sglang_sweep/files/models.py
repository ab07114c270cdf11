"""The base of every typed record: validated when written and when read, with its mistakes told in sentences."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from sglang_sweep.errors import UserError, UserErrors
from sglang_sweep.files.records import read_json, write_json


class Part(BaseModel):
    """A piece of a record. Unknown keys and NaN are refused; a value is never changed after it was made."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _on_one_line(schema: dict[str, Any]) -> None:
    for node in (schema, *schema.get("properties", {}).values()):
        if "description" in node:
            node["description"] = " ".join(node["description"].split())


class Declared(Part):
    """A piece of a file that people write. Nothing is converted: ``"3"`` and ``3.0`` are no whole numbers.

    The text under a field describes it, in the editor and in config/README.md.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True, json_schema_extra=_on_one_line)

    @classmethod
    def of(cls, data: Any, file: str | Path) -> Self:
        """The declaration in ``data``. Raises UserErrors naming ``file``, key and remedy of all that is wrong."""
        if not isinstance(data, dict):
            raise UserError("a mapping of keys belongs here", file=file, remedy="see config/README.md")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise UserErrors(declared_problems(error, cls, data, file)) from None


T = TypeVar("T")
Items = Annotated[
    tuple[T, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
]
"""A list in YAML."""

Number = Annotated[float, WrapValidator(lambda value, check: (check(value), value)[1])]
"""A number kept as it was written: 4000 and 4000.0 enter a key and a command line as they stand."""

Positive = Annotated[Number, Field(gt=0)]


def require(part: Part, what: str, names: Iterable[str]) -> None:
    """Raises, within a validator, for keys that this kind of thing cannot do without."""
    for name in names:
        if getattr(part, name) is None:
            raise PydanticCustomError(
                "kind", "{what} needs {name}", {"what": what, "name": repr(name), "remedy": "add it"}
            )


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


# ---- the mistakes of people


def declared_problems(
    error: ValidationError, model: type[BaseModel], data: Any, file: str | Path
) -> list[UserError]:
    """Every mistake in what a person wrote, with the key as they know it, and what may stand there instead."""
    schema = model.model_json_schema()
    places: list[tuple[_Place, Any]] = [
        (_place(found["loc"], data, schema), found) for found in error.errors(include_url=False)
    ]
    tried: dict[str, set[str]] = {}
    for place, _ in places:
        for key, (tag, _, _) in place.forms.items():
            tried.setdefault(key, set()).add(tag)
    grouped: dict[str, list[tuple[Any, _Place]]] = {}
    for place, found in places:
        fits_none = next((key for key in place.forms if len(tried[key]) > 1), None)
        if fits_none is not None:
            _, node, value = place.forms[fits_none]
            found, place = {"type": "form", "input": value}, _Place(fits_none, node, {})
        # Unknown keys of one mapping are told together.
        grouped.setdefault(f"{place.key}{'?' * (found['type'] == 'extra_forbidden')}", []).append(
            (found, place)
        )
    return [_mistake(members, file) for members in grouped.values()]


@dataclass(frozen=True)
class _Place:
    """Where a mistake is: the key as written (``variants[radix-off].change``) and the schema of that place.

    ``forms`` holds, by key, which of several forms the error speaks of: its name, the schema, and what stands there.
    """

    key: str
    node: dict[str, Any]
    forms: dict[str, tuple[str, dict[str, Any], Any]]


def _mistake(members: list[tuple[Any, _Place]], file: str | Path) -> UserError:
    found, place = members[0]
    kind, given, about = found["type"], found["input"], place.node.get("description")
    context = found.get("ctx", {})
    if kind == "extra_forbidden":
        unknown = [member["loc"][-1] for member, _ in members]
        known = sorted(place.node.get("properties", {}))
        message = f"unknown key{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown))}"
        about = "; ".join(dict.fromkeys(nearest(str(name), known) for name in unknown))
    elif kind == "form":
        message = f"{given_as(given)} fits none of the allowed forms"
    elif kind == "missing":
        message, about = f"{found['loc'][-1]!r} is missing", f"add it: {about}" if about else "add it"
    elif kind == "literal_error":
        allowed = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        message, about = f"{given_as(given)} is not one of {', '.join(allowed)}", nearest(str(given), allowed)
    elif kind == "string_pattern_mismatch":
        of_a_name = found["loc"][-1] == "[key]" or "name" in str(about)
        message = f"{given_as(given)} is not {'a valid name' if of_a_name else 'valid'}"
        about = about or f"it matches {context['pattern']}"
    elif kind in _BOUNDS:
        message = f"{given_as(given)} {_BOUNDS[kind]} {next(iter(context.values()))}"
    elif kind in _KINDS:
        message = f"{given_as(given)} is not {_KINDS[kind]}"
        if kind == "int_type" and isinstance(given, float) and given.is_integer():
            about = f"write {int(given)}"
    elif "remedy" in context:
        message, about = str(found["msg"]), context["remedy"]
    else:
        message = f"{found['msg'][:1].lower()}{found['msg'][1:]}, not {given_as(given)}"
    return UserError(message, file=file, key=place.key or None, remedy=about)


_BOUNDS = {
    "greater_than_equal": "is less than the minimum of",
    "less_than_equal": "is more than the maximum of",
    "greater_than": "must be more than",
    "less_than": "must be less than",
}
_KINDS = {
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping of keys"),
    "string_type": "a text",
    "tuple_type": "a list",
}


def given_as(value: Any) -> str:
    """What was written, short; an empty key says so."""
    text = repr(value)
    return "nothing" if value is None else text if len(text) <= 80 else f"{text[:77]}..."


def nearest(name: str, known: list[str]) -> str:
    """What may have been meant."""
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def _place(loc: tuple[Any, ...], data: Any, schema: dict[str, Any]) -> _Place:
    key, node = "", schema
    forms: dict[str, tuple[str, dict[str, Any], Any]] = {}
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        node = _followed(node, schema)
        if isinstance(part, int) and isinstance(data, list | tuple) and part < len(data):
            data, node = data[part], node.get("items", {})
            name = data.get("name") if isinstance(data, dict) else None
            key += f"[{name if isinstance(name, str) else part}]"
        elif isinstance(data, dict) and part in data:
            inner = _property(node, part)
            if inner is None and last:
                break  # an unknown key: the place is the mapping that holds it
            data, node = data[part], inner or {}
            key += f".{part}" if key else str(part)
        elif last and isinstance(data, dict) and (inner := _property(node, part)) is not None:
            return _Place(key, _followed(inner, schema), forms)  # a key that is missing
        elif part != "[key]":
            forms[key] = (str(part), node, data)
    return _Place(key, _followed(node, schema), forms)


def _followed(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The node with its reference, and the one form that is not null, taken in; what it says itself wins."""
    while True:
        forms = [form for form in node.get("anyOf", []) if form.get("type") != "null"]
        if "$ref" in node:
            inner = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
            node = {**inner, **{key: value for key, value in node.items() if key != "$ref"}}
        elif len(forms) == 1:
            node = {**forms[0], **{key: value for key, value in node.items() if key != "anyOf"}}
        else:
            return node


def _property(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    if name in node.get("properties", {}):
        inner: dict[str, Any] = node["properties"][name]
        return inner
    extra = next(iter(node.get("patternProperties", {}).values()), node.get("additionalProperties"))
    return extra if isinstance(extra, dict) else {} if extra is True else None


def described(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every key of a model's JSON Schema, outer before inner, as ``a.b`` or ``a[].b``, with its schema and whether it
    must be given."""
    yield from _described(schema, schema, "")


def _described(
    node: dict[str, Any], root: dict[str, Any], prefix: str
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    for key, sub in node.get("properties", {}).items():
        target = _followed(sub, root)
        yield f"{prefix}{key}", target, key in node.get("required", [])
        inner = _followed(target.get("items", {}), root) if target.get("type") == "array" else target
        if "properties" in inner:
            yield from _described(inner, root, f"{prefix}{key}{'[]' if inner is not target else ''}.")
