"""Messages of OpenAI's chat format, which many servers speak: a message becomes calls, and calls become a message."""

from __future__ import annotations

from typing import Any, cast

from ..engine.call import Call
from .common import dict_or_empty, get_field, join_texts, list_items, text_or_empty, with_wire
from .replies import Calls, OwnMessage, Reading, Unhandled
from .sending_back import fit_arguments_text, fit_parts, fit_text, own_message

FORM = "chat"
_KNOWN_PARTS = frozenset(("text", "output_text", "refusal", "thinking", "reasoning", "reference"))
_OF_SDKS = frozenset(("function_call", "parsed"))  # the legacy call goes back as another one, and the other is no field


def read_message(message: object, finish_reason: str | None) -> Reading:
    """The calls of a message, and all else that it says."""
    content = get_field(message, "content")
    text = "" if content is None else join_texts(content, "text")
    found = [_read_call(each, finish_reason) for each in list_items(get_field(message, "tool_calls"))]
    if not found and (legacy := get_field(message, "function_call")) is not None:
        name = text_or_empty(get_field(legacy, "name"))
        found = [Call(name, get_field(legacy, "arguments"), finish_reason=finish_reason)]
    reading = Reading(found, text, finish_reason=finish_reason)
    if type(content) is list:
        parts = cast("list[object]", content)
        reading.refusal = "".join(text_or_empty(get_field(part, "refusal")) for part in parts)
        kinds = {text_or_empty(get_field(part, "type")): part for part in parts if type(part) is not str}
        reading.unhandled = [Unhandled(kind, part) for kind, part in kinds.items() if kind not in _KNOWN_PARTS]
    if own := dict_or_empty(message):
        reading.message = OwnMessage(FORM, own)
        reading.refusal = reading.refusal or text_or_empty(own.get("refusal"))
        if (audio := own.get("audio")) is not None:
            reading.text = text or text_or_empty(get_field(audio, "transcript"))
            reading.unhandled.append(Unhandled("audio", audio, waits=False))
        if images := own.get("images"):
            reading.unhandled.append(Unhandled("images", images, waits=False))
    return reading


def _read_call(tool_call: object, finish_reason: str | None) -> Call:
    function = get_field(tool_call, "function")
    if function is None and (custom := get_field(tool_call, "custom")) is not None:
        name, id_ = text_or_empty(get_field(custom, "name")), text_or_empty(get_field(tool_call, "id"))
        call = Call(name, get_field(custom, "input"), id_, finish_reason=finish_reason)
        return with_wire(call, {"type": "custom"})
    name, id_ = text_or_empty(get_field(function, "name")), text_or_empty(get_field(tool_call, "id"))
    return Call(name, get_field(function, "arguments"), id_, finish_reason=finish_reason)


def make_message(calls: Calls, fitted: Calls, names: list[str]) -> dict[str, Any]:
    """The model's own message, with its calls as providers take them.

    Args:
        calls: The calls as they were read.
        fitted: The same with ids that providers take.
        names: Their names as the provider knows them.
    """
    own: dict[str, Any] = own_message(calls, FORM) or {}
    said = {key: value for key, value in own.items() if value is not None and key not in _OF_SDKS}
    content = said.get("content")
    if "audio" in said:
        content = content or ""  # the text is the transcript, which the provider has
    elif not isinstance(content, (list, tuple)):
        content = calls.text

    def make(place: int, entry: Any) -> dict[str, Any]:
        return _make_entry(fitted[place], names[place], entry)

    made = fit_parts(list_items(said.pop("tool_calls", None)), calls, _identify, make)
    said |= {"role": "assistant", "content": content}
    if made:
        said["tool_calls"] = made
    return said


def _identify(entry: object) -> tuple[object, object]:
    function = get_field(entry, "function")
    if function is None and (custom := get_field(entry, "custom")) is not None:
        return get_field(entry, "id"), get_field(custom, "input")
    return get_field(entry, "id"), get_field(function, "arguments")


def _make_entry(call: Call, name: str, came: Any) -> dict[str, Any]:
    """One of ``tool_calls``, with all that came beside it, such as a signature in ``extra_content``."""
    kept = {key: value for key, value in dict_or_empty(came).items() if value is not None and key != "index"}
    if call.wire.get("type") == "custom":
        custom = {**dict_or_empty(kept.get("custom")), "name": name, "input": fit_text(call)}
        return {**kept, "id": call.id, "type": "custom", "custom": custom}
    function = {**dict_or_empty(kept.get("function")), "name": name, "arguments": fit_arguments_text(call)}
    function.pop("parsed_arguments", None)
    return {**kept, "id": call.id, "type": "function", "function": function}
