"""What the stages of a pipeline hold open: connections, pools, and whatever else is an async context manager."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, TypeAlias, cast

import attrs

from .stage import Stage

Resource: TypeAlias = AbstractAsyncContextManager[Any]


@attrs.define(eq=False)
class _Held:
    """An open resource. Pipelines may share a stage: the first one opens it, and the last one closes it."""

    resource: Resource
    users: int = 0
    stack: AsyncExitStack = attrs.field(factory=AsyncExitStack)

    async def release(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.users -= 1
        if self.users == 0:
            del _held[id(self.resource)]
            await self.stack.__aexit__(kind, exc, traceback)


_held: dict[int, _Held] = {}  # by id of the resource


def list_resources(stages: Iterable[Stage]) -> tuple[Resource, ...]:
    """What the stages want to have opened, outermost first, each once.

    That is each stage that is an async context manager, and each one in the ``resources`` of a stage: `Execute` lists
    its executors there.
    """
    found = (each for stage in stages for each in _resources_of(stage.obj))
    return tuple({id(each): each for each in found}.values())


def needs_opening(resource: object) -> bool:
    """Whether it must be opened before it is used. An executor that opens itself says ``opens_itself = True``."""
    return not getattr(resource, "opens_itself", False)


def find_closed(resources: Iterable[Resource]) -> Resource | None:
    """The first of them that is not open; None: all are."""
    return next((each for each in resources if id(each) not in _held), None)


async def open_all(resources: Iterable[Resource]) -> AsyncExitStack:
    """Open them in this order, and return what closes them in the opposite order.

    Raises:
        Exception: What one of them raised. Those that were opened before it are closed again.
    """
    async with AsyncExitStack() as stack:
        for resource in resources:
            held = _held.get(id(resource))
            if held is None:
                held = _held[id(resource)] = _Held(resource)
                try:
                    await held.stack.enter_async_context(resource)
                except BaseException:
                    del _held[id(resource)]
                    raise
            held.users += 1
            stack.push_async_exit(held.release)
        return stack.pop_all()


def _resources_of(obj: Any) -> Iterator[Resource]:
    listed: Iterable[Resource] | None = getattr(obj, "resources", None)
    if listed is not None:
        yield from listed
    elif hasattr(cast("type[Any]", type(obj)), "__aenter__"):
        yield obj
