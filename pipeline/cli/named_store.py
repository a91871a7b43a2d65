"""The store that a command line names: the path of an SQLite file, or the URL of a Redis or PostgreSQL server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from ..base.setup_error import SetupError
from ..stores import Postgres, Redis, SQLite, StoreError
from .terminal_text import CommandError

T = TypeVar("T")
_CLASSES: dict[str, Any] = {
    **dict.fromkeys(("redis", "rediss", "unix"), Redis),
    **dict.fromkeys(("postgres", "postgresql"), Postgres),
}


def make_store(named: str) -> SQLite | Redis | Postgres:
    """The store, which makes what is missing when it is opened."""
    scheme, is_url, _ = named.partition("://")
    if is_url and scheme not in _CLASSES:
        raise CommandError(f"{scheme}:// is no store: name the path of an SQLite file, redis://… or postgresql://…")
    try:
        return _CLASSES[scheme](named) if is_url else SQLite(named)
    except SetupError as exc:
        raise CommandError(str(exc)) from None


def ask_store(named: str, ask: Callable[[SQLite | Redis | Postgres], Awaitable[T]]) -> T:
    """The answer of a store that exists; nothing is made. It is open meanwhile."""
    store = make_store(named)
    store.makes_itself = False

    async def run() -> T:
        async with store:
            return await ask(store)

    try:
        return anyio.run(run)
    except (SetupError, StoreError) as exc:
        raise CommandError(str(exc)) from exc
