"""CircuitBreaker: a tool that keeps failing is left alone for a while, and then tried with one call."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable
from threading import Lock
from typing import ClassVar, TypeVar

import attrs
from returns.result import Failure, Success

from pipeline import Handler, Outcome, Placement, ResolvedCall, SetupError, ToolRegistry, Unavailable
from pipeline.report import kind_of

R = TypeVar("R", bound=ResolvedCall)

_AILING = frozenset(("timeout", "transient", "internal", "outcome_unknown"))  # else the tool answered, if only with no
_SILENT = frozenset(("unavailable", "not_executed"))  # nothing ran: that says nothing of the tool
_OPEN = "breaker_open"
_PARTS = 10  # in which a window is forgotten
_AN_HOUR = 3600.0  # seconds of silence after which a tool's failures may be forgotten


class _Window:
    """How many calls there were of late, and how many failed: of the part of the time that runs, and of those past."""

    __slots__ = ("calls", "ends", "failed", "part", "past")

    def __init__(self, seconds: float, now: float) -> None:
        self.part = seconds / _PARTS
        self.clear(now)

    def clear(self, now: float) -> None:
        self.calls = self.failed = 0
        self.ends = now + self.part
        self.past: deque[tuple[int, int]] = deque(maxlen=_PARTS - 1)

    def roll(self, now: float) -> None:
        """Begin the part in which now is."""
        over = int((now - self.ends) // self.part) + 1
        if over > _PARTS:
            self.clear(now)
        elif over > 0:
            self.past.append((self.calls, self.failed))
            self.past.extend([(0, 0)] * (over - 1))
            self.calls = self.failed = 0
            self.ends += over * self.part

    def totals(self) -> tuple[int, int]:
        return self.calls + sum(calls for calls, _ in self.past), self.failed + sum(failed for _, failed in self.past)


@attrs.define(eq=False)
class _Circuit:
    """What there is to remember of one partition."""

    open_for: float  # seconds, when it opens next
    window: _Window | None
    failures: int = 0  # in a row
    until: float | None = None  # None: closed; before that time open, and from then on half-open
    probing: int = 0  # calls that are out to try it
    turned: int = 0  # which of all turns of the breaker was its last one
    heard: float = 0.0  # when it last counted something; a quick success is noted later, with the next part

    def left(self, now: float) -> float:
        """The seconds that it stays open: added to now they are not less. Zero where it is not open."""
        if self.until is None or now >= self.until:
            return 0.0
        seconds = self.until - now
        while now + seconds < self.until:
            seconds = math.nextafter(seconds, math.inf)
        return seconds

    def is_new_again(self, now: float, window: float) -> bool:
        quiet = now - max(self.heard, self.until or self.heard)
        nothing = not self.failures and self.until is None
        return not self.probing and quiet >= 2 * window and (nothing or quiet >= _AN_HOUR)


@attrs.define(eq=False)
class CircuitBreaker:
    """Opens after so many ``failures`` in a row, or where so large a ``ratio`` of the calls of a ``window`` failed.

    A failure is a ``timeout``, ``transient``, ``internal`` or ``outcome_unknown``; of ``unavailable``, ``not_executed``
    and what was cancelled nothing is learnt, and all else is an answer, as good as a success. Open, it refuses all
    calls for ``open_for`` seconds. Then it is half-open: ``probes`` calls at once may try, one success closes it, and
    one failure opens it again, for twice as long each time up to ``max_open_for``. What began before a turn does not
    count after it. (M. Nygard, Release It!; failure ratio, minimum throughput and half-open as in Polly.)

    Inside of Retry each attempt counts, and an open breaker ends the retrying; outside, a call with all its attempts
    is one. Outside of Timeout and Classify, or it sees neither time-outs nor what may pass. After Validate: arguments
    that are refused say nothing of the tool. A probe lasts as long as it likes: give it a time limit.

    A partition is a tool and a principal, or what ``key`` makes of the call; a call of which it makes None always
    passes. An open breaker takes the tool out of ``definitions()`` of its ``registry``, for as long as it is open. A
    registry is everybody's, so the calls of a named principal do not shut it; a function gives the one that a call's
    partition may shut, as ``lambda call: views.get(call.principal)``. Threads may share an instance.
    """

    placement: ClassVar[Placement] = Placement(
        marks=True,
        kind="circuit_breaker",
        reason="inside of retry: each attempt counts, and an open breaker ends the retrying",
    )

    registry: ToolRegistry | Callable[[ResolvedCall], ToolRegistry | None] | None = None
    failures: int | None = attrs.field(default=5, kw_only=True)  # in a row; None: the ratio alone decides
    ratio: float | None = attrs.field(default=None, kw_only=True)  # of 1; None: failures in a row alone decide
    window: float = attrs.field(default=60.0, kw_only=True)  # seconds; the oldest tenth of it is forgotten at once
    minimum: int = attrs.field(default=10, kw_only=True)  # calls in the window: of fewer the ratio says nothing
    open_for: float = attrs.field(default=30.0, kw_only=True)  # seconds
    max_open_for: float | None = attrs.field(default=None, kw_only=True)  # seconds; None: open_for each time
    probes: int = attrs.field(default=1, kw_only=True)  # at once
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(default=None, kw_only=True)
    clock: Callable[[], float] = attrs.field(default=time.monotonic, kw_only=True, repr=False)  # seconds
    _circuits: dict[Hashable, _Circuit] = attrs.field(init=False, factory=dict[Hashable, _Circuit], repr=False)
    _turns: int = attrs.field(init=False, default=0, repr=False)  # of all circuits
    _swept: float = attrs.field(init=False, default=-math.inf, repr=False)
    _changing: Lock = attrs.field(init=False, factory=Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.failures is None and self.ratio is None:
            raise SetupError("a breaker needs failures=, or ratio=, or both: when does it open?")
        if not (self.failures is None or self.failures >= 1) or not (self.minimum >= 1 and self.probes >= 1):
            raise SetupError(f"{self}: failures, the minimum of calls and probes are at least one each")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise SetupError(f"a ratio is more than 0 and at most 1, not {self.ratio!r}")
        if not 0 < self.window < math.inf:
            raise SetupError(f"a window has more than zero seconds, not {self.window!r}")
        if not 0 < self.open_for <= (self.open_for if self.max_open_for is None else self.max_open_for) < math.inf:
            raise SetupError(f"{self}: it opens for more than zero seconds, and for no more than max_open_for")
        if not (self.registry is None or isinstance(self.registry, ToolRegistry) or callable(self.registry)):
            raise SetupError(f"registry= is a ToolRegistry, or gives one for a call, and not {self.registry!r}")

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``breaker_open``, with the seconds until it may be tried again."""
        if self.key is None:
            key: Hashable = (call.tool.name, call.principal) if call.principal else call.tool.name  # text hashes once
        elif (key := self.key(call)) is None:
            return await call_next(call)
        circuits, begun = self._circuits, self._turns
        circuit = circuits.get(key) if circuits else None
        if circuit is not None and circuit.until is not None:
            return await self._tried(circuit, call, call_next)
        outcome = await call_next(call)
        if type(outcome) is Success:
            if self.ratio is None:  # then all that it can do is end a row of failures
                if not circuits or (circuit := circuits.get(key)) is None or not circuit.failures:
                    return outcome
            elif circuit is not None and (window := circuit.window) is not None and self.clock() < window.ends:
                if circuit.turned <= begun:  # without a lock: where threads meet here a success may be lost
                    window.calls += 1
                    circuit.failures = 0
                return outcome
        self._count(key, begun, call, outcome)
        return outcome

    def _count(self, key: Hashable, begun: int, call: ResolvedCall, outcome: Outcome) -> None:
        kind = kind_of(outcome)
        failed = kind in _AILING
        if kind in _SILENT:
            return
        with self._changing:
            circuit = self._circuits.get(key)
            if circuit is None:
                if not failed and self.ratio is None:
                    return
                circuit = self._new(key)
            elif circuit.turned > begun:
                return
            now = circuit.heard = self.clock()
            circuit.failures = circuit.failures + 1 if failed else 0
            if circuit.window is not None:
                circuit.window.roll(now)
                circuit.window.calls += 1
                circuit.window.failed += failed
            if failed and self._is_too_much(circuit):
                self._open(circuit, now, call.tool.name, self._gate(call))

    def _new(self, key: Hashable) -> _Circuit:
        now = self.clock()
        if now - self._swept >= self.window:
            self._swept = now
            for old in [old for old, circuit in self._circuits.items() if circuit.is_new_again(now, self.window)]:
                del self._circuits[old]
        window = None if self.ratio is None else _Window(self.window, now)
        circuit = self._circuits[key] = _Circuit(self.open_for, window)
        return circuit

    def _is_too_much(self, circuit: _Circuit) -> bool:
        if self.failures is not None and circuit.failures >= self.failures:
            return True
        if circuit.window is None or self.ratio is None:
            return False
        calls, failed = circuit.window.totals()
        return calls >= self.minimum and failed / calls >= self.ratio

    async def _tried(self, circuit: _Circuit, call: R, call_next: Handler[R]) -> Outcome:
        """A probe of what is half-open; nothing of what is open."""
        gate = self._gate(call)  # asked before anything ran: it may be somebody's function
        with self._changing:
            seconds = circuit.left(self.clock())
            if seconds or circuit.probing >= self.probes:
                return Failure(Unavailable(call.tool.name, _OPEN, seconds or None))
            circuit.probing += 1
            begun = circuit.turned
        outcome: Outcome | None = None
        try:
            outcome = await call_next(call)
            return outcome
        finally:  # a probe that was cancelled is none: the next call is
            with self._changing:
                circuit.probing -= 1
                if outcome is not None and circuit.turned == begun:
                    self._judge(circuit, kind_of(outcome), call.tool.name, gate)

    def _judge(self, circuit: _Circuit, kind: str | None, name: str, gate: ToolRegistry | None) -> None:
        now = self.clock()
        if kind in _AILING:
            circuit.open_for = min(circuit.open_for * 2, self.max_open_for or self.open_for)
            self._open(circuit, now, name, gate)
        elif kind not in _SILENT:
            self._turned(circuit, now)
            circuit.until, circuit.open_for = None, self.open_for
            if gate is not None:
                gate.reopen(name, _OPEN)

    def _open(self, circuit: _Circuit, now: float, name: str, gate: ToolRegistry | None) -> None:
        self._turned(circuit, now)
        circuit.until = now + circuit.open_for
        if gate is not None:
            gate.close(Unavailable(name, _OPEN, circuit.open_for), lambda: circuit.left(self.clock()))

    def _turned(self, circuit: _Circuit, now: float) -> None:
        self._turns += 1
        circuit.turned, circuit.heard, circuit.failures = self._turns, now, 0
        if circuit.window is not None:
            circuit.window.clear(now)

    def _gate(self, call: ResolvedCall) -> ToolRegistry | None:
        registry = self.registry
        if isinstance(registry, ToolRegistry):
            registry = None if call.principal else registry
        elif registry is not None:
            registry = registry(call)
        return registry if registry is not None and call.tool.name in registry else None
