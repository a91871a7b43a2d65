"""State that an executor or a stage keeps for each event loop. It ends with its owner or the loop, the first to end.

A run variable for each owner would stay for the life of the loop, also after the owner is gone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from anyio.lowlevel import RunVar

T = TypeVar("T")


class EndsWithLoop(Protocol):
    """Something that must not outlive its event loop."""

    def end(self) -> None:
        """Release everything, without awaiting."""
        ...


class _LoopStates:
    def __init__(self) -> None:
        self.by_owner: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
        self.ending: WeakSet[EndsWithLoop] = WeakSet()
        self.watcher: AsyncGenerator[None] | None = None


_STATES: RunVar[_LoopStates] = RunVar("toolcall_loop_states")


def get_loop_state(owner: object, make: Callable[[], T]) -> T:
    """Return the owner's state for the current event loop, which is made at the first use.

    Args:
        owner: Held weakly. The state must not refer to it.
        make: Makes the state of one event loop.
    """
    by_owner = _get_states().by_owner
    state: T | None = by_owner.get(owner)
    if state is None:
        state = by_owner[owner] = make()
    return state


def drop_loop_state(owner: object) -> Any:
    """Remove the owner's state for the current event loop, and return it; None without one."""
    return _get_states().by_owner.pop(owner, None)


async def end_with_loop(state: EndsWithLoop) -> None:
    """Call ``state.end()`` when the current event loop ends, if the state still exists then.

    Both event loops close the async generators that are left at their end: asyncio in ``shutdown_asyncgens``, which
    ``asyncio.run`` calls, and trio by itself.
    """
    states = _get_states()
    states.ending.add(state)
    if states.watcher is None:
        states.watcher = _watch(states)
        await anext(states.watcher)


async def _watch(states: _LoopStates) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        states.watcher = None  # it refers to the loop, and a run variable must not: then the loop would never be freed
        states.by_owner.clear()  # as above
        for state in list(states.ending):
            state.end()


def _get_states() -> _LoopStates:
    states = _STATES.get(None)
    if states is None:
        states = _LoopStates()
        _STATES.set(states)
    return states
