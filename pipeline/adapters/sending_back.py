"""The model's own calls, made fit to send back: providers and chat templates refuse what is not well formed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import attrs
from pydantic_core import to_json

from ..base.nesting import MOST_LEVELS, is_deep, refuse_deep
from ..engine.call import Call
from ..messages.values import to_data
from ..parameters.exact_json import refuse_constant
from ..tools.view import ToolView
from .common import dict_or_empty, is_dict, join_surrogates, read_source, text_or_empty
from .replies import Calls

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

# Anthropic's characters and OpenAI's length; LiteLLM puts a signature of Gemini behind the id, and wants it back there.
_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}(?:__thought__[a-zA-Z0-9_=+/-]+)?")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 64
_KEY = "invalid_json"  # what the model wrote in place of an object stands under this name


def new_id() -> str:
    """An id of a call that no other call has."""
    return f"call_{uuid4().hex[:24]}"


def fit_calls(
    calls: Calls,
    registry: Pipeline | ToolView | None,
    longest: int,
    make_id: Callable[[], str],
    pattern: re.Pattern[str] = _ID,
) -> tuple[Calls, list[str]]:
    """The calls with an id each that no other has, and the names that the provider takes."""
    fitted: list[Call] = []
    seen: set[str] = set()
    for call in calls:
        id_: Any = call.id
        if type(id_) is not str or not pattern.fullmatch(id_) or id_ in seen:
            id_ = make_id()
        seen.add(id_)
        fitted.append(call if id_ == call.id else attrs.evolve(call, id=id_))
    return calls.with_calls(fitted), fit_names(calls, registry, longest)


def fit_names(calls: Calls, registry: Pipeline | ToolView | None, longest: int) -> list[str]:
    """The names of the calls that the provider takes; see `fit_calls`."""
    known, _ = read_source("send_back", registry)
    sent = {} if known is None else known.provider_names(longest)
    names = [text_or_empty(call.name) for call in calls]
    return [sent.get(name) or _FORBIDDEN.sub("_", name)[:_MAX_NAME] or "unknown" for name in names]


def own_message(calls: Calls, form: str) -> Any:
    """The model's own message as it came; None: it is not known in this wire format, see `OwnMessage`."""
    return calls.message.data if calls.message is not None and calls.message.form == form else None


def fit_message(calls: Calls, make: Callable[[Calls], tuple[Any, Calls]]) -> tuple[Any, Calls]:
    """The message of these calls with texts that UTF-8 can say, see `clean`; and the calls with the ids in it.

    Args:
        calls: The result of ``calls`` of an adapter. Its own message is left out if it is nested too deeply.
        make: Makes the message, of what came and of what it is given, and the calls.
    """
    message, fitted = make(calls)
    if _is_clean(message):  # one look at all of it, in C
        return message, fitted
    if calls.message is not None and is_deep(calls.message.data):
        bare = calls.with_calls(calls)
        bare.message = None
        message, fitted = make(bare)
    return _clean(message), fitted


def without_nulls(part: Any, levels: int = 8) -> Any:
    """A part of a message, and those in it, without null fields: providers send them, not all take them."""
    if not is_dict(part):
        return part
    kept = {key: each for key, each in part.items() if each is not None}
    if not _OF_PARTS.isdisjoint(kept) and levels:
        kept |= {
            key: [without_nulls(each, levels - 1) for each in kept[key]]
            for key in _OF_PARTS
            if type(kept.get(key)) is list
        }
    return kept


def is_sound(part: object, fields: Mapping[str, Mapping[str, type]]) -> bool:
    """Whether a part has a type, and the fields that such a part has to have; of other types nothing is known."""
    given = dict_or_empty(part)
    kind = text_or_empty(given.get("type"))
    return bool(kind) and all(isinstance(given.get(name), each) for name, each in fields.get(kind, {}).items())


def clean(message: Any) -> Any:
    """The message with texts that UTF-8 can say: a pair of surrogates is one character, and half of one is �."""
    return message if _is_clean(message) else _clean(message)


def _is_clean(message: Any) -> bool:
    """Whether it can be written as it is, and not more than 200 levels are nested in it."""
    try:
        text = to_json(message)
    except Exception:  # noqa: BLE001  # a surrogate, too many levels, or what an object that is no data raises
        return False
    return text.count(b"{") + text.count(b"[") <= MOST_LEVELS or not is_deep(message)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return join_surrogates(value, errors="replace")
    if isinstance(value, Mapping):
        return {_clean(key): _clean(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    return [_clean(each) for each in cast("list[Any]", value)] if isinstance(value, (list, tuple)) else value


def fit_parts(
    came: Sequence[Any],
    calls: Calls,
    identify: Callable[[Any], tuple[object, object] | None],
    make: Callable[[int, Any], Any],
) -> list[Any]:
    """The parts of the model's own message, in their order, without nulls, and its calls as the provider takes them.

    A call that was taken out of the list is left out, and one that was put into it stands at the end.

    Args:
        came: The parts as they came.
        calls: The calls as `calls` of the adapter returned them: their ids are those that were sent.
        identify: Returns the id and the arguments of a part that is a call; None: it is none.
        make: Makes the part of a call, given its place in the list, from the part that came; an empty one: none came.
    """
    left = list(range(len(calls)))
    parts: list[Any] = []
    for each in came:
        # Most have neither nulls nor parts of their own.
        if is_dict(each) and (None in each.values() or not _OF_PARTS.isdisjoint(each)):
            part = without_nulls(each)
        else:
            part = each
        if (asked := identify(part)) is None:
            parts.append(part)
            continue
        for place in left:  # the first one, unless the list was changed
            if _is_same(calls[place], *asked):
                left.remove(place)
                parts.append(make(place, part))
                break
    return parts + [make(place, {}) for place in left]


def _is_same(call: Call, id_: object, arguments: object) -> bool:
    return call.id == id_ if id_ else call.id == "" and call.arguments == arguments


def fit_arguments(call: Call) -> dict[str, Any]:
    """The arguments as an object; text that is none stands in one, as it is."""
    arguments: Any = call.arguments
    if isinstance(arguments, str) and arguments.strip():
        arguments = _decode(arguments)
        if arguments is _NO_JSON:
            return {_KEY: call.arguments}
    if arguments is None or arguments == "" or isinstance(arguments, str):
        return {_KEY: arguments} if arguments and arguments.strip() else {}
    plain, _ = to_data(arguments)
    return cast("dict[str, Any]", plain) if isinstance(plain, dict) else {_KEY: plain}


_decoder = json.JSONDecoder(parse_constant=refuse_constant)
_read_json, _read_first = _decoder.decode, _decoder.raw_decode
_NO_JSON = object()
_OF_PARTS = frozenset(("content", "summary", "tool_calls"))  # where parts of a message stand


def _decode(text: str) -> object:
    try:
        if text[:1] == "{":
            found, end = _read_first(refuse_deep(text))
            if end == len(text):  # nothing stands around it
                return found
        return _read_json(refuse_deep(text))
    except ValueError:
        return _NO_JSON


def fit_arguments_text(call: Call) -> str:
    """The arguments as the JSON text of an object: as they were written, if they are one."""
    arguments: Any = call.arguments
    found = _decode(arguments) if isinstance(arguments, str) else None
    if isinstance(found, dict) and ((arguments.isascii() and "\\u" not in arguments) or clean(found) is found):
        return cast("str", arguments)
    return json.dumps(clean(fit_arguments(call)), ensure_ascii=False)


def fit_text(call: Call) -> str:
    """The input of a custom tool: the text that the model wrote."""
    return call.arguments if isinstance(call.arguments, str) else fit_arguments_text(call)
