"""OpenAI, chat completions and the Responses API: a reply becomes calls, an outcome becomes the message that answers.

Replies may be plain dicts or objects of the ``openai`` package, which is not imported; other servers that speak the
same format are read as well. The functions return plain dicts. They are typed ``Any``, which fits every type that a
release of the package may ask for.

Sources: https://platform.openai.com/docs/guides/function-calling and /docs/api-reference (chat, responses, streaming).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..base.provider_names import OPENAI
from ..engine.call import Call, Outcome, set_caller
from ..messages import Wording
from ..messages.parts import Part, join_parts
from ..tools.view import ToolView
from . import providers
from .common import (
    build_definitions,
    get_field,
    list_items,
    text_or_empty,
    to_parts,
    with_sent_names,
)
from .gateway_wrappers import open_events, open_reply
from .history import MISSING, HistoryChange, list_messages, match
from .openai_chat import join_choices, make_message, read_message, set_calls, split_chat
from .openai_responses import (
    CALL_ITEMS,
    add_events,
    find_last_response,
    make_items,
    make_output,
    read_finish_reason,
    read_response,
    set_item_calls,
    split_items,
)
from .openai_streams import read_chat_chunks, read_stop
from .providers import Provider
from .replies import FAILED, Calls, Reading, ReplyError, TextForms, find_nothing, read_error, refuse_no_reply
from .schema_fitting import fit_definitions
from .sending_back import fit_calls, fit_message, fit_names, new_id

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

Api: TypeAlias = Literal["chat", "responses"]
Definition: TypeAlias = Any  # a dict, described at `tools`
Message: TypeAlias = Any  # a dict, described at `message`


def tools(registry: ToolView, *, api: Api = "chat", strict: bool = False) -> list[Definition]:
    """Definitions of the tools that may be called now, for the provider's ``tools=``.

    Args:
        registry: The tools. A name that the provider would refuse is sent in a form that it accepts.
        api: ``chat`` for chat completions (the default), ``responses`` for the Responses API.
        strict: Let the provider hold the model to the schemas. Each parameter is then required, an optional one may be
            null, which the repair ``null_optional`` leaves out on the way back, and what the provider's subset of JSON
            Schema does not have is left to `Validate`. A tool whose schema the subset cannot say, such as one that
            takes any names, is offered without. Default False.

    Returns:
        For ``chat``: ``{"type": "function", "function": {"name", "description", "parameters"}}``. For ``responses``:
        ``{"type": "function", "name", "description", "parameters", "strict": False}``; without ``strict`` that API
        would make every parameter required. With ``strict``, ``"strict": True`` where the schema can be said.
    """
    definitions = build_definitions(registry, OPENAI, "parameters")
    fit_definitions(definitions, "parameters", "openai", strict=strict)
    if api == "responses":
        return [{"type": "function", "strict": False, **each} for each in definitions]
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
    """The calls of a reply, in its order. Ids and arguments stay as they were sent.

    A malformed call does not raise; it becomes a call that a pipeline refuses. A call of a custom tool has its input
    as arguments.

    Args:
        reply: A chat completion or its message, a response, the list of their tool calls or output items, or the list
            or iterator of a stream's chunks or events. Collect an async stream first. Calls and a text that
            the first of several choices lacks are read in the others.
        registry: The pipeline, whose wording `message` then uses; or the registry that `tools` was given. Names that
            it changed are the tools' own again in the calls. Default None: names stay as the provider sent them, and
            `Resolve` finds the tools as well.
        text: Read calls that the model wrote as text as well, if the reply has no others: in any form that is known for
            True and ``"auto"``, or in those of a list, such as ``["hermes"]``; PROVIDERS.md has them. They have no ids;
            `send_back` gives them some. Default False: such a reply has no calls, and is logged as a warning.
        principal: Who asks, for each call. Default "": no principal.
        deps: The caller's own object, for the `ToolContext` of each call. Default None: none.
        conversation: The thread or session of the calls, see `Call`. Default "": no conversation.

    Returns:
        The calls; none for a reply without calls, such as plain text. ``finish_reason`` comes from the choice or the
        status of the response, and ``length`` for whatever stopped at its length limit. ``error`` is what the backend
        answered in place of a reply, such as ``{"error": …}``, and ``text`` what the model said beside its calls.

    Raises:
        SetupError: ``reply`` has to be awaited first, is one of another provider, or is none, such as None or the
            response of an HTTP client. An exception of the stream itself passes.
    """
    return set_caller(read_reply(reply).to_calls(registry, providers.OPENAI, text=text), principal, deps, conversation)


def send_back(calls: Calls, registry: Pipeline | ToolView | None = None, *, api: Api = "chat") -> tuple[Any, Calls]:
    """The model's own message, made fit to send back into the conversation, and its calls with the ids that it has.

    A provider, or the template of an open model, refuses arguments that are not JSON, a call without an id, two calls
    of one id and a name that it does not take. For a stream this is the message that the stream does not bring. All
    else stays as it came: reasoning, the ids of items, signatures and other fields of a server.

    Args:
        calls: The result of `calls`.
        registry: As with `calls`: its names are sent as the provider knows them.
        api: As with `tools`.

    Returns:
        The message and the calls. The message is one dict for ``chat``, and for ``responses`` a list of items.
        Arguments that are a JSON object stay as they were written; others stand in one under ``invalid_json``.
    """

    def make(given: Calls) -> tuple[Message, Calls]:
        fitted, names = fit_calls(given, registry, OPENAI, new_id)
        return (make_items if api == "responses" else make_message)(given, fitted, names), fitted

    return fit_message(calls, make)


def message(
    call: Call, outcome: Outcome[Any], *, api: Api = "chat", text: str | None = None, wording: Wording | None = None
) -> Message:
    """The message that answers one call: the value as text, or what the model reads about the failure.

    Args:
        call: The call, for its id.
        outcome: The outcome of the call. `pipeline.render` makes the text, which is never blank.
        api: As with `tools`.
        text: This text instead, such as one that `pipeline.render` made in another profile. Default None.
        wording: Another wording. Default None: that of the call, else that of the error, else the default.

    Returns:
        For ``chat``: ``{"role": "tool", "tool_call_id", "content"}``. That API takes text alone, so other parts are
        only mentioned. For ``responses``: ``{"type": "function_call_output", "call_id", "output"}``, where an image is
        an ``input_image`` part and a PDF file an ``input_file`` part; others are mentioned. The answer of a custom tool
        has the type ``custom_tool_call_output``; ``caller`` and ``namespace`` of the call stand beside them.
    """
    parts: list[Part] = to_parts(with_sent_names(outcome, OPENAI), call, wording) if text is None else [text]
    if api == "responses":
        return make_output(call, parts)
    return {"role": "tool", "tool_call_id": call.id, "content": join_parts(parts)}


def repair(messages: list[Any], *, api: Api = "chat") -> tuple[list[Message], list[HistoryChange]]:
    """Repair a conversation that the provider refuses, such as one that was cut, or moved from another provider.

    A call without an answer gets one of the kind ``not_executed``, an answer without its call is left out, and answers
    stand right behind their calls, in order and by ids that the provider takes.

    Args:
        messages: The messages of a request, as plain dicts or objects of the package. They stay as they are.
        api: As with `tools`; for ``responses`` the items of ``input``.

    Returns:
        The messages as plain dicts, and what was changed; the given messages if that is nothing.

    Raises:
        SetupError: ``messages`` is no list.
    """
    if api == "responses":
        found, changes = match(
            split_items(list_messages(messages)),
            lambda items, calls: set_item_calls(items, calls, fit_names(Calls(calls), None, OPENAI)),
            lambda item, call: {**item, "call_id": call.id},
            lambda call: message(call, MISSING, api="responses"),
        )
        made = [item for unit in found for item in (unit.data if unit.kind == "said" else [unit.data])]
    else:
        found, changes = match(
            split_chat(list_messages(messages)),
            lambda said, calls: set_calls(said, calls, fit_names(Calls(calls), None, OPENAI)),
            lambda said, call: {**said, "tool_call_id": call.id},
            lambda call: message(call, MISSING),
        )
        made = [unit.data for unit in found]
    return (made if changes else messages), changes


def read_reply(given: object, ours: Provider = providers.OPENAI) -> Reading:  # noqa: C901  # by the form of the reply
    """Read a reply in OpenAI's format.

    Args:
        given: As with `calls`.
        ours: The provider that an error names. Default: OpenAI.

    Raises:
        SetupError: As with `calls`.
    """
    reply = open_reply(given, ours)
    if choices := list_items(get_field(reply, "choices")):
        if get_field(choices[0], "message") is None and get_field(choices[0], "delta") is not None:
            return _read_stream([reply])
        if len(choices) == 1:
            return _read_choice(choices[0], reply)
        return join_choices(
            [_read_choice(each, reply) for each in choices], [get_field(each, "index") for each in choices]
        )
    if get_field(reply, "object") == "chat.completion":
        return Reading([], error=read_error(reply) or ReplyError("The reply has no choice", "empty"))
    if get_field(reply, "tool_calls") is not None or get_field(reply, "function_call") is not None:
        return read_message(reply, None)
    if get_field(reply, "object") == "response":
        return read_response(reply)
    events = list(open_events(reply))
    ours.refuse_others(reply, events)
    refuse_no_reply(reply, ours)
    if get_field(reply, "output") is not None:
        return read_response(reply)
    if isinstance(reply, str):
        return Reading([], reply)
    if (found := read_error(reply)) is not None:
        return Reading([], _read_failed(reply), error=found)
    if (nothing := find_nothing(reply, events, ours)) is not None:
        return Reading([], error=nothing)
    if get_field(reply, "finish_reason") is not None and get_field(reply, "message") is not None:
        return _read_choice(reply, None)
    if get_field(reply, "role") == "assistant":
        return read_message(reply, None)
    return _read_stream(events)


def _read_choice(choice: object, reply: object) -> Reading:
    message = get_field(choice, "message")
    reading = read_message(message, read_stop(choice))
    if message is None:  # of the API before chat completions
        reading.text = text_or_empty(get_field(choice, "text"))
    reading.error = read_error(choice, named=True) or read_error(reply, named=True)
    reading.id = text_or_empty(get_field(reply, "id"))
    return reading


def _read_stream(events: list[object]) -> Reading:
    if any(get_field(event, "type") in CALL_ITEMS for event in events):  # the output of a response
        return read_response({"output": events})
    if any(get_field(event, "function") is not None and get_field(event, "index") is None for event in events):
        return read_message({"tool_calls": events}, None)
    error = next((found for event in events if (found := read_error(event)) is not None), None)
    if not any(text_or_empty(get_field(event, "type")).startswith("response.") for event in events):
        reading = read_chat_chunks(events)
    else:
        last = next(
            (response for event in reversed(events) if (response := find_last_response(event)) is not None), None
        )
        reading = read_response(last)
        if not reading.calls:
            reason = None if last is None else read_finish_reason(last)
            add_events(reading, events, reason)
    reading.error = reading.error or error
    reading.text = reading.text or next((text for event in events if (text := _read_failed(event))), "")
    return reading


def _read_failed(reply: object) -> str:
    """What the model wrote where Groq could not read a call in it, which then is an error; "": nothing."""
    return text_or_empty(get_field(get_field(reply, "error"), FAILED) or get_field(reply, FAILED))
