"""A tool for ``toolcall serve``, and its form for a server of the SDK alone."""

from __future__ import annotations

from dataclasses import dataclass

from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()


@dataclass
class Sum:
    """The result of `add`."""

    total: int


@tools.tool(effect="read")
async def add(x: int, y: int) -> Sum:
    """Add two numbers."""
    return Sum(x + y)
