"""Google's Gemini API and Vertex AI: a response becomes calls, outcomes become the message that answers them.

Replies may be plain dicts, in the spelling of the API or of the SDK, or objects of the ``google-genai`` package, which
is not imported. The functions return plain dicts. They are typed ``Any``, which fits every type that a release of the
package may ask for.

Sources: https://ai.google.dev/gemini-api/docs/function-calling and
https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling (streams with ``partialArgs``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve

from ..base.provider_names import GEMINI, make_provider_name
from ..base.setup_error import SetupError
from ..engine.call import Call, Outcome, set_caller
from ..messages import Wording
from ..messages.parts import Part, find_media, join_parts
from ..messages.values import NOTHING
from ..tools.view import ToolView
from . import providers
from .common import (
    build_definitions,
    check_pairs,
    dict_or_empty,
    find_field,
    get_field,
    list_items,
    says_error,
    text_or_empty,
    to_parts,
    with_sent_names,
    with_wire,
)
from .gateway_wrappers import open_reply
from .gemini_streams import FORM, read_responses
from .history import MISSING, HistoryChange, join_turns, list_messages, match, split_turns
from .replies import Calls, Reading, TextForms, read_chunks
from .schema_fitting import fit_definitions
from .sending_back import fit_arguments, fit_message, fit_names, fit_parts, own_message

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

Definition: TypeAlias = Any  # a dict, described at `tools`
AnswerPart: TypeAlias = Any  # a dict, described at `result`
Message: TypeAlias = Any  # a dict, described at `messages`

_ECHOED = "thought_signature"


def tools(registry: ToolView) -> list[Definition]:
    """Definitions of the tools that may be called now, for ``tools=`` of the request's configuration.

    Args:
        registry: The tools. A name that the provider would refuse is sent in a form that it accepts.

    Returns:
        ``[{"function_declarations": [{"name", "description", "parameters_json_schema"}, …]}]``, or ``[]``.

    Raises:
        SetupError: A name does not begin with a letter or ``_``, as this provider wants it.
    """
    key = "parameters_json_schema"
    declarations = fit_definitions(build_definitions(registry, GEMINI, key), key, "gemini")
    for each in declarations:
        if not (each["name"][0].isalpha() or each["name"][0] == "_"):
            raise SetupError(f"Gemini takes names that begin with a letter or _, not {each['name']!r}: rename the tool")
    return [{"function_declarations": declarations}] if declarations else []


def calls(
    reply: object,
    registry: Pipeline | ToolView | None = None,
    *,
    text: TextForms = False,
    principal: str = "",
    deps: object = None,
    conversation: str = "",
) -> Calls:
    """The calls of a reply, in its order. Ids, where there are any, stay as they were sent.

    A malformed call does not raise; it becomes a call that a pipeline refuses. So does one that a stream began and did
    not end.

    Args:
        reply: A response, its content or parts, or the list or iterator of a stream's responses. Collect an async
            stream first. Of several candidates the first is read.
        registry: As with `openai.calls`.
        text: As with `openai.calls`.
        principal: As with `openai.calls`.
        deps: As with `openai.calls`.
        conversation: As with `openai.calls`.

    Returns:
        The calls; none for a reply without calls, such as plain text. ``finish_reason`` comes from the candidate,
        ``length`` if it was cut off, and ``content_filter`` if it was withheld. ``error`` is what came in place of a
        reply: an error of the API, a prompt that was blocked, or a call that the provider itself found malformed, such
        as ``MALFORMED_FUNCTION_CALL``. ``text`` is what the model said beside its calls, without its thoughts.

    Raises:
        SetupError: As with `openai.calls`.
    """
    return set_caller(_read(reply).to_calls(registry, providers.GEMINI, text=text), principal, deps, conversation)


def send_back(calls: Calls, registry: Pipeline | ToolView | None = None) -> tuple[Message, Calls]:
    """The model's own message, made fit to send back into the conversation, and its calls.

    For a stream this is the message that the stream does not bring. All parts stay as they came, and so does each
    ``thought_signature``, without which newer models refuse a call.

    Args:
        calls: The result of `calls`.
        registry: As with `calls`: its names are sent as the provider knows them.

    Returns:
        ``{"role": "model", "parts": […]}`` and the calls. Arguments that are not an object stand in one, under
        ``invalid_json``.
    """
    return fit_message(calls, lambda given: _make_message(given, registry))


def _make_message(calls: Calls, registry: Pipeline | ToolView | None) -> tuple[Message, Calls]:
    fitted: list[Call] = []
    asked: list[dict[str, Any]] = []
    for call, name in zip(calls, fit_names(calls, registry, GEMINI), strict=True):
        id_ = text_or_empty(call.id)
        signature = {_ECHOED: call.wire[_ECHOED]} if _ECHOED in call.wire else {}
        function = {"name": name, "args": fit_arguments(call), **({"id": id_} if id_ else {})}
        asked.append({"function_call": function, **signature})
        fitted.append(with_wire(evolve(call, id=id_), {**signature, "name": name}))
    came = own_message(calls, FORM)
    if came is not None:
        parts = fit_parts(came, calls, _identify, lambda place, part: {**part, **asked[place]})
    else:
        parts = [*([{"text": calls.text}] if calls.text.strip() else []), *asked]
    parts = [part for part in parts if part and isinstance(part.get("text", ""), str)]
    return {"role": "model", "parts": parts or [{"text": NOTHING}]}, calls.with_calls(fitted)


def result(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> AnswerPart:
    """The part that answers a call.

    Args:
        call: The call, for its id and its name.
        outcome: The outcome of the call. `pipeline.render` makes the text, which is never blank.
        text: This text instead, such as one that `pipeline.render` made in another profile. Default None.
        wording: Another wording. Default None: that of the call, else that of the error, else the default.

    Returns:
        ``{"function_response": {"id", "name", "response"}}``, without an id for a call that has none. The response is
        ``{"output": text}``, and ``{"error": text}`` for every failure and for an MCP result that says that it is an
        error. An image (PNG, JPEG, WebP) or a PDF file is mentioned in the text, and included in ``parts``, which the
        models from Gemini 3 on take. Other parts are mentioned.
    """
    said: list[Part] = to_parts(with_sent_names(outcome, GEMINI), call, wording) if text is None else [text]
    blobs = [{"inline_data": blob} for part in said if (blob := _to_blob(part)) is not None]
    name = text_or_empty(call.wire.get("name")) or make_provider_name(text_or_empty(call.name), GEMINI)
    response = {"error" if says_error(outcome) else "output": join_parts(said)}
    answer = {"name": name, "response": response, **({"parts": blobs} if blobs else {})}
    return {"function_response": {"id": call.id, **answer} if call.id else answer}


def message(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Message:
    """The message that answers the only call of a reply: ``{"role": "user", "parts": [result]}``."""
    return {"role": "user", "parts": [result(call, outcome, text=text, wording=wording)]}


def messages(answered: Iterable[tuple[Call, Outcome[Any]]]) -> Message:
    """The one message that answers all calls of a reply, which this API wants in one.

    Args:
        answered: Each call of the reply with its outcome, in the order of the calls: those without ids are
            distinguished by it.

    Raises:
        SetupError: ``answered`` holds something else than pairs.
    """
    return {"role": "user", "parts": [result(call, outcome) for call, outcome in check_pairs(answered)]}


def repair(messages: list[Any]) -> tuple[list[Message], list[HistoryChange]]:
    """Repair a conversation that the provider refuses, such as one that was cut; as `openai.repair` does."""
    found, changes = match(
        split_turns(list_messages(messages), "model", "parts", _read_part),
        _set_calls,
        _set_name,
        lambda call: result(call, MISSING),
        pattern=None,
    )
    return (join_turns(found, "parts") if changes else messages), changes


def _read_part(part: object) -> Call | tuple[str, str] | None:
    if (asked := find_field(part, "function_call", "functionCall")) is not None:
        id_, name = _read_names(asked)
        return Call(name, get_field(asked, "args"), id_)
    answer = find_field(part, "function_response", "functionResponse")
    return None if answer is None else _read_names(answer)


def _read_names(thing: object) -> tuple[str, str]:
    return text_or_empty(get_field(thing, "id")), text_or_empty(get_field(thing, "name"))


def _set_calls(message: dict[str, Any], calls: list[Call]) -> dict[str, Any]:
    made = iter(zip(calls, fit_names(Calls(calls), None, GEMINI), strict=True))
    parts: list[Any] = []
    for part in list_items(message.get("parts")):
        key = next((each for each in ("function_call", "functionCall") if get_field(part, each) is not None), None)
        if key is not None:
            call, name = next(made)
            parts.append({**part, key: {**dict_or_empty(part[key]), "name": name, "args": fit_arguments(call)}})
        elif dict_or_empty(part) and isinstance(part.get("text", ""), str):
            parts.append(part)
    return {**message, "parts": parts or [{"text": NOTHING}]}


def _set_name(part: dict[str, Any], call: Call) -> dict[str, Any]:
    key = next(each for each in ("function_response", "functionResponse") if get_field(part, each) is not None)
    return {**part, key: {**dict_or_empty(part[key]), "name": call.name}}


def _to_blob(part: Part) -> dict[str, str] | None:
    media = find_media(part)
    if media is None or media.media_type == "image/gif":
        return None
    return {"mime_type": media.media_type, "data": media.base64}


def _identify(part: object) -> tuple[object, object] | None:
    asked = get_field(part, "function_call")
    return None if asked is None else (get_field(asked, "id"), get_field(asked, "args"))


def _read(given: object) -> Reading:
    reply = open_reply(given, providers.GEMINI)
    if isinstance(reply, str):
        return Reading([], reply)
    chunks, nothing = read_chunks(reply, providers.GEMINI)
    return Reading([], error=nothing) if nothing is not None else read_responses(chunks)
