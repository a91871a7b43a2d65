"""Policy: refuses a call that a rule denies, and shows what a call would do that a rule lets run as a plan only."""

from __future__ import annotations

from os import PathLike
from typing import ClassVar, TypeVar, cast

import attrs
from returns.result import Failure

from ..call import ValidCall
from ..compose import Placement
from ..errors import Denied, NotExecuted, ToolError
from ..options import refuse
from ..policies import RuleSet, describe_plan, read_rules

V = TypeVar("V", bound=ValidCall)
_NEEDS_APPROVAL = {"approve": "a rule of it says `approve`, and that stage asks a person; give standard() a `store=`"}


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
    rule's message. ``dry_run`` makes it `NotExecuted`, whose text says what would run. ``approve`` lets it pass to the
    stage `Approve` inside, which the pipeline must have. The report names the rule and the version of the policy.

    Args:
        rules: The path of a policy file, see `read_rules`, or a `RuleSet`.

    Raises:
        SetupError: The file cannot be read, or something in it is wrong; the text begins with the file and the line.
    """

    placement: ClassVar[Placement] = Placement(
        kind="policy",
        reason="after validate: rules judge the arguments as the tool would get them",
    )

    rules: RuleSet = attrs.field(converter=_read)

    def __attrs_post_init__(self) -> None:
        if "approve" in self.rules.actions:  # of this object alone: other rules ask no person
            object.__setattr__(self, "placement", attrs.evolve(self.placement, needs=_NEEDS_APPROVAL))

    def __call__(self, call: V) -> V | Failure[ToolError]:
        """The same call; or Denied or NotExecuted."""
        decision = self.rules.decide(call)
        if call.report is not None:
            call.report.note(self, decision.reason)
        if decision.action == "deny":
            return Failure(Denied("policy", decision.message))
        if decision.action == "dry_run":
            return Failure(NotExecuted(describe_plan(call)))
        return call
