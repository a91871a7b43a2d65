"""Finds the parts in what a tool returned."""

from __future__ import annotations

from typing import cast

from .mcp_content import read_mcp
from .parts import PARTS, Part, describe_bytes, read_bytes
from .values import as_text

_NO_PARTS = frozenset((str, int, bool, float, type(None), list, tuple))  # of lists in a list, the parts are mentioned
_BYTES = (bytes, bytearray)


def find_parts(value: object, *, with_bytes: bool = False) -> list[Part] | None:
    """The parts of a value that is made of parts: a part, an MCP result, a list that holds one; None for any other.

    Args:
        value: Any value.
        with_bytes: Bytes are a part as well, see `read_bytes`. Default False: they are data as any other.
    """
    kind = type(value)  # `isinstance` would ask the value itself, which may raise
    if issubclass(kind, PARTS):
        return [cast("Part", value)]
    if with_bytes and issubclass(kind, _BYTES):
        data = bytes(cast("bytes", value))
        return [read_bytes(data) or (describe_bytes(data) if data else "")]
    if kind not in (list, tuple):
        return None if (result := read_mcp(value)) is None else result.parts
    each = cast("list[object]", value)
    found = [None if type(item) in _NO_PARTS else find_parts(item, with_bytes=with_bytes) for item in each]
    if all(parts is None for parts in found):
        return None
    return [part for item, parts in zip(each, found, strict=True) for part in (parts or [as_text(item)])]
