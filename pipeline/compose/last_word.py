"""LastWord: what a failed call ends in, once its stages have answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import attrs
from returns.result import Failure

from ..call import Call, Outcome, ResolvedCall
from ..errors import (
    ERROR_TYPES,
    Crashed,
    InvalidParams,
    MalformedCall,
    OutcomeUnknown,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)
from ..guards import OneEffect, tell_lost
from ..outcomes import fail
from ..recordable import Mask, make_mask, mask_error
from ..retries import settle
from ..telemetry.logs import is_logged, log_failure
from ..tools.definition import Tool
from ..tools.view import ToolView
from .mistakes import explain_answer, explain_call
from .stage import Stage


@attrs.frozen(eq=False)
class LastWord:
    """Gives the last word on calls without success, and logs them.

    Args:
        leading: The checks at the front.
        answering: The stages inside of them whose answers are told.
        registries: Where the pipeline finds its tools.
        find: The check that finds the tool, if it stands behind another stage. None: it stands at the front.
    """

    leading: Sequence[Stage]
    answering: Sequence[Stage]
    registries: Sequence[ToolView]
    find: Any

    def say(  # noqa: C901, PLR0912  # one frame
        self,
        call: Call,
        current: Any,
        outcome: Any,
        effect: OneEffect | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """The last word on a call without success: what is no Outcome is a crash, a lost side effect is told as one."""
        failed = type(outcome) is _FAILURE
        error: Any = outcome.failure() if failed else outcome
        if failed and type(error) in _TOLD_AS_THEY_ARE and (effect is None or effect.lost is None):
            # Most failures, and most tools declare no secrets: the rest of this is skipped.
            if isinstance(current, ResolvedCall):
                plain = current.tool.parameters.secrets is None
            else:
                plain = self.find is None and isinstance(cast("object", call), Call)
            if plain:
                if is_logged(error):
                    _log(call, getattr(current, "tool", None), error, None)
                told: Outcome = outcome  # a cast is a call
                return told
        tool = current.tool if isinstance(current, ResolvedCall) else None if effect is None else effect.tool
        crashed = not failed and type(outcome) is _CRASHED  # a stage did, not the tool
        sent: Any = call
        if not isinstance(sent, Call):
            error, call, failed, crashed = Crashed(explain_call(sent)), _NO_CALL, False, True
        elif type(error) not in ERROR_TYPES or not (failed or crashed):
            of_checks = self.leading if failed else ()  # of other values a check is told earlier
            error = Crashed(explain_answer([*of_checks, *self.answering], outcome))
            failed, crashed = False, True
        made = error
        secrets = self.find is not None if tool is None else tool.parameters.secrets is not None
        mask = self._make_mask(call, current, tool, params) if secrets and _may_quote(error) else None
        lost = None if effect is None else effect.lost
        if lost is not None and (crashed or getattr(error, "landed", "") == "no"):
            if crashed:
                _log(call, tool, error, mask)  # the bug of the stage, with its stack; the call is logged below
            error = tell_lost(error, lost)
        elif lost is not None or (tool is not None and tool.effect != "read"):
            error = settle(error, lost or tool)
        if type(error) is OutcomeUnknown:
            error = self._without_closed(error)
        if mask is not None:
            error = mask_error(error, mask)
        if is_logged(error):
            _log(call, tool, error, mask)
        if failed and error is made:
            answer: Outcome = outcome  # a cast is a call
            return answer
        return fail(error)

    def _make_mask(
        self, call: Call, current: Call, tool: Tool[..., Any] | None, params: Mapping[str, Any] | None
    ) -> Mask | None:
        """What takes the secrets of the call out of a text; None if its tool declares none."""
        if tool is None and self.find is not None:  # found behind another stage
            try:
                tool = self.find(call).tool
            except Exception:  # noqa: BLE001  # no tool has that name, or the stage has a bug
                return None
        return None if tool is None or tool.parameters.secrets is None else make_mask(current, tool, params)

    def _without_closed(self, error: OutcomeUnknown) -> OutcomeUnknown:
        """The error without its tool to check with, if the model may not call that tool now."""
        name = error.verify_with
        closed = any(name not in registry or name in registry.closed for registry in self.registries)
        return attrs.evolve(error, verify_with=None) if name is not None and closed else error


def _may_quote(error: Any) -> bool:
    """Whether an error has a text or a cause of a tool's. That of a parser was made without secrets."""
    return type(error) not in _WITHOUT_TEXT and not (type(error) is InvalidParams and error.schema is not None)


def _log(call: Call, tool: Tool[..., Any] | None, error: ToolError, mask: Mask | None) -> None:
    try:
        log_failure(call, tool, error, mask)
    except Exception:  # noqa: BLE001  # a user's log filter failed, or a value in the call; the outcome is what counts
        with suppress(Exception):
            log_failure(_NO_CALL, tool, error, mask)


# By these names a type checker does not narrow a value of any type to one of unknown things.
_FAILURE: Any = Failure
_CRASHED: Any = Crashed
_TOLD_AS_THEY_ARE = ERROR_TYPES - {TimedOut, Transient, OutcomeUnknown}  # these depend on where the effect landed
_WITHOUT_TEXT = frozenset((UnknownTool, Unavailable, MalformedCall))  # errors without a text of a tool
_NO_CALL = Call("")  # stands in the log for what is no call, or has fields that cannot be logged
