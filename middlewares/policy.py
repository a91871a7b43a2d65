"""Policy: refuses a call that a rule denies; others pass to the stages that ask a person or make a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import TypeVar, cast

import attrs
from returns.result import Failure

from ..audit import note_decision
from ..base.options import check_type, refuse
from ..engine.call import ValidCall
from ..engine.compose import Placement
from ..engine.errors import Denied, ToolError
from ..policies import Action, Decision, RuleSet, read_rules
from ..policies.rule_file import RuleFile
from ..policies.rules import JUDGED
from ..tools import ToolView
from ..tools.tool_memory import ToolMemory

V = TypeVar("V", bound=ValidCall)
_NEEDS = {
    "approve": "a rule of it says `approve`, and that stage asks a person; give standard() a `store=`",
    "dry_run": "a rule of it says `dry_run`, and that stage makes the plan: DryRun(rules)",
}


def _read(given: str | PathLike[str] | RuleSet, *, reload: bool) -> RuleSet | RuleFile:
    if isinstance(given, RuleSet) and not reload:
        return given
    if not isinstance(cast("object", given), (str, PathLike)):
        wanted = "the path of a policy file" + (", with `reload`" if reload else " or a RuleSet")
        refuse("Policy", "rules", wanted, given)
    path = cast("str | PathLike[str]", given)
    return RuleFile(Path(path)) if reload else read_rules(path)


@attrs.define(eq=False, slots=False)
class Policy:
    """A check that asks rules what becomes of a call: of its tool, effect, principal and validated arguments.

    The first rule that fits decides. ``allow`` lets the call pass. ``deny`` makes it `Denied`, by ``policy``, with the
    rule's message. ``approve`` and ``dry_run`` let it pass to the stages `Approve` and `DryRun` inside, which the
    pipeline must have. The report names the rule and the version of the policy.

    Args:
        rules: The path of a policy file, see `read_rules`, or a `RuleSet`.
        reload: Whether the rules are read again, within a second, when the file has changed, see `RuleFile`. Default
            False.

    Attributes:
        source: The rules, or the file that has them.

    Raises:
        SetupError: The file cannot be read, or something in it is wrong; the text begins with the file and the line.
    """

    placement = Placement(
        kind="policy",
        tool_options=("rules",),
        reason="after validate: rules judge the arguments as the tool would get them",
        holds_back="a call that is refused has not begun",
        inside_of={"audit": "it writes down which rule decided"},
    )

    _given: str | PathLike[str] | RuleSet = attrs.field(alias="rules", on_setattr=attrs.setters.frozen)
    reload: bool = attrs.field(default=False, kw_only=True, on_setattr=attrs.setters.frozen)
    source: RuleSet | RuleFile = attrs.field(init=False, repr=False)
    _decided: Mapping[str, Mapping[str, Decision]] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_type("Policy", "reload", self.reload, bool)
        self.source = _read(self._given, reload=self.reload)
        # What changes is remembered by no tool.
        self._decided = self.source.decided if isinstance(self.source, RuleSet) else ToolMemory[Decision]()
        self.placement = _place(self.rules.actions)  # of this object: other rules need other stages

    @property
    def rules(self) -> RuleSet:
        """The rules that hold now."""
        return self.source if isinstance(self.source, RuleSet) else self.source.rules

    @property
    def resources(self) -> tuple[RuleFile, ...]:
        """The file, which a timer of the pipeline looks at."""
        return () if isinstance(self.source, RuleSet) else (self.source,)

    def widened(self, tools: ToolView, actions: Collection[Action]) -> Policy:
        """A copy whose file, when it is read again, may use the stages of further actions, and name these tools."""
        copy = attrs.evolve(self)
        if isinstance(copy.source, RuleFile):
            copy.source.tools = tools
            copy.source.possible |= set(actions)
            copy.placement = _place(copy.source.possible)
        return copy

    def __call__(self, call: V) -> V | Failure[ToolError]:
        """The same call, or Denied."""
        tool = call.tool
        if tool.name in self._decided[tool.effect] and call.report is None and call.state is None:
            return call  # and nobody asks why
        return self._judge(call)

    def _judge(self, call: V) -> V | Failure[ToolError]:
        rules = self.rules
        decision = rules.decide(call)
        if call.report is not None:
            call.report.note(self, decision.reason)
        if call.state is not None:  # else there is no audit
            replaced = {"replaced": rules.replaced} if rules.replaced else {}
            facts = {"name": decision.rule, "action": decision.action, "version": decision.version}
            note_decision(call, "rule", **facts, **replaced)
        if decision.action == "deny":
            return Failure(Denied("policy", decision.message))
        return call.with_state(JUDGED, rules) if self.reload else call  # the file may change its rules meanwhile


def _place(actions: Collection[Action]) -> Placement:
    needs: dict[str, str] = {kind: reason for kind, reason in _NEEDS.items() if kind in actions}
    return attrs.evolve(Policy.placement, needs=needs)
