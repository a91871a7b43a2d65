"""Mistral's API: OpenAI's format, with ids of nine characters, other finish reasons and messages of its own.

Replies may be plain dicts or objects of the ``mistralai`` package, which is not imported. The functions return plain
dicts. They are typed ``Any``, which fits every type that a release of the package may ask for.

Source: https://docs.mistral.ai/capabilities/function_calling and https://docs.mistral.ai/api.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

import attrs

from ..base.provider_names import OPENAI, make_provider_name
from ..engine.call import Call, Outcome, set_caller
from ..messages import Wording
from ..tools.view import ToolView
from . import openai, providers
from .common import build_definitions, is_stream, list_items, read_events, text_or_empty
from .history import MISSING, HistoryChange, list_messages, match
from .openai_chat import make_message, set_calls, split_chat
from .replies import Calls, TextForms
from .schema_fitting import fit_definitions
from .sending_back import fit_calls, fit_message, fit_names

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

Definition: TypeAlias = Any  # a dict, described at `openai.tools`
Message: TypeAlias = Any  # a dict, described at `message`

_ID = re.compile(r"[a-zA-Z0-9]{9}")  # the API refuses any other
_OURS = attrs.evolve(providers.OPENAI, name="Mistral")  # its replies, once they are plain, are those of OpenAI
_NO_ID = "null"  # how the package says that there is none


def tools(registry: ToolView) -> list[Definition]:
    """Definitions of the tools that may be called now, for ``tools=``, in the form of OpenAI's chat completions.

    Args:
        registry: The tools. A name that the provider would refuse is sent in a form that it accepts.
    """
    definitions = fit_definitions(build_definitions(registry, OPENAI, "parameters"), "parameters", "mistral")
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
    """The calls of a reply, in its order.

    Args:
        reply: A completion or its message, the list of its tool calls, or the list or iterator of a stream's events or
            chunks. Collect an async stream first.
        registry: As with `openai.calls`.
        text: As with `openai.calls`.
        principal: As with `openai.calls`.
        deps: As with `openai.calls`.
        conversation: As with `openai.calls`.

    Returns:
        The calls, as with `openai.calls`. ``finish_reason`` is ``length`` for ``model_length`` as well.

    Raises:
        SetupError: As with `openai.calls`.
    """
    reading = openai.read_reply(_to_plain(reply), _OURS)
    return set_caller(reading.to_calls(registry, providers.OPENAI, text=text), principal, deps, conversation)


def send_back(calls: Calls, registry: Pipeline | ToolView | None = None) -> tuple[Message, Calls]:
    """The model's own message, made fit to send back into the conversation, and its calls with the ids that it has.

    The API refuses a conversation with an id that it could not have given: nine letters and digits.

    Args:
        calls: The result of `calls`.
        registry: As with `calls`: its names are sent as the provider knows them.

    Returns:
        The message and the calls. Arguments that are not an object stand in one, under ``invalid_json``.
    """

    def make(given: Calls) -> tuple[Message, Calls]:
        fitted, names = fit_calls(given, registry, OPENAI, _new_id, _ID)
        return make_message(given, fitted, names), fitted

    return fit_message(calls, make)


def message(call: Call, outcome: Outcome[Any], *, text: str | None = None, wording: Wording | None = None) -> Message:
    """The message that answers one call: ``{"role": "tool", "tool_call_id", "name", "content"}``.

    Args:
        call: The call, for its id and its name.
        outcome: As with `openai.message`. Parts that are not text are only mentioned.
        text: As with `openai.message`.
        wording: As with `openai.message`.
    """
    answer = openai.message(call, outcome, text=text, wording=wording)
    return {**answer, "name": make_provider_name(text_or_empty(call.name), OPENAI)}


def repair(messages: list[Any]) -> tuple[list[Message], list[HistoryChange]]:
    """Repair a conversation that the provider refuses, such as one that was cut; as `openai.repair` does."""
    found, changes = match(
        split_chat(list_messages(messages)),
        lambda said, calls: set_calls(said, calls, fit_names(Calls(calls), None, OPENAI)),
        lambda said, call: {**said, "tool_call_id": call.id, **({"name": call.name} if said.get("name") else {})},
        lambda call: message(call, MISSING),
        make_id=_new_id,
        pattern=_ID,
    )
    return ([unit.data for unit in found] if changes else messages), changes


def _new_id() -> str:
    return uuid4().hex[:9]


def _to_plain(reply: Any) -> object:
    """The reply as dicts without what is not set: the package marks that with objects, which are not None."""
    if hasattr(reply, "model_dump") or not is_stream(reply):  # an object of the package can be iterated as well
        return _clean(reply)
    read_events(reply)  # refuses one that has to be awaited first
    return [_clean(event) for event in reply]


def _clean(reply: object) -> object:
    """One reply, or an event of a stream, as dicts; an id that says that there is none is left out."""
    dump = getattr(reply, "model_dump", None)
    plain: Any = reply if dump is None else dump(mode="json")
    return _without_ids(plain)


def _without_ids(plain: Any) -> Any:
    if isinstance(plain, dict):
        given = cast("dict[str, Any]", plain)
        kept = {key: value for key, value in given.items() if not (key == "id" and value == _NO_ID)}
        walked = ("data", "choices", "message", "delta", "tool_calls")
        return {key: _without_ids(value) if key in walked else value for key, value in kept.items()}
    return [_without_ids(each) for each in list_items(cast("Any", plain))] if isinstance(plain, list) else plain
