"""Cache: answers a call with the answer to an equal call of a short while ago, or of one that is under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from math import inf
from threading import Lock
from typing import Any, ClassVar, Literal, TypeAlias, cast, get_args

import anyio
import attrs
from returns.result import Success

from ..base import timing
from ..base.forking import register_after_fork
from ..base.options import check_number, is_count, is_function, read_by_name, read_names, refuse
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Handler, Placement
from ..stage_state.cache_answers import Answer, AnswerKey, KeptAnswers, make_key
from ..stage_state.keys import as_given
from ..stage_state.loop_state import get_loop_state

OnWrite: TypeAlias = Literal["forget_all", "forget_own", "keep"]
_IMMUTABLE = frozenset((type(None), str, int, bytes, bool, float))


@attrs.define(eq=False)
class _Flight:
    """A call under way, for which equal calls wait."""

    epoch: object
    ended: anyio.Event | None = None  # made by the first that waits
    entry: Answer | None = None  # None when it has ended: it was cancelled, and one of those that wait goes instead
    copyable: bool = True


@attrs.define(eq=False)
class Cache:
    """A middleware that keeps the answers of ``read`` tools, and runs equal calls at the same time once.

    Calls are equal if tool, principal and params are, by value and type. A call is not cached if its params hold
    anything but plain data: None, numbers, text, bytes, dates, UUIDs, paths, enums, and lists, tuples, dicts and sets
    of these. An answer is as old as its question. A call that is made while an equal one is under way gets its
    outcome, also a failure; if that one is cancelled, the next runs in its place. A failure is never kept, nor is a
    value that cannot be copied.

    Any call of a tool that is not ``read``, successful or not, invalidates what was asked for before it ended; so an
    idempotent tool that is cached by name and called with "a", "b" and "a" again runs three times. ``ttl`` is for
    changes that do not come through this stage, or take effect after their call has ended.

    It stands outside of Retry. Threads may share an instance; calls wait for each other in one event loop only.

    Args:
        ttl: Seconds for which an answer is kept, > 0; infinity: for ever. Or a mapping of tool names to seconds, see
            ``tools``.
        size: Answers that are kept, those that were used last. Must be ≥ 1. Default 1024.
        max_bytes: Estimated bytes of the answers and their params that are kept, those that were used last. An answer
            that is larger alone, or has more than 100,000 parts, is not kept. Must be ≥ 1; None: no limit. Default 64
            MiB.
        tools: Names of the only tools to cache, ``read`` or ``idempotent``; so are the names of a ``ttl`` mapping.
            Default None: all ``read`` tools but those that poll, or have a `ToolContext`, whose ``deps`` are in no
            key.
        on_write: The answers that a call of a tool other than ``read`` invalidates: ``"forget_all"`` (default),
            ``"forget_own"``, the answers for its own principal, or ``"keep"``, none.
        key: Replaces the params: calls for which it returns the same value are equal. A call for which it returns
            None is not cached. Default None: the params.
        copy: Copies a value that could be changed, when it is kept and whenever it is given. Default ``deepcopy``.
        clock: Returns seconds; only differences count. Default ``time.monotonic``; tests pass their own.

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="cache",
        reason="outside of retry: a call that is answered from the cache needs no attempt",
        holds_back="the cache has to see each change",
        inside_of={"loop_guard": "LoopGuard counts answers from the cache as well"},
        tool_options=("tools",),
    )

    ttl: float | Mapping[str, float]
    size: int = attrs.field(default=1024, validator=is_count(), kw_only=True)
    max_bytes: int | None = attrs.field(default=64 * 2**20, validator=is_count(optional=True), kw_only=True)
    tools: Iterable[str] | None = attrs.field(default=None, kw_only=True)
    on_write: OnWrite = attrs.field(default="forget_all", kw_only=True)
    key: Callable[[ValidCall], Hashable | None] | None = attrs.field(
        default=None, validator=is_function(optional=True), kw_only=True
    )
    copy: Callable[[Any], Any] = attrs.field(default=deepcopy, validator=is_function(), kw_only=True, repr=False)
    clock: Callable[[], float] = attrs.field(
        default=timing.monotonic, validator=is_function(), kw_only=True, repr=False
    )
    _ttl_by_tool: dict[str, float] | None = attrs.field(init=False, repr=False)  # None: no tool is named
    _epoch: object = attrs.field(init=False, factory=object, repr=False)  # replaced by each write
    _epochs: dict[str, object] = attrs.field(init=False, factory=dict[str, object], repr=False)  # of those that wrote
    _first_epoch: object = attrs.field(init=False, factory=object, repr=False)  # of the other principals
    _answers: KeptAnswers = attrs.field(init=False, repr=False)
    _lock: Lock = attrs.field(init=False, factory=Lock, repr=False)  # of the epochs

    def __attrs_post_init__(self) -> None:
        if not any(self.on_write == each for each in get_args(OnWrite)):  # `in` would hash it
            refuse("Cache", "on_write", " or ".join(map(repr, get_args(OnWrite))), self.on_write)
        self.tools = self._ttl_by_tool = _read_ttl(self.ttl, self.tools)
        self._answers = KeptAnswers(self.size, inf if self.max_bytes is None else self.max_bytes)
        register_after_fork(self._restart_in_child)

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """Return the kept answer, the outcome of an equal call under way, or the outcome of the inner stages."""
        tool = call.tool
        if self._ttl_by_tool is not None:
            cached = tool.name in self._ttl_by_tool and tool.effect in ("read", "idempotent")
        else:
            cached = tool.effect == "read" and not tool.context and not tool.polling
        key = self._key_of(call) if cached else None
        return self._run(call, call_next) if key is None else self._answer(call, call_next, key)

    def _run(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """Run a call that is not cached."""
        # With "keep", only idempotent tools are invalidated, and these have to be named.
        if call.tool.effect == "read" or (self.on_write == "keep" and self.tools is None):
            return call_next(call)  # no coroutine of its own
        return self._write(call, call_next)

    async def _write(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        try:
            return await call_next(call)
        finally:  # a cancelled call may have changed something, too
            with self._lock:
                self._invalidate(call.principal)

    async def _answer(self, call: ValidCall, call_next: Handler[ValidCall], key: AnswerKey) -> Outcome:
        while True:
            epoch = self._epoch_of(call)
            if (kept := self._find(key, epoch, call)) is not None:
                return self._replay(kept, call, "answered by an earlier call")
            flights = get_loop_state(self, _make_flights)
            flight = flights.get(key)
            if flight is None or flight.epoch is not epoch:
                flight = flights[key] = _Flight(epoch)
                try:
                    return await self._fetch(call, call_next, key, flight)
                finally:
                    if flights.get(key) is flight:
                        del flights[key]
                    if flight.ended is not None:
                        flight.ended.set()
            if flight.ended is None:
                flight.ended = anyio.Event()
            await flight.ended.wait()
            if not flight.copyable:
                return await self._run(call, call_next)
            if flight.entry is not None:
                return self._replay(flight.entry, call, "answered by an equal call that was under way")

    async def _fetch(self, call: ValidCall, call_next: Handler[ValidCall], key: AnswerKey, flight: _Flight) -> Outcome:
        asked_at = self.clock()
        outcome: Outcome | None = None
        try:
            outcome = await call_next(call)
            return outcome
        finally:
            self._store(call, key, flight, asked_at, outcome)

    def _store(
        self, call: ValidCall, key: AnswerKey, flight: _Flight, asked_at: float, outcome: Outcome | None
    ) -> None:
        """Keep a success for later calls, and any outcome for the calls that wait. None: the call was cancelled."""
        with self._lock:
            keep = type(outcome) is Success and self._epoch_of(call) is flight.epoch
            if call.tool.effect != "read":
                self._invalidate(call.principal)
            epoch = self._epoch_of(call)
        if outcome is None or not (keep or flight.ended is not None):
            return
        value: object = outcome.unwrap() if type(outcome) is Success else None
        size = self._answers.weigh(key, value) if keep else 0
        keep = keep and size <= self._answers.max_bytes
        if not (keep or flight.ended is not None):
            return
        immutable = type(value) in _IMMUTABLE
        try:
            kept = outcome if immutable else Success(self.copy(value))
            flight.entry = Answer(epoch, asked_at, kept, immutable, size)
        except Exception:  # noqa: BLE001  # the copy of a foreign value may raise anything
            flight.copyable = False
            return
        if keep:
            self._answers.put(key, flight.entry)

    def _find(self, key: AnswerKey, epoch: object, call: ValidCall) -> Answer | None:
        ttl: Any = self.ttl if self._ttl_by_tool is None else self._ttl_by_tool[call.tool.name]
        return self._answers.find(key, epoch, self.clock(), ttl)

    def _restart_in_child(self) -> None:
        self._lock = Lock()

    def _replay(self, entry: Answer, call: ValidCall, reason: str) -> Outcome:
        if call.report is not None:
            call.report.note(self, f"{reason}, {self.clock() - entry.asked_at:.3g} s ago")
        return entry.outcome if entry.immutable else Success(self.copy(entry.outcome.unwrap()))

    def _epoch_of(self, call: ValidCall) -> object:
        """Another object after each write that invalidates answers to this call."""
        if call.tool.effect != "read" or self.on_write == "forget_all":
            return self._epoch
        return self._epochs.get(call.principal, self._first_epoch)

    def _invalidate(self, principal: str) -> None:
        self._epoch = object()
        if self.on_write == "forget_own":
            if len(self._epochs) >= self.size:  # there may be any number of principals: invalidate all of them
                self._epochs.clear()
                self._first_epoch = object()
            self._epochs[principal] = self._epoch

    def _key_of(self, call: ValidCall) -> AnswerKey | None:
        if self.key is not None:
            key = self.key(call)
            return None if key is None else (call.tool, as_given(call.principal), as_given(key))
        return make_key(call)


def _make_flights() -> dict[AnswerKey, _Flight]:
    return {}


def _read_ttl(ttl: Any, tools: Iterable[str] | None) -> dict[str, Any] | None:
    """The tools to cache with their seconds; None if no tool is named."""
    if not isinstance(ttl, Mapping):
        check_number("Cache", "ttl", ttl, above=0, infinite=True, unit="seconds")
        if tools is None:
            return None
        named: dict[str, Any] = dict.fromkeys(read_names("Cache", "tools", tools), ttl)
    elif tools is None:
        named = dict(read_by_name("Cache", "ttl", cast("object", ttl)))
        for name, seconds in named.items():
            check_number("Cache", f"ttl[{name!r}]", seconds, above=0, infinite=True, unit="seconds")
    else:
        raise SetupError("Cache: `tools` must be absent if `ttl` is a mapping by name")
    if not named:
        raise SetupError("Cache: `tools` must be at least one name: nothing would be cached")
    return named
