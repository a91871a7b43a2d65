"""Amazon Bedrock's Converse API: a reply becomes calls, outcomes become the message that answers them.

Replies are the plain dicts of ``boto3`` and ``aioboto3``, which are not imported. The functions return plain dicts.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and
/API_runtime_ConverseStream.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base.provider_names import BEDROCK
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
    is_stream,
    list_items,
    says_error,
    text_or_empty,
    to_parts,
    with_sent_names,
)
from .gateway_wrappers import open_reply
from .history import MISSING, HistoryChange, join_turns, list_messages, match, split_turns
from .providers import BEDROCK_ERRORS
from .replies import Calls, OwnMessage, Reading, ReplyError, TextForms, Unhandled, read_chunks, read_error, refusal_of
from .schema_fitting import fit_definitions
from .sending_back import fit_arguments, fit_calls, fit_message, fit_names, fit_parts, new_id, own_message

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

Definition: TypeAlias = Any  # a dict, described at `tools`
Block: TypeAlias = Any  # a dict, described at `result`
Message: TypeAlias = Any  # a dict, described at `message`

_FORM = "bedrock"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")  # of documents


def tools(registry: ToolView) -> list[Definition]:
    """Definitions of the tools that may be called now, for ``toolConfig={"tools": …}``.

    Args:
        registry: The tools. A name that the provider would refuse is sent in a form that it accepts.

    Returns:
        ``{"toolSpec": {"name", "description", "inputSchema": {"json": …}}}`` for each of them. The provider refuses a
        ``toolConfig`` with none: leave it out then.
    """
    definitions = fit_definitions(build_definitions(registry, BEDROCK, "inputSchema"), "inputSchema", "bedrock")
    return [{"toolSpec": {**each, "inputSchema": {"json": each["inputSchema"]}}} for each in definitions]


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
        reply: The return value of ``converse`` or ``converse_stream``, a message or its content, or the list or
            iterator of a stream's events. Collect an async stream first.
        registry: As with `openai.calls`.
        text: As with `openai.calls`.
        principal: As with `openai.calls`.
        deps: As with `openai.calls`.
        conversation: As with `openai.calls`.

    Returns:
        The calls; none for a reply without calls, such as plain text. Arguments are the mapping of a message, or the
        JSON text of a stream. ``finish_reason`` is the stop reason, ``length`` if the message was cut off, and
        ``content_filter`` if it was withheld. ``error`` is what came in place of a reply, such as
        ``throttlingException`` in a stream, or a stop for a call that the provider itself found malformed, such as
        ``malformed_tool_use``. ``text`` is what the model said beside its calls.

    Raises:
        SetupError: As with `openai.calls`.
    """
    return set_caller(_read(reply).to_calls(registry, providers.BEDROCK, text=text), principal, deps, conversation)


def send_back(calls: Calls, registry: Pipeline | ToolView | None = None) -> tuple[Message, Calls]:
    """The model's own message, made fit to send back into the conversation, and its calls with the ids that it has.

    For a stream this is the message that the stream does not bring. All other blocks, such as reasoning with its
    signature, stay as they came.

    Args:
        calls: The result of `calls`.
        registry: As with `calls`: its names are sent as the provider knows them.

    Returns:
        The message and the calls. An input that is not an object stands in one, under ``invalid_json``.
    """
    return fit_message(calls, lambda given: _make_message(given, registry))


def _make_message(calls: Calls, registry: Pipeline | ToolView | None) -> tuple[Message, Calls]:
    fitted, names = fit_calls(calls, registry, BEDROCK, new_id)

    def make(place: int, block: Any) -> dict[str, Any]:
        asked = {"toolUseId": fitted[place].id, "name": names[place], "input": fit_arguments(fitted[place])}
        return {**block, "toolUse": {**dict_or_empty(block.get("toolUse")), **asked}}

    came = own_message(calls, _FORM)
    if came is not None:
        blocks = fit_parts(came, calls, _identify, make)
    else:
        blocks = [{"text": calls.text}, *(make(place, {}) for place in range(len(fitted)))]
    content = [block for block in blocks if block and text_or_empty(block.get("text", "-")).strip()]
    return {"role": "assistant", "content": content or [{"text": NOTHING}]}, fitted


def result(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Block:
    """The block that answers a call.

    Args:
        call: The call, for its id.
        outcome: The outcome of the call. `pipeline.render` makes the text, which is never blank.
        text: This text instead, such as one that `pipeline.render` made in another profile. Default None.
        wording: Another wording. Default None: that of the call, else that of the error, else the default.

    Returns:
        ``{"toolResult": {"toolUseId", "content", "status"}}``. ``status`` is ``error`` for every failure and for an MCP
        result that says that it is an error, else ``success``. ``content`` is one text, or a list of ``text``,
        ``image`` and ``document`` (PDF) blocks if there is an image or a PDF file. Other parts are mentioned.
    """
    parts: list[Part] = to_parts(with_sent_names(outcome, BEDROCK), call, wording) if text is None else [text]
    blocks = [_to_block(part, place) for place, part in enumerate(parts, 1)]
    only_text = all("text" in block for block in blocks)
    content = [{"text": join_parts(parts)}] if only_text else blocks
    status = "error" if says_error(outcome) else "success"
    return {"toolResult": {"toolUseId": call.id, "content": content, "status": status}}


def message(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Message:
    """The user message that answers the only call of a reply: ``{"role": "user", "content": [result]}``."""
    return {"role": "user", "content": [result(call, outcome, text=text, wording=wording)]}


def messages(answered: Iterable[tuple[Call, Outcome[Any]]]) -> Message:
    """The one user message that answers all calls of a reply, as with `anthropic.messages`."""
    return {"role": "user", "content": [result(call, outcome) for call, outcome in check_pairs(answered)]}


def repair(messages: list[Any]) -> tuple[list[Message], list[HistoryChange]]:
    """Repair a conversation that the provider refuses, such as one that was cut; as `openai.repair` does."""
    found, changes = match(
        split_turns(list_messages(messages), "assistant", "content", _read_part),
        _set_calls,
        lambda block, call: {"toolResult": {**block["toolResult"], "toolUseId": call.id}},
        lambda call: result(call, MISSING),
    )
    return (join_turns(found, "content") if changes else messages), changes


def _read_call(block: object, reason: str | None) -> Call | None:
    if (asked := _identify(block)) is None:
        return None
    name = text_or_empty(get_field(get_field(block, "toolUse"), "name"))
    return Call(name, asked[1], text_or_empty(asked[0]), finish_reason=reason)


def _read_part(block: object) -> Call | tuple[str, str] | None:
    if (call := _read_call(block, None)) is not None:
        return call
    answer = get_field(block, "toolResult")
    return (text_or_empty(get_field(answer, "toolUseId")), "") if is_dict(answer) else None


def _set_calls(message: dict[str, Any], calls: list[Call]) -> dict[str, Any]:
    made = iter(zip(calls, fit_names(Calls(calls), None, BEDROCK), strict=True))
    blocks: list[Any] = []
    for block in list_items(message.get("content")):
        if _identify(block) is not None:
            call, name = next(made)
            asked = {"toolUseId": call.id, "name": name, "input": fit_arguments(call)}
            blocks.append({"toolUse": {**dict_or_empty(block["toolUse"]), **asked}})
        elif dict_or_empty(block) and text_or_empty(block.get("text", "-")).strip():
            blocks.append(block)
    return {**message, "content": blocks or [{"text": NOTHING}]}


def _to_block(part: Part, place: int) -> dict[str, Any]:
    media = find_media(part)
    if media is None:
        return {"text": str(part)}
    if isinstance(media, Image):
        return {"image": {"format": media.media_type.removeprefix("image/"), "source": {"bytes": media.data}}}
    name = _NOT_IN_NAMES.sub(" ", media.name).strip()[:100]
    return {"document": {"format": "pdf", "name": name or f"file {place}", "source": {"bytes": media.data}}}


def _identify(block: object) -> tuple[object, object] | None:
    use = get_field(block, "toolUse")
    is_ours = use is not None and get_field(use, "type") != "server_tool_use"
    return (get_field(use, "toolUseId"), get_field(use, "input")) if is_ours else None


def _read(given: object) -> Reading:
    reply = open_reply(given, providers.BEDROCK)
    if isinstance(reply, str):
        return Reading([], reply)
    id_ = text_or_empty(get_field(get_field(reply, "ResponseMetadata"), "RequestId"))
    if is_stream(stream := get_field(reply, "stream")):  # in a request of another provider it is a flag
        reply = stream
    chunks, nothing = read_chunks(reply, providers.BEDROCK)
    if nothing is not None:
        return Reading([], error=nothing)
    if any(get_field(chunk, "toolUse") is not None for chunk in chunks):  # the content of a message
        return _read_message({"role": "assistant", "content": chunks})
    whole = next((chunk for chunk in chunks if _find_message(chunk) is not None), None)
    reading = read_events_of_stream(chunks) if whole is None else _read_message(whole)
    reading.id = id_
    return reading


def _find_message(reply: object) -> object:
    """The message of a reply, or a message alone; None: it is neither."""
    if (found := get_field(get_field(reply, "output"), "message")) is not None:
        return found
    return None if get_field(reply, "role") is None else reply


def _read_message(reply: object) -> Reading:
    content = list(list_items(get_field(_find_message(reply), "content")))
    reason, error = read_reason(reply)
    found = [call for block in content if (call := _read_call(block, reason)) is not None]
    return _add_blocks(Reading(found, error=read_error(reply) or error, finish_reason=reason), content)


def _add_blocks(reading: Reading, blocks: list[Any]) -> Reading:
    """Add the blocks of the message, and what they say beside calls."""
    texts = [_read_text(block) for block in blocks]
    reading.text = "".join(texts)
    if blocks and all(is_dict(block) for block in blocks):
        reading.message = OwnMessage(_FORM, blocks)
    if reading.finish_reason == "refusal":
        reading.refusal = refusal_of(reading.text)
    answered = [get_field(get_field(block, "toolResult"), "toolUseId") for block in blocks]
    for block in blocks:
        given = dict_or_empty(block)
        kind = next((key for key, value in given.items() if key not in _KNOWN and value is not None), None)
        if kind is not None:
            reading.unhandled.append(Unhandled(kind, block, waits=kind not in _PRODUCTS))
        use = given.get("toolUse")
        if use is not None and _identify(block) is None and get_field(use, "toolUseId") not in answered:
            reading.unhandled.append(Unhandled("server_tool_use", block, waits=reading.finish_reason != "tool_use"))
    return reading


_KNOWN = frozenset(("text", "toolUse", "toolResult", "reasoningContent", "citationsContent", "cachePoint"))
_PRODUCTS = frozenset(("image", "document", "video", "audio"))


def _read_text(block: object) -> str:
    """The text of a block, also where it stands in citations."""
    cited = list_items(get_field(get_field(block, "citationsContent"), "content"))
    return text_or_empty(get_field(block, "text")) + "".join(text_or_empty(get_field(each, "text")) for each in cited)


_WITHHELD = ("guardrail_intervened", "content_filtered")
_MALFORMED = ("malformed_tool_use", "malformed_model_output")  # the provider could not read what the model wrote


def read_reason(stop: object) -> tuple[str | None, ReplyError | None]:
    """The finish reason of a reply, or of the event that ends a stream; and the error that it stands for."""
    reason = text_or_empty(get_field(stop, "stopReason"))
    if reason in _MALFORMED:
        return reason, ReplyError("The model wrote a call that the provider could not read", reason)
    if reason in _WITHHELD:
        return "content_filter", None
    return CUT_OFF if reason in CUT_OFF_BY_LENGTH else reason or None, None


def read_events_of_stream(events: list[object]) -> Reading:
    """The calls of the events, and all else that they say."""
    calls: dict[int, PartialCall] = {}  # by the place of their block
    blocks: list[dict[str, Any]] = []
    places: dict[int | None, int] = {}  # of the last block, by index
    reading = Reading([])
    for event in events:
        started, delta = get_field(event, "contentBlockStart"), get_field(event, "contentBlockDelta")
        stopped, ended = get_field(event, "contentBlockStop"), get_field(event, "messageStop")
        index = next(
            (int_or_none(get_field(each, "contentBlockIndex")) for each in (started, delta, stopped) if each), None
        )
        if started is not None:
            places[index] = len(blocks)
            start = get_field(started, "start")
            blocks.append({**dict_or_empty(start)})
            call = _begin_call(get_field(start, "toolUse"))
            if call is not None:
                calls[places[index]] = call
        elif delta is not None:
            place = places.setdefault(index, len(blocks))
            if place == len(blocks):  # most blocks have no start
                blocks.append({})
            piece = get_field(delta, "delta")
            if (call := calls.get(place)) is not None:
                call.pieces.append(text_or_empty(get_field(get_field(piece, "toolUse"), "input")))
            else:
                _add_delta(blocks[place], piece)
        elif stopped is not None and (call := calls.get(places.get(index, -1))) is not None:
            call.done = True
        elif ended is not None:
            reading.finish_reason, stop_error = read_reason(ended)
            reading.error = reading.error or stop_error
        reading.error = reading.error or read_error(event) or _read_exception(event)
    reason = reading.finish_reason
    for place, call in calls.items():
        made = call.to_call(reason, ended=reason is not None)
        blocks[place] = {"toolUse": {**dict_or_empty(blocks[place].get("toolUse")), "input": made.arguments}}
        reading.calls.append(made)
    return _add_blocks(reading, [_join(block) for block in blocks])


def _add_delta(block: dict[str, Any], delta: object) -> None:
    """Add a piece to a block that is not a call: texts grow, a citation is one more, anything else is replaced."""
    given = dict_or_empty(delta) or {"text": get_field(delta, "text")}
    for key, value in given.items():
        if key == "citation":
            block.setdefault("citations", []).append(value)
        elif is_dict(value):
            inner = block[key] = {**dict_or_empty(block.get(key))}
            _add_delta(inner, value)
        elif type(value) in (str, bytes) and type(block.get(key)) is type(value):
            block[key] += value
        elif value is not None:
            block[key] = value


def _join(block: dict[str, Any]) -> dict[str, Any]:
    """A block of pieces as a whole message has it."""
    if "citations" in block:
        return {"citationsContent": {"content": [{"text": block.get("text", "")}], "citations": block["citations"]}}
    thought = block.get("reasoningContent")
    if thought is not None and "text" in thought:
        return {"reasoningContent": {"reasoningText": thought}}
    use = block.get("toolUse")
    if use is not None and _identify(block) is None and isinstance(use.get("input"), str):  # a tool of the provider
        return {"toolUse": {**use, "input": fit_arguments(Call("", use["input"]))}}
    return block


def _begin_call(use: object) -> PartialCall | None:
    if use is None or get_field(use, "type") == "server_tool_use":
        return None
    return PartialCall(id=text_or_empty(get_field(use, "toolUseId")), name=text_or_empty(get_field(use, "name")))


def _read_exception(event: object) -> ReplyError | None:
    for kind in BEDROCK_ERRORS:
        if (found := get_field(event, kind)) is not None:
            return ReplyError(text_or_empty(get_field(found, "message")), kind)
    return None
