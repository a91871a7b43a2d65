"""What gateways put around a reply, or around each event of a stream: it is opened, whoever put it there.

Batches of OpenAI and Anthropic, Gemini's Code Assist, RunPod, DashScope and Lambda each have one; proxies that do not
parse hand the text of server-sent events on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from ..base.nesting import refuse_deep
from .common import get_field, is_dict, list_items, read_events, to_plain
from .providers import Provider, is_reply

_KEYS = ("response", "data", "result", "body", "payload", "reply", "completion", "message", "output")
_NAMES = frozenset(_KEYS)
_MOST = 4  # in each other
_DATA = "data:"  # of a line of server-sent events


def open_reply(given: Any, ours: Provider) -> Any:
    """A reply as plain data, without what a gateway put around it; anything else, and a reply of ``ours``, as it is."""
    reply = to_plain(given)
    if is_dict(reply) and (_NAMES.isdisjoint(reply) or ours.owns(reply)):  # most replies
        return reply
    if isinstance(reply, str):
        events = _read_lines(reply)
        reply = reply if not events else events[0] if len(events) == 1 else events
    if isinstance(reply, (list, tuple)) and len(list_items(reply)) == 1 and _is_whole(only := to_plain(reply[0])):
        return only
    return _open(reply, _MOST)


def open_events(reply: object) -> Iterable[Any]:
    """The events of a stream as plain data, see `read_events`, each without what a gateway has put around it."""
    for event in read_events(reply):
        if isinstance(event, (str, bytes)):
            text = event if isinstance(event, str) else event.decode(errors="replace")
            found = _read_lines(text)
            yield from found if found or _is_empty(text) else [event]
        else:
            yield _open(event, _MOST)


def _open(reply: Any, most: int) -> Any:
    """The reply that stands in this one, under whatever names; itself, if there is none."""
    if (
        not is_dict(reply)
        or _NAMES.isdisjoint(reply)
        or is_reply(reply)
        or "finish_reason" in reply
        or _is_of_ollama(reply)
    ):
        return reply
    for key in _KEYS:
        inner = _find_inner(to_plain(reply.get(key)), key)
        found: Any = _open(inner, most - 1) if most else inner
        if is_dict(found) and (
            is_reply(found) or found.get("error") or (key == "message" and found.get("role") == "assistant")
        ):
            return found
    return reply


def _find_inner(value: Any, key: str) -> Any:
    """What stands under a name: a reply, one as text, or the only one in a list."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _read_json(value)
    items = list_items(value) if key != "message" and isinstance(value, (list, tuple)) else ()
    only: Any = to_plain(items[0]) if len(items) == 1 else None
    if _is_whole(only):
        return only
    return cast("Any", value)


def _is_whole(reply: object) -> bool:
    """Whether it is a whole reply, and no event or item of one."""
    first = next(iter(list_items(get_field(reply, "choices"))), None)
    kinds = (get_field(reply, "object"), get_field(reply, "type"))
    return get_field(first, "message") is not None or "response" in kinds or ("message" in kinds and is_reply(reply))


def _is_of_ollama(reply: dict[str, Any]) -> bool:
    """Whether the message in it is one of Ollama, whose calls have neither an id nor a type."""
    asked = [to_plain(each) for each in list_items(get_field(reply.get("message"), "tool_calls"))]
    return bool(asked) and not any(get_field(each, "id") or get_field(each, "type") for each in asked)


def _is_empty(text: str) -> bool:
    """Whether text of a stream says nothing: a comment, the name of an event, or the end."""
    lines = [line.removeprefix(_DATA).strip() for line in text.splitlines()]
    return all(not line or line == "[DONE]" or line.startswith((":", "event:", "id:", "retry:")) for line in lines)


def _read_lines(text: str) -> list[Any]:
    """The replies or events in text: one as JSON, or the lines of server-sent events; none: it is other text."""
    lines = [line.strip() for line in text.splitlines()] if _DATA in text else [text.strip()]
    read = [_read_json(line.removeprefix(_DATA).strip()) for line in lines if line.startswith((_DATA, "{"))]
    found = [_open(each, _MOST) for each in read if is_dict(each)]
    return found if _DATA in text or any(map(_is_answer, found)) else []


def _is_answer(found: dict[str, Any]) -> bool:
    """Whether it is a reply, or an error of one. Calls alone are no reply: a model wrote them as text."""
    return "error" in found or (is_reply(found) and (found.keys() != {"tool_calls"}))


def _read_json(text: str) -> Any:
    try:
        return json.loads(refuse_deep(text))
    except ValueError:
        return None
