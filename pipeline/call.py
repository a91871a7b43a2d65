"""Call -> ResolvedCall -> ValidCall: what is known of a call, each phase made by one stage; and its Outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import uuid4

import attrs
from returns.result import Failure, Success
from typing_extensions import TypeIs, TypeVar

from .errors import Repair, ToolError

if TYPE_CHECKING:  # frozen for whoever reads the types; attrs.frozen at run time costs 230 ns a phase more
    from attrs import frozen as phase

    from .report import CallReport
    from .time_limit import Marker
    from .tools.definition import Tool
else:
    phase = attrs.define

T = TypeVar("T", default=object)
# A sealed pair, not Result[...]: both checkers type the payloads of a match and prove it complete.
Outcome: TypeAlias = Success[T] | Failure[ToolError]


def is_failure(outcome: Outcome[T]) -> TypeIs[Failure[ToolError]]:
    """Narrow an outcome; off the hot path, where ``type(outcome) is Failure`` takes a fifth of the time."""
    return type(outcome) is Failure


def is_success(outcome: Outcome[T]) -> TypeIs[Success[T]]:
    """Narrow an outcome."""
    return type(outcome) is Success


@phase
class Call:
    """What the model asked for, before anyone has believed it."""

    name: str  # as the model spelt it
    arguments: object = None  # a mapping, JSON text, "" or None; anything else is a MalformedCall
    id: str = ""  # the provider's id, echoed back unchanged
    principal: str = ""  # who asks (process, agent, tenant): the partition key of limits and caches
    deps: object = attrs.field(default=None, repr=False)  # the caller's own object, for the tool's ToolContext
    finish_reason: str | None = None  # the provider's; "length" says that the call was cut off
    timeout: float | None = None  # seconds for the whole call, all attempts included; None: no limit
    report: CallReport | None = attrs.field(default=None, repr=False, eq=False)  # None: nobody listens
    marker: Marker | None = attrs.field(default=None, repr=False, eq=False)  # None: no time limit

    def resolved(self, tool: Tool[..., Any], repairs: tuple[Repair, ...] = ()) -> ResolvedCall:
        """The next phase: this is the tool that was meant."""
        return ResolvedCall(
            self.name,
            self.arguments,
            self.id,
            self.principal,
            self.deps,
            self.finish_reason,
            self.timeout,
            self.report,
            self.marker,
            tool,
            repairs,
        )

    def riding(self, report: CallReport | None, marker: Marker | None) -> Self:
        """The same call with a report and a marker to write to; a third of the time of ``attrs.evolve``."""
        if type(self) is not Call:  # a phase of somebody's own, with fields of its own
            return attrs.evolve(self, report=report, marker=marker)
        return type(self)(
            self.name,
            self.arguments,
            self.id,
            self.principal,
            self.deps,
            self.finish_reason,
            self.timeout,
            report,
            marker,
        )


_MADE_BY_THE_PHASE_BEFORE: Any = None  # fields after a default need one


@phase
class ResolvedCall(Call):
    """Resolve found the tool."""

    tool: Tool[..., Any] = _MADE_BY_THE_PHASE_BEFORE
    repairs: tuple[Repair, ...] = ()  # what was put right so far

    def validated(self, params: dict[str, Any], repairs: tuple[Repair, ...] = ()) -> ValidCall:
        """The next phase: these are the arguments, parsed, and what was put right in them for that."""
        return ValidCall(
            self.name,
            self.arguments,
            self.id,
            self.principal,
            self.deps,
            self.finish_reason,
            self.timeout,
            self.report,
            self.marker,
            self.tool,
            self.repairs + repairs if repairs else self.repairs,
            params,
            1,
            str(uuid4()) if self.tool.context else "",
        )

    def riding(self, report: CallReport | None, marker: Marker | None) -> Self:
        """The same call with a report and a marker, as `Call.riding` says."""
        if type(self) is not ResolvedCall:  # a phase of somebody's own, with fields of its own
            return attrs.evolve(self, report=report, marker=marker)
        return type(self)(
            self.name,
            self.arguments,
            self.id,
            self.principal,
            self.deps,
            self.finish_reason,
            self.timeout,
            report,
            marker,
            self.tool,
            self.repairs,
        )


@phase
class ValidCall(ResolvedCall):
    """Validate parsed the arguments."""

    params: dict[str, Any] = _MADE_BY_THE_PHASE_BEFORE
    attempt: int = 1
    idempotency_key: str = ""  # equal across attempts; "" for a tool that takes no ToolContext

    def riding(self, report: CallReport | None, marker: Marker | None) -> Self:
        """The same call with a report and a marker, as `Call.riding` says."""
        if type(self) is not ValidCall:  # a phase of somebody's own, with fields of its own
            return attrs.evolve(self, report=report, marker=marker)
        return type(self)(
            self.name,
            self.arguments,
            self.id,
            self.principal,
            self.deps,
            self.finish_reason,
            self.timeout,
            report,
            marker,
            self.tool,
            self.repairs,
            self.params,
            self.attempt,
            self.idempotency_key,
        )

    def again(self) -> ValidCall:
        """The same call, one attempt later."""
        return attrs.evolve(self, attempt=self.attempt + 1)
