"""ToolContext: what a tool may know of its call. A model does not see it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Generic, TypeAlias, cast, overload

import attrs
from typing_extensions import TypeVar

from ..engine.call_state import REQUIRED, State, StateKey, read_state
from ..engine.caller import Caller
from ..engine.report import Progress

Deps = TypeVar("Deps", default=Any)  # of the caller's own object
S = TypeVar("S")
T = TypeVar("T")
Tell: TypeAlias = Callable[[Progress], object]  # from any thread; it neither blocks nor raises


@attrs.frozen
class ToolContext(Generic[Deps]):
    """The first parameter of a tool that was made with ``context=True``. The pipeline makes it for each attempt.

    For type checkers, ``deps`` of a ``ToolContext[Books]`` is a ``Books``; it is not checked at run time.

    Args:
        call_id: The provider's id of the call; "": it sent none.
        attempt: The number of this attempt, from 1.
        idempotency_key: Made once for each call and the same in all its attempts, for backends that drop repeats.
        deadline: The time at which the call times out, in seconds of ``time.monotonic()``. None: no limit.
        principal: Who asks: a process, an agent or a tenant. "": the call did not say.
        deps: An object of the caller's own, given with the call. None: the call gave none.
        caller: Makes further calls through the pipeline that called the tool, as `batch` does: a tool that calls
            through it never leaves a view, and a call that does not say who asks is asked by the caller of the tool.
            None: the tool runs in another process, or no pipeline called it.
        tool: The name of the tool, for a function that is several tools.
        state: The values that stages set, for `get_state`. None: none.
        conversation: The thread, session or run that the call belongs to. "": the call did not say.
    """

    call_id: str
    attempt: int = 1
    idempotency_key: str = ""
    deadline: float | None = None
    principal: str = ""
    deps: Deps = attrs.field(default=cast("Deps", None), repr=False)
    _tell: Tell | None = attrs.field(default=None, repr=False, eq=False)
    caller: Caller | None = attrs.field(default=None, repr=False, eq=False)
    tool: str = ""
    _state: State | None = attrs.field(default=None, repr=False, eq=False, alias="state")
    conversation: str = ""

    @overload
    def get_state(self, key: StateKey[S]) -> S: ...
    @overload
    def get_state(self, key: StateKey[S], default: T) -> S | T: ...
    def get_state(self, key: StateKey[Any], default: object = REQUIRED) -> object:
        """Return the value that a stage set with `Call.with_state`.

        Args:
            key: The key with which the stage set it.
            default: Returned if no stage set it. None is a default as well. Default: a stage must have set it.

        Raises:
            SetupError: No stage set it and no default is given; the key is not a `StateKey`; or the tool runs in
                another process, and the value does not pickle.
        """
        return read_state(self._state, key, default)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how far the tool has come, in the report of the call and at once to its listeners.

        A tool may call this as often as it likes, in any of its threads: it does not block. Of many steps in a short
        time, listeners get some and the last one. A step after the end of the attempt is lost. If the call is not
        recorded, this does nothing.

        Args:
            done: How far the tool has come, in a unit of its own.
            total: The whole, in the same unit. Default None: not known.
            message: A text for a person. Default "": none.
        """
        if self._tell is not None:
            self._tell(Progress(done, total, message, perf_counter_ns()))
