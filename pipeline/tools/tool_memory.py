"""ToolMemory: what a stage knows of tools by what it judges them by."""

from __future__ import annotations

from typing import Any, Final, TypeVar, get_args

from .definition import Tool
from .tool_options import Effect

T = TypeVar("T")
_REMEMBERED: Final = 16_384  # names of one effect: a server may change its tools without end


class ToolMemory(dict[str, dict[str, T]]):
    """Facts that follow from the effect and the name of a tool: ``memory[tool.effect].get(tool.name)``.

    It keeps texts and no tools, so that a tool which was replaced can go.
    """

    def __init__(self) -> None:
        super().__init__({effect: {} for effect in get_args(Effect)})

    def remember(self, tool: Tool[..., Any], fact: T) -> T:
        """Keep a fact, in place of all others of the effect if there are too many; returns the fact."""
        known = self[tool.effect]
        if len(known) >= _REMEMBERED:
            known.clear()
        known[tool.name] = fact
        return fact
