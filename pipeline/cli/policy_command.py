"""``toolcall policy check``: the decisions of a policy for each tool, or for one call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from returns.result import Failure
from rich.console import Console

from ..base.setup_error import SetupError
from ..engine.call import Call, ResolvedCall, ValidCall
from ..engine.compose import Pipeline
from ..messages import Wording, render
from ..middlewares import standard
from ..parameters import Limits
from ..policies import PolicyRule, RelayPolicy, RuleSet, read_policy
from ..policies.relay_policy import Budget
from ..privacy import neutralise
from ..stores import Memory
from ..tools.definition import Tool
from ..tools.view import ToolView
from .loading import check_schemas, load_registry
from .stdio import redirect_to_stderr
from .terminal_text import CommandError


def check_policy(path: Path, target: str, sent: tuple[str, str] | None, principal: str) -> int:
    """Check a policy against the tools of an application, and print its decisions. No tool is run.

    Returns:
        The exit code: 0; 1 if that call is refused before a rule is asked.
    """
    with redirect_to_stderr():
        registry = load_registry(target)
        check_schemas(registry, target)
    try:
        policy = read_policy(path)
        limits = policy.limits.of_arguments() if "limits" in policy.given else Limits()
        canonical = "canonical_names" in policy.given and policy.canonical_names
        pipeline = standard(registry, policy=policy, store=Memory(), limits=limits, canonical_names=canonical)
    except SetupError as exc:
        raise CommandError(str(exc)) from exc
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    if sent is not None:
        call = Call(*sent, principal=principal)
        return _print_decision(console, policy.rules or RuleSet(), _validate(pipeline, registry, call), call)
    for tool in registry:
        console.print(neutralise(f"{tool.name} ({tool.effect}{', closed' if tool.name in registry.closed else ''})"))
        for kind, line in _describe(tool, policy, limits):
            console.print(f"  {kind:8} {neutralise(line)}")
    console.print(f"version {policy.version}")
    return 0


def _describe(tool: Tool[..., Any], policy: RelayPolicy, limits: Limits) -> Iterator[tuple[str, str]]:
    """All that a tool gets, each with its kind; of several lines of one kind the first has it."""
    rules = (policy.rules or RuleSet()).list_for(tool)
    for place, (name, rule) in enumerate(rules):
        conditions = _describe_conditions(rule)
        words = f", with the words {rule.message!r}" if rule.message else ""
        yield "" if place else "rule", f"{rule.action} by {name}{conditions and f' if {conditions}'}{words}"
    if not rules or _describe_conditions(rules[-1][1]):  # the last rule leaves some calls to the default
        yield "" if rules else "rule", f"{(policy.rules or RuleSet()).default} by default"
    yield "limits", _describe_limits(tool, policy, limits)
    for place, budget in enumerate(policy.budgets):
        yield "" if place else "budget", _describe_budget(budget)
    if names := [name for name, own in policy.renames.items() if own == tool.name]:
        yield "rename", ", ".join(names)
    yield "wording", _describe_wording(policy.wording or Wording())


def _describe_conditions(rule: PolicyRule) -> str:
    """The conditions of a rule beyond tool and effect; "": it fits each call."""
    found = [f"the principal is {' or '.join(rule.principal)}"] if rule.principal else []
    return " and ".join([*found, *(["the arguments fit"] if rule.arguments is not None else [])])


def _describe_limits(tool: Tool[..., Any], policy: RelayPolicy, limits: Limits) -> str:
    own = policy.of_tool(tool.name)
    timeout = next((each for each in (own.timeout, tool.timeout, policy.timeout) if each is not None), None)
    attempts = next(each for each in (own.attempts, tool.attempts, policy.attempts) if each is not None)
    seconds = "no limit of time" if timeout is None else f"{timeout:g} s for each attempt"
    size = f"{limits.bytes:,} bytes, {limits.depth} levels, {limits.keys:,} keys"
    return f"{seconds}; attempts: {attempts}; arguments: {size}"


def _describe_budget(budget: Budget) -> str:
    window = "for good" if budget.window is None else f"in {budget.window:g} s"
    return f"{budget.calls:g} calls {window}, for each {budget.per}"


def _describe_wording(wording: Wording) -> str:
    more = [f"templates: {', '.join(wording.templates)}"] if wording.templates else []
    listed = [] if wording.listed is None else [f"listed: {wording.listed}"]
    return ", ".join([f"profile: {wording.profile}", f"verbosity: {wording.verbosity}", *more, *listed])


def _print_decision(console: Console, rules: RuleSet, found: ValidCall | Failure[Any] | None, call: Call) -> int:
    if not isinstance(found, ValidCall):
        text = "" if found is None else render(found)
        console.print(f"refused before the policy is asked: {neutralise(text, keep_lines=True)}")
        return 1
    decision = rules.decide(found)
    renamed = "" if found.tool.name == call.name else f"{found.tool.name}: "
    console.print(neutralise(renamed + decision.reason))
    if decision.message:
        console.print(f"the model reads: {neutralise(decision.message, keep_lines=True)}")
    return 0


def _validate(pipeline: Pipeline, registry: ToolView, call: Call) -> ValidCall | Failure[Any] | None:
    """The call as the rules would judge it, or why it does not come to them."""
    resolved = pipeline.resolve(call)
    if isinstance(resolved, ResolvedCall) and (closed := registry.closed.get(resolved.tool.name)) is not None:
        return Failure(closed)
    return pipeline.validate(call)
