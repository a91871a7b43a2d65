"""Policy: refuses a call that a rule denies; others pass to the stages that ask a person or make a plan."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import ClassVar, TypeVar, cast

import attrs
from returns.result import Failure

from ..audit import note_decision
from ..call import ValidCall
from ..compose import Placement
from ..errors import Denied, ToolError
from ..options import refuse
from ..policies import Decision, RuleSet, read_rules

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


@attrs.frozen(slots=False)
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

    placement: ClassVar[Placement] = Placement(
        kind="policy",
        reason="after validate: rules judge the arguments as the tool would get them",
        inside_of={"audit": "it writes down which rule decided"},
    )

    rules: RuleSet = attrs.field(converter=_read)

    _find: Callable[[int], Decision | None] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_find", self.rules.decided.get)
        needs: dict[str, str] = {kind: reason for kind, reason in _NEEDS.items() if kind in self.rules.actions}
        if needs:  # of this object alone: other rules need no other stage
            object.__setattr__(self, "placement", attrs.evolve(self.placement, needs=needs))

    def __call__(self, call: V) -> V | Failure[ToolError]:
        """The same call, or Denied."""
        decision = self._find(id(call.tool)) or self.rules.decide(call)
        if call.report is not None:
            call.report.note(self, decision.reason)
        if call.state is not None:  # else there is no audit
            note_decision(call, "rule", name=decision.rule, action=decision.action, version=decision.version)
        if decision.action == "deny":
            return Failure(Denied("policy", decision.message))
        return call
