"""The last line of a text: a request for another call, with the form of valid arguments.

The form has a typed hole in place of each value, so that a model that copies it fails.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from ..errors import InvalidParams, ToolError
from ..foreign_values import or_default
from .style import Verbosity
from .text import to_one_line

# The first is the last line of Pydantic AI. A small model sent its call again unchanged without it, and less often with
# the form: see benchmarks/texts.
_FIX = "Fix the errors and try again."
_FIX_WITH_FORM = "Fix the errors and try again, with arguments of this form: {}"
_SHARE = 8  # the part of the budget that a form may take up: a longer one helps no model
_MAX_KEPT = 64  # closings of one tool
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Closing(NamedTuple):
    """The last line.

    Attributes:
        line: The line, or "".
        describes: Whether it describes each missing parameter, so that no other line has to.
    """

    line: str
    describes: bool


NO_CLOSING = Closing("", describes=False)


def close(error: ToolError, verbosity: Verbosity) -> Closing:
    """Ask for another call if parameters are missing, unless the tool's author says what to do next."""
    if not isinstance(error, InvalidParams) or not verbosity.hints or error.details.suggestion:
        return NO_CLOSING
    missing = frozenset(problem.path for problem in error.problems if problem.rule == "required")
    if not missing:
        return NO_CLOSING
    kept: dict[Any, Closing] | None = getattr(error.schema, "closings", None)
    if error.schema is None or kept is None:  # not of a tool of this library
        return _close(error, verbosity, missing)
    declared: Mapping[str, Any] = error.schema.get("properties", {})
    sent = tuple(name for name in _read(error) if name in declared)
    closing = kept.get((verbosity, missing, sent))
    if closing is None:
        closing = _close(error, verbosity, missing)
        if len(kept) < _MAX_KEPT:
            kept[verbosity, missing, sent] = closing
    return closing


def _close(error: InvalidParams, verbosity: Verbosity, missing: frozenset[str]) -> Closing:
    examples = _make_examples(error)
    words = describe_holes(error.schema, verbosity)
    if missing <= words.keys() and (form := _choose_form(examples, verbosity, words)):
        return Closing(_FIX_WITH_FORM.format(form), describes=True)
    form = _choose_form(examples, verbosity, {})
    return Closing(_FIX_WITH_FORM.format(form) if form else _FIX, describes=False)


def build_form(error: ToolError, verbosity: Verbosity) -> str:
    """Return the form of valid arguments, with their types; "" if it is unknown or too long."""
    return _choose_form(_make_examples(error), verbosity, {}) if isinstance(error, InvalidParams) else ""


def _make_examples(error: InvalidParams) -> list[tuple[str, Sequence[str]]]:
    """Return valid arguments with all parameters, and with the required and sent ones; each with its optional ones.

    A small model left out an optional parameter that it needed where the form did not have it.
    """
    if error.schema is None:
        return []
    from ..parameters.example import make_example

    try:
        required = list(cast("Sequence[str]", error.schema.get("required", ())))
        declared = dict(cast("Mapping[str, Any]", error.schema.get("properties", {})))
    except Exception:  # noqa: BLE001  # a foreign schema may hold anything
        return [(make_example(error.schema), ())]
    sent = [name for name in _read(error) if name in declared and name not in required]
    optional = [name for name in declared if name not in required and name not in sent]
    return [
        (make_example({**error.schema, "required": [*required, *sent, *each]}), each)
        for each in ([optional, []] if optional else [[]])
    ]


def _read(error: InvalidParams) -> Mapping[str, Any]:
    """Return the arguments as the model wrote them; an empty mapping if they are not an object."""
    sent = error.sent if error.read is None else error.read
    try:
        found: object = json.loads(sent) if isinstance(sent, str) else sent
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _choose_form(examples: Sequence[tuple[str, Sequence[str]]], verbosity: Verbosity, words: Mapping[str, str]) -> str:
    """Return the first form that exists and is not too long, or ""."""
    forms = (punch_holes(example, optional, words) for example, optional in examples)
    return next((form for form in forms if form and len(form) <= verbosity.characters // _SHARE), "")


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
    """Remove the values from valid arguments: ``{"city": "text"}`` becomes ``{"city": <string>}``.

    A small model sent the values of an example as they were in 17 of 46 cases, and the tool ran with them.

    Args:
        example: Arguments as JSON; "" for none.
        optional: Arguments that may be left out; their holes say so. Default: none.
        words: The texts in the holes, by argument. Default: their types.

    Returns:
        "" if the form has no hole, as ``{}``: it would be valid, and a copy of it would run.
    """
    value: object = json.loads(example or "{}")
    if not value or not isinstance(value, dict):
        return ""
    form = _write_object(cast("dict[str, Any]", value), optional, words)
    return form if "<" in form else ""


@or_default(_NOTHING)
def describe_holes(schema: Mapping[str, Any] | None, verbosity: Verbosity) -> Mapping[str, str]:
    """Return the schema's description of each argument: "integer: For how many days".

    An object with required fields is left out, since the form has a hole for each of its fields. Empty if the schema is
    malformed.
    """
    from ..parameters.problems import describe_hole  # most texts have no form
    from ..parameters.schema import schema_at

    names = cast("Mapping[str, Any]", {} if schema is None else schema.get("properties", {}))
    return {
        name: to_one_line(describe_hole(schema or {}, [name]), verbosity.max_expected)
        for name in names
        if not schema_at(schema or {}, [name]).get("required")
    }


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
