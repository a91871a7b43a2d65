"""The author's words about a failure, which stand in the text of each kind of error, whatever the profile."""

from __future__ import annotations

import json
import re
from typing import Any

from ..engine.errors import (
    NO_DETAILS,
    Crashed,
    FailureDetails,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    OutcomeUnknown,
    ToolError,
    UnknownTool,
)
from .text import as_sentence, format_wait, is_known_time, shorten, to_one_line
from .values import as_json

TOOK_EFFECT = "The call has taken effect, so do not send it again."
_MAX_FACT = 1_000  # characters of one fact
_MAX_FACTS = 20
_WITHOUT_MESSAGE = frozenset((InvalidParams, MalformedCall, UnknownTool))
# What a profile may say in words of its own: that a key is corrupted, and nothing more.
CORRUPTED_KEY = re.compile(
    r"\s*(?:corrupted(?::.*)?|[^.:;,\n]{0,60}\bcorrupt(?:ed)? (?:[\w-]{1,20} )?(?:key|credential|token|secret)s?"
    r"|[^.:;,\n]{0,60}\b(?:key|credential|token|secret)s? (?:(?:is|are|was|were|seems?|appears?|looks?|to|be) ){0,3}"
    r"corrupt(?:ed)?)[.!]?\s*",
    re.IGNORECASE | re.DOTALL,
)


def details_of(error: ToolError) -> FailureDetails:
    """Return the author's details; for an unknown outcome, the details of the failure behind it."""
    source: Any = error.cause if isinstance(error, OutcomeUnknown) else error
    return getattr(source, "details", NO_DETAILS)


def message_of(error: ToolError) -> str:
    """Return the author's text, or ""; of a bug, whether the call has taken effect all the same."""
    if type(error) is Crashed:
        return TOOK_EFFECT if error.has_landed else ""
    source: Any = error.cause if isinstance(error, OutcomeUnknown) else error
    return getattr(source, "message", "")


def wait_of(error: ToolError) -> float | None:
    """Return the seconds until another call makes sense, or None if they are not known."""
    source: Any = error.cause if isinstance(error, OutcomeUnknown) else error
    seconds = getattr(source, "retry_after", None)
    return details_of(error).retry_after if seconds is None else seconds


def add_author_words(text: str, error: ToolError) -> str:
    """Add the author's words that the text does not contain yet."""
    if type(error) in _WITHOUT_MESSAGE and getattr(error, "details", NO_DETAILS) is NO_DETAILS:  # most refusals
        return text
    details = details_of(error)
    said = " ".join(text.split())
    for each in (message_of(error), details.suggestion):
        if each and " ".join(each.split()) not in said and not _is_template(each, error):
            text = f"{as_sentence(text)} {each}"
    lost = isinstance(error, OutcomeUnknown)  # no profile's own text for it has the wait that a service asked for
    seconds = wait_of(error) if lost or message_of(error) else details.retry_after
    if is_known_time(seconds) and (wait := format_wait(seconds)) not in text:
        text = f"{as_sentence(text)} Try again in {wait}."
    facts = _list_facts(error, details)
    return f"{text}\n{facts}" if facts and facts not in text else text


def _is_template(text: str, error: ToolError) -> bool:
    """Whether a profile has its own text for the author's message, see `template_key`."""
    return isinstance(error, NeedsSetup) and text is error.message and CORRUPTED_KEY.fullmatch(text) is not None


def build_facts(error: ToolError) -> dict[str, Any]:
    """Return the author's details as JSON, by the names of the source document "Tool Error Handling Analysis"."""
    details = details_of(error)
    facts: dict[str, Any] = {
        "parameter": shorten(details.parameter or ""),
        "constraint": details.constraint,
        "value": _shorten_value(details.value),
        "suggestion": details.suggestion,
    }
    facts |= {shorten(name): _shorten_value(value) for name, value in list(details.more.items())[:_MAX_FACTS]}
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _list_facts(error: ToolError, details: FailureDetails) -> str:
    """Return a line with the facts that no sentence contains, or ""."""
    if details.constraint is None and details.value is None and not details.more:
        return ""
    facts = {name: value for name, value in build_facts(error).items() if name != "suggestion"}
    shown = (
        f"{name}: {to_one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _MAX_FACT)}"
        for name, value in facts.items()
    )
    return f"Details: {'; '.join(shown)}"


def _shorten_value(value: object) -> Any:
    """Return a value as JSON data, or as truncated text if it is long."""
    if value is None:
        return None
    text = as_json(value)
    return json.loads(text) if len(text) <= _MAX_FACT else f"{text[:_MAX_FACT]}…"
