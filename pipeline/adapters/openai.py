"""OpenAI, chat completions and the Responses API: a reply -> calls, an outcome -> the message that answers one.

Plain dicts and the objects of the ``openai`` package are read alike, and nothing of it is imported; what is made are
plain dicts. They are typed ``Any`` because the package's own types change with each of its releases: an ``Any`` may
be passed wherever they are asked for. Servers that only speak this format are as welcome.

Sources: https://platform.openai.com/docs/guides/function-calling and /docs/api-reference (chat, responses, streaming).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ..call import Call, Outcome
from ..tools.registry import ToolRegistry
from .common import CUT_OFF, Image, definitions, field, items, joined, named, parts, streamed, text
from .openai_streams import chat_calls, responses_calls
from .provider_names import OPENAI

Api: TypeAlias = Literal["chat", "responses"]
Definition: TypeAlias = Any  # a dict, as told at `tools`
Message: TypeAlias = Any  # a dict, as told at `message`


def tools(registry: ToolRegistry, *, api: Api = "chat") -> list[Definition]:
    """Definitions of the tools that may be called now, for ``tools=``.

    ``chat``: ``{"type": "function", "function": {"name", "description", "parameters"}}``; ``responses``: ``{"type":
    "function", "name", "description", "parameters", "strict": False}``, since that API takes a missing ``strict`` for
    true and then makes every parameter a required one. Names are as told at `names.sent_names`.
    """
    offered = definitions(registry, OPENAI, "parameters")
    if api == "responses":
        return [{"type": "function", **each, "strict": False} for each in offered]
    return [{"type": "function", "function": each} for each in offered]


def calls(reply: object, registry: ToolRegistry | None = None) -> list[Call]:
    """The calls of a reply, in its order; none for a reply without calls.

    ``reply`` is a chat completion or its message, a response, or the list or iterator of a stream's chunks or events
    (collect an async one first). Ids are kept and arguments left as they are. ``finish_reason`` is the choice's, or
    the response's status; whatever stopped at its length limit has ``length``. Of several choices the first counts.
    What is malformed never raises: it comes as a call that a pipeline refuses. A call to a custom tool comes with its
    input for arguments. With ``registry``, names that `tools` changed are the tools' own again. Raises SetupError for
    a coroutine or an async stream, and what the stream itself raises.
    """
    return named(_found(reply), registry, OPENAI)


def message(call: Call, outcome: Outcome[Any], *, api: Api = "chat", text: str | None = None) -> Message:
    """What answers this one call: the value as text, or what the model is told of the failure; never empty.

    ``chat``: ``{"role": "tool", "tool_call_id", "content"}``, text only, so an image is just mentioned.
    ``responses``: ``{"type": "function_call_output", "call_id", "output"}``, where bytes of an image are an
    ``input_image`` part. What `wire.parts` says of values holds. ``text`` is said instead, as one that
    `messages.tell` made in another profile.
    """
    said: list[str | Image] = parts(outcome) if text is None else [text]
    if api == "responses":
        has_image = any(isinstance(part, Image) for part in said)
        output = [_part(part) for part in said] if has_image else joined(said)
        return {"type": "function_call_output", "call_id": call.id, "output": output}
    return {"role": "tool", "tool_call_id": call.id, "content": joined(said)}


def _part(part: str | Image) -> dict[str, str]:
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{part.base64}"}
    return {"type": "input_text", "text": part}


def _found(reply: object) -> list[Call]:
    if (choices := field(reply, "choices")) is not None:
        first = next(iter(items(choices)), None)
        if field(first, "message") is None and field(first, "delta") is not None:
            return _of_events([reply])
        return _of_message(field(first, "message"), text(field(first, "finish_reason")) or None)
    if field(reply, "output") is not None:
        return _of_response(reply)
    if field(reply, "tool_calls") is not None or field(reply, "function_call") is not None:
        return _of_message(reply, None)
    return _of_events(list(streamed(reply)))


def _of_message(said: object, finish_reason: str | None) -> list[Call]:
    found = [_of_tool_call(each, finish_reason) for each in items(field(said, "tool_calls"))]
    legacy = field(said, "function_call")
    if found or legacy is None:
        return found
    return [Call(text(field(legacy, "name")), field(legacy, "arguments"), finish_reason=finish_reason)]


def _of_tool_call(each: object, finish_reason: str | None) -> Call:
    function, arguments = field(each, "function"), "arguments"
    if function is None:
        function, arguments = field(each, "custom"), "input"
    name = text(field(function, "name"))
    return Call(name, field(function, arguments), text(field(each, "id")), finish_reason=finish_reason)


def _of_response(reply: object) -> list[Call]:
    finish_reason = _finish_reason(reply)
    return [
        _of_item(each, finish_reason)
        for each in items(field(reply, "output"))
        if field(each, "type") in ("function_call", "custom_tool_call")
    ]


def _of_item(item: object, finish_reason: str | None) -> Call:
    arguments = field(item, "input" if field(item, "type") == "custom_tool_call" else "arguments")
    status = field(item, "status")
    if status == "incomplete" or (status == "in_progress" and finish_reason != "completed"):
        finish_reason = CUT_OFF
    return Call(text(field(item, "name")), arguments, text(field(item, "call_id")), finish_reason=finish_reason)


def _finish_reason(reply: object) -> str | None:
    status = text(field(reply, "status"))
    why = text(field(field(reply, "incomplete_details"), "reason")) if status == "incomplete" else ""
    return CUT_OFF if why == "max_output_tokens" else why or status or None


def _of_events(events: list[object]) -> list[Call]:
    if any(text(field(event, "type")).startswith("response.") for event in events):
        last = next((found for event in reversed(events) if (found := _last(event)) is not None), None)
        return _of_response(last) or responses_calls(events, None if last is None else _finish_reason(last))
    return chat_calls(events)


def _last(event: object) -> object:
    ends = ("response.completed", "response.incomplete", "response.failed")
    return field(event, "response") if field(event, "type") in ends else None
