"""Stack: the stages of a pipeline in the making, added one by one."""

from __future__ import annotations

from typing import Any, Generic, cast, overload

import attrs
from typing_extensions import TypeVar

from ...base.setup_error import SetupError
from ...messages.wording import Wording
from ..call import Call, ResolvedCall, ValidCall
from ..report import Observer
from .pipeline import Pipeline
from .stage import Check, End, Middleware, Stage
from .stage_list import StageList, check_stages, make_stage

In = TypeVar("In", bound=Call, default=Call)
Out = TypeVar("Out", bound=Call, default=Call)
Next = TypeVar("Next", bound=Call)


@attrs.frozen
class Stack(StageList, Generic[In, Out]):
    """Takes an ``In`` and has turned it into an ``Out`` so far. A stage in the wrong place is a type error.

    Args:
        entries: The stages so far, outermost first.
    """

    _entries: tuple[Stage, ...] = ()

    def __attrs_post_init__(self) -> None:
        check_stages("Stack", "entries", self._entries)

    @property
    def entries(self) -> tuple[Stage, ...]:
        """The stages so far, outermost first."""
        return self._entries

    def observe(self, observer: Observer, /, *, name: str | None = None) -> Stack[In, Out]:
        """Add an observer, such as `Trace`. It sees each call, stands in no chain, and outside of all other stages.

        Of several, the spans of an inner one stand under those of an outer one: for two backends, give one provider
        two span processors.
        """
        return Stack((*self.entries, make_stage(observer, "observe", name)))

    def check(self, check: Check[Out, Next], /, *, name: str | None = None) -> Stack[In, Next]:
        """Add a check inside of all stages so far: ``call -> next phase | Failure[error]``, without I/O or await."""
        return Stack((*self.entries, make_stage(check, "check", name)))

    @overload  # a middleware that is written for any call gives the call on that it got, which has reached more
    def wrap(
        self: Stack[In, ValidCall], middleware: Middleware[ResolvedCall, ResolvedCall], /, *, name: str | None = None
    ) -> Stack[In, ValidCall]: ...

    @overload
    def wrap(
        self: Stack[In, ValidCall], middleware: Middleware[Call, Call], /, *, name: str | None = None
    ) -> Stack[In, ValidCall]: ...

    @overload
    def wrap(
        self: Stack[In, ResolvedCall], middleware: Middleware[Call, Call], /, *, name: str | None = None
    ) -> Stack[In, ResolvedCall]: ...

    @overload
    def wrap(self, middleware: Middleware[Out, Next], /, *, name: str | None = None) -> Stack[In, Next]: ...

    def wrap(self, middleware: Middleware[Any, Any], /, *, name: str | None = None) -> Stack[Any, Any]:
        """Add a middleware inside of all stages so far: ``async (call, call_next) -> Outcome``."""
        return Stack((*self.entries, make_stage(middleware, "wrap", name)))

    def __add__(self, inner: Stack[Out, Next], /) -> Stack[In, Next]:
        """These stages, and inside of them the stages of another stack, which belong together, used in several.

        Raises:
            SetupError: The other one is not a stack.
        """
        if not isinstance(cast("object", inner), Stack):
            raise SetupError(f"{make_stage(inner).name} is not a Stack: put it in with check(), wrap() or observe()")
        return Stack((*self.entries, *inner.entries))

    def end(self, execute: End[Out], /, *, name: str | None = None, wording: Wording | None = None) -> Pipeline:
        """Add the end, such as `Execute`, and build the pipeline.

        Args:
            execute: The end.
            name: The name of the stage. Default None: the name of its function or class.
            wording: How the texts for the model are worded. Default None: as by default, or as in the pipeline that is
                the end.

        Another pipeline may be the end. Its stages then are stages of this one, inside of all others, so there is one
        trace, one stage that repeats, and one count of effects. Its observer becomes the outermost stage if this stack
        has none, and else is left out.

        Raises:
            SetupError: The stages stand in an order that makes no sense, or two have one name.
        """
        if not isinstance(execute, Pipeline):
            return Pipeline((*self.entries, make_stage(execute, "end", name)), wording)
        if name is not None:
            raise SetupError(f"a pipeline that is the end has the names of its stages, and takes no name={name!r}")
        observers = [stage for stage in execute.entries if stage.role == "observe"]
        for each in execute.stages:
            if each in self.stages and all(each != stage.name for stage in observers):
                raise SetupError(f"both pipelines have a stage {each!r}: leave one out, as by .without({each!r})")
        rest = [stage for stage in execute.entries if stage.role != "observe"]
        whole = Pipeline(
            (*(() if any(stage.role == "observe" for stage in self.entries) else observers), *self.entries, *rest),
            wording or execute.wording,
            execute.promises,
        )
        return execute.bind_alike(whole)
