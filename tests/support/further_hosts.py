"""A registry for the frameworks without an adapter: a right call, a failure in the author's words, a crash."""

from __future__ import annotations

from toolcall_pipeline import ToolFailed, ToolRegistry


def make_registry() -> ToolRegistry:
    """The tools ``double`` and ``fail``."""
    registry = ToolRegistry()

    @registry.tool(effect="read")
    def double(n: int) -> int:
        """Double."""
        return n * 2

    @registry.tool
    def fail(n: int) -> int:
        """Fail."""
        if n:
            raise ToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    return registry
