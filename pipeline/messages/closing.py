"""The last line of a text: a request for another call, with the form of valid arguments.

The form has a typed hole in place of each value, so that a model that copies it fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ..base.foreign_values import or_default
from ..base.nesting import refuse_deep
from ..engine.errors import InvalidParams, MalformedCall, ToolError
from .wording import Verbosity

# The first is the last line of Pydantic AI. A small model sent its call again unchanged without it, and less often with
# the form: see benchmarks/texts.
_FIX = "Fix the errors and try again."
_FIX_WITH_FORM = "Fix the errors and try again, with arguments of this form: {}"
_FIX_WITHOUT = "Fix the errors and try again without arguments: {}"
_SHARE = 8  # the part of the budget that a form may take up: a longer one helps no model
_MAX_READ = 100_000  # characters of sent text that is read for the names in it
_MAX_KEPT = 64  # closings of one tool
_CHOICES = ("anyOf", "oneOf", "allOf", "$ref", "if", "dependentSchemas", "dependentRequired", "dependencies")


class Closing(NamedTuple):
    """The last line."""

    line: str
    describes: bool  # each missing parameter, so that no other line has to


NO_CLOSING = Closing("", describes=False)


def close(error: ToolError, verbosity: Verbosity) -> Closing:
    """Ask for another call if parameters are missing or nothing was read, unless the author says what to do next."""
    kept: dict[Any, Closing] | None = getattr(getattr(error, "schema", None), "closings", None)
    if isinstance(error, MalformedCall) and verbosity.hints:
        if error.schema is not None and not error.schema.get("properties") and not error.schema.get("required"):
            return Closing(_FIX_WITHOUT, describes=False)
        closing = None if kept is None else kept.get(verbosity)
        if closing is not None:
            return closing
        form = _write(error.schema, {}, (), verbosity, describes=True)
        closing = Closing(_FIX_WITH_FORM.format(form), describes=False) if form else NO_CLOSING
        if kept is not None and len(kept) < _MAX_KEPT:
            kept[verbosity] = closing
        return closing
    if not isinstance(error, InvalidParams) or not verbosity.hints or error.details.suggestion:
        return NO_CLOSING
    missing = frozenset([problem.path for problem in error.problems if problem.rule == "required"])
    if not missing:
        return NO_CLOSING
    if error.schema is None or kept is None:  # not of a tool of this library
        return _close(error, verbosity, missing)
    declared: Mapping[str, Any] = error.schema.get("properties", {})
    key = verbosity, missing, tuple([name for name in _read_sent(error) if name in declared])
    closing = kept.get(key)
    if closing is None:
        closing = _close(error, verbosity, missing)
        if len(kept) < _MAX_KEPT and _follows_from_names(error.schema):
            kept[key] = closing
    return closing


@or_default(default=False)
def _follows_from_names(schema: Mapping[str, Any]) -> bool:
    """Whether the form depends on the names that were sent alone, and not on a value that chooses a branch."""
    declared: Mapping[str, Any] = schema.get("properties", {})
    return schema.keys().isdisjoint(_CHOICES) and _list_described(schema) >= declared.keys()


def _close(error: InvalidParams, verbosity: Verbosity, missing: frozenset[str]) -> Closing:
    if missing <= _list_described(error.schema) and (form := _write_form(error, verbosity, describes=True)):
        return Closing(_FIX_WITH_FORM.format(form), describes=True)
    form = _write_form(error, verbosity, describes=False)
    return Closing(_FIX_WITH_FORM.format(form) if form else _FIX, describes=False)


def build_form(error: ToolError, verbosity: Verbosity) -> str:
    """Return the form of valid arguments, with their types; "" if it is unknown or too long."""
    return _write_form(error, verbosity, describes=False) if isinstance(error, InvalidParams) else ""


def _write_form(error: InvalidParams, verbosity: Verbosity, *, describes: bool) -> str:
    blamed = tuple(problem.path for problem in error.problems)
    return _write(error.schema, _read_sent(error), blamed, verbosity, describes=describes)


@or_default("")
def _write(
    schema: Mapping[str, Any] | None,
    sent: Mapping[str, Any],
    blamed: tuple[str, ...],
    verbosity: Verbosity,
    *,
    describes: bool,
) -> str:
    """Write the form with all parameters, else the one with those that are required or were sent; "" if none fits.

    A small model left out an optional parameter that it needed where the form did not have it.
    """
    if schema is None:
        return ""
    from ..parameters.form import FormOptions, write_form  # most texts have no form

    longest, most = verbosity.max_expected if describes else 0, verbosity.characters // _SHARE
    for optional in (True, False):
        form = write_form(schema, sent, blamed, FormOptions(optional, longest, most))
        if form and len(form) <= most:
            return form
    return ""


@or_default(frozenset[str]())
def _list_described(schema: Mapping[str, Any] | None) -> frozenset[str]:
    from ..parameters.form import list_described

    return frozenset() if schema is None else list_described(schema)


def _read_sent(error: InvalidParams) -> Mapping[str, Any]:
    """Return the arguments as the model wrote them; an empty mapping if they are not an object, or too long to read."""
    found: Any = error.sent if error.read is None else error.read
    try:
        if isinstance(found, str) and len(found) <= _MAX_READ:
            found = json.loads(refuse_deep(found))
    except ValueError:
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, (dict, Mapping)) else {}
