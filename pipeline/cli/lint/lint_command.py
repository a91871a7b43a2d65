"""``toolcall lint``: what a user's tools and texts lack, each with what to do about it. No tool is run for it."""

from __future__ import annotations

import json
import os
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import SetupError
from ...messages.text import A_TOKEN
from ...tools.registry import ToolRegistry
from ..loading import Refused, load, registry_of
from ..stdio import printing_to_stderr
from .error_texts import Rendered, rendered
from .text_findings import Source, findings_of_errors, findings_of_texts, read
from .tool_findings import Cost, Finding, costs, findings_of_tools

_SEVERITIES = {"error": "bold red", "warning": "yellow", "note": "dim"}  # worst first
_WIDE = 10_000  # columns: what reads a pipe gets one line a finding
_FEW = 20  # tools that an error of a wrong name still lists; as Resolve has it


@attrs.frozen
class Row:
    """One tool: what it costs to offer it, and what its errors are like."""

    name: str
    effect: str
    cost: Cost
    told: Rendered


@attrs.frozen
class Report:
    """All that was found."""

    findings: list[Finding]  # worst first, then in the order of the tools
    rows: list[Row]
    source: Source

    def count(self, severity: str) -> int:
        """How many findings are of that severity."""
        return sum(each.severity == severity for each in self.findings)

    @property
    def cost(self) -> Cost:
        """Of all tools together."""
        return Cost(sum(row.cost.openai for row in self.rows), sum(row.cost.anthropic for row in self.rows))

    @property
    def told(self) -> Rendered:
        """Of all tools together."""
        every = [row.told for row in self.rows]
        return Rendered(
            sum(each.texts for each in every),
            sum(each.errors for each in every),
            sum(each.questions for each in every),
            tuple(flawed for each in every for flawed in each.flawed),
        )

    @property
    def status_codes(self) -> int:
        """In how many texts one stands, of what a model would be told and of the user's own."""
        own = sum("status code" in each.flaws for each in self.source.texts)
        return own + sum(flaw == "status code" for _, flaw, _ in self.told.flawed)


def lint(target: str, *, as_json: bool, strict: bool) -> int:
    """Print what was found. 0: no errors (``strict``: and no warnings); 1: there are some. Raises Refused."""
    with printing_to_stderr():
        registry = registry_of(load(target))
        if registry is None:
            raise Refused(f"{target} is a Pipeline whose stages ask no ToolRegistry")
        report = look(registry)
    if as_json:
        print(json.dumps(_as_json(report), indent=2, ensure_ascii=False))
    else:
        _print(target, report)
    return int(report.count("error") > 0 or (strict and report.count("warning") > 0))


def look(registry: ToolRegistry) -> Report:
    """Every tool, open or closed."""
    found: list[Finding] = []
    whole = ToolRegistry()  # those that have a schema, all of them open
    for tool in registry:
        try:
            tool.definition()
        except SetupError as exc:
            found.append(Finding("error", "schema", tool.name, str(exc), "without a schema it cannot be offered"))
        else:
            whole.register(tool)
    names = whole.callable_names()
    names = names if len(names) <= _FEW else []
    source, cost = read(registry), costs(whole)
    rows = [Row(tool.name, tool.effect, cost[tool.name], rendered(tool, names)) for tool in whole]
    found += findings_of_tools(whole, source.declared, registry.tools)
    found += findings_of_texts(source, registry)
    for row in rows:
        found += findings_of_errors(row.name, row.told)
    worst, order = list(_SEVERITIES), {name: place for place, name in enumerate(registry.tools)}
    found.sort(key=lambda each: (worst.index(each.severity), order.get(each.tool, len(order))))
    return Report(found, rows, source)


def _print(target: str, report: Report) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    if not report.rows and not report.findings:
        console.print(f"{target} is empty: it has no tools", soft_wrap=True)
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(overflow="fold")
    for each in report.findings:
        what = f"{each.what} ({each.place})" if each.place else each.what
        severity = Text(each.severity, _SEVERITIES[each.severity])
        table.add_row(severity, *(Text(_printable(cell)) for cell in (each.tool or "-", what, each.fix)))
    if report.findings:
        console.print(table)
        console.print()
    _print_rows(console, report)
    cost, told, source = report.cost, report.told, report.source
    counts = ", ".join(_number(report.count(each), each) for each in _SEVERITIES)
    tokens = f"about {cost.openai:,} tokens for OpenAI, {cost.anthropic:,} for Anthropic ({A_TOKEN} characters a token)"
    for line in (
        f"{_number(len(report.rows), 'tool')}: {counts}",
        f"Definitions: {tokens}",
        f"Errors in question form under the agentopia profile: {_share(told)} (its own aim: more than 80 %)",
        f"Raw status codes: {report.status_codes:,} in {told.texts + len(source.texts):,} texts",
        f"Own error texts: {len(source.texts):,} read in {_number(source.files, 'file')}",
    ):
        console.print(line, soft_wrap=True)


def _print_rows(console: Console, report: Report) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(overflow="fold", justify=justify)
    table.add_row(*(Text(head, "dim") for head in ("tool", "effect", "OpenAI", "Anthropic", "questions")))
    for row in report.rows:
        cells = (row.name, row.effect, f"{row.cost.openai:,}", f"{row.cost.anthropic:,}", _share(row.told))
        table.add_row(*(Text(_printable(cell)) for cell in cells))
    console.print(table)
    console.print()


def _as_json(report: Report) -> dict[str, Any]:
    told, source = report.told, report.source
    return {
        "findings": [attrs.asdict(each) for each in report.findings],
        "tools": [
            {
                "name": row.name,
                "effect": row.effect,
                "tokens": attrs.asdict(row.cost),
                "errors": row.told.errors,
                "questions": row.told.questions,
            }
            for row in report.rows
        ],
        "summary": {
            **{f"{severity}s": report.count(severity) for severity in _SEVERITIES},
            "tokens": attrs.asdict(report.cost),
            "errors_told": told.errors,
            "questions": told.questions,
            "texts": told.texts + len(source.texts),
            "status_codes": report.status_codes,
            "own_texts": len(source.texts),
            "files": source.files,
        },
    }


def _share(told: Rendered) -> str:
    return f"{told.questions / told.errors:.0%}".replace("%", " %") if told.errors else "-"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _printable(text: str) -> str:
    """On one line, and nothing that a terminal would obey: a text may come from a server that nobody here wrote."""
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\N{REPLACEMENT CHARACTER}" for char in text
    )
