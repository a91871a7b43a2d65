"""DryRun: plan mode. All stages run, the body does not, and the answer says what would run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar, cast

import attrs

from ..audit import note_decision
from ..base.options import refuse
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Handler, Placement
from ..engine.guards import Guards
from ..policies import RuleSet
from ..policies.plan import PLANNED, PlanOnly
from ..policies.rule_file import RuleFile


@attrs.frozen
class DryRun:
    """A middleware that lets a call pass all stages, and answers with a plan right before its body would begin.

    The plan has the tool and the arguments that would run, after repairs and all that stages inside have changed.
    Secrets that the tool declares are masked. A refusal of a stage inside comes as it would. No person is asked: the
    plan says that a person would be. The ledger keeps nothing of a plan. A middleware with
    ``Placement(runs_body=True)`` is a body, so the plan is made in its place.

    Args:
        rules: Only calls for which one of these rules says ``dry_run``. Default None: every call.

    Raises:
        SetupError: ``rules`` is of another type.
    """

    placement: ClassVar[Placement] = Placement(
        tool_options=("rules",),
        runs_body=False,
        kind="dry_run",
        reason="after validate: the plan has the arguments that would run",
        holds_back="a plan is no delivery",
        inside_of={
            "policy": "its rules may refuse the call",
            "audit": "it writes down that this was a plan",
        },
    )

    rules: RuleSet | RuleFile | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(cast("object", self.rules), (RuleSet, RuleFile, type(None))):
            refuse("DryRun", "rules", "a RuleSet or None", self.rules)

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """NotExecuted, with what would run; or what a stage inside answers. Of another call the inside's outcome."""
        if self.rules is not None:
            decision = self.rules.decide(call)
            if decision.action != "dry_run":
                return call_next(call)
        else:
            note_decision(call, "rule", name="dry_run", action="dry_run")
        remarks: list[str] = []
        guards = Guards.of(PlanOnly(remarks), outer=call.guards)
        return call_next(call.with_state(PLANNED, remarks).under(call.report, guards))
