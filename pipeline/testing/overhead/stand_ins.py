"""Stand-ins for the bodies of tools, which must not run thousands of times."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import attrs

from ...introspection import is_async
from ...tools import Tool

_PATCHED = ("fn", "run_in", "anywhere")
_RUN_HERE = ("loop", "thread")  # a body in another process cannot be replaced from this one


@attrs.define(eq=False)
class Bodies:
    """What takes the place of the bodies of all tools.

    Args:
        values: What a tool returns, by its name. Default for each: None.
        reply: What every body returns instead. An exception is raised; a function is called before the value is
            returned. None: the values.
        begun: How many bodies have begun.
    """

    values: dict[str, object] = attrs.field(factory=dict[str, object])
    reply: object = None
    begun: int = 0

    def make(self, tool: Tool[..., Any]) -> Callable[..., Any]:
        """A body for that tool, async if its own is."""

        def answer(*_: object, **__: object) -> object:
            self.begun += 1
            if self.reply is None:
                return self.values.get(tool.name)
            if isinstance(self.reply, BaseException):
                raise self.reply.with_traceback(None)
            if not callable(self.reply):
                return self.reply
            self.reply()
            return self.values.get(tool.name)

        async def answer_later(*_: object, **__: object) -> object:
            return answer()

        return answer_later if is_async(tool.fn) else answer


@contextmanager
def replace_bodies(tools: Iterable[Tool[..., Any]], bodies: Bodies) -> Generator[None]:
    """Put a stand-in in the place of each tool's body, inside the block.

    A tool keeps its effect and its thread, so the stages do what they do for the real one. One that runs in another
    process or on another machine runs in the event loop instead.
    """
    before = [(tool, [getattr(tool, name) for name in _PATCHED]) for tool in tools]
    try:
        for tool, (_, run_in, _) in before:
            tool.fn = bodies.make(tool)
            tool.run_in = run_in if run_in in _RUN_HERE else "loop"
            tool.anywhere = False
        yield
    finally:
        for tool, values in before:
            for name, value in zip(_PATCHED, values, strict=True):
                setattr(tool, name, value)


@contextmanager
def all_in_loop(tools: Iterable[Tool[..., Any]]) -> Generator[None]:
    """Let sync tools run in the event loop, inside the block.

    The way to a thread and back costs more than most stages, and not always the same.
    """
    moved = [tool for tool in tools if tool.run_in == "thread"]
    try:
        for tool in moved:
            tool.run_in = "loop"
        yield
    finally:
        for tool in moved:
            tool.run_in = "thread"
