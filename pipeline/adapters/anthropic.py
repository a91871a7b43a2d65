"""Anthropic's Messages API: a message -> calls, outcomes -> the user message that answers them.

Plain dicts and the objects of the ``anthropic`` package are read alike, and nothing of it is imported; what is made
are plain dicts. They are typed ``Any`` because the package's own types change with each of its releases: an ``Any``
may be passed wherever they are asked for.

Sources: https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use and
/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from returns.result import Failure

from ..call import Call, Outcome
from ..tools.registry import ToolRegistry
from .common import CUT_OFF, Asked, Image, definitions, field, items, joined, named, number, parts, streamed, text
from .provider_names import ANTHROPIC

Definition: TypeAlias = Any  # a dict, as told at `tools`
Block: TypeAlias = Any  # a dict, as told at `result`
Message: TypeAlias = Any  # a dict, as told at `message`

_FULL = ("max_tokens", "model_context_window_exceeded")  # stop reasons that cut a message off


def tools(registry: ToolRegistry) -> list[Definition]:
    """Definitions of the tools that may be called now, for ``tools=``: ``{"name", "description", "input_schema"}``.

    Names are as told at `names.sent_names`.
    """
    return definitions(registry, ANTHROPIC, "input_schema")


def calls(reply: object, registry: ToolRegistry | None = None) -> list[Call]:
    """The calls of a reply, in its order; none for a reply without calls.

    ``reply`` is a message or the list or iterator of a stream's events (collect an async one first). Ids are kept;
    arguments are the mapping of a message, the JSON text of a stream. ``finish_reason`` is the stop reason, and
    ``length`` where the message was cut off. Tools that the provider runs itself are no calls. What is malformed never
    raises: it comes as a call that a pipeline refuses. With ``registry``, names that `tools` changed are the tools' own
    again. Raises SetupError for a coroutine or an async stream, and what the stream itself raises.
    """
    content = field(reply, "content")
    found = _of_events(streamed(reply)) if content is None else _of_content(content, _finish_reason(reply))
    return named(found, registry, ANTHROPIC)


def result(call: Call, outcome: Outcome[Any], *, text: str | None = None) -> Block:
    """The block that answers a call: ``{"type": "tool_result", "tool_use_id", "content", "is_error"}``.

    ``is_error`` is true for a failure of any kind, and for nothing else. ``content`` is a text, never empty; bytes of
    an image make it a list of ``text`` and ``image`` blocks. What `wire.parts` says of values holds. ``text`` is said
    instead, as one that `messages.tell` made in another profile.
    """
    said: list[str | Image] = parts(outcome) if text is None else [text]
    has_image = any(isinstance(part, Image) for part in said)
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": [_part(part) for part in said] if has_image else joined(said),
        "is_error": type(outcome) is Failure,
    }


def message(call: Call, outcome: Outcome[Any], *, text: str | None = None) -> Message:
    """The user message that answers the only call of a reply: ``{"role": "user", "content": [result]}``."""
    return {"role": "user", "content": [result(call, outcome, text=text)]}


def messages(answered: Iterable[tuple[Call, Outcome[Any]]]) -> Message:
    """The one user message that answers all calls of a reply, as this API wants it: see `result`, `message`."""
    return {"role": "user", "content": [result(call, outcome) for call, outcome in answered]}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, Image):
        source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
        return {"type": "image", "source": source}
    return {"type": "text", "text": part}


def _finish_reason(reply: object) -> str | None:
    reason = text(field(reply, "stop_reason"))
    return CUT_OFF if reason in _FULL else reason or None


def _of_content(content: object, finish_reason: str | None) -> list[Call]:
    return [
        Call(text(field(block, "name")), field(block, "input"), text(field(block, "id")), finish_reason=finish_reason)
        for block in items(content)
        if field(block, "type") == "tool_use"
    ]


def _of_events(events: Iterable[object]) -> list[Call]:
    calls: list[Asked] = []
    at: dict[int | None, Asked | None] = {}  # by index; None is a block of another type
    reason: str | None = None
    for event in events:
        kind, index = field(event, "type"), number(field(event, "index"))
        if kind == "content_block_start":
            at[index] = _started(field(event, "content_block"))
            calls += [call for call in (at[index],) if call is not None]
        elif (call := at.get(index)) is not None and kind == "content_block_delta":
            call.pieces.append(text(field(field(event, "delta"), "partial_json")))
        elif call is not None and kind == "content_block_stop":
            call.done = True
        elif kind == "message_delta":
            reason = _finish_reason(field(event, "delta")) or reason
    return [_whole(call).call(reason, ended=reason is not None) for call in calls]


def _started(block: object) -> Asked | None:
    if field(block, "type") != "tool_use":
        return None
    return Asked(id=text(field(block, "id")), name=text(field(block, "name")), whole=field(block, "input"))


def _whole(call: Asked) -> Asked:
    """A block starts with an empty input, which stands only until a piece comes."""
    if any(call.pieces) or not call.whole:
        call.whole = None
    return call
