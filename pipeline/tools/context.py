"""ToolContext: what a tool may know of its call. A model does not see it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Generic, TypeAlias, cast, overload

import attrs
from typing_extensions import TypeVar

from ..call_state import REQUIRED, State, StateKey, read_state
from ..caller import Caller
from ..report import Progress

Deps = TypeVar("Deps", default=Any)  # of the caller's own object
S = TypeVar("S")
T = TypeVar("T")
Tell: TypeAlias = Callable[[Progress], object]  # from any thread; it neither blocks nor raises


@attrs.frozen
class ToolContext(Generic[Deps]):
    """The first parameter of a tool that was made with ``context=True``. The pipeline makes it for each attempt.

    ``ToolContext[Books]`` says to the type checkers that ``deps`` is a ``Books``; at run time nobody checks it.

    Args:
        call_id: The provider's id of the call; "": it sent none.
        attempt: The number of this attempt, from 1.
        idempotency_key: Made once for each call and the same in all its attempts, for backends that drop repeats.
        deadline: The time at which the call times out, in seconds of ``time.monotonic()``. None: there is no limit.
        principal: Who asks: a process, an agent or a tenant. "": the call did not say.
        deps: An object of the caller's own, given with the call. None: the call gave none.
        caller: Makes further calls through the pipeline that called the tool, as `batch` does: a tool that calls
            through it never leaves a view. None: the tool runs in another process, or no pipeline called it.
        tool: The name of the tool, for a function that is several tools.
        state: What stages handed on, for `get_state`. None: nothing.
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

    @overload
    def get_state(self, key: StateKey[S]) -> S: ...
    @overload
    def get_state(self, key: StateKey[S], default: T) -> S | T: ...
    def get_state(self, key: StateKey[Any], default: object = REQUIRED) -> object:
        """What a stage has handed on with `Call.with_state`.

        Args:
            key: The key with which the stage set it.
            default: What to return if no stage did. None is a default as well. Default: one must have set it.

        Raises:
            SetupError: No stage set it, and there is no default; the key is no `StateKey`; or the tool runs in another
                process, and the value does not pickle.
        """
        return read_state(self._state, key, default)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the tool has come: to the report of the call, and at once to those who listen to it.

        A tool may tell as often as it likes, in any of its threads: this waits for nobody. Of many steps in a short
        time, those who listen hear some and the last one. What is told after the attempt has ended is lost. If nobody
        records the call, this does nothing.

        Args:
            done: How far the tool has come, in a unit of its own.
            total: The whole, in the same unit. Default None: not known.
            message: A text for a person. Default "": none.
        """
        if self._tell is not None:
            self._tell(Progress(done, total, message, perf_counter_ns()))
