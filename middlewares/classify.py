"""Classify: turns the exception of a tool into a kind of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import attrs
from returns.result import Failure

from ..base import timing
from ..base.options import is_function
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Crashed, ToolError
from ..engine.guards import keeps_guards
from ..privacy import ForeignText, check_foreign_text
from ..tools import Errors, ErrorTable

if TYPE_CHECKING:
    from ..tools import Tool

R = TypeVar("R", bound=ResolvedCall)


_Reading: TypeAlias = tuple[Callable[..., ToolError], Callable[[Crashed, "Tool[..., Any]"], bool]]
_LOADED: list[_Reading] = []  # what reads an exception, since the first one


def _load() -> _Reading:
    from ..tools import classify, stays_crash

    _LOADED[:] = [(classify, stays_crash)]
    return _LOADED[0]


def _check_errors(errors: Errors | None) -> ErrorTable | None:
    return ErrorTable.of("Classify", errors)


@attrs.frozen
class Classify:
    """A middleware that replaces a crash of the tool by the error that `toolcall_pipeline.tools.classify` finds for it.

    Args:
        errors: The meaning of exceptions of all tools: exception types, or names such as ``"httpx.ConnectError"``,
            to kinds of error or to functions of the exception, see `ErrorEntry`. The ``errors=`` of a tool go first.
            Default None: the built-in table alone.
        foreign_text: What becomes of the texts of exceptions of a tool that declares secrets. ``"withhold"``, the
            default: they are neither logged nor told, also with ``reveal=``, for they may hold a secret in any code.
            ``"mask"``: they are logged and revealed as of any tool, and the secrets are masked as they are written.
        clock: Returns the seconds since the epoch, for a ``Retry-After`` that is a date. Default: the machine's clock.

    Raises:
        SetupError: An entry of ``errors`` is not valid, or ``foreign_text`` is another word.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="classify",
        reason="inside of retry, which decides by the kind of error",
        inside_of={
            "retry": "Retry decides by the kind that Classify finds, and would see only crashes",
            "circuit_breaker": "CircuitBreaker counts by the kind that Classify finds, and would see only crashes",
        },
    )

    errors: ErrorTable | None = attrs.field(default=None, converter=_check_errors, repr=False)
    foreign_text: ForeignText = attrs.field(default="withhold", validator=check_foreign_text, kw_only=True)
    clock: Callable[[], float] = attrs.field(
        default=timing.wall_time, validator=is_function(), repr=False, kw_only=True
    )

    @keeps_guards
    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; for a crash, the error that its exception means."""
        outcome = await call_next(call)
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            if type(error) is Crashed:
                _, stays_crash = _LOADED[0] if _LOADED else _load()
                if self.errors is None and stays_crash(error, call.tool):
                    return outcome
                if (found := self.read_crash(call, error)) is not error:
                    if call.guards is not None:
                        call.guards.learn_meaning(outcome, read := Failure(found))
                        return read
                    return Failure(found)
        return outcome

    def read_crash(self, call: ResolvedCall, error: Crashed) -> ToolError:
        """The error that the exception of a crash means; the crash itself, if it is a bug."""
        classify, _ = _LOADED[0] if _LOADED else _load()
        return classify(error, call.tool, self.clock(), self.errors, self.foreign_text)
