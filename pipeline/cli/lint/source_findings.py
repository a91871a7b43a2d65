"""Findings in the user's source: in texts for a model, and in exceptions whose text a model may see."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import attrs

from ...introspection import unwrap
from ...tools.definition import Tool
from ..terminal_text import shorten_path
from .findings import Finding, Severity, quote
from .source_texts import EXCEPTION, SourceReader, SourceText

_MAX_NAMES = 5  # tools to list in one finding
# For each flaw, how bad it is and what to do. Only a warning where the text may be about a path or an address.
_FLAWS: dict[str, tuple[Severity, str]] = {
    "status code": ("error", "say in words what happened and what to do"),
    "class name": ("error", "say in words what went wrong; the log has the class"),
    "stack": ("error", "remove it; the log has the stack"),
    "path": ("warning", "name only paths that the model sent"),
    "url": ("warning", "name only addresses that the model can use"),
    EXCEPTION: ("warning", "write a text of your own; nobody knows what an exception will say"),
}


@attrs.define
class Sources:
    """What was read in the modules of the tools' functions.

    Args:
        texts: The texts for a model.
        declared: Whether the source of a tool gives an effect; a tool is absent if that cannot be seen.
        files: How many files were read.
        unread: Tools whose source cannot be found.
    """

    texts: list[SourceText] = attrs.field(factory=list[SourceText])
    declared: dict[str, bool] = attrs.field(factory=dict[str, bool])
    files: int = 0
    unread: list[str] = attrs.field(factory=list[str])


def read_sources(tools: Iterable[Tool[..., Any]]) -> Sources:
    """Read the module of each tool's function. Never raises for source that cannot be found, read or parsed."""
    sources = Sources()
    by_module: dict[str, list[Tool[..., Any]]] = {}
    for tool in tools:
        by_module.setdefault(str(getattr(unwrap(tool.fn), "__module__", "")), []).append(tool)
    for name, its_tools in by_module.items():
        module = sys.modules.get(name)
        try:
            file = inspect.getsourcefile(cast("ModuleType", module)) or ""
            tree = ast.parse(Path(file).read_bytes())
        except (OSError, TypeError, SyntaxError, ValueError):
            sources.unread += [tool.name for tool in its_tools]
            continue
        reader = SourceReader(cast("ModuleType", module), shorten_path(file), its_tools, tree)
        sources.files += 1
        sources.texts += reader.texts
        sources.declared |= reader.declared
    return sources


def check_sources(sources: Sources, tools: Iterable[Tool[..., Any]]) -> Iterator[Finding]:
    """The findings in the texts, then one for each tool with ``reveal=``, then one for the tools without source."""
    for text in sources.texts:
        for flaw in text.flaws:
            severity, fix = _FLAWS[flaw]
            what = f"an error text contains {'' if flaw == EXCEPTION else 'a '}{flaw}: {quote(text.text)}"
            yield Finding(severity, "text", text.tool, what, fix, text.place)
    for tool in tools:
        if tool.reveal:
            names = ", ".join(each.__name__ for each in tool.reveal)
            fix = "make sure that these texts are meant for a model"
            if any(issubclass(each, OSError) for each in tool.reveal):
                fix = "a system error names the whole path: raise ToolFailed where a model must not see it"
            yield Finding("note", "expect", tool.name, f"reveal= shows a model the texts of {names}", fix)
    if sources.unread:
        more = len(sources.unread) - _MAX_NAMES
        names = ", ".join(sources.unread[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        what = f"no source found for {names}: error texts there were not checked"
        yield Finding("note", "source", "", what, "nothing, if the code is not yours")
