"""The definition of an MCP tool, as it stands in the result of ``tools/list``, made a Tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from typing_extensions import Unpack

from ..errors import SetupError
from ..tools import Tool
from ..tools.tool_options import ToolOptions


def read_name(definition: object) -> str | None:
    """The name of a tool; None: it has none, so nobody can call it."""
    name: Any = cast("Mapping[str, Any]", definition).get("name") if isinstance(definition, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


def make_tool(
    name: str,
    definition: Mapping[str, Any],
    handler: Callable[..., Awaitable[object]],
    **options: Unpack[ToolOptions],
) -> tuple[Tool[..., Any], str]:
    """Make a tool whose body is a call of the server.

    Args:
        name: The name that it gets here.
        definition: As it came from the server.
        handler: Called with a ToolContext and the arguments by keyword.
        **options: Those of `Tool.from_schema`.

    Returns:
        The tool, and what is wrong with its schema: then any object is accepted, and the server validates alone. "":
        nothing is wrong.

    Raises:
        SetupError: The options contradict each other.
    """
    description = definition.get("description")
    text = description if isinstance(description, str) else ""
    try:
        schema = definition.get("inputSchema")
        tool = Tool.from_schema(
            name=name, parameters=schema, handler=handler, description=text, context=True, **options
        )
    except SetupError as exc:
        tool = Tool.from_schema(name=name, parameters=None, handler=handler, description=text, context=True, **options)
        return tool, str(exc)
    return tool, ""
