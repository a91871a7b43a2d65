"""The parts of a tool's result: parts as they are, bytes, MCP results and content blocks, and lists of these.

No MCP package is imported. Dicts and objects are read alike, in the spelling of the protocol and of its Python package.
Source: https://modelcontextprotocol.io/specification (server/tools, "Tool Result").
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs

from ..base.foreign_values import or_default
from .parts import PARTS, Link, Part, describe_bytes, make_part, read_bytes
from .text import shorten
from .values import SCALARS, as_text

_RESULT_KEYS = frozenset(
    ("content", "structuredContent", "structured_content", "isError", "is_error", "_meta", "meta", "resultType")
)
_MCP_KEYS = frozenset(("content", "type"))  # a result or a block has one of these
_COMMON_KEYS = frozenset(("type", "annotations", "_meta", "meta"))
_BLOCK_CLASSES = frozenset(("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink"))


@attrs.frozen
class McpResult:
    """The result of an MCP tool."""

    parts: list[Part]  # the structured value as JSON if the content has no text
    structured: Any
    is_error: bool


@or_default(None)
def read_mcp(value: object) -> McpResult | None:
    """Read a tool result, or a single content block, as parts; None for any other value. Never raises."""
    if _is_row(value):
        return None
    return _read_result(value) if _is_result(value) else _read_single(value)


def _is_row(value: object) -> bool:
    """Whether it is a dict without the keys of MCP, such as a row of a table: a cheap test, since there may be many."""
    return type(value) is dict and _MCP_KEYS.isdisjoint(cast("dict[Any, Any]", value))


def _is_result(value: object) -> bool:
    if isinstance(value, Mapping):
        keys = list(cast("Mapping[object, object]", value))
        return all(isinstance(key, str) and key in _RESULT_KEYS for key in keys) and _is_content(cast("object", value))
    return type(_get(value, "isError", "is_error")) is bool and _is_content(value)


def _is_content(value: object) -> bool:
    content = _get(value, "content")
    if type(content) not in (list, tuple):
        return False
    blocks = cast("list[object]", content)
    structured = _get(value, "structuredContent", "structured_content")
    return all(isinstance(_get(block, "type"), str) for block in blocks) and (
        any(_read_block(block) is not None for block in blocks) or (not blocks and structured is not None)
    )


def _read_result(value: object) -> McpResult:
    structured = _get(value, "structuredContent", "structured_content")
    parts: list[Part] = []
    for block in _get(value, "content"):
        part = _read_block(block)
        parts.append(as_text(block) if part is None else part)
    if structured is not None and not any(isinstance(part, str) and part.strip() for part in parts):
        parts.append(as_text(structured))
    is_error = _get(value, "isError", "is_error") is True
    return McpResult(_mark_error(parts) if is_error else parts, structured, is_error)


def _read_single(value: object) -> McpResult | None:
    if isinstance(value, Mapping):
        keys = cast("Mapping[object, object]", value)
        read = _KINDS.get(_get(keys, "type"))
        if read is None or not all(key in _COMMON_KEYS or key in read.keys for key in keys):
            return None
    elif type(value).__name__ not in _BLOCK_CLASSES:
        return None
    part = _read_block(cast("object", value))
    return None if part is None else McpResult([part], None, is_error=False)


def _mark_error(parts: list[Part]) -> list[Part]:
    first = next((place for place, part in enumerate(parts) if isinstance(part, str) and part.strip()), None)
    if first is None:
        return ["Error: The tool failed.", *parts]
    text = cast("str", parts[first]).lstrip()
    marked = text if text[:5].lower() == "error" else f"Error: {text}"
    return [*parts[:first], marked, *parts[first + 1 :]]


def _read_block(block: object) -> Part | None:
    kind = _get(block, "type")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    return None if read is None else read.part(block)


def _read_text(block: object) -> Part | None:
    text = _get(block, "text")
    return text if isinstance(text, str) else None


def _read_data(block: object) -> Part | None:
    data, media_type = _get(block, "data"), _get(block, "mimeType", "mime_type")
    return _decode(data, media_type) if isinstance(data, str) and isinstance(media_type, str) else None


def _read_resource(block: object) -> Part | None:
    inside = _get(block, "resource")
    text, blob = _get(inside, "text"), _get(inside, "blob")
    if isinstance(text, str):
        return text
    media_type = _get(inside, "mimeType", "mime_type")
    name = _text(_get(inside, "uri")).rpartition("/")[2]
    return _decode(blob, media_type if isinstance(media_type, str) else "", name) if isinstance(blob, str) else None


def _read_link(block: object) -> Part | None:
    uri = _text(_get(block, "uri"))
    name = _text(_get(block, "title")) or _text(_get(block, "name"))
    about, media_type = _text(_get(block, "description")), _text(_get(block, "mimeType", "mime_type"))
    return Link(uri, name, about, media_type) if uri else None


def _decode(base64: str, media_type: str, name: str = "") -> Part:
    try:
        data = b64decode(base64, validate=True)
    except (Base64Error, ValueError):
        return f"(a file that cannot be read: its base64 is not valid, {shorten(media_type)})"
    if not media_type and (part := read_bytes(data)) is not None:
        return part
    if media_type.startswith("text/") or media_type == "application/json":
        text = read_bytes(data)
        if isinstance(text, str):
            return text
    return make_part(media_type or "application/octet-stream", data, name)


def _get(thing: object, *names: str) -> Any:
    """Return the first of the keys or attributes that exists and is not None."""
    if type(thing) is dict:  # most are, and a class that is abstract takes its time to ask
        held = cast("dict[Any, Any]", thing)
        if len(names) == 1:
            return held.get(names[0])
        return next((found for name in names if (found := held.get(name)) is not None), None)
    if isinstance(thing, Mapping):
        return next((found for name in names if (found := cast("Any", thing).get(name)) is not None), None)
    return next((found for name in names if (found := getattr(thing, name, None)) is not None), None)


def _text(value: object) -> str:
    """Return a text, or a URL of its own class, as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)


@attrs.frozen
class _Kind:
    part: Callable[[object], Part | None]
    keys: frozenset[str]


_KINDS = {
    "text": _Kind(_read_text, frozenset(("text",))),
    "image": _Kind(_read_data, frozenset(("data", "mimeType", "mime_type"))),
    "audio": _Kind(_read_data, frozenset(("data", "mimeType", "mime_type"))),
    "resource": _Kind(_read_resource, frozenset(("resource",))),
    "resource_link": _Kind(
        _read_link,
        frozenset(("uri", "name", "title", "description", "mimeType", "mime_type", "size", "icons")),
    ),
}


_NO_PARTS = SCALARS | {list, tuple}  # parts in a list inside a list are only mentioned
_ROWS = _NO_PARTS | {dict}
_BYTES = (bytes, bytearray)


def find_parts(value: object, *, with_bytes: bool = False) -> list[Part] | None:
    """Return the parts of a part, an MCP result, or a list that contains one; None for any other value."""
    kind = type(value)  # `isinstance` would ask the value itself, which may raise
    if kind in SCALARS:
        return None
    if issubclass(kind, PARTS):
        return [cast("Part", value)]
    if with_bytes and issubclass(kind, _BYTES):
        data = bytes(cast("bytes", value))
        return [read_bytes(data) or (describe_bytes(data) if data else "")]
    if kind not in (list, tuple):
        return None if (result := read_mcp(value)) is None else result.parts
    each = cast("list[Any]", value)
    if set(map(type, each)) <= _ROWS and all(type(item) is not dict or _MCP_KEYS.isdisjoint(item) for item in each):
        return None
    found = [None if type(item) in _NO_PARTS else find_parts(item, with_bytes=with_bytes) for item in each]
    if all(parts is None for parts in found):
        return None
    return [part for item, parts in zip(each, found, strict=True) for part in (parts or [as_text(item)])]
