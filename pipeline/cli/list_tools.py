"""``toolcall tools``: prints the tools of a registry as a model sees them."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..errors import Unavailable
from ..tools.definition import Tool
from .loading import check_schemas, load_registry
from .parameter_rows import ParameterRow, list_parameters
from .stdio import redirect_to_stderr
from .terminal_text import format_count, make_printable


def print_tools(target: str, *, as_json: bool) -> None:
    """Print every tool, or with ``as_json`` the definitions of the open ones.

    Raises:
        CommandError: the target cannot be loaded, or one of its tools has no schema.
    """
    with redirect_to_stderr():
        registry = load_registry(target)
        check_schemas(registry, target)
    if as_json:
        print(json.dumps(registry.definitions(), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not len(registry):
        console.print(f"{target} has no tools", soft_wrap=True)
        return
    closed = registry.closed
    for tool in registry:
        _print_tool(console, tool, closed.get(tool.name))
    console.print(f"{format_count(len(registry), 'tool')}, {len(registry.callable_names())} offered to a model now")


def _print_tool(console: Console, tool: Tool[..., Any], closed: Unavailable | None) -> None:
    style = "dim" if closed else "bold"
    line = Text.assemble((_escape(tool.name), style), ("  " + tool.effect, "dim"))
    if closed:
        line.append(f"  closed: {_escape(closed.reason)}", "yellow")
    console.print(line, soft_wrap=True)
    if tool.description:
        console.print(Padding(Text(_escape(tool.description)), (0, 0, 0, 2), expand=False))
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in ParameterRow._fields:
        table.add_column(overflow="fold")
    for path, *cells in list_parameters(tool.definition()["parameters"]):
        table.add_row(*(Text(_escape(cell)) for cell in (f"    {path}", *cells)))
    if table.row_count:
        console.print(table)
    console.print()


def _escape(text: str) -> str:
    return make_printable(text, keep_lines=True)
