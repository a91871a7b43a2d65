"""Failures as attributes and status of a span: names of classes, declared parameters and rules, without content.

Content is the text of a private cause, a value, and a name that a model made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..engine.errors import Denied, InvalidParams, MalformedCall, TimedOut, Unavailable
from ..privacy import RemoteCause, get_logger
from ..privacy.secret_places import show_paths
from ..tools.definition import Tool
from .attributes import to_wire_text

Facts: TypeAlias = Mapping[str, str | list[str]]
NO_FACTS: Facts = {}
_DESCRIBES = FaultBarrier(get_logger(), "A failure could not be described")
_MAX_PROBLEMS = 20  # per call
_MAX_STATUS = 1_000  # characters
_MAX_RULE = 40  # characters
_OF_A_CHECK = "validator"  # the rule of a validator of the tool's author
# Reasons why a tool may not be called now. Any other reason is a text of its author and may contain anything.
_REASONS = frozenset(
    (
        "disabled",
        "paused",
        "unregistered",
        "rate_limited",
        "breaker_open",
        "quota",
        "busy",
        "changed",
        "disconnected",
        "unlisted",
        "store_away",
        "not_open",
        "approvals cannot be reached",
        "approvals are not open in this process, or its lease ended",
        "the audit cannot be reached",
        "the ledger cannot be reached",
        "the ledger is not open in this process, or its lease ended",
        "the lease of this process ended",
        "this very call still runs; its result is not known yet",
    )
)


def list_problems(error: InvalidParams, tool: Tool[..., Any] | None) -> list[tuple[str, str]]:
    """Return the parameters and the rules that they break, at most 20; "" stands for the arguments as a whole."""
    schema = error.schema if tool is None else tool.schema
    problems = error.problems[:_MAX_PROBLEMS]
    paths = show_paths(schema, [problem.path for problem in problems])
    return [(path, _name_rule(problem.rule)) for path, problem in zip(paths, problems, strict=True)]


def _name_rule(rule: str) -> str:
    """Return the rule if it is an identifier, as all of ours are. A custom stage may put a text with a value there."""
    return rule if len(rule) <= _MAX_RULE and rule.removeprefix("$").isidentifier() else _OF_A_CHECK


def describe_failure(error: object, tool: Tool[..., Any] | None, decided_by: str = "") -> Facts:
    """Return the attributes that say why a call or an attempt failed, beside its ``error.type``.

    Args:
        error: A `ToolError`, or the exception that a stage raised. None: nothing is known.
        tool: The tool, or None if it was not found.
        decided_by: The stage that decided, which is not named again. Default "": none.

    Returns:
        An empty mapping if there is nothing to add.
    """
    if error is None:
        return NO_FACTS
    with _DESCRIBES:  # a custom stage may make an error of any shape, and a schema may have any shape
        return _describe(error, tool, decided_by)
    return NO_FACTS


def _describe(error: object, tool: Tool[..., Any] | None, decided_by: str) -> Facts:
    facts: dict[str, str | list[str]] = {}
    if isinstance(error, InvalidParams):
        facts[semconv.PROBLEMS] = [
            to_wire_text(f"{path or 'arguments'}: {rule}") for path, rule in list_problems(error, tool)
        ]
    if reason := find_reason(error, tool, decided_by):
        facts[semconv.REASON] = reason
    cause: object = error if isinstance(error, BaseException) else getattr(error, "cause", None)
    kind = getattr(cause, "kind", None)  # the cause of an OutcomeUnknown is another error
    if isinstance(kind, str) and not isinstance(cause, BaseException):
        facts[semconv.CAUSE] = kind
        cause = getattr(cause, "cause", None)
    if isinstance(cause, BaseException):
        name = cause.type_name if isinstance(cause, RemoteCause) else type(cause).__name__
        facts[semconv.EXCEPTION_TYPE] = to_wire_text(name)
    return facts


def name_reason(error: object) -> str:
    """Low-cardinality reason from our fixed list; "" if unknown or author-supplied."""
    match error:
        case Unavailable(reason=reason) if reason in _REASONS:
            return reason
        case MalformedCall(truncated=True):
            return "truncated"
        case TimedOut(still_running=True):
            return "still_running"
        case _:
            return ""


def find_reason(error: object, tool: Tool[..., Any] | None, decided_by: str = "") -> str:
    """The reason of `name_reason`, or who refused; "" if the error has neither."""
    return name_reason(error) or _find_refuser(error, tool, decided_by)


def _find_refuser(error: object, tool: Tool[..., Any] | None, decided_by: str) -> str:
    """The party that refused, if it is a name as one writes it in code, and neither the tool nor the stage."""
    by: Any = error.by if isinstance(error, Denied) else ""  # a custom stage may put anything there
    if not (isinstance(by, str) and len(by) <= _MAX_RULE and by.isidentifier()):
        return ""
    return "" if by in (decided_by, None if tool is None else tool.name) else by


def describe_status(verdict: str, facts: Facts) -> str:
    """Return the description of a failed span's status: its kind and the facts."""
    parts: list[str] = []
    for value in facts.values():
        parts += [value] if isinstance(value, str) else value
    return to_wire_text(f"{verdict}: {', '.join(parts)}" if parts else verdict, _MAX_STATUS)
