"""Ollama's own API: a reply of ``/api/chat`` becomes calls, an outcome becomes the message that answers.

Replies may be plain dicts or objects of the ``ollama`` package, which is not imported. The functions return plain
dicts. They are typed ``Any``, which fits every type that a release of the package may ask for. For its other API, in
OpenAI's format, use that adapter.

Source: https://github.com/ollama/ollama/blob/main/docs/api.md and /docs/capabilities/tool-calling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve

from ..base.provider_names import OPENAI, make_provider_name
from ..engine.call import Call, Outcome, set_caller
from ..messages import Wording
from ..messages.parts import Part, join_parts
from ..tools.view import ToolView
from . import providers
from .common import (
    build_definitions,
    dict_or_empty,
    find_field,
    get_field,
    is_dict,
    list_items,
    text_or_empty,
    to_parts,
    with_sent_names,
    with_wire,
)
from .gateway_wrappers import open_reply
from .history import MISSING, HistoryChange, Unit, list_messages, match
from .openai_streams import add_delta
from .replies import Calls, OwnMessage, Reading, TextForms, Unhandled, read_chunks, read_error
from .schema_fitting import fit_definitions
from .sending_back import fit_arguments, fit_message, fit_names, fit_parts, own_message

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

_FORM = "ollama"
Definition: TypeAlias = Any  # a dict, described at `tools`
Message: TypeAlias = Any  # a dict, described at `message`


def tools(registry: ToolView) -> list[Definition]:
    """Definitions of the tools that may be called now, for ``tools=``.

    Args:
        registry: The tools. A name of other characters than most providers accept is sent in a form that they do.

    Returns:
        ``{"type": "function", "function": {"name", "description", "parameters"}}`` for each of them. A parameter whose
        type stands inside of ``anyOf`` has it in ``type`` as well: the package drops the rest.
    """
    definitions = fit_definitions(build_definitions(registry, OPENAI, "parameters"), "parameters", "ollama")
    return [{"type": "function", "function": each} for each in definitions]


def calls(
    reply: object,
    registry: Pipeline | ToolView | None = None,
    *,
    text: TextForms = False,
    principal: str = "",
    deps: object = None,
    conversation: str = "",
) -> Calls:
    """The calls of a reply, in its order. Most servers send no ids: those are "".

    A malformed call does not raise; it becomes a call that a pipeline refuses.

    Args:
        reply: A reply, its message, the list of its tool calls, or the list or iterator of a stream's replies. Collect
            an async stream first.
        registry: As with `openai.calls`.
        text: As with `openai.calls`.
        principal: As with `openai.calls`.
        deps: As with `openai.calls`.
        conversation: As with `openai.calls`.

    Returns:
        The calls; none for a reply without calls, such as plain text. ``finish_reason`` is the server's
        ``done_reason``, which is ``length`` if the reply was cut off. ``error`` is what it answered in place of a
        reply, such as ``{"error": …}``, and ``text`` what the model said beside its calls, without its thoughts.

    Raises:
        SetupError: As with `openai.calls`.
    """
    return set_caller(_read(reply).to_calls(registry, providers.OLLAMA, text=text), principal, deps, conversation)


def send_back(calls: Calls, registry: Pipeline | ToolView | None = None) -> tuple[Message, Calls]:
    """The model's own message, made fit to send back into the conversation, and its calls.

    For a stream this is the message that the stream does not bring. All that the server sent is in it, its thoughts as
    well.

    Args:
        calls: The result of `calls`.
        registry: As with `calls`: its names are sent as the server knows them.

    Returns:
        The message and the calls. Arguments that are not an object stand in one, under ``invalid_json``.
    """
    return fit_message(calls, lambda given: _make_message(given, registry))


def _make_message(calls: Calls, registry: Pipeline | ToolView | None) -> tuple[Message, Calls]:
    fitted: list[Call] = []
    asked: list[dict[str, Any]] = []
    for call, name in zip(calls, fit_names(calls, registry, OPENAI), strict=True):
        id_ = text_or_empty(call.id)
        asked.append({**({"id": id_} if id_ else {}), "function": {"name": name, "arguments": fit_arguments(call)}})
        fitted.append(with_wire(evolve(call, id=id_), {"name": name}))
    all_own: dict[str, Any] = own_message(calls, _FORM) or {}
    own = {key: each for key, each in all_own.items() if each is not None}
    came = list_items(own.pop("tool_calls", None))
    made = fit_parts(came, calls, _identify, lambda place, entry: _make_entry(entry, asked[place]))
    message = {**own, "role": "assistant", "content": calls.text, **({"tool_calls": made} if made else {})}
    return message, calls.with_calls(fitted)


def _identify(entry: object) -> tuple[object, object]:
    return get_field(entry, "id"), get_field(get_field(entry, "function"), "arguments")


def _make_entry(came: object, asked: dict[str, Any]) -> dict[str, Any]:
    entry = dict_or_empty(came)
    return {**entry, **asked, "function": {**dict_or_empty(entry.get("function")), **asked["function"]}}


def message(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Message:
    """The message that answers one call; answer calls of one reply in its order, since most have no ids.

    Args:
        call: The call, for its name, and its id if it has one.
        outcome: The outcome of the call. `pipeline.render` makes the text, which is never blank.
        text: This text instead, such as one that `pipeline.render` made in another profile. Default None.
        wording: Another wording. Default None: that of the call, else that of the error, else the default.

    Returns:
        ``{"role": "tool", "tool_name", "content"}``, with ``tool_call_id`` for a call that has an id. Parts that are
        not text are only mentioned: a model that does not see refuses the whole request for an image.
    """
    parts: list[Part] = to_parts(with_sent_names(outcome, OPENAI), call, wording) if text is None else [text]
    name = text_or_empty(call.wire.get("name")) or make_provider_name(text_or_empty(call.name), OPENAI)
    identity = {"tool_call_id": call.id} if call.id else {}
    return {"role": "tool", "tool_name": name, **identity, "content": join_parts(parts)}


def repair(messages: list[Any]) -> tuple[list[Message], list[HistoryChange]]:
    """Repair a conversation that the provider refuses, such as one that was cut; as `openai.repair` does."""
    found, changes = match(
        [_to_unit(index, each) for index, each in enumerate(list_messages(messages))],
        _set_calls,
        _set_name,
        lambda call: message(call, MISSING),
        pattern=None,
    )
    return ([unit.data for unit in found] if changes else messages), changes


def _to_unit(index: int, message: Any) -> Unit:
    role = get_field(message, "role")
    if role == "assistant" and is_dict(message):
        return Unit("said", index, message, [_read_call(each, None) for each in list_items(message.get("tool_calls"))])
    if role != "tool":
        return Unit("other", index, message)
    name = text_or_empty(find_field(message, "tool_name", "name"))
    return Unit("answer", index, message, id=text_or_empty(get_field(message, "tool_call_id")), name=name)


def _set_calls(message: dict[str, Any], calls: list[Call]) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    made = [
        _make_entry(came, {"function": {"name": name, "arguments": fit_arguments(call)}})
        for came, call, name in zip(
            list_items(message.get("tool_calls")), calls, fit_names(Calls(calls), None, OPENAI), strict=True
        )
    ]
    return {**kept, **({"tool_calls": made} if made else {}), "content": text_or_empty(message.get("content"))}


def _set_name(message: dict[str, Any], call: Call) -> dict[str, Any]:
    key = next((each for each in ("tool_name", "name") if message.get(each) is not None), None)
    return message if key is None else {**message, key: call.name}


def _read(given: object) -> Reading:
    reply = open_reply(given, providers.OLLAMA)
    if isinstance(reply, str):
        return Reading([], reply)
    if get_field(reply, "role") == "assistant" and get_field(reply, "type") is None:
        chunks: list[object] = [{"message": reply}]
    else:
        chunks, nothing = read_chunks(reply, providers.OLLAMA)
        if nothing is not None:
            return Reading([], error=nothing)
    if any(get_field(chunk, "function") is not None for chunk in chunks):  # the calls of a message
        chunks = [{"message": {"tool_calls": chunks}}]
    return _read_chunks(chunks)


def _read_chunks(chunks: list[object]) -> Reading:
    reading = Reading([])
    own: dict[str, Any] = {}
    asked: list[object] = []
    said: list[str] = []
    for chunk in chunks:
        found = get_field(chunk, "message")
        asked += list_items(get_field(found, "tool_calls"))
        said.append(text_or_empty(get_field(found, "content")))
        add_delta(own, found)
        reading.finish_reason = text_or_empty(get_field(chunk, "done_reason")) or reading.finish_reason
        reading.error = reading.error or read_error(chunk)
    reading.calls = [_read_call(each, reading.finish_reason) for each in asked]
    reading.text = "".join(said)
    if all(is_dict(each) for each in asked):
        reading.message = OwnMessage(_FORM, {**own, "tool_calls": asked})
    if images := own.get("images"):
        reading.unhandled.append(Unhandled("images", images, waits=False))
    return reading


def _read_call(asked: object, reason: str | None) -> Call:
    function = get_field(asked, "function")
    name = text_or_empty(get_field(function, "name"))
    call = Call(name, get_field(function, "arguments"), text_or_empty(get_field(asked, "id")), finish_reason=reason)
    return with_wire(call, {"name": name} if name else {})
