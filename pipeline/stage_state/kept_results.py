"""KeptResults: the texts of large results in a store, for whoever asked for them, in pieces that are read alone."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from hashlib import blake2b
from math import ceil
from typing import Any, Final, NamedTuple

import attrs

from ..base import timing
from ..once.digests import write_strict
from ..stores import ANY, Change, Store

_PIECE: Final = 262_144  # characters; at most a megabyte of UTF-8, and what a read loads at most twice
_TOGETHER: Final = 4  # pieces in one write
_MANY: Final = 100  # texts of one principal in one conversation
_TRIES: Final = 100  # of a write that another one overtook
_SURROGATES: Final = "surrogatepass"
_AS_SHOWN: Final = "replace"  # a lone surrogate is shown as a question mark
HANDLE: Final = re.compile("res_[0-9a-f]{24}")  # one of `make_handle` in a text


class Match(NamedTuple):
    """A place of a text, and what stands around it."""

    at: int
    around: str


class Kept(NamedTuple):
    """How long a text is: in characters, and in bytes of UTF-8."""

    characters: int
    size: int


@attrs.frozen
class KeptResults:
    """Keeps texts by who asked: a handle finds nothing for another principal or in another conversation.

    Args:
        store: Where they are kept; it must be open.
        seconds: How long each is kept.
        most: Bytes of UTF-8 that one principal has kept in one conversation, in at most 100 texts. The oldest make
            room; a text that is larger is not kept.
    """

    store: Store
    seconds: float
    most: int

    async def keep(self, who: tuple[object, str], handle: str, text: str) -> bool:
        """Keep a text under a handle of `make_handle`. It is found once all of it is there.

        Returns:
            Whether it is kept.

        Raises:
            StoreError: The store gave no answer.
            NotPlainError: The principal has no form as a text.
        """
        home = _find_home(who)
        size = sum(len(part.encode(errors=_AS_SHOWN)) for part in _cut(text))
        if size > self.most or not await self._make_room(home, handle, size):
            return False
        changes: list[Change] = []
        for number, part in enumerate(_cut(text)):
            changes.append(self._put(f"{home}/{handle}/{number}", part.encode(errors=_AS_SHOWN)))
            if len(changes) == _TOGETHER:
                await self.store.write(*changes)
                changes = []
        await self.store.write(*changes, self._put(f"{home}/{handle}", f"{len(text)} {size}".encode()))
        return True

    async def count(self, who: tuple[object, str], handle: str) -> int | None:
        """The characters of a text; None: as `find`."""
        found = await self.find(who, handle)
        return None if found is None else found.characters

    async def find(self, who: tuple[object, str], handle: str) -> Kept | None:
        """How long a text is; None: there is none under this handle, for this caller, any more."""
        if "/" in handle or len(handle) > 100:  # noqa: PLR2004  # no handle of ours
            return None
        entry = await self.store.get(f"{_find_home(who)}/{handle}")
        return None if entry is None else Kept(*map(int, entry.value.split()))

    async def read(self, who: tuple[object, str], handle: str, start: int, length: int) -> str | None:
        """A part of a text; None: it is gone."""
        parts: list[str] = []
        for number in range(start // _PIECE, (start + length - 1) // _PIECE + 1):
            part = await self._load(who, handle, number)
            if part is None:
                return None
            parts.append(part)
        skipped = start % _PIECE
        return "".join(parts)[skipped : skipped + length]

    async def search(
        self, who: tuple[object, str], handle: str, words: str, start: int, *, most: int, around: int
    ) -> tuple[list[Match], int | None] | None:
        """Find a text in a text, in linear time and with two pieces in memory.

        Returns:
            The places from ``start`` on, at most ``most``, and where to search on; None in its place: there are no
            more. None: the text is gone.
        """
        total = await self.count(who, handle)
        if total is None:
            return None
        found: list[Match] = []
        before, low, number = "", start, start // _PIECE
        while number * _PIECE < total:
            part = await self._load(who, handle, number)
            if part is None:
                return None
            held, base = before + part, number * _PIECE - len(before)
            at = held.find(words, max(0, low - base))
            while at >= 0:
                if len(found) == most:
                    return found, base + at
                found.append(Match(base + at, held[max(0, at - around) : at + len(words) + around]))
                low = base + at + len(words)
                at = held.find(words, low - base)
            before = held[-(len(words) + around) :]  # what may begin a match, or stand before one
            number += 1
            await timing.sleep(0)
        return found, None

    async def _load(self, who: tuple[object, str], handle: str, number: int) -> str | None:
        entry = await self.store.get(f"{_find_home(who)}/{handle}/{number}")
        return None if entry is None else entry.value.decode()

    def _put(self, key: str, value: bytes) -> Change:
        return Change(key, value, ANY, self.seconds)

    async def _make_room(self, home: str, handle: str, size: int) -> bool:
        """Note the text, and remove the oldest ones where all together would be too large."""
        for _ in range(_TRIES):
            entry = await self.store.get(home)
            now = timing.wall_time()
            noted: list[list[Any]] = [] if entry is None else json.loads(entry.value)
            kept = [each for each in noted if now - each[2] < self.seconds]
            gone: list[list[Any]] = []
            while kept and (len(kept) >= _MANY or sum(each[1] for each in kept) + size > self.most):
                gone.append(kept.pop(0))
            written = json.dumps([*kept, [handle, size, now]]).encode()
            note = Change(home, written, None if entry is None else entry.version, self.seconds)
            if await self.store.write(note, *(Change(f"{home}/{each[0]}", None) for each in gone)) is None:
                continue
            for name, bytes_, _ in gone:
                pieces = ceil(bytes_ / _PIECE)
                for first in range(0, pieces, 100):
                    last = min(pieces, first + 100)
                    await self.store.write(*(Change(f"{home}/{name}/{number}", None) for number in range(first, last)))
            return True
        return False


def make_handle() -> str:
    """A handle that nobody guesses: 96 random bits."""
    return f"res_{secrets.token_hex(12)}"


def _find_home(who: tuple[object, str]) -> str:
    return f"kept/{blake2b(write_strict(who).encode(errors=_SURROGATES), digest_size=16).hexdigest()}"


def _cut(text: str) -> Iterator[str]:
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
