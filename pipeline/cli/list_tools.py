"""``toolcall tools``: prints the tools of a registry as a model sees them."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..errors import Unavailable
from ..privacy import dump_neutral_json, neutralise
from ..tools.definition import Tool
from .loading import check_schemas, load_registry
from .parameter_rows import ParameterRow, list_parameters
from .stdio import redirect_to_stderr
from .terminal_text import format_count


def print_tools(target: str, *, as_json: bool) -> None:
    """Print every tool, or with ``as_json`` the definitions of the open ones.

    Raises:
        CommandError: the target cannot be loaded, or one of its tools has no schema.
    """
    with redirect_to_stderr():
        registry = load_registry(target)
        check_schemas(registry, target)
    if as_json:
        print(dump_neutral_json(registry.definitions(), indent=2))
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
    line = Text.assemble((neutralise(tool.name), style), ("  " + tool.effect, "dim"))
    if closed:
        line.append(f"  closed: {neutralise(closed.reason)}", "yellow")
    console.print(line, soft_wrap=True)
    if tool.description:
        console.print(Padding(Text(neutralise(tool.description, keep_lines=True)), (0, 0, 0, 2), expand=False))
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in ParameterRow._fields:
        table.add_column(overflow="fold")
    for path, *cells in list_parameters(tool.definition()["parameters"]):
        table.add_row(*(Text(neutralise(cell, keep_lines=True)) for cell in (f"    {path}", *cells)))
    if table.row_count:
        console.print(table)
    console.print()
