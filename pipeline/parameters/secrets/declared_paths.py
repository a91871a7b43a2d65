"""Paths through arguments as they may be recorded: declared names, and ``*`` for a name that the model made up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from ..schema import Form
from .secret_schemas import SecretSchema

_MAX_PATH = 128  # characters of a path that is shown
_MAX_READ = 1_000  # characters of a path that is read
_MAX_ENDS = 10  # places at which a made-up name may end, as it may itself contain a dot
_MAX_DEPTH = 16  # levels
_INDEX = re.compile(r"\[(\d{1,9})\]\.?")
_SEPARATOR = re.compile(r"[.\[]")
_Read = tuple[list[str], "Sequence[Form] | None"]  # the steps to show, and what applies there; None: nobody knows


def show_path(schema: Form | None, path: str) -> str:
    """Write a path with the names that the schema declares.

    Args:
        schema: That of the tool. None: it is not known, so each name may be made up.
        path: As in `Problem.path` and `Repair.path`.

    Returns:
        Such as ``filter.tags[1]`` or ``amounts.*``; at most 128 characters. "" for the arguments as a whole.
    """
    if not path or schema is None:
        return "*" if path else ""
    if "properties" in schema and path in schema["properties"]:
        return path[:_MAX_PATH]
    steps, _ = read_path(SecretSchema(schema), path)
    return _join(steps)[:_MAX_PATH]


def read_path(schema: SecretSchema, path: str) -> _Read:
    """Read a path that was written as text, by the names that the schema declares."""
    return _read(schema, schema.expand([schema.schema]), path[:_MAX_READ], _MAX_DEPTH) or (["*"], None)


def _read(schema: SecretSchema, forms: Sequence[Form], rest: str, depth: int) -> _Read | None:
    """Read what is left of a path; None if there is no way to read it by declared names to its end."""
    if not rest:
        return [], forms
    if depth == 0:
        return None
    if (index := _INDEX.match(rest)) and schema.has_items(forms):
        found = _read(schema, schema.item(forms, int(index[1])), rest[index.end() :], depth - 1)
        return (["[" + index[1] + "]", *found[0]], found[1]) if found else (["[" + index[1] + "]", "*"], None)
    for name in schema.names_of(forms):
        if rest == name or (rest.startswith(name) and rest[len(name)] in ".["):
            child = schema.child(forms, name) or ()
            found = _read(schema, child, rest[len(name) :].removeprefix("."), depth - 1)
            return ([name, *found[0]], found[1]) if found else ([name, "*"], None)
    if schema.declares_names(forms):
        return ["*"], None
    child = schema.free_child(forms)
    ends = [each.start() for each in islice(_SEPARATOR.finditer(rest, 1), _MAX_ENDS)]
    for end in ends if child else ():
        found = _read(schema, child, rest[end:].removeprefix("."), depth - 1)
        if found and "*" not in found[0]:
            return ["*", *found[0]], found[1]
    return ["*"], child


def _join(steps: Sequence[str]) -> str:
    text = ""
    for step in steps:
        text += step if not text or step.startswith("[") else f".{step}"
    return text
