"""Events: a numbered, bounded log of what happens to calls, and the readers that iterate over it."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from secrets import token_hex
from threading import Event as ThreadEvent
from threading import Lock
from time import perf_counter_ns
from typing import NamedTuple, Self

from anyio.lowlevel import checkpoint

from ..base.event_loops import EventLoop, get_event_loop
from ..base.forking import register_after_fork
from ..base.options import check_count, check_type
from ..engine.report import CallReport, LiveReport, Row
from ..privacy import get_logger
from .call_spans import captures_content
from .event_rows import PROGRESS, RESULT, Event, begin_event, end_event, events_of, row_event

_DIGITS = 15  # at most, of a number in an id


class LogPosition(NamedTuple):
    """A position in the log, as counts of the events added until there.

    Attributes:
        number: All events.
        lasting: Events other than progress.
        results: Results.
    """

    number: int = 0
    lasting: int = 0
    results: int = 0


class EventLog:
    """The last events. It has no lock.

    Beyond its size it drops events that a reader has read first, then the oldest progress, then the oldest event.

    Args:
        size: How many events it keeps.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._run = token_hex(4)  # the prefix of its ids, which mean nothing in another process or log
        self._entries: dict[int, tuple[Event, LogPosition]] = {}
        self._progress: deque[int] = deque()  # numbers of the entries of progress, oldest first
        self._lasting: deque[int] = deque()  # and of the others
        self.last = LogPosition()
        self.read = LogPosition()  # the furthest position that a reader has reached

    def add(self, event: Event) -> Event | None:
        """Add an event. Return the event that was dropped for it if no reader had read that."""
        number, lasting, results = self.last
        numbers = self._progress
        if event.name != PROGRESS:
            numbers, lasting, results = self._lasting, lasting + 1, results + (event.name == RESULT)
        position = self.last = LogPosition(number + 1, lasting, results)
        self._entries[position.number] = (event._replace(id=f"{self._run}-{'-'.join(map(str, position))}"), position)
        numbers.append(position.number)
        return self._drop_one() if len(self._entries) > self._size else None

    def find_next(self, position: LogPosition) -> tuple[Event, LogPosition] | None:
        """Return the next event after a position, and its own position; None if there is none yet."""
        if position.number >= self.last.number:
            return None
        found = self._entries.get(position.number + 1)
        if found is not None:
            return found
        places = ((numbers, bisect_right(numbers, position.number)) for numbers in (self._progress, self._lasting))
        number = min((numbers[place] for numbers, place in places if place < len(numbers)), default=0)
        return self._entries.get(number)  # None only in the child of a fork during `add`

    def find_position(self, event_id: str) -> LogPosition:
        """Return the position of the event with this id; the beginning if the id is not from this log."""
        run, *counts = event_id.split("-")
        if run != self._run or len(counts) != len(LogPosition._fields):
            return LogPosition()
        if not all(count.isascii() and count.isdigit() and len(count) <= _DIGITS for count in counts):
            return LogPosition()
        return LogPosition(*(min(int(count), most) for count, most in zip(counts, self.last, strict=True)))

    def _drop_one(self) -> Event | None:
        oldest = min((numbers for numbers in (self._progress, self._lasting) if numbers), key=lambda each: each[0])
        is_unread = oldest[0] > self.read.number
        if is_unread and self._progress:
            oldest = self._progress
        event, _ = self._entries.pop(oldest.popleft())
        return event if is_unread else None


_logger = get_logger()
_DROPPED = "tool.dropped"


class Events:
    """A sink for ``Trace(sinks=[…])``, or for one call, to iterate over while the calls run.

    ``async for event in events`` starts with the first unread event and gets each event after it. Several such loops
    may run at once, in several tasks, threads and event loops; ``for`` waits in a thread without an event loop. A loop
    ends when the sink is closed and all events are read; as a context manager the sink closes itself at the end of the
    block. A reader that is slow, cancelled or gone delays nothing.

    The last ``max_queue`` events are kept, for readers that are slow or come back. Beyond that, events that a reader
    has read go first, then the oldest progress, then the oldest event. A reader that lost events other than progress
    finds a ``tool.dropped`` in their place, with ``events``, their number, and ``results``, the number of results among
    them.

    Args:
        max_queue: How many events are kept. Default 10,000, at least 1.
        content: Whether ``tool.call`` has the ``arguments``, as they may be recorded. Default None: only if
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says so, as for `Trace`.

    Raises:
        SetupError: ``max_queue`` is not an integer, or below 1; or ``content`` is not a bool.
    """

    def __init__(self, max_queue: int = 10_000, *, content: bool | None = None) -> None:
        check_count("Events", "max_queue", max_queue)
        check_type("Events", "content", content, bool, optional=True)
        self.dropped = 0  # events that were dropped unread, or came after the end
        self._warned = False
        self._arguments = captures_content() if content is None else content
        self._log = EventLog(max_queue)
        self._closed = False
        self._waiting: set[Callable[[], object]] = set()  # each wakes a reader
        self._restart_in_child()
        register_after_fork(self._restart_in_child)

    def __call__(self, report: CallReport) -> None:
        """Queue all events of an ended call, for a sink of your own that passes some calls on."""
        for event in events_of(report):
            self._add(event)

    def call_begins(self, report: LiveReport) -> None:
        """Queue ``tool.call``."""
        self._add(begin_event(report, arguments=self._arguments))

    def hear(self, report: LiveReport, row: Row) -> None:
        """Queue the event of the row."""
        self._add(row_event(report, row, perf_counter_ns()))

    def call_ends(self, report: CallReport) -> None:
        """Queue ``tool.result``."""
        self._add(end_event(report))

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over the events, from the first unread one."""
        return Reader(self, self._log.read)

    def __iter__(self) -> Iterator[Event]:
        """Iterate in a thread without an event loop; it blocks while it waits."""
        return Reader(self, self._log.read)

    def read(self, after: str | None = None) -> Reader:
        """Iterate over the events after the one with this id.

        Args:
            after: `Event.id`, such as the ``Last-Event-ID`` of a browser that reconnects. An id that is not from here,
                as after a restart: all events that are kept. Default None: only events from now on.

        Raises:
            SetupError: ``after`` is not a text, such as the bytes of a header.
        """
        check_type("Events.read", "after", after, str, optional=True)
        with self._lock:
            return Reader(self, self._log.last if after is None else self._log.find_position(after))

    def close(self) -> None:
        """Take no more events. Queued ones can still be read."""
        with self._lock:
            self._closed = True
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, position: LogPosition, wake: Callable[[], object]) -> tuple[Event, LogPosition] | None:
        """Return the next event after a position, for a `Reader`; or None, and call ``wake`` when there is one.

        Raises:
            StopIteration: The sink is closed and all events are read.
        """
        with self._lock:
            found = self._log.find_next(position)
            if found is None:
                if self._closed:
                    raise StopIteration
                self._waiting.add(wake)
            elif found[1].number > self._log.read.number:
                self._log.read = found[1]
            return found

    def stop_waiting(self, wake: Callable[[], object]) -> None:
        """Forget the ``wake`` of a `Reader` whose wait was cancelled."""
        with self._lock:
            self._waiting.discard(wake)

    def _add(self, event: Event) -> None:
        with self._lock:
            gone = event if self._closed else self._log.add(event)
            self._wake()
            if gone is None:
                return
            self.dropped += 1
            if self._warned or gone.name == PROGRESS or self._closed:
                return
            self._warned = True
        _logger.warning("Events are dropped, because nobody reads them in time")

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()

    def _restart_in_child(self) -> None:
        """In the child of a fork: the readers wait in the parent, and one of its threads may have held the lock."""
        self._lock = Lock()
        self._waiting = set()


class Reader:
    """Reads the events of an `Events` from its own position: with ``async for``, or with ``for`` in a thread."""

    def __init__(self, events: Events, position: LogPosition) -> None:
        self.dropped = 0  # events that this reader has lost
        self._events, self._position = events, position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event as soon as there is one. A cancelled wait loses none."""
        await checkpoint()
        loop = get_event_loop()
        while True:
            signal = loop.make_signal()
            wake = partial(_set, loop, signal)
            try:
                found = self._events.take(self._position, wake)
            except StopIteration:
                raise StopAsyncIteration from None
            if found is not None:
                return self._go_to(*found)
            try:
                await signal
            except BaseException:
                self._events.stop_waiting(wake)
                raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        """Return the next event, waiting for it in the current thread."""
        while True:
            signal = ThreadEvent()
            found = self._events.take(self._position, signal.set)
            if found is not None:
                return self._go_to(*found)
            signal.wait()

    def _go_to(self, event: Event, position: LogPosition) -> Event:
        """Move to an event and return it. If events before it are lost, return ``tool.dropped`` and stop before it."""
        passed = self._position
        is_progress = event.name == PROGRESS
        lost = position.lasting - passed.lasting - (not is_progress)
        if lost > 0:
            before = LogPosition(
                position.number - 1, position.lasting - (not is_progress), position.results - (event.name == RESULT)
            )
            self.dropped += before.number - passed.number
            self._position = before
            data = {"events": lost, "results": before.results - passed.results}
            return Event(_DROPPED, event.at, "", None, data)
        self.dropped += position.number - passed.number - 1
        self._position = position
        return event


def _set(loop: EventLoop, signal: object) -> None:
    if loop.is_current():
        loop.set(signal)
    else:
        loop.call_soon(loop.set, signal)
