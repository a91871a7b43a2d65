"""Policy: refuses a call that a rule denies; others pass to the stages that ask a person or make a plan."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TypeVar, cast

import attrs
from returns.result import Failure

from ..audit import note_decision
from ..base.options import refuse
from ..engine.call import ValidCall
from ..engine.compose import Placement
from ..engine.errors import Denied, ToolError
from ..policies import Decision, RuleSet, read_rules
from ..policies.rules import JUDGED

V = TypeVar("V", bound=ValidCall)
_NEEDS = {
    "approve": "a rule of it says `approve`, and that stage asks a person; give standard() a `store=`",
    "dry_run": "a rule of it says `dry_run`, and that stage makes the plan: DryRun(rules)",
}


def _read(rules: str | PathLike[str] | RuleSet) -> RuleSet:
    if isinstance(rules, RuleSet):
        return rules
    if not isinstance(cast("object", rules), (str, PathLike)):
        refuse("Policy", "rules", "the path of a policy file or a RuleSet", rules)
    return read_rules(rules)


@attrs.define(eq=False, slots=False)
class Policy:
    """A check that asks rules what becomes of a call: of its tool, effect, principal and validated arguments.

    The first rule that fits decides. ``allow`` lets the call pass. ``deny`` makes it `Denied`, by ``policy``, with the
    rule's message. ``approve`` and ``dry_run`` let it pass to the stages `Approve` and `DryRun` inside, which the
    pipeline must have. The report names the rule and the version of the policy.

    Args:
        rules: The path of a policy file, see `read_rules`, or a `RuleSet`.

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

    rules: RuleSet = attrs.field(converter=_read, on_setattr=attrs.setters.frozen)
    _decided: Mapping[str, Mapping[str, Decision]] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._decided = self.rules.decided
        needs: dict[str, str] = {kind: reason for kind, reason in _NEEDS.items() if kind in self.rules.actions}
        self.placement = attrs.evolve(
            self.placement, needs=needs
        )  # of this object alone: other rules need other stages

    def __call__(self, call: V) -> V | Failure[ToolError]:
        """The same call, or Denied."""
        tool = call.tool
        if tool.name in self._decided[tool.effect] and call.report is None and call.state is None:
            return call  # and nobody asks why
        return self._judge(call)

    def _judge(self, call: V) -> V | Failure[ToolError]:
        decision = self.rules.decide(call)
        if call.report is not None:
            call.report.note(self, decision.reason)
        if call.state is not None:  # else there is no audit
            note_decision(call, "rule", name=decision.rule, action=decision.action, version=decision.version)
        if decision.action == "deny":
            return Failure(Denied("policy", decision.message))
        if decision.action == "approve" or call.state is not None:  # a person may change the arguments further inside
            return call.with_state(JUDGED, self.rules)
        return call
