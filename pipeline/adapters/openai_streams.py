"""OpenAI's streams: the pieces of parallel calls, interleaved, to whole calls.

Many servers that speak the chat format bend it (as their issue trackers tell): ``index`` is missing, or 0 for all
calls; the id comes again with each piece, or a new one with each; a call comes whole, or its name in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..call import Call
from .common import Asked, field, items, number, text


def chat_calls(chunks: Iterable[object]) -> list[Call]:
    """The calls of chat completion chunks, of the first choice, in the order of their indices."""
    calls: list[Asked] = []
    reason: str | None = None
    for event in chunks:
        for choice in items(field(_chunk(event), "choices")):
            if field(choice, "index"):
                continue
            reason = text(field(choice, "finish_reason")) or reason
            delta = field(choice, "delta")
            here: list[int | None] = []  # two calls in one delta are two calls, whatever their indices
            for each in items(field(delta, "tool_calls")):
                index = number(field(each, "index"))
                _add(calls, each, field(each, "function") or field(each, "custom"), another=index in here)
                here.append(index)
            if (legacy := field(delta, "function_call")) is not None:
                _add(calls, None, legacy)
    in_order = sorted(calls, key=lambda call: -1 if call.index is None else call.index)
    return [call.call(reason, ended=reason is not None) for call in in_order]


def _chunk(event: object) -> object:
    return event if (chunk := field(event, "chunk")) is None else chunk  # an event of client.chat.completions.stream()


def _add(calls: list[Asked], each: object, function: object, *, another: bool = False) -> None:
    index, its_id = number(field(each, "index")), text(field(each, "id"))
    name, piece = text(field(function, "name")), _piece(function)
    call = _place(calls, index, its_id)
    if call is None or another or _starts_another(call, index, its_id, name):
        if index is None and calls:  # behind the others
            index = calls[-1].index
        call = Asked(index)
        calls.append(call)
    begun = bool(call.pieces) or call.whole is not None
    again = bool(its_id) and its_id == call.id
    if not begun and not (again and name == call.name):
        call.name += name
    if not call.id or not (begun or piece or again):
        call.id += its_id
    if isinstance(piece, str):
        if piece:
            call.pieces.append(piece)
    elif piece is not None:
        call.whole = piece


def _piece(function: object) -> Any:
    piece = field(function, "arguments")
    return field(function, "input") if piece is None else piece


def _place(calls: list[Asked], index: int | None, its_id: str) -> Asked | None:
    """The call that a piece belongs to: of those at its index the one with its id, or else the last."""
    there = calls if index is None else [call for call in calls if call.index == index]
    same = [call for call in there if its_id and call.id == its_id]
    return next(reversed(same or there), None)


def _starts_another(call: Asked, index: int | None, its_id: str, name: str) -> bool:
    """Whether a piece with a name starts another call, though it has the place of this one."""
    begun = bool(call.pieces) or call.whole is not None
    repeats = its_id == call.id if its_id else name == call.name
    return bool(name) and not repeats and (begun or (index is None and bool(its_id) and bool(call.id)))


def responses_calls(events: Iterable[object], finish_reason: str | None) -> list[Call]:
    """The calls of Responses stream events, for a stream whose last event did not come or did not list them."""
    calls: dict[int | str, Asked] = {}  # by output_index, or by the item's id
    for event in events:
        kind, item = text(field(event, "type")), field(event, "item")
        index = number(field(event, "output_index"))
        place = text(field(event, "item_id") or field(item, "id")) if index is None else index
        if kind in ("response.output_item.added", "response.output_item.done"):
            if field(item, "type") in ("function_call", "custom_tool_call"):
                _set(calls.setdefault(place, Asked()), item, done=kind.endswith("done"))
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            calls.setdefault(place, Asked()).pieces.append(text(field(event, "delta")))
        elif kind in ("response.function_call_arguments.done", "response.custom_tool_call_input.done"):
            _set(calls.setdefault(place, Asked()), event, done=True)
    return [call.call(finish_reason, ended=finish_reason == "completed") for call in calls.values()]


def _set(call: Asked, item: object, *, done: bool) -> None:
    call.id = text(field(item, "call_id")) or call.id
    call.name = text(field(item, "name")) or call.name
    if done:  # what is done is told whole once more
        call.done = True
        arguments = _piece(item)
        call.whole = call.whole if arguments is None else arguments
