"""EventLog: the last events, numbered, of which those that matter least go first."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from secrets import token_hex
from typing import NamedTuple

from .event_rows import PROGRESS, RESULT, Event

_DIGITS = 15  # of a number in an id


class Mark(NamedTuple):
    """A place in the log: how many events were added until there."""

    number: int = 0
    lasting: int = 0  # of them, how many are no progress
    results: int = 0  # and how many are results


class EventLog:
    """The last events. It has no lock.

    Beyond its size, what somebody has read goes first, then the oldest progress, then the oldest event.

    Args:
        size: How many events it keeps.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._run = token_hex(4)  # begins the ids: those of another process, or of another log, mean nothing here
        self._entries: dict[int, tuple[Event, Mark]] = {}
        self._progress: deque[int] = deque()  # numbers of the entries of progress, oldest first
        self._lasting: deque[int] = deque()  # and of the others
        self.last = Mark()
        self.read = Mark()  # the furthest that somebody has read

    def add(self, event: Event) -> Event | None:
        """Add an event. Returns the one that had to go though nobody has read it."""
        number, lasting, results = self.last
        numbers = self._progress
        if event.name != PROGRESS:
            numbers, lasting, results = self._lasting, lasting + 1, results + (event.name == RESULT)
        mark = self.last = Mark(number + 1, lasting, results)
        self._entries[mark.number] = (event._replace(id=f"{self._run}-{'-'.join(map(str, mark))}"), mark)
        numbers.append(mark.number)
        return self._drop_one() if len(self._entries) > self._size else None

    def find_next(self, mark: Mark) -> tuple[Event, Mark] | None:
        """The next event after a mark, and its mark. None: there is none yet."""
        if mark.number >= self.last.number:
            return None
        found = self._entries.get(mark.number + 1)
        if found is not None:
            return found
        places = ((numbers, bisect_right(numbers, mark.number)) for numbers in (self._progress, self._lasting))
        number = min((numbers[place] for numbers, place in places if place < len(numbers)), default=0)
        return self._entries.get(number)  # None only in the child of a fork that came while one was added

    def find_mark(self, event_id: str) -> Mark:
        """The mark of the event with this id; the beginning, if it is not from here."""
        run, *counts = event_id.split("-")
        if run != self._run or len(counts) != len(Mark._fields):
            return Mark()
        if not all(count.isascii() and count.isdigit() and len(count) <= _DIGITS for count in counts):
            return Mark()
        return Mark(*(min(int(count), most) for count, most in zip(counts, self.last, strict=True)))

    def _drop_one(self) -> Event | None:
        oldest = min((numbers for numbers in (self._progress, self._lasting) if numbers), key=lambda each: each[0])
        is_unread = oldest[0] > self.read.number
        if is_unread and self._progress:
            oldest = self._progress
        event, _ = self._entries.pop(oldest.popleft())
        return event if is_unread else None
