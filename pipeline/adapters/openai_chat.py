"""Messages of OpenAI's chat format, which many servers speak: a message becomes calls, and calls become a message."""

from __future__ import annotations

from typing import Any, cast

from ..engine.call import Call
from .common import dict_or_empty, get_field, is_dict, join_texts, list_items, text_or_empty, with_wire
from .history import Unit
from .replies import Calls, OwnMessage, Reading, Unhandled
from .sending_back import fit_arguments_text, fit_parts, fit_text, is_sound, own_message, without_nulls

FORM = "chat"
_KNOWN_PARTS = frozenset(("text", "output_text", "refusal", "thinking", "reasoning", "reference"))
_FIELDS: dict[str, dict[str, type]] = {"text": {"text": str}, "refusal": {"refusal": str}}
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


def join_choices(readings: list[Reading], places: list[object]) -> Reading:
    """One reading of all choices: some servers spread a text and its calls over several.

    Args:
        readings: Those of the choices, at least one.
        places: Their indices. Where these differ and the first has calls, the others are other answers.
    """
    first, *others = readings
    if first.calls and len({each for each in places if type(each) is int}) == len(places):
        return first
    asked = {(call.name, repr(call.arguments)) for call in first.calls}
    for each in others:
        new = [call for call in each.calls if (call.name, repr(call.arguments)) not in asked]
        asked |= {(call.name, repr(call.arguments)) for call in new}
        if new or not (first.calls or first.text):
            first.text, first.refusal = first.text or each.text, first.refusal or each.refusal
            first.finish_reason, first.error = each.finish_reason or first.finish_reason, first.error or each.error
            first.unhandled += each.unhandled
        if new and first.message is not None and each.message is not None:
            entries = zip(list_items(each.message.data.get("tool_calls")), each.calls, strict=False)
            kept = [entry for entry, call in entries if call in new]
            data = {**first.message.data, "tool_calls": [*list_items(first.message.data.get("tool_calls")), *kept]}
            first.message = OwnMessage(FORM, data)
        elif new or not first.calls:
            first.message = first.message or each.message
        first.calls += new
    return first


def _read_call(tool_call: object, finish_reason: str | None) -> Call:
    function = get_field(tool_call, "function")
    if function is None and (custom := get_field(tool_call, "custom")) is not None:
        name, id_ = text_or_empty(get_field(custom, "name")), text_or_empty(get_field(tool_call, "id"))
        call = Call(name, get_field(custom, "input"), id_, finish_reason=finish_reason)
        return with_wire(call, {"type": "custom"})
    name, id_ = text_or_empty(get_field(function, "name")), text_or_empty(get_field(tool_call, "id"))
    return Call(name, get_field(function, "arguments"), id_, finish_reason=finish_reason)


def make_message(calls: Calls, fitted: Calls, names: list[str]) -> dict[str, Any]:
    """The model's own message, with its calls as providers take them."""
    own: dict[str, Any] = own_message(calls, FORM) or {}
    said = {key: value for key, value in own.items() if value is not None and key not in _OF_SDKS}
    content: Any = said.get("content")
    parts: list[Any] = []
    if content and not isinstance(content, str):
        parts = [part for part in map(without_nulls, list_items(content)) if is_sound(part, _FIELDS)]
    if "audio" in said and not text_or_empty(get_field(said["audio"], "id")):
        del said["audio"]
    # The text of an answer in sound is its transcript, which the provider has.
    content = text_or_empty(content) if "audio" in said else parts or calls.text
    if not isinstance(said.get("refusal", ""), str):
        del said["refusal"]

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
    kept = dict_or_empty(came)
    if "index" in kept:
        kept = {key: value for key, value in kept.items() if key != "index"}
    if call.wire.get("type") == "custom":
        custom = {**dict_or_empty(kept.get("custom")), "name": name, "input": fit_text(call)}
        return {**kept, "id": call.id, "type": "custom", "custom": custom}
    function = {**dict_or_empty(kept.get("function")), "name": name, "arguments": fit_arguments_text(call)}
    function.pop("parsed_arguments", None)
    return {**kept, "id": call.id, "type": "function", "function": function}


def split_chat(messages: list[Any]) -> list[Unit]:
    """The messages of a conversation, by what they are; see `toolcall_pipeline.adapters.history`."""
    return [_to_unit(index, message) for index, message in enumerate(messages)]


def _to_unit(index: int, message: Any) -> Unit:
    role = get_field(message, "role")
    if role == "assistant" and is_dict(message):
        entries = list_items(message.get("tool_calls"))
        return Unit("said", index, message, [_read_call(each, None) for each in entries])
    if role == "tool":
        return Unit("answer", index, message, id=text_or_empty(get_field(message, "tool_call_id")))
    return Unit("other", index, message)


def set_calls(message: dict[str, Any], calls: list[Call], names: list[str]) -> dict[str, Any]:
    """The message of a model with these calls, in their order, as providers take them."""
    came = list_items(message.get("tool_calls"))
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    if not calls:
        return {**kept, "content": ""} if kept.get("content") is None and "function_call" not in kept else kept
    made = [_make_entry(*each) for each in zip(calls, names, came, strict=True)]
    return {**kept, "tool_calls": made}
