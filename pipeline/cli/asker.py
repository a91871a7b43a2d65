"""Asker: who asks with a command, ``--deps``, ``--principal`` and ``--conversation``."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ContextDecorator, asynccontextmanager
from typing import Any

import attrs

from ..engine.compose.pipeline import Pipeline
from .loading import check_factory, load_object, open_named
from .terminal_text import CommandError

_EXPECTED = "expected a function without required parameters that returns the deps"


@attrs.frozen
class Asker:
    """The caller of each call of a command that does not name one."""

    deps: str | None = None  # MODULE:FACTORY, as it was typed; None: the calls have no deps
    principal: str = ""
    conversation: str = ""
    _factory: Callable[[], object] | None = attrs.field(default=None, repr=False)

    @classmethod
    def load(cls, deps: str | None, principal: str, conversation: str) -> Asker:
        """Import the factory, which `bind` calls; CommandError if there is none, or it has required parameters."""
        if deps is None:
            return cls(None, principal, conversation)
        factory = load_object(deps, "FACTORY")
        if not callable(factory):
            raise CommandError(f"--deps {deps} is of type {type(factory).__name__}: {_EXPECTED}")
        check_factory(factory, f"--deps {deps}", _EXPECTED)
        return cls(deps, principal, conversation, factory)

    @asynccontextmanager
    async def bind(self, pipeline: Pipeline) -> AsyncGenerator[Pipeline]:
        """The pipeline of a block, with the deps, which are closed after it. One that fails to close is logged."""
        if self._factory is None:
            yield pipeline.with_(principal=self.principal, conversation=self.conversation)
            return
        async with open_named(_open(self._factory), f"--deps {self.deps}") as deps:
            yield pipeline.with_(deps=deps, principal=self.principal, conversation=self.conversation)


@asynccontextmanager
async def _open(factory: Callable[[], object]) -> AsyncGenerator[object]:
    """The deps of the factory, entered if it is an async context manager or was made by ``contextmanager``."""
    made: Any = factory()
    if _is_awaitable(made) and not _is_async_block(made):  # an object may be both, as a pool of asyncpg is
        made = await made
    if _is_async_block(made):
        async with made as deps:
            yield deps
    elif _is_own_block(made):
        with made as deps:
            yield deps
    else:
        yield made


def _is_awaitable(made: object) -> bool:  # without narrowing the type, as the two below
    return inspect.isawaitable(made)


def _is_async_block(made: object) -> bool:
    return isinstance(made, AbstractAsyncContextManager)


def _is_own_block(made: object) -> bool:
    """Whether ``contextmanager`` made it. Others, as a connection of sqlite3, mean something else by a block."""
    return isinstance(made, AbstractContextManager) and isinstance(made, ContextDecorator)


NOBODY = Asker()
