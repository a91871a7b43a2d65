"""Reword: gives the failures of tools other words for the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import attrs
from returns.result import Failure

from ..base.foreign_values import FaultBarrier
from ..base.options import is_function
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import ToolError
from ..messages import render
from ..privacy import get_logger

R = TypeVar("R", bound=ResolvedCall)
_PREFIX = "Error: "
_logger = get_logger()


@attrs.frozen
class Reword:
    """A middleware that words the failures of tools anew, such as ``Reword(enhance)``.

    Only errors that carry a text of their own are worded: those of the kinds ``not_found``, ``permission``,
    ``configuration``, ``timeout``, ``transient``, ``execution`` and ``unavailable``. The kind stays, and with it all
    that follows from it; so do the private cause and the details. A refusal of the arguments, a crash and an unknown
    outcome keep their words. Inside of Retry it would word each attempt.

    Args:
        function: Called with the text that the model would read, without ``Error:``, and the name of the tool. It
            returns the new text, which is approved for the model by that; None or "": the text stays. An exception of
            it is logged, and the text stays.

    Raises:
        SetupError: ``function`` is not a plain function.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="reword",
        reason="outside of retry: the last failure is worded, not each attempt",
    )

    function: Callable[[str, str], str | None] = attrs.field(validator=is_function())

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome, a failure with other words."""
        outcome = await call_next(call)
        if type(outcome) is not Failure:
            return outcome
        error: Any = outcome.failure()
        if not hasattr(error, "message"):
            return outcome
        worded = self._word(error, call.tool.name)
        return Failure(error.changed(message=worded)) if worded else outcome

    def _word(self, error: ToolError, tool: str) -> str | None:
        with FaultBarrier(_logger, "Reword: the function failed"):  # the failure keeps its words
            worded = self.function(render(error).removeprefix(_PREFIX), tool)
            return worded if isinstance(worded, str) else None
        return None
