"""OpenAI's Responses API: output items and events become calls, calls and outcomes become input items.

A custom tool takes text instead of arguments, and its answer has a type of its own. The provider wants ``caller`` and
``namespace`` of a call back with its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine.call import Call
from ..messages.parts import Image, Part, find_media, join_parts
from .common import (
    CUT_OFF,
    PartialCall,
    get_field,
    int_or_none,
    is_dict,
    join_texts,
    list_items,
    read_wire,
    text_or_empty,
    with_wire,
)
from .history import Unit
from .openai_streams import read_arguments
from .replies import Calls, OwnMessage, Reading, Unhandled, read_error
from .sending_back import fit_arguments_text, fit_parts, fit_text, is_sound, own_message

CALL_ITEMS = ("function_call", "custom_tool_call")
FORM = "responses"
_ECHOED = ("caller", "namespace")
_CALLERS: dict[str, dict[str, type]] = {"program": {"caller_id": str}}
_DONE = frozenset((  # what the model said, and what the provider has done itself
    "message", "reasoning", "compaction", "web_search_call", "file_search_call", "code_interpreter_call", "mcp_call",
    "mcp_list_tools", "tool_search_call", "tool_search_output", "computer_call_output", "local_shell_call_output",
    "shell_call_output", "apply_patch_call_output", "mcp_approval_response",
))  # fmt: skip
_PRODUCTS = frozenset(("image_generation_call",))  # for the client, and the provider waits for nothing


def read_wire_of_item(item: object) -> dict[str, Any]:
    """Return the further fields of an item of a call; also its type, if most calls have another type."""
    kind = {"type": "custom_tool_call"} if get_field(item, "type") == "custom_tool_call" else {}
    return {**kind, **{name: each for name, each in read_wire(item, *_ECHOED).items() if _is_taken(name, each)}}


def _is_taken(name: str, value: object) -> bool:
    """Whether the provider takes this value of a further field back."""
    return is_sound(value, _CALLERS) if name == "caller" else bool(text_or_empty(value))


def make_items(calls: Calls, fitted: Calls, names: list[str]) -> list[dict[str, Any]]:
    """The items of the model, with its calls as the provider takes them.

    Args:
        calls: The calls as they were read.
        fitted: The same with ids that the provider takes.
        names: Their names as the provider knows them.
    """

    def make(place: int, item: Any) -> dict[str, Any]:
        return _make_item(fitted[place], names[place], item)

    items = own_message(calls, FORM)
    if items is None:
        said = [{"role": "assistant", "content": calls.text}] if calls.text else []
        return [*said, *(make(place, {}) for place in range(len(fitted)))]
    return [
        fitted_item for item in fit_parts(items, calls, _identify, make) if (fitted_item := _fit_item(item)) is not None
    ]


_FIELDS: dict[str, dict[str, type]] = {
    "message": {"id": str, "content": list},
    "output_text": {"text": str},
    "refusal": {"refusal": str},
    "reasoning": {"id": str},
    "summary_text": {"text": str},
    "reasoning_text": {"text": str},
}
_STATUSES = ("in_progress", "completed", "incomplete")


def _fit_item(item: Any) -> Any:
    """The item as the provider takes it; None: it has nothing that can go back."""
    if not is_sound(item, _FIELDS):
        said = join_texts(get_field(item, "content"), "output_text")
        return {"role": "assistant", "content": said} if said else None
    kept: dict[str, Any] = {**item}
    for name in ("content", "summary"):
        if isinstance(kept.get(name), list):
            kept[name] = [_fit_part(part) for part in kept[name] if is_sound(part, _FIELDS)]
    if item["type"] in ("message", "reasoning", *CALL_ITEMS) and kept.get("status", "completed") not in _STATUSES:
        del kept["status"]
    if item["type"] == "reasoning" and not isinstance(kept.get("summary"), list):
        kept["summary"] = []
    if item["type"] == "message":
        if kept.get("phase", "commentary") not in ("commentary", "final_answer"):
            del kept["phase"]
        kept |= {"role": "assistant", "status": kept.get("status", "completed")}
    return kept


def _fit_part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of the content, without what only a helper of the SDK puts into it."""
    kept = {key: each for key, each in part.items() if key not in ("parsed", "logprobs")}
    if part["type"] == "output_text":
        kept["annotations"] = [each for each in list_items(part.get("annotations")) if is_dict(each)]
    return kept


def _identify(item: object) -> tuple[object, object] | None:
    kind = get_field(item, "type")
    if kind not in CALL_ITEMS:
        return None
    return get_field(item, "call_id"), get_field(item, "input" if kind == "custom_tool_call" else "arguments")


def _make_item(call: Call, name: str, came: Any) -> dict[str, Any]:
    odd = {key for key in ("id", *_ECHOED) if not _is_taken(key, came.get(key))}
    odd |= {"parsed_arguments"} if isinstance(came.get("async"), bool) else {"parsed_arguments", "async"}
    kept = {key: value for key, value in came.items() if key not in odd}
    kept |= {key: call.wire[key] for key in _ECHOED if key in call.wire}
    if call.wire.get("type") == "custom_tool_call":
        return {**kept, "type": "custom_tool_call", "call_id": call.id, "name": name, "input": fit_text(call)}
    arguments = fit_arguments_text(call)
    return {**kept, "type": "function_call", "call_id": call.id, "name": name, "arguments": arguments}


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
    """The calls of a response, and all else that it says."""
    finish_reason = read_finish_reason(response)
    items = list(list_items(get_field(response, "output")))
    reading = Reading([], error=read_error(response), finish_reason=finish_reason)
    reading.id = text_or_empty(get_field(response, "id"))
    _read_items(reading, items)
    return reading


def _read_items(reading: Reading, items: list[Any]) -> None:
    reading.calls = [_read_item(item, reading.finish_reason) for item in items if get_field(item, "type") in CALL_ITEMS]
    said = [part for item in items for part in list_items(get_field(item, "content")) if type(part) is not str]
    reading.text = "".join(join_texts(get_field(item, "content"), "output_text") for item in items)
    reading.refusal = "".join(text_or_empty(get_field(part, "refusal")) for part in said)
    if all(is_dict(item) for item in items):
        reading.message = OwnMessage(FORM, items)
    kinds = {text_or_empty(get_field(item, "type")) for item in items}
    for item in items:
        kind = text_or_empty(get_field(item, "type"))
        if kind not in CALL_ITEMS and kind not in _DONE and f"{kind}_output" not in kinds:
            reading.unhandled.append(Unhandled(kind or "unknown", item, waits=kind not in _PRODUCTS))


def _read_item(item: object, finish_reason: str | None) -> Call:
    arguments = get_field(item, "input" if get_field(item, "type") == "custom_tool_call" else "arguments")
    status = get_field(item, "status")
    if status == "incomplete" or (status == "in_progress" and finish_reason != "completed"):
        finish_reason = CUT_OFF
    name, id_ = text_or_empty(get_field(item, "name")), text_or_empty(get_field(item, "call_id"))
    return with_wire(Call(name, arguments, id_, finish_reason=finish_reason), read_wire_of_item(item))


def read_finish_reason(response: object) -> str | None:
    """The reason why a response ended: its status, or the detail of an incomplete one."""
    status = text_or_empty(get_field(response, "status"))
    details = get_field(response, "incomplete_details") if status == "incomplete" else None
    reason = text_or_empty(get_field(details, "reason"))
    return CUT_OFF if reason == "max_output_tokens" else reason or status or None


def find_last_response(event: object) -> object:
    """The whole response, if this is the event that ends a stream."""
    ends = ("response.completed", "response.incomplete", "response.failed")
    return get_field(event, "response") if get_field(event, "type") in ends else None


def add_events(reading: Reading, events: list[object], finish_reason: str | None) -> None:
    """Add what the events of a stream say to the reading of its last event, which is missing or does not list it.

    Args:
        reading: The reading of the last event.
        events: All events of the stream.
        finish_reason: From the last event; None if it did not come.
    """
    ended = [get_field(event, "item") for event in events if get_field(event, "type") == "response.output_item.done"]
    if reading.message is None or not reading.message.data:
        _read_items(reading, ended)
    reading.id = reading.id or next(
        (id_ for event in events if (id_ := text_or_empty(get_field(get_field(event, "response"), "id")))), ""
    )
    reading.calls = read_response_events(events, finish_reason)
    if not reading.text:
        pieces = (event for event in events if get_field(event, "type") == "response.output_text.delta")
        reading.text = "".join(text_or_empty(get_field(event, "delta")) for event in pieces)
        if reading.text and not ended:
            reading.message = None  # the items did not come


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


def split_items(items: list[Any]) -> list[Unit]:
    """The items of a conversation, by what they are; calls with nothing but reasoning between them are one unit."""
    units: list[Unit] = []
    for index, item in enumerate(items):
        kind = get_field(item, "type")
        if kind in CALL_ITEMS or kind == "reasoning":
            if not units or units[-1].kind != "said":
                units.append(Unit("said", index, []))
            units[-1].data.append(item)
            units[-1].calls += [_read_item(item, None)] if kind in CALL_ITEMS else []
        elif kind in ("function_call_output", "custom_tool_call_output"):
            units.append(Unit("answer", index, item, id=text_or_empty(get_field(item, "call_id"))))
        else:
            units.append(Unit("other", index, item))
    return units


def set_item_calls(items: list[Any], calls: list[Call], names: list[str]) -> list[Any]:
    """The items of a model with these calls, in their order, as the provider takes them."""
    made = iter(zip(calls, names, strict=True))
    return [_make_item(*next(made), item) if get_field(item, "type") in CALL_ITEMS else item for item in items]
