"""Stack: stages in the making of a pipeline, put in one by one."""

from __future__ import annotations

from typing import Generic

import attrs
from typing_extensions import TypeVar

from ..call import Call
from ..report import Observer
from .pipeline import Pipeline
from .stage import Check, Editable, Handler, Middleware, Stage

In = TypeVar("In", bound=Call, default=Call)
Out = TypeVar("Out", bound=Call, default=Call)
Next = TypeVar("Next", bound=Call)


@attrs.frozen
class Stack(Editable, Generic[In, Out]):
    """Takes an ``In`` and has so far turned it into an ``Out``; a stage in the wrong place is a type error."""

    parts: tuple[Stage, ...] = ()

    def check(self, check: Check[Out, Next], /, *, name: str | None = None) -> Stack[In, Next]:
        """Add a check, inside of all that is there: ``call -> next phase | Failure[error]``, no I/O, no await."""
        return Stack((*self.parts, Stage.of(check, "check", name)))

    def observe(self, observer: Observer, /, *, name: str | None = None) -> Stack[In, Out]:
        """Add an observer, as `Trace`: it sees each call and stands in no chain. It must be the outermost stage."""
        return Stack((*self.parts, Stage.of(observer, "observe", name)))

    def wrap(self, middleware: Middleware[Out, Next], /, *, name: str | None = None) -> Stack[In, Next]:
        """Add a middleware inside of all stages so far: ``async (call, call_next) -> Outcome``."""
        return Stack((*self.parts, Stage.of(middleware, "wrap", name)))

    def end(self, execute: Handler[Out], /, *, name: str | None = None) -> Pipeline:
        """Build it. Raises SetupError for stages in an order that makes no sense, and for two of one name."""
        return Pipeline((*self.parts, Stage.of(execute, "end", name)))
