"""What failed, as attributes and a status of a span: names of classes, of declared parameters and of rules, no content.

The text of a private cause, a value, and a name that a model made up are content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from .. import semconv
from ..errors import InvalidParams
from ..outside_text import get_logger
from ..parameters.secrets.declared_paths import show_path
from ..privacy import RemoteCause
from ..tools.definition import Tool
from .attributes import to_wire_text

Facts: TypeAlias = Mapping[str, str | list[str]]
NO_FACTS: Facts = {}
_logger = get_logger()
_MAX_PROBLEMS = 20  # of one call
_MAX_STATUS = 1_000  # characters


def list_problems(error: InvalidParams, tool: Tool[..., Any] | None) -> list[tuple[str, str]]:
    """The parameters and the rules that they break, at most 20; the parameter is "" for the arguments as a whole."""
    schema = error.schema if tool is None else tool.schema
    return [(show_path(schema, problem.path), problem.rule) for problem in error.problems[:_MAX_PROBLEMS]]


def describe_failure(error: object, tool: Tool[..., Any] | None) -> Facts:
    """The attributes that say why a call or an attempt failed, beside its ``error.type``.

    Args:
        error: A `ToolError`, or the exception that a stage raised. None: nothing is known.
        tool: The tool that was found. None: no tool was.

    Returns an empty mapping if there is nothing to add.
    """
    if error is None:
        return NO_FACTS
    try:
        return _describe(error, tool)
    except Exception:  # a stage of the user's may make an error of any shape, and a schema may be of any
        _logger.exception("A failure could not be described")
        return NO_FACTS


def _describe(error: object, tool: Tool[..., Any] | None) -> Facts:
    facts: dict[str, str | list[str]] = {}
    if isinstance(error, InvalidParams):
        facts[semconv.PROBLEMS] = [
            to_wire_text(f"{path or 'arguments'}: {rule}") for path, rule in list_problems(error, tool)
        ]
    cause: object = error if isinstance(error, BaseException) else getattr(error, "cause", None)
    kind = getattr(cause, "kind", None)  # the cause of an OutcomeUnknown is an error of another kind
    if isinstance(kind, str) and not isinstance(cause, BaseException):
        facts[semconv.CAUSE] = kind
        cause = getattr(cause, "cause", None)
    if isinstance(cause, BaseException):
        name = cause.type_name if isinstance(cause, RemoteCause) else type(cause).__name__
        facts[semconv.EXCEPTION_TYPE] = to_wire_text(name)
    return facts


def describe_status(verdict: str, facts: Facts) -> str | None:
    """The description of the status of a failed span. None: its kind says it all."""
    parts: list[str] = []
    for value in facts.values():
        parts += [value] if isinstance(value, str) else value
    return to_wire_text(f"{verdict}: {', '.join(parts)}", _MAX_STATUS) if parts else None
