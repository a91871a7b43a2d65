"""OpenAI's streams: the pieces of parallel calls, interleaved, become whole calls.

Many servers that speak the chat format deviate from it, as their issue trackers show: ``index`` is missing, or 0 for
all calls; the id is missing, repeated with each piece, or a new one with each; a call comes whole; a name in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .common import CUT_OFF, PartialCall, get_field, int_or_none, join_texts, list_items, text_or_empty
from .replies import Reading


def read_chat_chunks(chunks: Iterable[object]) -> Reading:
    """The calls of the first choice of chat completion chunks, in the order of their indices; and its text."""
    calls = _Calls()
    said: list[str] = []
    reason: str | None = None
    for event in chunks:
        for choice in list_items(get_field(_unwrap_chunk(event), "choices")):
            if get_field(choice, "index"):
                continue
            reason = read_stop(choice) or reason
            delta = get_field(choice, "delta")
            said.append(join_texts(get_field(delta, "content"), "text"))
            seen: list[int | None] = []  # two calls in one delta are two calls, whatever their indices
            for piece in list_items(get_field(delta, "tool_calls")):
                index = int_or_none(get_field(piece, "index"))
                function = get_field(piece, "function") or get_field(piece, "custom")
                _add_piece(calls, piece, function, is_other=index in seen)
                seen.append(index)
            if (legacy := get_field(delta, "function_call")) is not None:
                _add_piece(calls, None, legacy)
    in_order = sorted(calls.each, key=lambda call: -1 if call.index is None else call.index)
    return Reading([call.to_call(reason, ended=reason is not None) for call in in_order], "".join(said))


def read_stop(choice: object) -> str | None:
    """Why a choice ended; ``length`` for whatever stopped at a length limit."""
    reason = text_or_empty(get_field(choice, "finish_reason"))
    return CUT_OFF if reason == "model_length" else reason or None  # Mistral's


def _unwrap_chunk(event: object) -> object:
    """The chunk in an event of ``client.chat.completions.stream()``; a bare chunk as it is."""
    return event if (chunk := get_field(event, "chunk")) is None else chunk


class _Calls:
    """The calls so far, and which of them a piece may belong to, found without looking at each."""

    def __init__(self) -> None:
        self.each: list[PartialCall] = []
        self._last: dict[int | None, PartialCall] = {}  # by index; None: of all
        self._by_id: dict[tuple[int | None, str], PartialCall] = {}  # as above, the last one with that id

    def add(self, call: PartialCall) -> None:
        """Add a call at the end."""
        self.each.append(call)
        for index in (call.index, None):
            self._last[index] = call

    def note_id(self, call: PartialCall) -> None:
        """The call has an id now, or another one."""
        for index in (call.index, None):
            self._by_id[index, call.id] = call

    def find(self, index: int | None, id_: str) -> PartialCall | None:
        """Of the calls at the index of a piece, or of all, the last one with its id, or else the last one."""
        found = self._by_id.get((index, id_)) if id_ else None
        return found if found is not None and found.id == id_ else self._last.get(index)


def _add_piece(calls: _Calls, piece: object, function: object, *, is_other: bool = False) -> None:
    """Add a piece to the call that it belongs to, or to a new one at the end of ``calls``.

    Args:
        calls: The calls so far.
        piece: The entry of ``tool_calls``; None for the legacy function call, which has neither index nor id.
        function: The function, or custom tool, in the piece.
        is_other: The piece cannot belong to the call that its index says.
    """
    index, id_ = int_or_none(get_field(piece, "index")), text_or_empty(get_field(piece, "id"))
    name, arguments = text_or_empty(get_field(function, "name")), read_arguments(function)
    call = calls.find(index, id_)
    if call is not None and id_ and id_ == call.id and arguments == call.arguments and call.is_complete:
        return  # the whole call comes again at the end
    if call is None or is_other or _starts_other_call(call, index, id_, name, arguments):
        again = call if call is not None and call.named_again and not name else None
        if index is None and calls.each:  # behind the others
            index = calls.each[-1].index
        call = PartialCall(index) if again is None else PartialCall(index, again.id, again.name)
        calls.add(call)
    if get_field(piece, "custom") is not None:
        call.wire["type"] = "custom"
    same_id = bool(id_) and id_ == call.id
    had_arguments = call.has_arguments
    call.named_again = bool(name) and had_arguments
    if not had_arguments and not (name == call.name and (same_id or call.has_head)):
        call.name += name
    call.has_head = call.has_head or (bool(name) and arguments is not None)
    if not call.id or not (had_arguments or arguments or same_id):
        call.id += id_
    if call.id:
        calls.note_id(call)
    if not isinstance(arguments, str):
        call.whole = call.whole if arguments is None else arguments
    elif arguments:
        call.pieces.append(arguments)


def read_arguments(function: object) -> Any:
    """The arguments of a function, or the input of a custom tool."""
    arguments = get_field(function, "arguments")
    return get_field(function, "input") if arguments is None else arguments


def _starts_other_call(call: PartialCall, index: int | None, id_: str, name: str, arguments: object) -> bool:
    """Whether a piece begins another call, though it has the index of this one."""
    if call.named_again and arguments and call.is_complete:  # what came again was the head of the next call
        return True
    if not name:
        return False
    if id_ and call.id and id_ != call.id:
        return call.has_arguments or index is None or bool(call.name)
    if not call.has_arguments:
        return not id_ and call.has_head and arguments is not None and name != call.name
    if call.is_complete:  # nothing can be added to it
        return bool(arguments) or name != call.name
    return name != call.name if not id_ else id_ != call.id
