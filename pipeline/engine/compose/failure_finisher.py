"""FailureFinisher: the answer of a pipeline for a call without success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import attrs
from returns.result import Failure

from ...base.foreign_values import or_default
from ...messages.wording import Wording
from ...privacy import ForeignText, Mask, make_mask
from ...telemetry.logs import is_logged, log_failure
from ...tools.definition import Tool
from ...tools.view import ToolView
from ..call import Call, Outcome, ResolvedCall
from ..errors import (
    ERROR_TYPES,
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    OutcomeUnknown,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
)
from ..guards import OneEffect, as_not_landed, as_outcome_unknown
from ..retries import downgrade_lost
from .stage import Stage
from .stage_bugs import explain_answer, explain_call

if TYPE_CHECKING:
    from .last_failures import LastFailures


@attrs.frozen(eq=False)
class FailureFinisher:
    """Finishes failed calls, and logs them.

    Attributes:
        leading: The checks at the front.
        answering: The stages inside of them that can answer for the call.
        registries: The registries of the pipeline's tools.
        resolve: The check that finds the tool, if it stands behind another stage. None: it stands at the front.
        inner: All stages inside of the checks at the front.
        foreign_text: Whether texts of others are logged of a tool with secrets.
        wording: What the errors carry, for whoever renders them later. None: as by default.
        last: What the model read last; made for the first failure in a conversation, and one at most. Runners
            that were made ``like`` another one share it.
    """

    leading: Sequence[Stage]
    answering: Sequence[Stage]
    registries: Sequence[ToolView]
    resolve: Any
    inner: Sequence[Stage]
    foreign_text: ForeignText = "withhold"
    wording: Wording | None = None
    last: list[LastFailures] = attrs.field(repr=False, factory=list["LastFailures"])

    def finish(
        self,
        call: Call,
        reached: Any,
        outcome: Any,
        effect: OneEffect | None = None,
        params: Mapping[str, Any] | None = None,
        decision: tuple[str, str] = ("", ""),
    ) -> Outcome:
        """Finish a failed call.

        An answer that is not an Outcome becomes Crashed; a side effect that may have happened becomes OutcomeUnknown.

        Args:
            call: The call as it came.
            reached: The call in the last phase that it reached.
            outcome: The answer of the stages; a bare Crashed: a stage raised.
            effect: The guard of the call's effect. None: no body began, or it is a read.
            params: The arguments as the tool took them. None: as ``reached`` has them.
            decision: The name of the stage that decided, and its note. "": as the error shows.
        """
        error: Any = outcome.failure() if type(outcome) is _FAILURE else None
        lost, believed = (None, True) if effect is None else effect.sum_up(error)
        if type(error) in _PASSED_ON and lost is None and self._is_without_secrets(call, reached):
            if is_logged(error):
                self._log(call, getattr(reached, "tool", None), error, None, decision)
            return self._give(call, reached, error, outcome)
        tool = reached.tool if isinstance(reached, ResolvedCall) else None if effect is None else effect.tool
        bug = self._find_bug(call, outcome)
        error = bug or error
        if not isinstance(cast("object", call), Call):
            call = _NO_CALL
        may_have_secrets = self.resolve is not None if tool is None else tool.parameters.secrets is not None
        mask = self._make_mask(call, reached, tool, params) if may_have_secrets else None
        if lost is not None and (bug is not None or not believed):
            if bug is not None:
                self._log(call, tool, bug, mask, decision)  # the stage's bug, with its stack; the call is logged below
            error = as_outcome_unknown(error, lost)
        elif lost is not None or tool is None or tool.effect != "read":
            if effect is None or not effect.undecided:  # no body may have landed, whatever a stage answered
                error = as_not_landed(error)
            error = downgrade_lost(error, lost or tool)
        if type(error) is OutcomeUnknown:
            error = self._without_closed(error)
        if mask is not None and not (type(error) is InvalidParams and error.schema is not None):
            masked = mask.error(error)  # a parser makes its texts without secrets
            error = masked if masked is error else masked.made_by(error.maker)
        self._log(call, tool, error, mask, decision)
        return self._give(call, reached, error, outcome)

    def _give(self, call: Call, reached: Any, error: Any, outcome: Any) -> Outcome:
        """The answer with this error: that of the stages where it is theirs."""
        if type(error) is Unavailable and error.body_landed == "maybe":
            # Else a body that hands the answer of another call on would be taken for one that may have landed.
            error = error.changed(body_landed="no")
        if self.wording is not None:
            error = error.worded(self.wording)
        theirs = type(outcome) is _FAILURE and outcome.failure() is error
        given: Outcome = outcome if theirs else Failure(error)
        return self._find_last().tell(call, reached, given) if getattr(call, "conversation", "") else given

    def _find_last(self) -> LastFailures:
        if not self.last:
            from .last_failures import LastFailures  # most programs do without

            self.last.append(LastFailures())
        return self.last[0]

    def _find_bug(self, call: object, outcome: Any) -> Crashed | None:
        """The bug of a caller or a stage; None: the stages answered with a failure, as they should."""
        if not isinstance(call, Call):
            return Crashed(explain_call(call))
        if type(outcome) is Crashed:
            return outcome
        failed = type(outcome) is Failure
        if failed and type(cast("Failure[Any]", outcome).failure()) in ERROR_TYPES:
            return None
        of_checks = self.leading if failed else ()  # of other values of a check the runner knows already
        return Crashed(cast("Exception", explain_answer([*of_checks, *self.answering], outcome)))

    def _is_without_secrets(self, call: object, reached: object) -> bool:
        """Whether no text of the failure can hold a secret: most tools declare none."""
        if isinstance(reached, ResolvedCall):
            return reached.tool.parameters.secrets is None
        return self.resolve is None and isinstance(call, Call)

    def _make_mask(
        self, call: Call, reached: Call, tool: Tool[..., Any] | None, params: Mapping[str, Any] | None
    ) -> Mask | None:
        """The mask for the secrets of the call; None if its tool declares none."""
        if tool is None and self.resolve is not None:  # found behind another stage
            found = or_default(None)(self.resolve)(call)  # a stage may have a bug
            tool = getattr(found, "tool", None)
        return make_mask(reached, tool, params, self.foreign_text)

    def _without_closed(self, error: OutcomeUnknown) -> OutcomeUnknown:
        """The error without its tool to check with, if the model may not call that tool now."""
        name = error.verify_with
        closed = any(name not in registry or name in registry.closed for registry in self.registries)
        return attrs.evolve(error, verify_with=None) if name is not None and closed else error

    def _log(
        self, call: Call, tool: Tool[..., Any] | None, error: ToolError, mask: Mask | None, decision: tuple[str, str]
    ) -> None:
        if not is_logged(error):
            return
        try:
            decided_by, note = decision
            log_failure(call, tool, error, mask, decided_by or self._find_decider(error), note)
        except Exception:  # noqa: BLE001  # a user's log filter failed, or a value in the call; the outcome is what counts
            with suppress(Exception):
                log_failure(_NO_CALL, tool, error, mask)

    def _find_decider(self, error: ToolError) -> str:
        """The stage that decided inside of the first checks, as far as the error shows it: no record was kept."""
        if isinstance(error, Denied) and any(stage.name == error.by for stage in self.inner):
            return error.by
        for stage in self.inner:
            if stage.obj is error.maker:
                return stage.name
        told = error.reason if isinstance(error, Unavailable) else error.kind
        for stage in reversed(self.inner):
            if told in stage.placement.decides:
                return stage.name
        by_kind = {stage.placement.kind: stage.name for stage in self.inner}
        if isinstance(getattr(error, "cause", None), BaseException) and not isinstance(error, Crashed):
            return by_kind.get("classify", "")
        return by_kind.get("execute", "") if isinstance(error, (Crashed, ExecutionFailed)) else ""


_FAILURE: Any = Failure  # by this name a type checker does not narrow to one of unknown things
_PASSED_ON = ERROR_TYPES - {TimedOut, Transient, OutcomeUnknown}  # these depend on where the effect landed
_NO_CALL = Call("")  # stands in the log for a value that is not a call, or has fields that cannot be logged
