"""OpenAI's Responses API: output items and events become calls, calls and outcomes become input items.

A custom tool takes text instead of arguments, and its answer has a type of its own. The provider wants ``caller`` and
``namespace`` of a call back with its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..call import Call
from ..messages.parts import Image, Part, find_media, join_parts
from .common import (
    CUT_OFF,
    PartialCall,
    get_field,
    int_or_none,
    join_texts,
    list_items,
    read_wire,
    text_or_empty,
    with_wire,
)
from .openai_streams import read_arguments
from .replies import Reading, read_error
from .sending_back import fit_arguments_text, fit_text

CALL_ITEMS = ("function_call", "custom_tool_call")
_ECHOED = ("caller", "namespace")


def read_wire_of_item(item: object) -> dict[str, Any]:
    """Return the further fields of an item of a call; also its type, if most calls have another type."""
    kind = {"type": "custom_tool_call"} if get_field(item, "type") == "custom_tool_call" else {}
    return {**kind, **read_wire(item, *_ECHOED)}


def make_item(call: Call, name: str) -> dict[str, Any]:
    """The item of a call that the model made, to send back.

    Args:
        call: The call, with an id.
        name: The name of its tool as the provider knows it.
    """
    echoed = {key: call.wire[key] for key in _ECHOED if key in call.wire}
    if call.wire.get("type") == "custom_tool_call":
        return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": fit_text(call), **echoed}
    arguments = fit_arguments_text(call)
    return {"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments, **echoed}


def make_output(call: Call, parts: list[Part]) -> dict[str, Any]:
    """The item that answers a call."""
    items = [_to_item(part) for part in parts]
    only_text = all(item["type"] == "input_text" for item in items)
    custom = call.wire.get("type") == "custom_tool_call"
    return {
        "type": "custom_tool_call_output" if custom else "function_call_output",
        "call_id": call.id,
        "output": join_parts(parts) if only_text else items,
        **{key: call.wire[key] for key in _ECHOED if key in call.wire and not (custom and key == "namespace")},
    }


def _to_item(part: Part) -> dict[str, Any]:
    media = find_media(part)
    if media is None:
        return {"type": "input_text", "text": str(part)}
    url = f"data:{media.media_type};base64,{media.base64}"
    if isinstance(media, Image):
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "filename": media.name or "file.pdf", "file_data": url}


def read_response(response: object) -> Reading:
    """The calls and the text of a response."""
    finish_reason = read_finish_reason(response)
    items = list(list_items(get_field(response, "output")))
    found = [_read_item(item, finish_reason) for item in items if get_field(item, "type") in CALL_ITEMS]
    text = "".join(join_texts(get_field(item, "content"), "output_text") for item in items)
    return Reading(found, text, read_error(response))


def _read_item(item: object, finish_reason: str | None) -> Call:
    arguments = get_field(item, "input" if get_field(item, "type") == "custom_tool_call" else "arguments")
    status = get_field(item, "status")
    if status == "incomplete" or (status == "in_progress" and finish_reason != "completed"):
        finish_reason = CUT_OFF
    name, id_ = text_or_empty(get_field(item, "name")), text_or_empty(get_field(item, "call_id"))
    return with_wire(Call(name, arguments, id_, finish_reason=finish_reason), read_wire_of_item(item))


def read_finish_reason(response: object) -> str | None:
    """Why a response ended: its status, or what made it incomplete."""
    status = text_or_empty(get_field(response, "status"))
    details = get_field(response, "incomplete_details") if status == "incomplete" else None
    reason = text_or_empty(get_field(details, "reason"))
    return CUT_OFF if reason == "max_output_tokens" else reason or status or None


def find_last_response(event: object) -> object:
    """The whole response, if this is the event that ends a stream."""
    ends = ("response.completed", "response.incomplete", "response.failed")
    return get_field(event, "response") if get_field(event, "type") in ends else None


def read_response_events(events: Iterable[object], finish_reason: str | None) -> list[Call]:
    """The calls of Responses events, for a stream whose last event is missing or does not list them.

    Args:
        events: All events of the stream.
        finish_reason: From the last event; None if it did not come.
    """
    calls: list[PartialCall] = []
    latest: dict[int | str, PartialCall] = {}  # by output_index, or by the item's id
    for event in events:
        kind, item = text_or_empty(get_field(event, "type")), get_field(event, "item")
        index = int_or_none(get_field(event, "output_index"))
        key = text_or_empty(get_field(event, "item_id") or get_field(item, "id")) if index is None else index
        is_item = kind in ("response.output_item.added", "response.output_item.done")
        if is_item and get_field(item, "type") not in CALL_ITEMS:
            continue
        if not is_item and kind not in _PIECES and kind not in _WHOLE:
            continue
        call = latest.get(key)
        if call is None or (is_item and _is_other_item(call, item)):
            call = latest[key] = PartialCall()
            calls.append(call)
        if kind in _PIECES:
            call.pieces.append(text_or_empty(get_field(event, "delta")))
        else:
            _update_call(call, item if is_item else event, done=kind.endswith("done"))
    return [call.to_call(finish_reason, ended=finish_reason == "completed") for call in calls]


_PIECES = frozenset(("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"))
_WHOLE = frozenset(("response.function_call_arguments.done", "response.custom_tool_call_input.done"))


def _is_other_item(call: PartialCall, item: object) -> bool:
    """Whether an item belongs to another call than the last one of its index."""
    id_ = text_or_empty(get_field(item, "call_id"))
    return bool(id_ and call.id and id_ != call.id)


def _update_call(call: PartialCall, item: object, *, done: bool) -> None:
    call.id = text_or_empty(get_field(item, "call_id")) or call.id
    call.name = text_or_empty(get_field(item, "name")) or call.name
    call.wire.update(read_wire_of_item(item))
    if done:  # an item that is done repeats its arguments as a whole
        call.done = True
        arguments = read_arguments(item)
        call.whole = call.whole if arguments is None else arguments
