"""A registry for the frameworks without an adapter: a right call, a failure in the author's words, a crash."""

from __future__ import annotations

from toolcall_pipeline import ToolFailed, ToolRegistry

# A right call, one that is repaired, a failure in the author's words, a crash with a secret, and one that is refused.
CALLS: list[tuple[str, dict[str, object]]] = [
    ("double", {"n": 2}),
    ("double", {"n": "3"}),
    ("fail", {"n": 1}),
    ("fail", {"n": 0}),
    ("double", {}),
]


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


def check_told(told: list[tuple[str, bool]]) -> None:
    """Check the texts that the model reads for `CALLS`, and whether each is a failure in the framework's record."""
    texts, failed = zip(*told, strict=True)
    assert (texts[:2], failed) == (("4", "6"), (False, False, True, True, True))
    assert "Ask for fewer." in texts[2]
    assert "hunter2" not in texts[3]
    assert "Missing required parameter: n" in texts[4]
