"""Plans: a call that passes all stages, and whose body does not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import attrs
from returns.result import Failure, Success

from ..engine.call import Call, Outcome, ValidCall
from ..engine.call_state import StateKey
from ..engine.errors import NotExecuted
from ..engine.guards import Guard
from ..messages import render
from ..privacy import PublicText, approved
from .facts import show_arguments

PLANNED: StateKey[list[str]] = StateKey("toolcall-pipeline.planned")  # remarks of stages on the plan
_SHOWN = 2_000  # characters of the arguments
_NONE: list[str] = []


def remark_on_plan(call: Call, remark: str = "") -> bool:
    """Whether a call is only planned; its plan then has the remark of this stage."""
    if call.state is None or (remarks := call.get_state(PLANNED, _NONE)) is _NONE:
        return False
    if remark:
        remarks.append(remark)
    return True


@attrs.frozen(eq=False)
class PlanOnly(Guard):
    """Answers with the plan in place of each body of a call, right before it would begin."""

    counts_bodies: ClassVar[bool] = True

    remarks: Sequence[str]

    def refuse(self, call: Call) -> Outcome | None:
        """NotExecuted. The body of a composite tool begins: it only makes other calls, and each is a plan."""
        tool: Any = getattr(call, "tool", None)
        if tool is not None and tool.composite:
            return None
        plan = describe_plan(call, self.remarks) if isinstance(call, ValidCall) else "only a plan was asked for"
        return cast("Outcome", Failure(NotExecuted(plan)))


def describe_plan(call: ValidCall, remarks: Sequence[str]) -> PublicText:
    """Say which tool would run, with which arguments; declared secrets are masked. For the reason of a NotExecuted."""
    secrets = call.tool.parameters.secrets
    arguments = show_arguments(call)
    shown = render(Success(arguments if secrets is None else secrets.redact_all(arguments)), limit=_SHOWN)
    also = "".join(f", {remark}" for remark in remarks)
    return approved(f"only a plan was asked for; {call.tool.name} would run{also} with {shown}")
