"""Events as server-sent events, the format that ``EventSource`` in a browser reads (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import json
import re

from .event_rows import Event

_LINE_END = re.compile(r"\r\n|\r|\n")
_NO_FIELD = re.compile(r"[\r\n\0]")


def encode_sse(event: Event) -> bytes:
    """Encode an event, for a response of the media type ``text/event-stream``.

    The data is a JSON object with ``at``, ``call_id``, ``tool`` and ``data``. A browser that comes back sends the id of
    the last event that it got as ``Last-Event-ID``; `Events.read` goes on after it.

    Returns:
        The lines ``id`` (if the event has one), ``event`` and ``data``, and an empty line.
    """
    body = {"at": event.at, "call_id": event.call_id, "tool": event.tool, "data": event.data}
    lines = [f"id: {_to_line(event.id)}"] if event.id else []
    lines.append(f"event: {_to_line(event.name)}")
    text = json.dumps(body, default=str, skipkeys=True)
    lines += [f"data: {line}" for line in _LINE_END.split(text)]
    return "\n".join([*lines, "", ""]).encode()


def _to_line(text: str) -> str:
    """The text without what would end its line, or make a browser ignore it: an event may be made by hand."""
    return _NO_FIELD.sub("", text)
