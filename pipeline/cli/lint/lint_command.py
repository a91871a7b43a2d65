"""``toolcall lint``: prints what `check_registry` found in the user's tools."""

from __future__ import annotations

import os
from typing import Any, get_args

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...base.setup_error import SetupError
from ...messages import Wording
from ...messages.text import format_count
from ...messages.wording import CHARACTERS_PER_TOKEN, get_profile
from ...privacy import dump_neutral_json, neutralise
from ...tools import ToolRegistry, ToolView
from ..loading import load_target, require_registry
from ..stdio import redirect_to_stderr
from ..terminal_text import make_console
from .error_texts import ErrorTexts, check_error_texts, render_errors, sum_texts
from .source_texts import Sources, check_sources, read_sources
from .tool_findings import Finding, Severity, TokenCost, check_tools, estimate_costs

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
_PIPE_WIDTH = 10_000  # columns: a program that reads a pipe gets each finding on one line
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the worst first
_MAX_LISTED = 20  # tools that the answer to a wrong name lists all of; the limit of Resolve


def lint(target: str, *, as_json: bool, strict: bool) -> int:
    """Print the report.

    Returns:
        1 if there are errors, or with ``strict`` warnings, else 0.
    """
    with redirect_to_stderr():
        loaded = load_target(target)
        wording = None if isinstance(loaded, ToolView) else loaded.wording
        asking = wording if wording and get_profile(wording.profile).questions else None
        report = check_registry(require_registry(loaded, target), asking)
    if as_json:
        print(dump_neutral_json(_to_json(report), indent=2))
    else:
        _print_report(target, report)
    return int(report.count("error") > 0 or (strict and report.count("warning") > 0))


def _print_report(target: str, report: LintReport) -> None:
    console = make_console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    if not report.tools and not report.findings:
        console.print(f"{target} has no tools", soft_wrap=True)
        return
    _print_findings(console, report)
    _print_tools(console, report)
    cost, texts, sources = report.cost, report.texts, report.sources
    counts = ", ".join(format_count(report.count(severity), severity) for severity in SEVERITIES)
    tokens = f"about {cost.openai:,} tokens for OpenAI, {cost.anthropic:,} for Anthropic"
    asked = f"Errors that ask a question, as the pipeline words them: {_format_share(texts)} (goal: more than 80 %)"
    for line in (
        f"{format_count(len(report.tools), 'tool')}: {counts}",
        f"Definitions: {tokens} (estimated at {CHARACTERS_PER_TOKEN} characters per token)",
        *([asked] if report.asking else ()),
        f"Status codes: {report.status_codes:,} in {texts.texts + len(sources.texts):,} texts",
        f"Your own error texts: {len(sources.texts):,} in {format_count(sources.files, 'file')}",
    ):
        console.print(line, soft_wrap=True)


def _print_findings(console: Console, report: LintReport) -> None:
    if not report.findings:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(overflow="fold")
    for each in report.findings:
        what = f"{each.what} ({each.place})" if each.place else each.what
        severity = Text(each.severity, _STYLES[each.severity])
        table.add_row(severity, *(Text(neutralise(cell)) for cell in (each.tool or "-", what, each.fix)))
    console.print(table)
    console.print()


def _print_tools(console: Console, report: LintReport) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    heads = ("tool", "effect", "OpenAI", "Anthropic", *(["questions"] if report.asking else ()))
    for head in heads:
        table.add_column(overflow="fold", justify="left" if head in ("tool", "effect") else "right")
    table.add_row(*(Text(head, "dim") for head in heads))
    for tool in report.tools:
        cost = tool.cost
        cells = (tool.name, tool.effect, f"{cost.openai:,}", f"{cost.anthropic:,}", _format_share(tool.texts))
        table.add_row(*(Text(neutralise(cell)) for cell in cells[: len(heads)]))
    console.print(table)
    console.print()


def _to_json(report: LintReport) -> dict[str, Any]:
    texts, sources = report.texts, report.sources
    return {
        "findings": [attrs.asdict(each) for each in report.findings],
        "tools": [
            {
                "name": tool.name,
                "effect": tool.effect,
                "tokens": attrs.asdict(tool.cost),
                "errors": tool.texts.errors,
                "questions": tool.texts.questions,
            }
            for tool in report.tools
        ],
        "summary": {
            **{f"{severity}s": report.count(severity) for severity in SEVERITIES},
            "tokens": attrs.asdict(report.cost),
            "errors_told": texts.errors,
            "questions": texts.questions,
            "texts": texts.texts + len(sources.texts),
            "status_codes": report.status_codes,
            "own_texts": len(sources.texts),
            "files": sources.files,
        },
    }


def _format_share(texts: ErrorTexts) -> str:
    return f"{texts.questions / texts.errors:.0%}".replace("%", " %") if texts.errors else "-"


@attrs.frozen
class ToolSummary:
    """The token costs of one tool, and the quality of its error texts."""

    name: str
    effect: str
    cost: TokenCost
    texts: ErrorTexts


@attrs.frozen
class LintReport:
    """The findings, worst first and then in the order of the tools; and a summary of each tool that has a schema.

    Args:
        asking: The wording of the pipeline, if its profile makes questions of errors. None: they are not printed.
    """

    findings: list[Finding]
    tools: list[ToolSummary]
    sources: Sources
    asking: Wording | None

    def count(self, severity: str) -> int:
        """Number of findings of that severity."""
        return sum(each.severity == severity for each in self.findings)

    @property
    def cost(self) -> TokenCost:
        """Of all tools together."""
        return TokenCost(sum(tool.cost.openai for tool in self.tools), sum(tool.cost.anthropic for tool in self.tools))

    @property
    def texts(self) -> ErrorTexts:
        """Of all tools together."""
        return sum_texts([tool.texts for tool in self.tools])

    @property
    def status_codes(self) -> int:
        """Texts with a status code: of errors that a model would get, and in the source."""
        return self.texts.status_codes + sum("status code" in each.flaws for each in self.sources.texts)


def check_registry(registry: ToolView, asking: Wording | None = None) -> LintReport:
    """Check every tool, open or closed. No tool is run."""
    findings: list[Finding] = []
    checked = ToolRegistry()  # the tools that have a schema, all of them open
    for tool in registry:
        try:
            tool.definition()
        except SetupError as exc:
            fix = "a tool without a schema cannot be offered to a model"
            findings.append(Finding("error", "schema", tool.name, str(exc), fix))
        else:
            checked.register(tool)
    names = checked.callable_names()
    names = names if len(names) <= _MAX_LISTED else []
    sources, costs = read_sources(registry), estimate_costs(checked)
    texts = {tool.name: render_errors(tool, names, asking or Wording("agentopia")) for tool in checked}
    tools = [ToolSummary(tool.name, tool.effect, costs[tool.name], texts[tool.name]) for tool in checked]
    findings += check_tools(checked, sources.declared, registry.tools)
    findings += check_sources(sources, registry)
    for each in tools:
        findings += check_error_texts(each.name, each.texts)
    order = {name: index for index, name in enumerate(registry.tools)}
    findings.sort(key=lambda each: (SEVERITIES.index(each.severity), order.get(each.tool, len(order))))
    return LintReport(findings, tools, sources, asking)
