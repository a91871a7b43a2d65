"""OpenAI's streams: the pieces of parallel calls, interleaved, become whole calls.

Many servers that speak the chat format deviate from it, as their issue trackers show: ``index`` is missing, or 0 for
all calls; the id is missing, repeated with each piece, or a new one with each; a call comes whole; a name in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from .common import (
    CUT_OFF,
    PartialCall,
    dict_or_empty,
    get_field,
    int_or_none,
    is_dict,
    join_texts,
    list_items,
    text_or_empty,
)
from .openai_chat import join_choices, read_message
from .replies import Reading


def read_chat_chunks(chunks: Iterable[object]) -> Reading:
    """The calls of chat completion chunks, in the order of their indices, and the text; see `join_choices`."""
    found: dict[int, list[object]] = {}  # what comes of each choice
    id_ = ""
    for event in chunks:
        chunk = _unwrap_chunk(event)
        id_ = id_ or text_or_empty(get_field(chunk, "id"))
        for choice in list_items(get_field(chunk, "choices")):
            found.setdefault(int_or_none(get_field(choice, "index")) or 0, []).append(choice)
    places = sorted(found)
    reading = join_choices([_read_deltas(found[place]) for place in places] or [_read_deltas([])], [*places])
    reading.id = id_
    return reading


def _read_deltas(choices: list[object]) -> Reading:
    """What came of one choice."""
    calls = _Calls()
    own: dict[str, Any] = {}  # of the model's message, all but its calls
    said: list[str] = []
    reason: str | None = None
    for choice in choices:
        reason = read_stop(choice) or reason
        delta = get_field(choice, "delta")
        said.append(join_texts(get_field(delta, "content"), "text") or text_or_empty(get_field(choice, "text")))
        add_delta(own, delta)
        seen: list[int | None] = []  # two calls in one delta are two calls, whatever their indices
        for piece in list_items(get_field(delta, "tool_calls")):
            index = int_or_none(get_field(piece, "index"))
            function = get_field(piece, "function") or get_field(piece, "custom")
            _add_piece(calls, piece, function, is_other=index in seen)
            seen.append(index)
        if (legacy := get_field(delta, "function_call")) is not None:
            _add_piece(calls, None, legacy)
    in_order = sorted(calls.each, key=lambda call: -1 if call.index is None else call.index)
    asked = [{**call.extra, "id": call.id, **_make_function(call)} for call in in_order]
    reading = read_message({**own, **({"tool_calls": asked} if asked else {})}, reason)
    reading.calls = [call.to_call(reason, ended=reason is not None) for call in in_order]
    reading.text = "".join(said) or reading.text
    return reading


def _make_function(call: PartialCall) -> dict[str, Any]:
    if call.wire.get("type") == "custom":
        return {"type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    function = {**call.extra.get("function", {}), "name": call.name, "arguments": call.arguments}
    return {"type": "function", "function": function}


def add_delta(own: dict[str, Any], delta: object) -> None:
    """Add the fields of one delta to those of the message: texts and lists grow, anything else is replaced."""
    for key, value in dict_or_empty(delta).items():
        kept: Any = own.get(key)
        if value is None or key in _OF_CALLS:
            continue
        if key == "thinking_blocks" and type(value) is list:
            own[key] = _add_thoughts(kept or [], cast("list[Any]", value))
        elif type(kept) is type(value) and key != "role" and type(value) in (str, list):
            own[key] = kept + value
        elif is_dict(kept) and is_dict(value):
            given, inner = dict_or_empty(value), {**dict_or_empty(kept)}
            add_delta(inner, given)
            own[key] = inner | {name: given[name] for name in _WHOLE & given.keys()}
        else:
            own[key] = value


_OF_CALLS = frozenset(("tool_calls", "function_call"))
_WHOLE = frozenset(("id", "thought_signature", "signature", "format"))  # come at once, and maybe again


def _add_thoughts(kept: list[Any], pieces: list[Any]) -> list[Any]:
    """The blocks with some more, of which each goes on with the last one until that is signed."""
    blocks = [*kept]
    for piece in pieces:
        last, given = dict_or_empty(blocks[-1] if blocks else None), dict_or_empty(piece)
        if last and not last.get("signature") and last.get("type") == given.get("type"):
            thought = text_or_empty(last.get("thinking")) + text_or_empty(given.get("thinking"))
            blocks[-1] = {**last, **given, "thinking": thought}
        else:
            blocks.append(piece)
    return blocks


def read_stop(choice: object) -> str | None:
    """The reason why a choice ended; ``length`` for all that stopped at a length limit."""
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
    _note_extra(call, piece, function)
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
        if arguments.lstrip().startswith("{") and "".join(call.pieces).strip() == "{}":
            call.pieces.clear()  # a server that begins with an empty object
        call.pieces.append(arguments)


_OF_PIECES = frozenset(("index", "id", "type", "function", "custom"))
_OF_FUNCTIONS = frozenset(("name", "arguments", "input"))


def _note_extra(call: PartialCall, piece: object, function: object) -> None:
    """Note what a piece has beside the name and the arguments."""
    if get_field(piece, "custom") is not None:
        call.wire["type"] = "custom"
    call.extra |= _list_extra(piece, _OF_PIECES)
    if extra := _list_extra(function, _OF_FUNCTIONS):
        call.extra["function"] = {**call.extra.get("function", {}), **extra}


def _list_extra(thing: object, known: frozenset[str]) -> dict[str, Any]:
    """The fields beside those that every server sends, such as a signature."""
    given = dict_or_empty(thing)
    return {key: value for key, value in given.items() if key not in known and value is not None}


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
