"""Replies: what a provider answered, whose reply it is, and whether it is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..call import Call
from ..errors import SetupError
from ..privacy import get_logger
from ..tools.view import ToolView
from .common import find_field, get_field, list_items, read_events, restore_names, text_or_empty
from .text_calls import looks_like_calls, read_text_calls

_logger = get_logger()


@attrs.frozen
class ReplyError:
    """The backend answered with an error in place of a reply, or in the middle of a stream.

    Args:
        message: Its text. "": it has none.
        type: Its kind of error, such as ``overloaded_error``. "": unknown.
        code: Its code, such as ``rate_limit_exceeded`` or ``429``. "": unknown.
    """

    message: str
    type: str = ""
    code: str = ""


class Calls(list[Call]):
    """The calls of a reply, and why there are none.

    Attributes:
        error: The error that the backend answered in place of a reply. None: it answered with a reply.
        text: The text beside the calls. "": none.
    """

    def __init__(self, calls: Iterable[Call] = (), *, error: ReplyError | None = None, text: str = "") -> None:
        super().__init__(calls)
        self.error = error
        self.text = text


@attrs.define
class Reading:
    """The parts of a reply."""

    calls: list[Call]
    text: str = ""
    error: ReplyError | None = None

    def to_calls(self, registry: ToolView | None, longest: int, *, text: bool) -> Calls:
        """The calls, with the tools' own names. Errors, and calls as text that the caller did not ask for, are logged.

        Args:
            registry: As with `restore_names`.
            longest: The same.
            text: Whether calls that are written as text count, if the reply has only those.
        """
        found, said = self.calls, self.text
        if not found and said and text:
            found, said = read_text_calls(said)
        elif not found and said and looks_like_calls(said) and _logger.hasHandlers():
            _logger.warning("The reply has no calls, but its text looks like one: calls(reply, text=True) reads it")
        if self.error is not None and _logger.hasHandlers():
            _logger.warning("The provider answered with an error of type %.100r", self.error.type or self.error.code)
        return Calls(restore_names(found, registry, longest), error=self.error, text=said)


def read_error(reply: object, *, named: bool = False) -> ReplyError | None:
    """The error that a reply, or one event of a stream, is; None: it is not one.

    Args:
        reply: The reply or event.
        named: Read only an error that stands beside something else, in a field of that name.
    """
    found = get_field(reply, "error")
    if found is None and not named and "error" in (get_field(reply, "type"), get_field(reply, "object")):
        found = reply
    if not found or found is True:
        return None
    if isinstance(found, str):
        return ReplyError(found)
    code: Any = get_field(found, "code")
    message = text_or_empty(get_field(found, "message")) or text_or_empty(get_field(found, "detail"))
    code = str(code) if type(code) in (int, str) else ""
    kind = text_or_empty(get_field(found, "type")) or text_or_empty(get_field(found, "status"))  # Gemini's
    return ReplyError(message, kind, code)


def read_chunks(reply: object, ours: str) -> tuple[list[object], ReplyError | None]:
    """The chunks of a stream, or a whole reply as the only one; and the error of an answer that is neither.

    Args:
        reply: The reply.
        ours: The provider that is read here, such as ``Gemini``.

    Raises:
        SetupError: ``reply`` has to be awaited first, is one of another provider, or is none.
    """
    events = [] if _has_field(reply, ours) else list(read_events(reply))
    refuse_other_providers(reply, events, ours)
    refuse_no_reply(reply, ours)
    nothing = None if _has_field(reply, ours) or isinstance(reply, str) else find_nothing(reply, events, ours)
    return ([reply] if _has_field(reply, ours) else events), nothing


def refuse_no_reply(reply: object, ours: str) -> None:
    """Raise SetupError for what no client of a provider returns: it would have no calls, and the agent would just end.

    Args:
        reply: The reply.
        ours: The provider that is read here, such as ``OpenAI``.
    """
    is_bytes = isinstance(reply, (bytes, bytearray))
    is_response = is_bytes or get_field(reply, "status_code") is not None  # of an HTTP client
    if not is_response and (isinstance(reply, Iterable) or _has_field(reply, ours)):
        return
    what = "None" if reply is None else f"a {type(reply).__name__}"
    hint = f": parse it first, calls({'json.loads(body)' if is_bytes else 'response.json()'})" if is_response else ""
    raise SetupError(
        f"calls() reads what the client of {ours} returns, such as a message or a stream, not {what}{hint}"
    )


def find_nothing(reply: object, events: Iterable[object], ours: str) -> ReplyError | None:
    """An error for an answer that has nothing of a reply in it, such as ``{}``; None: it has, or it is an empty list.

    Args:
        reply: The reply.
        events: The events of a stream, or the items of a list.
        ours: As with `refuse_no_reply`.
    """
    each: list[Any] = [reply] if isinstance(reply, Mapping) else list(events)
    if not each or any(_has_field(one, ours) for one in each):
        return None
    return ReplyError(f"The answer has nothing that a reply of {ours} has", "unreadable")


def _has_field(thing: object, ours: str) -> bool:
    return any(get_field(thing, name) is not None for name in _FIELDS[ours])


BEDROCK_ERRORS = (  # events of a stream
    "internalServerException",
    "modelStreamErrorException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
)
_BEDROCK_EVENTS = (
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
)
_FIELDS = {  # one of these is in each reply, and in each event of a stream and item of a list
    "OpenAI": ("choices", "output", "message", "role", "type", "object", "error", "function", "custom", "delta"),
    "Anthropic": ("content", "type", "role", "error", "delta"),
    "Gemini": (
        "candidates", "prompt_feedback", "promptFeedback", "usage_metadata", "usageMetadata", "parts", "function_call",
        "functionCall", "args", "error",
    ),
    "Bedrock": ("output", "stream", "role", "toolUse", "error", "metadata", *_BEDROCK_EVENTS, *BEDROCK_ERRORS),
    "Ollama": ("message", "role", "function", "error"),
}  # fmt: skip


def refuse_other_providers(reply: object, events: Iterable[object], ours: str) -> None:
    """Raise SetupError for a reply that another provider's adapter reads, or none: it would have no calls here.

    Args:
        reply: The reply.
        events: The events of a stream, or the items of a list.
        ours: The provider that is read here, such as ``OpenAI``.
    """
    for each in (reply, *events):
        theirs = _find_provider(each)
        if theirs is not None and theirs != ours:
            adapter = f"toolcall_pipeline.adapters.{theirs.lower()}"
            raise SetupError(f"calls() reads replies of {ours}, and this is a reply of {theirs}: use {adapter}")


_ANTHROPIC_EVENTS = frozenset(
    (
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    )
)
_ANTHROPIC_REASONS = frozenset(
    ("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded")
)


def _find_provider(reply: object) -> str | None:
    """Whose reply, or event of a stream, this is; None: unknown."""
    kind, content = text_or_empty(get_field(reply, "type")), get_field(reply, "content")
    if isinstance(get_field(reply, "choices"), (list, tuple)) or get_field(reply, "tool_calls"):
        return "OpenAI"
    if get_field(get_field(reply, "data"), "choices") is not None:
        return "Mistral"
    if kind.startswith("response.") or get_field(reply, "object") == "response" or kind == "function_call":
        return "OpenAI"
    if kind in _ANTHROPIC_EVENTS or kind == "tool_use" or _has_tool_use(content):
        return "Anthropic"
    if isinstance(content, (list, tuple)) and text_or_empty(get_field(reply, "stop_reason")) in _ANTHROPIC_REASONS:
        return "Anthropic"
    if isinstance(get_field(reply, "candidates"), (list, tuple)):
        return "Gemini"
    if get_field(reply, "stopReason") is not None or find_field(reply, *_BEDROCK_EVENTS) is not None:
        return "Bedrock"
    if type(get_field(reply, "done")) is bool and get_field(reply, "message") is not None:
        return "Ollama"
    return None


def _has_tool_use(content: object) -> bool:
    blocks = list_items(content) if type(content) in (list, tuple) else ()
    return any(get_field(block, "type") == "tool_use" for block in blocks)
