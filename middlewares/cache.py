"""Cache: answers a call with what came of an equal one a short while ago."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from threading import Lock
from types import BuiltinFunctionType, FunctionType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

import anyio
import attrs
from anyio.lowlevel import RunVar
from returns.result import Success

from pipeline import Handler, Outcome, Placement, SetupError, ValidCall
from pipeline.tools.definition import is_async

# What a call that may have changed something makes forget: all, what its own principal asked for, nothing.
OnWrite: TypeAlias = Literal["forget_all", "forget_own", "keep"]
_AS_IT_IS = frozenset((type(None), int, str, bytes))
_BY_TEXT = frozenset((bool, float, complex))  # True equals 1, as 1.0 does, and -0.0 equals 0.0
_NEVER_CHANGES = _AS_IT_IS | _BY_TEXT


class _Answer(NamedTuple):
    """What came of a call."""

    since: object  # the last write before it, of those that concern it
    asked: float
    outcome: Outcome
    shared: bool  # nobody can change it, so everybody gets the same


@attrs.define(eq=False)
class _Flight:
    """A call under way, for which equal ones wait."""

    since: object
    landed: anyio.Event | None = None  # made by the first one that waits
    came: _Answer | None = None  # None when it has landed: it was cancelled, and one of the others has to go
    apart: bool = False  # what came of it cannot be shared: each goes alone


class Cache:
    """Keeps what ``read`` tools answer, each for ``ttl`` seconds from when it was asked (as RFC 9111 section 4.2.3).

    Equal calls under way at the same time wait for the first one and share what comes of it, a failure too; if it is
    cancelled, the next one goes in its stead. A failure is never kept. Equal are calls of one tool, by one principal,
    with params of the same values and types; ``key(call)``, if given, stands in for the params. None there, or params
    that cannot be compared: not cached. A value that somebody could change is copied, by ``copy``, as it is kept and
    whenever it is given; what cannot be copied is not kept.

    ``tools``, or a ``ttl`` that is a mapping of names to seconds, names the only tools to be cached. Unless named,
    these are not: those that poll, those with a `ToolContext`, whose ``deps`` are in no key, and ``idempotent`` ones,
    whose repetition then does not run. Tools of the other effects never are.

    A call that may have changed something, of any tool that is not ``read`` and however it ended, makes all be
    forgotten that was asked before its end: ``on_write="forget_own"`` what its own principal asked, ``"keep"`` nothing.
    What an idempotent tool was told is forgotten in any case: told "a", "b" and "a" again, it runs three times.
    Changes that do not come through this stage, or land when their call has ended, are what ``ttl`` is for.

    Calls without a ``principal`` share their answers; ``size`` of all are kept, those used last. Threads may share it;
    calls wait for each other in one event loop only. Stands outside of Retry.
    """

    placement: ClassVar[Placement] = Placement(
        marks=True,
        kind="cache",
        reason="outside of retry: an answer that is there wants no attempt",
        inside_of={"loop_guard": "answers from the cache are results as well, and repeat"},
    )

    def __init__(
        self,
        ttl: float | Mapping[str, float],
        *,
        size: int = 1024,
        tools: Iterable[str] | None = None,
        on_write: OnWrite = "forget_all",
        key: Callable[[ValidCall], Hashable | None] | None = None,
        copy: Callable[[Any], Any] = deepcopy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._named = _named(ttl, tools)
        self._ttl: Any = ttl  # seconds, where no tool is named
        if type(cast("object", size)) is not int or size < 1:
            raise SetupError(f"Cache: it keeps at least one answer, not {size!r}")
        if on_write not in get_args(OnWrite):
            raise SetupError(f"Cache: on_write is {' or '.join(get_args(OnWrite))}, not {on_write!r}")
        for function in (copy, clock) if key is None else (copy, clock, key):
            if not callable(cast("object", function)) or is_async(function):
                raise SetupError(f"Cache: key, copy and clock are plain functions, not {function!r}")
        self._size = size
        self._on_write = on_write
        self._key = key
        self._copy = copy
        self._clock = clock
        self._written = object()  # another one after each write
        self._begun = object()  # of who has not written yet, or whose writes do not matter
        self._written_by: dict[str, object] = {}
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._lock = Lock()
        self._flights: RunVar[dict[Hashable, _Flight]] = RunVar("flights")

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """What was kept, what an equal call under way comes to, or the inside's outcome."""
        tool = call.tool
        if self._named is not None:
            cached = tool.name in self._named and tool.effect in ("read", "idempotent")
        else:
            cached = tool.effect == "read" and not tool.context and not tool.polling
        key = self._key_of(call) if cached else None
        return self._alone(call, call_next) if key is None else self._answered(call, call_next, key)

    def _alone(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        # With "keep" a write concerns idempotent tools only, and those have to be named.
        if call.tool.effect == "read" or (self._on_write == "keep" and self._named is None):
            return call_next(call)  # no coroutine of its own
        return self._writing(call, call_next)

    async def _writing(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        try:
            return await call_next(call)
        finally:  # cancelled it may have changed something, too
            if self._named is None:
                self._write(call.principal)
            else:  # something idempotent may be kept just now
                with self._lock:
                    self._write(call.principal)

    async def _answered(self, call: ValidCall, call_next: Handler[ValidCall], key: Hashable) -> Outcome:
        while True:
            since = self._since(call)
            if (kept := self._look_up(key, since, call)) is not None:
                return self._given(kept, call, "answered by an earlier call")
            if (flights := self._flights.get(None)) is None:
                self._flights.set(flights := {})
            flight = flights.get(key)
            if flight is None or flight.since is not since:
                flight = flights[key] = _Flight(since)
                try:
                    return await self._flown(call, call_next, key, flight)
                finally:  # if it was cancelled, one of those that wait has to go
                    if flights.get(key) is flight:
                        del flights[key]
                    if flight.landed is not None:
                        flight.landed.set()
            if flight.landed is None:
                flight.landed = anyio.Event()
            await flight.landed.wait()
            if flight.apart:
                return await self._alone(call, call_next)
            if flight.came is not None:
                return self._given(flight.came, call, "answered by an equal call that was under way")

    async def _flown(self, call: ValidCall, call_next: Handler[ValidCall], key: Hashable, flight: _Flight) -> Outcome:
        asked = self._clock()
        outcome: Outcome | None = None
        try:
            outcome = await call_next(call)
            return outcome
        finally:
            self._came(call, key, flight, asked, outcome)

    def _came(self, call: ValidCall, key: Hashable, flight: _Flight, asked: float, outcome: Outcome | None) -> None:
        with self._lock:
            kept = type(outcome) is Success and self._since(call) is flight.since  # and not overtaken by a write
            if call.tool.effect != "read":
                self._write(call.principal)
            since = self._since(call)
        if outcome is None or not (kept or flight.landed is not None):
            return
        value: object = outcome.unwrap() if type(outcome) is Success else None
        shared = type(value) in _NEVER_CHANGES
        try:
            flight.came = _Answer(since, asked, outcome if shared else Success(self._copy(value)), shared)
        except Exception:  # noqa: BLE001  # a copy of anything may raise anything
            flight.apart = True
            return
        if kept:
            with self._lock:
                self._answers[key] = flight.came
                if len(self._answers) > self._size:
                    self._answers.popitem(last=False)

    def _look_up(self, key: Hashable, since: object, call: ValidCall) -> _Answer | None:
        ttl = self._ttl if self._named is None else self._named[call.tool.name]
        with self._lock:
            answer = self._answers.pop(key, None)
            if answer is None or answer.since is not since or self._clock() - answer.asked >= ttl:
                return None
            self._answers[key] = answer  # last, as the last one used
            return answer

    def _given(self, answer: _Answer, call: ValidCall, how: str) -> Outcome:
        if call.report is not None:
            call.report.note(self, f"{how}, {self._clock() - answer.asked:.3g} s ago")
        return answer.outcome if answer.shared else Success(self._copy(answer.outcome.unwrap()))

    def _since(self, call: ValidCall) -> object:
        """The last write that concerns it."""
        if call.tool.effect != "read" or self._on_write == "forget_all":
            return self._written
        return self._written_by.get(call.principal, self._begun)

    def _write(self, principal: str) -> None:
        self._written = object()
        if self._on_write == "forget_own":
            if len(self._written_by) >= self._size:  # principals may be without end: then all of them begin anew
                self._written_by.clear()
                self._begun = object()
            self._written_by[principal] = self._written

    def _key_of(self, call: ValidCall) -> Hashable | None:
        if self._key is not None:
            asked = self._key(call)
            return None if asked is None else (call.tool, call.principal, asked)
        try:
            return call.tool, call.principal, _by_value(call.params)
        except Exception:  # noqa: BLE001  # as it is taken apart a value may raise anything
            return None


def _by_value(value: Any) -> Hashable:
    """Equal for what is the same by value and by type, as a pickle of it would be; raises for what has no pickle."""
    kind = cast("type[Any]", type(value))
    if kind in _AS_IT_IS or isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return cast("Hashable", value)
    if kind in _BY_TEXT:
        return kind, repr(value)
    if kind is dict:
        return kind, frozenset((_by_value(name), _by_value(each)) for name, each in value.items())
    if kind is set or kind is frozenset:
        return kind, frozenset(map(_by_value, value))
    if kind is list or kind is tuple:
        return kind, tuple(map(_by_value, value))
    return kind, _by_value(value.__reduce_ex__(2))


def _named(ttl: Any, tools: Iterable[str] | None) -> dict[str, Any] | None:
    """The only tools to be cached, if they are named, and how long. Raises SetupError where that makes no sense."""
    by_name = isinstance(cast("object", ttl), Mapping)
    named: dict[Any, Any] | None = dict(ttl) if by_name else None if tools is None else dict.fromkeys(tools, ttl)
    both = by_name and tools is not None
    if both or isinstance(tools, str) or not all(isinstance(name, str) for name in named or ()):
        raise SetupError("Cache: tools is a set of names, left out where ttl is a mapping of names to seconds")
    times: list[Any] = [ttl] if named is None else list(named.values())
    if not times or not all(type(each) in (int, float) and each > 0 for each in times):
        raise SetupError(f"Cache: ttl is more than zero seconds, for all tools or for each by name, not {ttl!r}")
    return named
