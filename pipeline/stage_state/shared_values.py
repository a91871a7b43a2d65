"""Values that the processes of a fleet share: changed by compare-and-set, once for all callers of a process that wait.

If each caller made a write of its own, callers would starve: of a hundred writes at once that expect one version, one
comes through.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar, cast

import anyio
import attrs

from ..base.event_loops import EventLoop, get_event_loop
from ..base.forking import register_after_fork
from ..privacy.safe_logs import get_logger
from ..stores import Change, Entry, Store, StoreError

A = TypeVar("A")  # what a caller asks
B = TypeVar("B")  # the answer
Decide: TypeAlias = Callable[[bytes | None, Sequence[A]], tuple[bytes | None, float | None, list[B]]]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05  # seconds after another process came first
_PATIENCE = 30.0  # seconds that a caller waits at most: longer than a store does
_TELL = 1.0  # seconds that a call waits at its end, also one that was cancelled
_MANY = 1024  # values whose last version is remembered
_log = get_logger("stores")


@attrs.define(eq=False)
class AwayNotice:
    """Says in the log once that the store of a limit is away, and once that it answers again."""

    limit: str  # its name
    effect: str  # what becomes of calls meanwhile
    _is_away: bool = attrs.field(init=False, default=False)

    def note(self, error: Exception | None) -> None:
        """The store gave an answer, or none: a `StoreError`."""
        if isinstance(error, StoreError) and not self._is_away:
            self._is_away = True
            _log.warning("%s: the store gives no answer, so %s: %s", self.limit, self.effect, error)
        elif error is None and self._is_away:
            self._is_away = False
            _log.warning("%s: the store answers again", self.limit)


@attrs.define(eq=False)
class _Question(Generic[A, B]):
    """The question of one caller. It goes on without its caller once a round has taken it up."""

    asks: A
    signal: Any
    answer: B | None = None
    error: Exception | None = None
    ended: bool = False  # there is an answer or an error
    left: bool = False  # its caller will not read the answer

    def end(self, error: Exception | None) -> None:
        """There is an answer; or an error, if one is given."""
        self.error, self.ended = error, True


@attrs.define(eq=False)
class SharedValues(Generic[A, B]):
    """Values under keys of a store, each changed by a function of what callers ask.

    A task of its own makes the rounds for all that wait in its event loop, one round after the other. It belongs to no
    caller, so a caller that is cancelled leaves the others their answers, and its own is undone in the next round.

    Args:
        store: The store.
        decide: Called with the present value (None: there is none) and what the callers ask. It returns the new value
            (None: it stays as it is), the seconds that it is to be kept (None: for good), and one answer for each
            caller. It may be called several times for one round.
        beside: Returns further changes for the write of a round, from what the callers ask and their answers. Default
            None: there are none.
        only_grows: Whether an older value can only say less than the present one: then a refusal by the value that
            this process wrote last is right, and needs no look at the store.
        undo: Returns what has to be asked to take back an answer that was not read; None: nothing. Default None: no
            answer is taken back.
        notice: Logs that the store is away. Default None: there is no log.
    """

    store: Store
    decide: Decide[A, B]
    only_grows: bool = False
    beside: Callable[[Sequence[A], Sequence[B]], Sequence[Change]] | None = None
    undo: Callable[[A, B], A | None] | None = None
    notice: AwayNotice | None = None
    # What waits for the next round, as long as there are rounds.
    _queues: dict[tuple[EventLoop, str], list[_Question[A, B]]] = attrs.field(init=False, factory=dict[Any, Any])
    _known: dict[str, Entry] = attrs.field(init=False, factory=dict[str, Entry])  # the last ones that we wrote

    def __attrs_post_init__(self) -> None:
        register_after_fork(self._restart_in_child)

    async def ask(self, key: str, asks: A) -> B:
        """Have one thing decided.

        A caller that is cancelled waits until what was decided for it is undone, for a second at most.
        """
        loop = get_event_loop()
        question: _Question[A, B] = _Question(asks, loop.make_signal())
        self._put(loop, key, question)
        try:
            await loop.wait(question.signal, _PATIENCE)
        except BaseException:
            await self._leave(loop, key, question)
            raise
        if not question.ended:
            question.left = True
            raise StoreError(f"nothing was decided in {_PATIENCE:g} seconds", maybe_written=True)
        if question.error is not None:
            raise question.error
        return cast("B", question.answer)

    async def tell(self, key: str, *asks: A) -> list[B | None]:
        """Have things decided for good. From its first step on, no cancellation reaches them.

        Returns:
            The answers; None after a second without one, or where the store gives none.
        """
        loop = get_event_loop()
        questions = [_Question[A, B](each, loop.make_signal()) for each in asks]
        for each in questions:
            self._put(loop, key, each, first=True)  # what comes back is there for those that ask
        with anyio.CancelScope(shield=True):
            for each in questions:
                await loop.wait(each.signal, _TELL)
        for each in questions:
            if each.error is not None and not isinstance(each.error, StoreError):
                raise each.error
        return [each.answer for each in questions]

    def _put(self, loop: EventLoop, key: str, question: _Question[A, B], *, first: bool = False) -> None:
        queue = self._queues.get((loop, key))
        if queue is None:
            queue = self._queues[loop, key] = []
            loop.start(self._make_rounds, loop, key, queue)
        queue.insert(0 if first else len(queue), question)

    async def _leave(self, loop: EventLoop, key: str, question: _Question[A, B]) -> None:
        question.left = True
        queue = self._queues.get((loop, key))
        if queue is not None and question in queue:
            queue.remove(question)
            return
        question.signal = loop.make_signal()
        if not question.ended or self._undo(loop, key, question):
            with anyio.CancelScope(shield=True):
                await loop.wait(question.signal, _TELL)

    def _undo(self, loop: EventLoop, key: str, question: _Question[A, B]) -> bool:
        """Ask that an answer which was not read is taken back. False: there is nothing to take back."""
        asks = None
        if self.undo is not None and question.error is None:
            asks = self.undo(question.asks, cast("B", question.answer))
        question.left = False
        if asks is not None:
            self._put(loop, key, _Question(asks, question.signal))
        return asks is not None

    async def _make_rounds(self, loop: EventLoop, key: str, queue: list[_Question[A, B]]) -> None:
        asked: list[_Question[A, B]] = []
        try:
            while queue:
                asked = queue[:]
                queue.clear()
                await self._answer(key, asked)
                # The last one first: of slots in a row, each is then the last one when it comes back.
                for each in reversed(asked):
                    if not each.left or not self._undo(loop, key, each):
                        loop.set(each.signal)
        finally:
            self._queues.pop((loop, key), None)
            for each in (*asked, *queue):
                if not each.ended:  # the loop ends
                    each.end(StoreError("the event loop ends", maybe_written=each in asked))
                    with suppress(RuntimeError):  # it is closed
                        loop.set(each.signal)

    async def _answer(self, key: str, asked: Sequence[_Question[A, B]]) -> None:
        """Give each its answer or its error. If several are refused together, each is asked for alone."""
        with anyio.move_on_after(_PATIENCE):
            error = await self._try(key, asked)
            if error is not None and not getattr(error, "maybe_written", False) and len(asked) > 1:
                for each in asked:
                    each.ended = False
                for each in asked:
                    await self._try(key, [each])
        for each in asked:
            if not each.ended:
                each.end(StoreError(f"{self.store!r}: no answer in {_PATIENCE:g} seconds", maybe_written=True))

    async def _try(self, key: str, asked: Sequence[_Question[A, B]]) -> Exception | None:
        error: Exception | None = None
        try:
            answers = await self._change(key, [each.asks for each in asked])
            for each, answer in zip(asked, answers, strict=True):
                each.answer = answer
                each.end(None)
        except Exception as exc:  # noqa: BLE001  # raised again in each caller
            error = exc
            for each in asked:
                each.end(StoreError(str(exc), maybe_written=exc.maybe_written) if isinstance(exc, StoreError) else exc)
        if self.notice is not None:
            self.notice.note(error)
        return error

    async def _change(self, key: str, asks: Sequence[A]) -> list[B]:
        pause = _FIRST_PAUSE
        entry = self._known.pop(key, None)  # mostly no other process has written since: then this saves a look
        is_fresh = False
        while True:
            if entry is None:
                entry = await self.store.get(key)
                is_fresh = True
            value, ttl, answers = self.decide(None if entry is None else entry.value, asks)
            if value is None and (is_fresh or self.only_grows):
                if entry is not None:
                    self._remember(key, entry)
                return answers
            if value is None:
                entry = None
                continue
            change = Change(key, value, None if entry is None else entry.version, ttl)
            version = await self.store.write(change, *(self.beside(asks, answers) if self.beside else ()))
            if version is not None:
                self._remember(key, Entry(value, version))
                return answers
            entry = None
            await anyio.sleep(random.random() * pause)  # noqa: S311  # no secret
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _remember(self, key: str, entry: Entry) -> None:
        if len(self._known) >= _MANY:
            self._known.clear()
        self._known[key] = entry

    def _restart_in_child(self) -> None:
        self._queues, self._known = {}, {}
