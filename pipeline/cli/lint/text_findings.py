"""What ``toolcall lint`` finds in a user's own error texts."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import attrs

from ...introspection import behind
from ...tools.definition import Tool
from .error_texts import Rendered
from .source_texts import EXCEPTION, Reader, Told
from .tool_findings import Finding, Severity

_SHOWN = 60  # characters of a text
_MOST = 5  # names worth listing
# How bad it is, and what to do about it. A path or URL may be what the text is about.
_FLAWS: dict[str, tuple[Severity, str]] = {
    "status code": ("error", "say what happened, and what to do, in words"),
    "class name": ("error", "say what went wrong in words; the log has the class"),
    "stack": ("error", "leave it to the log, which has it anyway"),
    "path": ("warning", "tell no path that the model did not send"),
    "url": ("warning", "tell no address that the model cannot use"),
    EXCEPTION: ("warning", "write a text of your own: nobody knows what an exception will say"),
}


@attrs.define
class Source:
    """What was read in the modules that the tools' functions are in."""

    texts: list[Told] = attrs.field(factory=list[Told])
    declared: dict[str, bool] = attrs.field(factory=dict[str, bool])  # see `Reader`
    files: int = 0
    unread: list[str] = attrs.field(factory=list[str])  # tools whose source cannot be found


def read(tools: Iterable[Tool[..., Any]]) -> Source:
    """Of all these tools. Never raises for source that cannot be found, read or parsed."""
    source = Source()
    by_module: dict[str, list[Tool[..., Any]]] = {}
    for tool in tools:
        by_module.setdefault(str(getattr(behind(tool.fn), "__module__", "")), []).append(tool)
    for name, those in by_module.items():
        module = sys.modules.get(name)
        try:
            file = inspect.getsourcefile(cast("ModuleType", module)) or ""
            tree = ast.parse(Path(file).read_bytes())
        except (OSError, TypeError, SyntaxError, ValueError):
            source.unread += [tool.name for tool in those]
            continue
        reader = Reader(cast("ModuleType", module), _near(file), those, tree)
        source.files += 1
        source.texts += reader.texts
        source.declared |= reader.declared
    return source


def findings_of_texts(source: Source, tools: Iterable[Tool[..., Any]]) -> Iterator[Finding]:
    """Of the texts, then of exceptions whose text a model sees, then of the tools of which no source was read."""
    for told in source.texts:
        for flaw in told.flaws:
            severity, fix = _FLAWS[flaw]
            what = f"an error text holds {'' if flaw == EXCEPTION else 'a '}{flaw}: {_short(told.text)}"
            yield Finding(severity, "text", told.tool, what, fix, told.place)
    for tool in tools:
        if tool.reveal:
            names = ", ".join(each.__name__ for each in tool.reveal)
            fix = "see that it is meant for one"
            if any(issubclass(each, OSError) for each in tool.reveal):
                fix = "a system error names the whole path: raise ToolFailed where that is not for a model"
            yield Finding("note", "expect", tool.name, f"reveal= lets a model read what {names} says", fix)
    if source.unread:
        more = len(source.unread) - _MOST
        names = ", ".join(source.unread[:_MOST]) + (f" and {more:,} more" if more > 0 else "")
        what = f"no source of {names}: texts there were not read"
        yield Finding("note", "source", "", what, "none is needed where it is another's")


def findings_of_errors(tool: str, told: Rendered) -> Iterator[Finding]:
    """Of what a model would be told, each flaw once: a name or a description has brought it there."""
    once = {flaw: (kind, text) for kind, flaw, text in reversed(told.flawed)}
    for flaw, (kind, text) in once.items():
        what = f"what a model is told of an error ({kind}) holds a {flaw}: {_short(text)}"
        severity: Severity = "error" if flaw == "status code" else "warning"  # the rest may be what a tool is about
        yield Finding(severity, "text", tool, what, "reword the name or description that it comes from")


def _near(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…")
