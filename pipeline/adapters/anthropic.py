"""Anthropic's Messages API: a message becomes calls, outcomes become the user message that answers them.

Replies may be plain dicts or objects of the ``anthropic`` package, which is not imported. The functions return plain
dicts. They are typed ``Any``, which fits every type that a release of the package may ask for.

Sources: https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use and
/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ..base.provider_names import ANTHROPIC
from ..engine.call import Call, Outcome, set_caller
from ..messages import Wording
from ..messages.parts import Image, Part, find_media, join_parts
from ..messages.values import NOTHING
from ..tools.view import ToolView
from . import providers
from .common import (
    CUT_OFF,
    CUT_OFF_BY_LENGTH,
    PartialCall,
    build_definitions,
    check_pairs,
    dict_or_empty,
    get_field,
    int_or_none,
    is_dict,
    list_items,
    read_wire,
    says_error,
    text_or_empty,
    to_parts,
    with_sent_names,
    with_wire,
)
from .gateway_wrappers import open_events, open_reply
from .history import MISSING, HistoryChange, join_turns, list_messages, match, split_turns
from .replies import (
    Calls,
    OwnMessage,
    Reading,
    TextForms,
    Unhandled,
    find_nothing,
    read_error,
    refusal_of,
    refuse_no_reply,
)
from .schema_fitting import fit_definitions
from .sending_back import fit_arguments, fit_calls, fit_message, fit_names, fit_parts, is_sound, new_id, own_message

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

Definition: TypeAlias = Any  # a dict, described at `tools`
Block: TypeAlias = Any  # a dict, described at `result`
Message: TypeAlias = Any  # a dict, described at `message`

_FORM = "anthropic"
_ECHOED = ("caller", "toolset_name")  # of a block that asks; its answer wants the toolset alone


def tools(registry: ToolView) -> list[Definition]:
    """Definitions of the tools that may be called now, for the provider's ``tools=``.

    Args:
        registry: The tools. A name that the provider would refuse is sent in a form that it accepts.

    Returns:
        ``{"name", "description", "input_schema"}`` for each of them. A property whose name the provider would refuse,
        such as ``filter[id]``, is sent under another one; `calls` changes it back.
    """
    return fit_definitions(build_definitions(registry, ANTHROPIC, "input_schema"), "input_schema", "anthropic")


def calls(
    reply: object,
    registry: Pipeline | ToolView | None = None,
    *,
    text: TextForms = False,
    principal: str = "",
    deps: object = None,
    conversation: str = "",
) -> Calls:
    """The calls of a reply, in its order. Ids stay as they were sent.

    Tools that the provider runs itself are not calls. A malformed call does not raise; it becomes a call that a
    pipeline refuses.

    Args:
        reply: A message or its content, or the list or iterator of a stream's events. Collect an async stream first.
        registry: As with `openai.calls`.
        text: As with `openai.calls`.
        principal: As with `openai.calls`.
        deps: As with `openai.calls`.
        conversation: As with `openai.calls`.

    Returns:
        The calls; none for a reply without calls, such as plain text. Arguments are the mapping of a message, or the
        JSON text of a stream. ``finish_reason`` is the stop reason, and ``length`` if the message was cut off.
        ``error`` is what the backend answered in place of a reply, such as ``{"type": "error", "error": …}``, and
        ``text`` what the model said beside its calls.

    Raises:
        SetupError: As with `openai.calls`.
    """
    return set_caller(_read(reply).to_calls(registry, providers.ANTHROPIC, text=text), principal, deps, conversation)


def send_back(calls: Calls, registry: Pipeline | ToolView | None = None) -> tuple[Message, Calls]:
    """The model's own message, made fit to send back into the conversation, and its calls with the ids that it has.

    The provider refuses an input that is not an object, a call without an id, two calls of one id and a name that it
    does not take. All other blocks, such as thinking with its signature, stay as they
    came. For a stream this is the message that the stream does not bring.

    Args:
        calls: The result of `calls`.
        registry: As with `calls`: its names are sent as the provider knows them.

    Returns:
        The message and the calls. An input that is not an object stands in one, under ``invalid_json``.
    """
    return fit_message(calls, lambda given: _make_message(given, registry))


def _make_message(calls: Calls, registry: Pipeline | ToolView | None) -> tuple[Message, Calls]:
    fitted, names = fit_calls(calls, registry, ANTHROPIC, new_id)

    def make(place: int, block: Any) -> dict[str, Any]:
        call = fitted[place]
        echoed = {key: call.wire[key] for key in _ECHOED if key in call.wire}
        asked = {"type": "tool_use", "id": call.id, "name": names[place], "input": fit_arguments(call)}
        return {**block, **asked, **echoed}

    came = own_message(calls, _FORM)
    if came is not None:
        blocks = fit_parts(came, calls, _identify, make)
    else:
        blocks = [{"type": "text", "text": calls.text}, *(make(place, {}) for place in range(len(fitted)))]
    sound = [_fit_block(block) for block in blocks if is_sound(block, _FIELDS)]
    content = [block for block in sound if block["type"] != "text" or block["text"].strip()]
    return {"role": "assistant", "content": content or [{"type": "text", "text": NOTHING}]}, fitted


_FIELDS: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "thinking": {"thinking": str, "signature": str},
    "redacted_thinking": {"data": str},
    "server_tool_use": {"id": str, "name": str, "input": dict},
    "mcp_tool_use": {"id": str, "name": str, "server_name": str, "input": dict},
}


def _fit_block(block: dict[str, Any]) -> dict[str, Any]:
    """The block without fields that have no such value: citations that are none, and whose call it is."""
    if "citations" not in block and "caller" not in block:
        return block
    odd = {
        key
        for key, each in block.items()
        if (key == "citations" and not all(map(is_dict, list_items(each))))
        or (key == "caller" and not is_sound(each, {}))
    }
    return {key: each for key, each in block.items() if key not in odd}


def result(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Block:
    """The block that answers a call.

    Args:
        call: The call, for its id.
        outcome: The outcome of the call. `pipeline.render` makes the text, which is never blank.
        text: This text instead, such as one that `pipeline.render` made in another profile. Default None.
        wording: Another wording. Default None: that of the call, else that of the error, else the default.

    Returns:
        ``{"type": "tool_result", "tool_use_id", "content", "is_error"}``. ``is_error`` is true for every failure, for
        an MCP result that says that it is an error, and for nothing else. ``content`` is a text, or a list of ``text``,
        ``image`` and ``document`` (PDF) blocks if it contains an image or a PDF file. Other parts are mentioned. The
        ``toolset_name`` of the call, where it has one, stands beside them.
    """
    parts: list[Part] = to_parts(with_sent_names(outcome, ANTHROPIC), call, wording) if text is None else [text]
    blocks = [_to_block(part) for part in parts]
    only_text = all(block["type"] == "text" for block in blocks)
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": join_parts(parts) if only_text else blocks,
        "is_error": says_error(outcome),
        **({"toolset_name": call.wire["toolset_name"]} if "toolset_name" in call.wire else {}),
    }


def message(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Message:
    """The user message that answers the only call of a reply: ``{"role": "user", "content": [result]}``."""
    return {"role": "user", "content": [result(call, outcome, text=text, wording=wording)]}


def messages(answered: Iterable[tuple[Call, Outcome[Any]]]) -> Message:
    """The one user message that answers all calls of a reply, which this API wants in one.

    Args:
        answered: Each call of the reply with its outcome.

    Raises:
        SetupError: ``answered`` holds something else than pairs.
    """
    return {"role": "user", "content": [result(call, outcome) for call, outcome in check_pairs(answered)]}


def repair(messages: list[Any]) -> tuple[list[Message], list[HistoryChange]]:
    """Repair a conversation that the provider refuses, such as one that was cut; as `openai.repair` does."""
    found, changes = match(
        split_turns(list_messages(messages), "assistant", "content", _read_part),
        _set_calls,
        lambda block, call: {**block, "tool_use_id": call.id},
        lambda call: result(call, MISSING),
    )
    return (join_turns(found, "content") if changes else messages), changes


def _read_part(block: object) -> Call | tuple[str, str] | None:
    if get_field(block, "type") == "tool_use":
        return _read_call(block, None)
    return (text_or_empty(get_field(block, "tool_use_id")), "") if get_field(block, "type") == "tool_result" else None


def _set_calls(message: dict[str, Any], calls: list[Call]) -> dict[str, Any]:
    if not isinstance(message.get("content"), list):
        return message if message.get("content") else {**message, "content": [{"type": "text", "text": NOTHING}]}
    made = iter(zip(calls, fit_names(Calls(calls), None, ANTHROPIC), strict=True))
    blocks: list[Any] = []
    for block in message["content"]:
        if get_field(block, "type") == "tool_use":
            call, name = next(made)
            blocks.append({**block, "id": call.id, "name": name, "input": fit_arguments(call)})
        elif is_sound(block, _FIELDS) and (block["type"] != "text" or block["text"].strip()):
            blocks.append(block)
    return {**message, "content": blocks or [{"type": "text", "text": NOTHING}]}


def _to_block(part: Part) -> dict[str, Any]:
    media = find_media(part)
    if media is None:
        return {"type": "text", "text": str(part)}
    source = {"type": "base64", "media_type": media.media_type, "data": media.base64}
    return {"type": "image" if isinstance(media, Image) else "document", "source": source}


def _finish_reason(reply: object) -> str | None:
    reason = text_or_empty(get_field(reply, "stop_reason"))
    return CUT_OFF if reason in CUT_OFF_BY_LENGTH else reason or None


def _identify(block: object) -> tuple[object, object] | None:
    return (get_field(block, "id"), get_field(block, "input")) if get_field(block, "type") == "tool_use" else None


def _read(given: object) -> Reading:
    reply = open_reply(given, providers.ANTHROPIC)
    if isinstance(reply, str):
        return Reading([], reply)
    content = get_field(reply, "content")
    if get_field(reply, "type") == "message":  # what the client returns
        return _read_content(content, reply)
    events = list(open_events(reply)) if content is None else []
    providers.ANTHROPIC.refuse_others(reply, events)
    refuse_no_reply(reply, providers.ANTHROPIC)
    if (error := read_error(reply)) is not None:
        return Reading([], error=error)
    if content is not None:
        return _read_content(content, reply)
    if (nothing := find_nothing(reply, events, providers.ANTHROPIC)) is not None:
        return Reading([], error=nothing)
    if any(get_field(event, "type") == "tool_use" for event in events):  # the content of a message
        return _read_content(events, None)
    return _read_stream(events)


def _read_content(content: object, reply: object) -> Reading:
    reason = _finish_reason(reply)
    blocks = list(list_items(content))
    found: list[Call] = []
    said: list[str] = []
    for block in blocks:
        kind = get_field(block, "type")
        if kind == "tool_use":
            found.append(_read_call(block, reason))
        elif kind == "text":
            said.append(text_or_empty(get_field(block, "text")))
    text = content if isinstance(content, str) else "".join(said)
    reading = Reading(found, text, finish_reason=reason, id=text_or_empty(get_field(reply, "id")))
    return _add_blocks(reading, blocks, reply)


def _read_call(block: object, finish_reason: str | None) -> Call:
    name, id_ = text_or_empty(get_field(block, "name")), text_or_empty(get_field(block, "id"))
    call = Call(name, get_field(block, "input"), id_, finish_reason=finish_reason)
    return with_wire(call, read_wire(block, *_ECHOED))


def _add_blocks(reading: Reading, blocks: list[Any], stop: object) -> Reading:
    """Add the blocks of the message, and what they say beside text and calls."""
    is_plain = bool(blocks)
    for block in blocks:
        is_plain = is_plain and is_dict(block) and type(block.get("type")) is str
    if is_plain:
        reading.message = OwnMessage(_FORM, blocks)
    if reading.finish_reason == "refusal":
        words = text_or_empty(get_field(get_field(stop, "stop_details"), "explanation"))
        reading.refusal = refusal_of(words or reading.text)
    kinds = [text_or_empty(get_field(block, "type")) for block in blocks if type(block) is not str]
    if _KNOWN.issuperset(kinds) and reading.finish_reason != "pause_turn":
        return reading
    answered = [get_field(block, "tool_use_id") for block in blocks]
    for block, kind in zip((each for each in blocks if type(each) is not str), kinds, strict=True):
        if kind in _OF_SERVERS:  # between calls of the client the provider goes on with its own in the next turn
            if get_field(block, "id") not in answered and reading.finish_reason != "tool_use":
                reading.unhandled.append(Unhandled(kind, block))
        elif kind not in _KNOWN and not kind.endswith("_tool_result"):
            reading.unhandled.append(Unhandled(kind or "unknown", block))
    if reading.finish_reason == "pause_turn":
        reading.unhandled.append(Unhandled("pause_turn", blocks))
    return reading


_KNOWN = frozenset(("text", "tool_use", "thinking", "redacted_thinking", "compaction"))
_OF_SERVERS = frozenset(("server_tool_use", "mcp_tool_use"))


@attrs.define
class _Stream:
    """The message of a stream, as far as it came."""

    blocks: list[dict[str, Any]] = attrs.field(factory=list[dict[str, Any]])
    calls: list[PartialCall] = attrs.field(factory=list[PartialCall])
    # By index.
    latest: dict[int | None, tuple[dict[str, Any], PartialCall | None]] = attrs.field(factory=dict[Any, Any])
    reason: str | None = None
    stopped: object = None
    id: str = ""

    def add(self, event: object) -> None:
        """Add an event; one of another kind says nothing."""
        kind, index = get_field(event, "type"), int_or_none(get_field(event, "index"))
        if kind == "content_block_start":
            self._begin(index, get_field(event, "content_block"))
        elif kind == "content_block_delta":
            if index not in self.latest:  # its start is missing
                self._begin(index, {"type": "text"})
            block, call = self.latest[index]
            delta = get_field(event, "delta")
            if call is not None and get_field(delta, "text") is not None:  # beside the call
                block = self._stray(block)
            _add_delta(block, delta)
            if call is not None:
                call.pieces.append(text_or_empty(get_field(delta, "partial_json")))
        elif kind == "content_block_stop":
            _, call = self.latest.get(index, (None, None))
            if call is not None:
                call.done = True
        elif kind == "message_delta":
            delta = get_field(event, "delta")
            self.reason = _finish_reason(delta) or self.reason
            self.stopped = get_field(delta, "stop_details") or self.stopped
        elif kind == "message_start":
            self.id = text_or_empty(get_field(get_field(event, "message"), "id"))

    def _stray(self, block: dict[str, Any]) -> dict[str, Any]:
        """The block of the text that came into the block of a call."""
        if self.blocks[-1] is block or self.blocks[-1]["type"] != "text":
            self.blocks.append({"type": "text", "text": ""})
        return self.blocks[-1]

    def _begin(self, index: int | None, started: object) -> None:
        block = {"type": get_field(started, "type"), "text": get_field(started, "text"), **dict_or_empty(started)}
        call = _begin_call(started)
        self.blocks.append(block)
        self.latest[index] = self.latest[None] = (block, call)
        if call is not None:
            self.calls.append(call)


def _read_stream(events: list[object]) -> Reading:
    stream = _Stream()
    for event in events:
        stream.add(event)
    reason = stream.reason
    error = next((each for event in events if (each := read_error(event)) is not None), None)
    found = [_drop_empty_input(call).to_call(reason, ended=reason is not None) for call in stream.calls]
    asked = iter(found)
    for block in stream.blocks:
        pieces = block.pop("partial_json", "")
        if block.get("text", "") is None:
            del block["text"]
        if block["type"] == "tool_use":
            block["input"] = next(asked).arguments
        elif pieces and block["type"] != "text":  # the input of a tool that the provider runs
            block["input"] = fit_arguments(Call("", pieces))
    said = "".join(text_or_empty(block.get("text")) for block in stream.blocks if block["type"] == "text")
    return _add_blocks(
        Reading(found, said, error, reason, id=stream.id), stream.blocks, {"stop_details": stream.stopped}
    )


def _add_delta(block: dict[str, Any], delta: object) -> None:
    """Add a piece to a block: texts grow, a citation is one more, anything else is replaced."""
    given = dict_or_empty(delta) or {"text": get_field(delta, "text")}
    for key, value in given.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key != "type" and type(value) is str and key != "signature":
            block[key] = text_or_empty(block.get(key)) + value
        elif key != "type" and value is not None:
            block[key] = value


def _begin_call(block: object) -> PartialCall | None:
    if get_field(block, "type") != "tool_use":
        return None
    return PartialCall(
        id=text_or_empty(get_field(block, "id")),
        name=text_or_empty(get_field(block, "name")),
        whole=get_field(block, "input"),
        wire=read_wire(block, *_ECHOED),
    )


def _drop_empty_input(call: PartialCall) -> PartialCall:
    """A block starts with an empty input, which counts only as long as no piece has come."""
    if any(call.pieces) or not call.whole:
        call.whole = None
    return call
