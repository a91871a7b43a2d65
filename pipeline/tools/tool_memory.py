"""ToolMemory: what a stage knows of each tool, for as long as the tool lives."""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import ReferenceType, ref

from .definition import Tool

T = TypeVar("T")


class ToolMemory(dict[int, T]):
    """Facts by the ids of tools. A fact goes with its tool, so that a server that changes its tools fills no memory.

    A WeakKeyDictionary does the same, and a look-up in it costs as much as the stages that ask here.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tools: dict[int, ReferenceType[Tool[..., Any]]] = {}

    def remember(self, tool: Tool[..., Any], fact: T) -> T:
        """Keep a fact of a tool; returns the fact."""
        key, memory = id(tool), ref(self)  # a tool may outlive the memory, and does not keep it

        def forget(_gone: ReferenceType[Tool[..., Any]]) -> None:
            """Remove the fact before another tool can get the id."""
            if (there := memory()) is not None:
                there.pop(key, None)
                there._tools.pop(key, None)  # noqa: SLF001  # of this class

        self[key] = fact
        self._tools[key] = ref(tool, forget)
        return fact

    def __reduce__(self) -> tuple[type[ToolMemory[T]], tuple[()]]:
        return type(self), ()  # an id means nothing in another process
