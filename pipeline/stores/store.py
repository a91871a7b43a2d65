"""Store: keys with values and versions, written several at once or not at all, and only if they are as expected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import Enum
from random import Random
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, Self, TypeAlias, cast

from ..base.forking import register_after_fork
from ..base.setup_error import SetupError


class _Anything(Enum):
    ANY = "any"

    def __repr__(self) -> str:
        return self.name


ANY: Final = _Anything.ANY
Expected: TypeAlias = int | Literal[_Anything.ANY] | None


class Entry(NamedTuple):
    """A key's value, and the version that the write gave it which put it there."""

    value: bytes
    version: int


class Change(NamedTuple):
    """One key of a write.

    Attributes:
        key: Any text, also with characters that have a meaning to a database. Up to 1,000 bytes of UTF-8.
        value: The new value. None: the key is deleted.
        expect: The version that the key must have now; None: it must not exist. Default `ANY`: no condition.
        ttl: Seconds after which the key is gone, > 0. Default None: it stays.
    """

    key: str
    value: bytes | None
    expect: Expected = ANY
    ttl: float | None = None


class StoreError(Exception):
    """The store gave no answer: it cannot be reached, is full, or took too long.

    Attributes:
        maybe_written: Whether the changes of a write may have taken place. False: nothing was changed.
    """

    def __init__(self, text: str, *, maybe_written: bool = False) -> None:
        super().__init__(text)
        self.maybe_written = maybe_written


class Store(Protocol):
    """A store as stages need it. `toolcall_pipeline.testing.check_store` checks one of your own.

    A stage names its store in its attribute ``resources``, so that the pipeline opens and closes it. Stages and
    pipelines may share one. It works from every event loop and thread of the process, on asyncio and trio.
    """

    async def get(self, key: str, /) -> Entry | None:
        """Return a key's value and version; None: it does not exist, or its time is over.

        Raises:
            StoreError: The store gave no answer.
        """
        ...

    async def write(self, *changes: Change) -> int | None:
        """Make all changes, if each key is as it is expected to be, and otherwise none of them.

        Args:
            *changes: At least one, each for another key.

        Returns:
            The version that all these keys have now; a store never gives out a version twice, also after a key was
            deleted. None: a key was not as expected, and nothing was changed.

        Raises:
            StoreError: The store gave no answer; ``maybe_written`` says whether the changes may have taken place.
            SetupError: A change is not valid, or two are for one key.
        """
        ...

    def scan(self, prefix: str = "", /) -> AsyncIterator[tuple[str, Entry]]:
        """Iterate over the keys that begin with a text, in no particular order.

        A key that is changed meanwhile comes once, with its old or its new value, or not at all if it did not exist
        throughout. Nothing is held open between two keys.

        Raises:
            StoreError: The store gave no answer.
        """
        ...

    async def __aenter__(self) -> Self:
        """Open the store. It may be opened several times, and is closed when each of them has left.

        Raises:
            SetupError: This cannot be a store: its schema is newer, or it belongs to another program.
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        ...


def check_changes(changes: tuple[Change, ...]) -> None:
    """Raise SetupError for a write that no store could make: a mistake in the stage, never in a model's call."""
    if len({key for key, _, _, _ in changes}) != len(changes) or not changes:
        raise SetupError("write() takes at least one change, and each key once")
    for key, value, expect, ttl in changes:
        if type(key) is not str or (value is not None and type(cast("object", value)) is not bytes):
            raise SetupError(
                f"Change: a key is a text and a value is bytes or None, not {key!r} and {type(value).__name__}"
            )
        if expect is not None and expect is not ANY and type(cast("object", expect)) is not int:
            raise SetupError(f"Change: `expect` must be a version, None or ANY, not {expect!r}")
        if ttl is not None and not 0 < ttl < float("inf"):
            raise SetupError(f"Change: `ttl` must be a number of seconds > 0 and finite, or None, not {ttl!r}")


def make_version() -> int:
    """A version that no other write has: 62 random bits, since processes that never meet make them as well."""
    return _DICE.getrandbits(62) + 1


# Seeded by the system, once: to ask it for each write lets go of the lock of the interpreter, and costs 100 us on a
# busy machine. It protects nothing, so it may be guessed.
_DICE = Random()  # noqa: S311  # as said
register_after_fork(_DICE.seed)
