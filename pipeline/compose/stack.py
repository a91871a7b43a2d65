"""Stack: the stages of a pipeline in the making, added one by one."""

from __future__ import annotations

from typing import Generic

import attrs
from typing_extensions import TypeVar

from ..call import Call
from ..report import Observer
from .pipeline import Pipeline
from .stage import Check, Handler, Middleware, Stage
from .stage_list import StageList

In = TypeVar("In", bound=Call, default=Call)
Out = TypeVar("Out", bound=Call, default=Call)
Next = TypeVar("Next", bound=Call)


@attrs.frozen
class Stack(StageList, Generic[In, Out]):
    """Takes an ``In`` and has turned it into an ``Out`` so far. A stage in the wrong place is a type error."""

    entries: tuple[Stage, ...] = ()

    def observe(self, observer: Observer, /, *, name: str | None = None) -> Stack[In, Out]:
        """Add an observer, such as `Trace`. It sees each call, stands in no chain, and must be the outermost stage."""
        return Stack((*self.entries, Stage.of(observer, "observe", name)))

    def check(self, check: Check[Out, Next], /, *, name: str | None = None) -> Stack[In, Next]:
        """Add a check inside of all stages so far: ``call -> next phase | Failure[error]``, without I/O or await."""
        return Stack((*self.entries, Stage.of(check, "check", name)))

    def wrap(self, middleware: Middleware[Out, Next], /, *, name: str | None = None) -> Stack[In, Next]:
        """Add a middleware inside of all stages so far: ``async (call, call_next) -> Outcome``."""
        return Stack((*self.entries, Stage.of(middleware, "wrap", name)))

    def end(self, execute: Handler[Out], /, *, name: str | None = None) -> Pipeline:
        """Add the end, such as `Execute`, and build the pipeline.

        Raises:
            SetupError: The stages stand in an order that makes no sense, or two have one name.
        """
        return Pipeline((*self.entries, Stage.of(execute, "end", name)))
