"""The key that finds an error's template, and the fields that fill it: public texts of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ..base.provider_names import OfferedName, make_provider_name
from ..engine.errors import (
    ERROR_TYPES,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    Problem,
    ToolError,
    Unavailable,
    UnknownTool,
)
from .author_words import CORRUPTED_KEY
from .default import default_text, explain_fix, format_available, format_suggestions, state_problem
from .templates import Fields, TemplateKey
from .text import format_wait, is_known_time, round_seconds, shorten, strip_prefix, to_one_line
from .wording import Verbosity

# How an attribute of an error fills a template, by the attribute's name. All others are names, and are shortened.
_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "message": str,
    "reason": str,
    "details.suggestion": str,
    "question": strip_prefix,
    "requested": lambda name: shorten(name) or "(no name)",
    "suggestions": format_suggestions,
    "available": lambda _: "",  # needs the whole error, see `fields_of`
    "count": lambda number: f"{number:,}" if number else "",
    "after": lambda seconds: round_seconds(seconds) if is_known_time(seconds) else "",
    "retry_after": lambda seconds: format_wait(seconds) if is_known_time(seconds) else "",
}

# For each kind of error its fields: the name, how to read it, how to format it.
_FIELDS: Mapping[str, Sequence[tuple[str, Callable[[Any], Any], Callable[[Any], str]]]] = {
    each.kind: [
        (name, attrgetter(attribute), _FORMATS.get(attribute, shorten))
        for name, attribute in each.template_fields.items()
    ]
    for each in ERROR_TYPES
}


def template_key(error: ToolError, problem: Problem | None, tool: str | None) -> TemplateKey:
    """Make the key that finds the template of an error, or of one of its problems."""
    found = {name: read(error) for name, read, _ in _FIELDS[error.kind]}
    parameter, service = found.get("parameter") or "", found.get("service") or ""
    name = found.get("tool") or tool or ""
    rule = ""
    match error:
        case InvalidParams() if problem is not None:
            rule, parameter = problem.rule, problem.path
        case Unavailable():
            rule = error.reason
        case UnknownTool():
            rule = "empty" if error.count == 0 else ""
        case MalformedCall():
            rule = "truncated" if error.truncated and error.position is None else ""
        case NeedsSetup():
            name = tool or service
            rule = "corrupted" if CORRUPTED_KEY.fullmatch(error.message) else ""
        case _:
            pass
    return TemplateKey(error.kind, rule, parameter, name, service)


def fields_of(error: ToolError, problem: Problem | None, verbosity: Verbosity, tool: str | None) -> Fields:
    """Return the fields that fill a template for an error, or for one of its problems; unknown ones are ""."""
    text = default_text(error, verbosity) if problem is None else state_problem(problem, verbosity)
    fields = {"tool": shorten(tool or ""), "text": strip_prefix(text)}
    for name, read, format_value in _FIELDS[error.kind]:
        value = read(error)
        fields[name] = ("" if value is None else format_value(value)) or fields.get(name, "")
    if isinstance(tool, OfferedName) and fields["tool"] == shorten(tool) and not isinstance(error, UnknownTool):
        fields["tool"] = shorten(make_provider_name(tool, tool.longest))
    if isinstance(error, NeedsSetup) and error.service == tool:  # Classify names the service after the tool
        fields["service"] = ""
    elif isinstance(error, UnknownTool):
        fields["available"] = format_available(error)
    elif isinstance(error, Unavailable):  # its reason is a name, and not an approved text as with other errors
        fields["reason"] = shorten(error.reason)
    if problem is not None:
        fields["parameter"] = shorten(problem.path)
        fields["expected"] = to_one_line(problem.expected, verbosity.max_expected)
        fields["got"] = shorten(problem.got)
        fields["suggestions"] = shorten(problem.suggestion)
        fields["hint"] = explain_fix(problem, verbosity)
    return fields


def question_in(error: ToolError) -> str:
    """Return the approved text of an error as a question if it is one already, else ""."""
    text: str = getattr(error, "message", "") or getattr(error, "question", "")
    return as_question(text)


def as_question(text: str) -> str:
    """Return a text that is a question as one that begins so, else ""."""
    if text.lower().startswith("question:"):
        return text
    return f"Question: {strip_prefix(text)}" if text.rstrip().endswith("?") else ""
