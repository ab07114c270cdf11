"""YAML files read strictly: a duplicate key is an error, a schema violation names file and key."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from sglang_sweep.errors import UserError, UserErrors

SCHEMAS = Path(__file__).parents[3] / "config" / "schemas"


class _StrictLoader(yaml.SafeLoader):
    """PyYAML silently keeps the last of two equal keys; half of a variant would be lost unnoticed."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                continue
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice in one mapping", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


MOST_BYTES, MOST_VALUES = 1 << 20, 100_000
"""Of a file that a person wrote, aliases written out."""


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises UserError naming file and line when it cannot be read."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"larger than {MOST_BYTES} bytes", file=path, remedy="is it the file you meant?")
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
        if _values(loaded, {}) > MOST_VALUES:
            raise UserError(
                f"more than {MOST_VALUES} values with its aliases written out",
                file=path,
                remedy="use fewer aliases",
            )
        return loaded
    except (RecursionError, yaml.reader.ReaderError) as error:
        why = (
            "nested too deep, or an alias holds itself"
            if isinstance(error, RecursionError)
            else str(error.reason)
        )
        raise UserError(f"not readable: {why}", file=path, remedy="write it out plainly") from None
    except FileNotFoundError:
        raise UserError("there is no such file", file=path, remedy="check the name for a typo") from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 text ({error.reason})", file=path) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UserError(
            f"line {line}: {error.problem or error}",
            file=path,
            remedy="indent with spaces, quote texts that hold ': ' or '#', give each key once",
        ) from None


def _values(value: Any, known: dict[int, int | None]) -> int:
    """How many values there are with aliases written out. Raises RecursionError for one that holds itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) in known:
        if (count := known[id(value)]) is None:
            raise RecursionError
        return count
    known[id(value)] = None
    inner = value.values() if isinstance(value, dict) else value
    known[id(value)] = count = 1 + sum(_values(one, known) for one in inner)
    return count


def _filling_defaults(base: type[Any]) -> Any:
    """A validator that fills in schema defaults first (pattern from the jsonschema FAQ)."""
    check_properties = base.VALIDATORS["properties"]

    def set_defaults(validator: Any, properties: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, dict):
            for name, sub in properties.items():
                target = validator._resolver.lookup(sub["$ref"]).contents if "$ref" in sub else sub
                if "default" in sub or "default" in target:
                    default = sub.get("default", target.get("default"))
                    instance.setdefault(name, dict(default) if isinstance(default, dict) else default)
        yield from check_properties(validator, properties, instance, schema)

    return validators.extend(base, {"properties": set_defaults})


_DefaultingValidator = _filling_defaults(Draft202012Validator)


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON Schema ``config/schemas/<name>.schema.yaml``."""
    loaded: dict[str, Any] = yaml.safe_load((SCHEMAS / f"{name}.schema.yaml").read_text(encoding="utf-8"))
    return loaded


def check(instance: Any, schema_name: str, file: str | Path) -> None:
    """Validates ``instance`` and fills in the schema's defaults. Raises UserErrors with every violation."""
    validator = _DefaultingValidator(schema(schema_name))
    found = sorted(validator.iter_errors(instance), key=lambda error: list(map(str, error.absolute_path)))
    if found:
        raise UserErrors([_explain(error, file) for error in found])


def _explain(error: ValidationError, file: str | Path) -> UserError:
    key = _dotted(error)
    remedy = None
    message = error.message
    rules = error.schema if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(rules.get("properties", {}))
        unknown = [name for name in error.instance if name not in known]
        message = f"unknown key{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown))}"
        remedy = _nearest(str(unknown[0]), known) if unknown else None
    elif error.validator == "pattern" and "description" in rules:
        message = f"{error.instance!r} is not a valid name"
        remedy = rules["description"]
    elif error.validator == "required":
        message = error.message.replace("is a required property", "is missing")
        remedy = "add it"
    elif error.validator in ("enum", "type", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        remedy = rules.get("description")
    elif error.validator == "oneOf":
        message = f"{error.instance!r} fits none of the allowed forms"
        remedy = rules.get("description")
    return UserError(message, file=file, key=key, remedy=remedy)


def _dotted(error: ValidationError) -> str:
    """``variants[2].change``."""
    text = ""
    for part in error.absolute_path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(sorted(known))}"
