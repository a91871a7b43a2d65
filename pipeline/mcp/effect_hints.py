"""Annotations of an MCP tool, read as the effect of a tool.

Source: https://modelcontextprotocol.io/specification (schema, "ToolAnnotations"): they are hints, and "clients MUST
consider tool annotations to be untrusted unless they come from trusted servers".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ..tools import Effect


def read_effect(annotations: object, *, trusted: bool) -> Effect:
    """The effect that a server claims for a tool; ``mutating``, the careful one, where nothing is believed or said.

    Args:
        annotations: The ``annotations`` of the definition; anything that came.
        trusted: Whether the operator trusts the server. False: nothing is believed.
    """
    if not trusted or not isinstance(annotations, Mapping):
        return "mutating"
    hints = cast("Mapping[object, object]", annotations)
    if hints.get("readOnlyHint") is True:
        return "read"
    return "idempotent" if hints.get("idempotentHint") is True else "mutating"
