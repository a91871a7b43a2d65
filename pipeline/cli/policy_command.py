"""``toolcall policy check``: the decisions of a policy for each tool, or for one call."""

from __future__ import annotations

from pathlib import Path

from returns.result import Failure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..call import Call, ValidCall
from ..errors import SetupError, ToolError
from ..messages import render
from ..middlewares import Available, Resolve, Validate
from ..policies import PolicyRule, RuleSet, read_rules
from ..privacy import neutralise
from ..tools.view import ToolView
from .loading import check_schemas, load_registry
from .stdio import redirect_to_stderr
from .terminal_text import CommandError


def check_policy(path: Path, target: str, sent: tuple[str, str] | None, principal: str) -> int:
    """Check a policy against the tools of an application, and print its decisions. No tool is run.

    Args:
        path: The file of the policy.
        target: MODULE:REGISTRY.
        sent: The name and the arguments of one call, to say which rule decides it. None: all tools are listed.
        principal: Who makes that call. "": no principal.

    Returns:
        The exit code: 0; 1 if that call is refused before a rule is asked.

    Raises:
        CommandError: The policy is wrong, or the target cannot be loaded.
    """
    with redirect_to_stderr():
        registry = load_registry(target)
        check_schemas(registry, target)
    try:
        rules = read_rules(path)
        rules.check_tools(registry)
    except SetupError as exc:
        raise CommandError(str(exc)) from exc
    console = Console(highlight=False, markup=False, emoji=False)
    if sent is None:
        _print_tools(console, rules, registry)
        return 0
    return _print_decision(console, rules, registry, Call(*sent, principal=principal))


def _print_tools(console: Console, rules: RuleSet, registry: ToolView) -> None:
    table = Table("tool", "effect", "action", "if", "decided by", box=None, pad_edge=False)
    for tool in registry:
        rows = [(rule.action, _describe_conditions(rule), name) for name, rule in rules.list_for(tool)]
        if not rows or rows[-1][1]:  # the last rule leaves some calls to the default
            rows.append((rules.default, "", "default"))
        for place, cells in enumerate(rows):
            first = (tool.name, tool.effect) if place == 0 else ("", "")
            table.add_row(*(Text(neutralise(cell)) for cell in (*first, *cells)))
    console.print(table)
    console.print(f"version {rules.version}")


def _describe_conditions(rule: PolicyRule) -> str:
    """The conditions of a rule beyond tool and effect; "": it fits each call."""
    found = [f"the principal is {' or '.join(rule.principal)}"] if rule.principal else []
    return " and ".join([*found, *(["the arguments fit"] if rule.arguments is not None else [])])


def _print_decision(console: Console, rules: RuleSet, registry: ToolView, call: Call) -> int:
    found = _validate(registry, call)
    if not isinstance(found, ValidCall):
        console.print(f"refused before the policy is asked: {neutralise(render(found), keep_lines=True)}")
        return 1
    decision = rules.decide(found)
    console.print(neutralise(decision.reason))
    if decision.message:
        console.print(f"the model reads: {neutralise(decision.message, keep_lines=True)}")
    return 0


def _validate(registry: ToolView, call: Call) -> ValidCall | ToolError:
    resolved = Resolve(registry)(call)
    if isinstance(resolved, Failure):
        return resolved.failure()
    available = Available(registry)(resolved)
    if isinstance(available, Failure):
        return available.failure()
    valid = Validate()(available)
    return valid.failure() if isinstance(valid, Failure) else valid
