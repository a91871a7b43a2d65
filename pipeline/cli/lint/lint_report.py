"""LintReport: everything that was found in a registry."""

from __future__ import annotations

from typing import get_args

import attrs

from ...errors import SetupError
from ...tools import ToolRegistry, ToolView
from .error_findings import check_error_texts
from .error_texts import ErrorTexts, render_errors, sum_texts
from .findings import Finding, Severity
from .source_findings import Sources, check_sources, read_sources
from .token_costs import TokenCost, estimate_costs
from .tool_findings import check_tools

SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the worst first
_MAX_LISTED = 20  # tools that the answer to a wrong name lists all of; the limit of Resolve


@attrs.frozen
class ToolSummary:
    """What one tool costs, and what the texts of its errors are like."""

    name: str
    effect: str
    cost: TokenCost
    texts: ErrorTexts


@attrs.frozen
class LintReport:
    """The findings, worst first and then in the order of the tools; and a summary of each tool that has a schema."""

    findings: list[Finding]
    tools: list[ToolSummary]
    sources: Sources

    def count(self, severity: str) -> int:
        """How many findings have that severity."""
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


def check_registry(registry: ToolView) -> LintReport:
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
    tools = [ToolSummary(tool.name, tool.effect, costs[tool.name], render_errors(tool, names)) for tool in checked]
    findings += check_tools(checked, sources.declared, registry.tools)
    findings += check_sources(sources, registry)
    for each in tools:
        findings += check_error_texts(each.name, each.texts)
    order = {name: index for index, name in enumerate(registry.tools)}
    findings.sort(key=lambda each: (SEVERITIES.index(each.severity), order.get(each.tool, len(order))))
    return LintReport(findings, tools, sources)
