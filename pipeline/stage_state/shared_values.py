"""Values that the processes of a fleet share: changed by compare-and-set, once for all callers of a process that wait.

If each caller made a write of its own, callers would starve: of a hundred writes at once that expect one version, one
comes through.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, cast

import anyio
import attrs

from ..base.event_loops import EventLoop, get_event_loop
from ..base.forking import register_after_fork
from ..base.options import check_type, refuse
from ..base.setup_error import SetupError
from ..identity import NotPlainError, digest
from ..privacy.safe_logs import get_logger
from ..stores import Change, Entry, Store, StoreError

A = TypeVar("A")  # what a caller asks
B = TypeVar("B")  # the answer
Decide: TypeAlias = Callable[[bytes | None, Sequence[A]], tuple[bytes | None, float | None, list[B]]]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05  # seconds after another process came first
_MANY = 1024  # values whose last version is remembered
_log = get_logger("stores")


@attrs.define(eq=False)
class _Caller(Generic[A, B]):
    asks: A
    signal: Any
    answer: B | None = None
    error: StoreError | None = None
    leads: bool = False  # woken to do the next round


@attrs.define(eq=False)
class SharedValues(Generic[A, B]):
    """Values under keys of a store, each changed by a function of what callers ask.

    One caller at a time makes the round for all that wait in its event loop; then the first of those that came
    meanwhile makes the next one. A caller that is cancelled hands the round on.

    Args:
        store: The store.
        decide: Called with the present value (None: there is none) and what the callers ask. It returns the new value
            (None: it stays as it is), the seconds that it is to be kept (None: for good), and one answer for each
            caller. It may be called several times for one round.
        beside: Returns further changes for the write of a round, from what the callers ask and their answers. Default
            None: there are none.
        only_grows: Whether an older value can only say less than the present one: then a refusal by the value that
            this process wrote last is right, and needs no look at the store.
    """

    store: Store
    decide: Decide[A, B]
    only_grows: bool = False
    beside: Callable[[Sequence[A], Sequence[B]], Sequence[Change]] | None = None
    _waiting: dict[tuple[int, str], list[_Caller[A, B]]] = attrs.field(
        init=False, factory=dict[tuple[int, str], list["_Caller[A, B]"]]
    )  # by event loop and key, while a round is made
    _known: dict[str, Entry] = attrs.field(init=False, factory=dict[str, Entry])  # the last ones that we wrote
    _loop: EventLoop | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        register_after_fork(self._restart_in_child)

    async def ask(self, key: str, asks: A) -> B:
        """Have one thing decided.

        Raises:
            StoreError: The store gave no answer.
        """
        loop = self._loop
        if loop is None or not loop.is_current():
            loop = self._loop = get_event_loop()
        place = id(loop), key
        caller: _Caller[A, B] = _Caller(asks, None)
        waiting = self._waiting.get(place)
        if waiting is None:
            self._waiting[place] = []
        else:
            caller.signal = loop.make_signal()
            waiting.append(caller)
            try:
                await caller.signal
            except BaseException:
                with suppress(ValueError):
                    waiting.remove(caller)
                if caller.leads:
                    self._hand_on(loop, place)
                raise
        if waiting is None or caller.leads:
            await self._make_round(loop, place, key, caller)
        if caller.error is not None:
            raise caller.error
        return cast("B", caller.answer)

    async def _make_round(self, loop: EventLoop, place: tuple[int, str], key: str, leader: _Caller[A, B]) -> None:
        callers = [leader, *self._waiting[place]]
        self._waiting[place].clear()
        done = False
        try:
            answers = await self._change(key, [each.asks for each in callers])
            for each, answer in zip(callers, answers, strict=True):
                each.answer = answer
            done = True
        except StoreError as exc:
            for each in callers:
                each.error = StoreError(str(exc), maybe_written=exc.maybe_written)
            done = True
        finally:
            if done:
                for each in callers[1:]:
                    loop.set(each.signal)
            else:  # cancelled: the others ask again, and what this round may have written is theirs no more
                self._waiting[place][:0] = callers[1:]
            self._hand_on(loop, place)

    def _hand_on(self, loop: EventLoop, place: tuple[int, str]) -> None:
        waiting = self._waiting[place]
        if waiting:
            following = waiting.pop(0)
            following.leads = True
            loop.set(following.signal)
        else:
            del self._waiting[place]

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
        self._waiting, self._known, self._loop = {}, {}, None


@attrs.define(eq=False)
class AwayNotice:
    """Around each question to a limit's store: says once in the log that it is away, and once that it answers again."""

    limit: str  # its name
    effect: str  # what becomes of calls meanwhile
    _is_away: bool = attrs.field(init=False, default=False)

    def __enter__(self) -> None:
        """Nothing has to be prepared."""

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None) -> None:
        """A `StoreError` means that the store is away; another exception, as of a cancelled call, means nothing."""
        if isinstance(exc, StoreError) and not self._is_away:
            self._is_away = True
            _log.warning("%s: the store gives no answer, so %s: %s", self.limit, self.effect, exc)
        elif kind is None and self._is_away:
            self._is_away = False
            _log.warning("%s: the store answers again", self.limit)


def name_key(owner: str, key: object) -> str:
    """A partition's key as a text that is equal in all processes.

    Raises:
        SetupError: A function of the user's returned a value whose equality only this process can tell.
    """
    try:
        return digest(key)
    except NotPlainError as exc:
        raise SetupError(
            f"{owner}: with `store`, `key` must return a text, a number or a tuple of these, not {type(key).__name__}"
        ) from exc


def check_sharing(owner: str, store: object, when_away: object, share_as: object) -> None:
    """Raise SetupError for an option that says how a limit is shared."""
    is_store = all(callable(getattr(store, name, None)) for name in ("get", "write", "scan"))
    if store is not None and (not is_store or isinstance(store, type)):
        refuse(owner, "store", "a store, such as SQLite(path), or None", store)
    if type(when_away) is not str or when_away not in ("refuse", "local"):
        refuse(owner, "when_away", '"refuse" or "local"', when_away)
    check_type(owner, "share_as", share_as, str, name="text")
