"""A tool that is made a second time: in a notebook, under another name, or with another function."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, cast

import attrs

from ..errors import SetupError
from ..introspection import unwrap
from .definition import Tool
from .tool_options import default_run_in

_TYPED = re.compile(r"^<|ipykernel")  # the file of code that was typed: <stdin>, <ipython-input-1-…>, …/ipykernel_1/…


def is_same_cell(old: Tool[..., Any], new: Tool[..., Any]) -> bool:
    """Whether one function was defined twice where a person types: in a notebook, or at a prompt."""
    before = _find_typed(old)
    return before is not None and before == _find_typed(new)


def _find_typed(tool: Tool[..., Any]) -> str | None:
    """The qualified name of the tool's function, if a person typed it; None else."""
    plain = unwrap(tool.fn)
    code = getattr(plain, "__code__", None)
    is_typed = code is not None and plain.__module__ == "__main__" and _TYPED.search(code.co_filename)
    return plain.__qualname__ if is_typed else None


def add_prefix(tool: Tool[..., Any], prefix: str, names: Collection[str]) -> Tool[..., Any]:
    """Copy a tool with a prefix before its names.

    Args:
        tool: The tool.
        prefix: The prefix.
        names: The names of all tools that get it: such a name in ``verify_with`` gets it too.
    """
    return attrs.evolve(
        tool,
        name=f"{prefix}{tool.name}",
        aliases=tuple(f"{prefix}{alias}" for alias in tool.aliases),
        verify_with=f"{prefix}{tool.verify_with}" if tool.verify_with in names else tool.verify_with,
    )


def make_stand_in(own: Tool[..., Any], fake: Callable[..., Any]) -> Tool[..., Any]:
    """Copy a tool with another function, for `ToolRegistry.override`.

    Raises:
        SetupError: ``fake`` is no function.
    """
    if isinstance(fake, Tool):
        raise SetupError(f"override: `fake` must be a function, not the tool {fake.name!r}; take its `fn`")
    if not callable(cast("object", fake)):
        raise SetupError(f"override: `fake` must be a function, not {fake!r}")
    return attrs.evolve(own, fn=fake, run_in=default_run_in(fake), origin="", overrides=own.overrides or own)
