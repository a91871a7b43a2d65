"""The form of valid arguments, with a typed hole in place of each value: what a model copies has to fail."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, cast

from ..parameters.phrases import describe_hole
from ..parameters.schema import schema_at
from .text import to_one_line
from .verbosity import Verbosity

_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def punch_holes(example: str, optional: Collection[str] = (), words: Mapping[str, str] = {}) -> str:
    """Valid arguments without their values: ``{"city": "text"}`` becomes ``{"city": <string>}``.

    A small model sent the values of an example as they were in 17 of 46 cases, and the tool ran with them.

    Args:
        example: Arguments as JSON; "" for none.
        optional: Arguments that may be left out; their holes say so. Default: none.
        words: What the holes of arguments say. Default: their types.

    Returns:
        "" if there is no hole in it, as in ``{}``: it would be valid, and a copy of it would run.
    """
    value: object = json.loads(example or "{}")
    if not value or not isinstance(value, dict):
        return ""
    form = _write_object(cast("dict[str, Any]", value), optional, words)
    return form if "<" in form else ""


def describe_holes(schema: Mapping[str, Any] | None, verbosity: Verbosity) -> dict[str, str]:
    """What the schema says of each argument: "integer: For how many days".

    Nothing of an object with required fields, in whose place the form has a hole for each field, and nothing if the
    schema is odd.
    """
    try:
        names = cast("Mapping[str, Any]", {} if schema is None else schema.get("properties", {}))
        return {
            name: to_one_line(describe_hole(schema or {}, [name]), verbosity.max_expected)
            for name in names
            if not schema_at(schema or {}, [name]).get("required")
        }
    except Exception:  # noqa: BLE001  # a foreign schema may hold anything
        return {}


def _write_object(value: Mapping[str, Any], optional: Collection[str], words: Mapping[str, str]) -> str:
    fields: list[str] = []
    for name, each in value.items():
        word = words.get(name, _KINDS[type(each)])
        hole = f"<optional {word}>" if name in optional else f"<{word}>" if name in words else _write(each)
        fields.append(f"{json.dumps(name, ensure_ascii=False)}: {hole}")
    return f"{{{', '.join(fields)}}}"


def _write(value: object) -> str:
    if value and isinstance(value, dict):
        return _write_object(cast("dict[str, Any]", value), (), {})
    if value and isinstance(value, list):
        return f"[{', '.join(map(_write, cast('list[Any]', value)))}]"
    return f"<{_KINDS[type(value)]}>"
