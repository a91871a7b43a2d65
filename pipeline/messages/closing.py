"""The last line of a text about wrong parameters: what to do now, and the form of valid arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..errors import InvalidParams, ToolError
from .verbosity import Verbosity

# The first is the last line of Pydantic AI. A small model sent its call again unchanged without it, and less often with
# the form: see benchmarks/texts.
_FIX = "Fix the errors and try again."
_FIX_WITH_FORM = "Fix the errors and try again, with arguments of this form: {}"
_SHARE = 8  # the part of the budget that a form may take up: a longer one helps no model


class Closing(NamedTuple):
    """The last line.

    Args:
        line: The line; "" for none.
        describes: Whether it says what is expected of each missing parameter, so that no other line has to.
    """

    line: str
    describes: bool


NOTHING = Closing("", describes=False)


def close(error: ToolError, verbosity: Verbosity) -> Closing:
    """Ask for another call if parameters are missing, unless the tool's author says what to do next."""
    if not isinstance(error, InvalidParams) or not verbosity.hints or error.details.suggestion:
        return NOTHING
    missing = {problem.path for problem in error.problems if problem.rule == "required"}
    if not missing:
        return NOTHING
    if missing <= _list_declared(error.schema) and (form := build_form(error, verbosity, describe=True)):
        return Closing(_FIX_WITH_FORM.format(form), describes=True)
    form = build_form(error, verbosity)
    return Closing(_FIX_WITH_FORM.format(form) if form else _FIX, describes=False)


def build_form(error: ToolError, verbosity: Verbosity, *, describe: bool = False) -> str:
    """The form of valid arguments: what is required, what was sent, then what is optional, with holes for their values.

    A small model left out an optional parameter that it needed where the form did not have it.

    Args:
        error: Any error.
        verbosity: Its budget bounds the form.
        describe: Whether the holes have the descriptions of the parameters. Default: only their types.

    Returns:
        "" if the form is not known, or too long.
    """
    if not isinstance(error, InvalidParams) or error.schema is None:
        return ""
    from ..parameters.example import make_example  # when it is first used: most texts do without
    from .holes import describe_holes, punch_holes

    required, sent, others = _list_names(error.schema, error.sent)
    for optional in (others, []):  # without those that the model may leave out, if there are too many
        example = make_example({**error.schema, "required": [*required, *sent, *optional]})
        form = punch_holes(example, optional, describe_holes(error.schema, verbosity) if describe else {})
        if form and len(form) <= verbosity.characters // _SHARE:
            return form
    return ""


def _list_declared(schema: Mapping[str, Any] | None) -> set[str]:
    try:
        return set(cast("Mapping[str, Any]", (schema or {}).get("properties", {})))
    except Exception:  # noqa: BLE001  # a foreign schema may hold anything
        return set()


def _list_names(schema: Mapping[str, Any], sent: object) -> tuple[list[str], list[str], list[str]]:
    """The parameters that are required, those of the others that were sent, and all others."""
    try:
        required = list(cast("Sequence[str]", schema.get("required", ())))
        declared = cast("Mapping[str, Any]", schema.get("properties", {}))
        others = [name for name in declared if name not in required]
    except Exception:  # noqa: BLE001  # a foreign schema may hold anything
        return [], [], []
    try:
        names: Any = json.loads(sent) if isinstance(sent, str) else sent
        found = [name for name in others if name in names]
    except Exception:  # noqa: BLE001  # so may what a model sent
        found = []
    return required, found, [name for name in others if name not in found]
