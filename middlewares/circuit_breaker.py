"""CircuitBreaker: refuses the calls of a tool that keeps failing, and after a while tries it with one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import ClassVar, Literal, TypeVar, get_args

import anyio
import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.forking import register_after_fork
from ..base.options import check_function, check_number, is_count, is_function, is_number
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import ToolError, Unavailable
from ..engine.report import CANCELLED, kind_of
from ..identity import join_digest
from ..stage_state.breaker_window import CallWindow
from ..stage_state.shared_circuits import Ended, Rules, SharedCircuits
from ..stage_state.shared_values import AwayNotice, check_sharing, name_key
from ..stores import Store, StoreError
from ..tools import ToolView

R = TypeVar("R", bound=ResolvedCall)

_FAILURE_KINDS = frozenset(each.kind for each in get_args(ToolError) if each.breaker == "failure")
# These say nothing about the tool.
_IGNORED_KINDS = frozenset((CANCELLED, *(each.kind for each in get_args(ToolError) if each.breaker == "ignored")))
_REASON = "breaker_open"
_AN_HOUR = 3600.0  # seconds of silence after which the failures of a tool may be forgotten
_TELL = 1.0  # seconds in which the end of a call is counted, also in a cancelled one
_ROUNDING = 1e-6  # seconds; adding two floats loses less, for any clock that shows less than a century


@attrs.define(eq=False)
class _Circuit:
    """The state of one partition: closed, open until a time, or after that time half-open."""

    window: CallWindow | None  # None: no ratio opens it
    counted_at: float
    failures: int = 0  # in a row
    open_until: float | None = None  # None: closed
    opened_for: float = 0.0  # seconds, the last time
    probing: int = 0  # calls that are trying it now
    transition: int = 0  # the number of its last change of state

    def seconds_left(self, now: float) -> float:
        """The seconds until it may be tried; 0 if it is closed or half-open."""
        seconds = 0.0 if self.open_until is None else self.open_until - now
        return seconds if seconds > _ROUNDING else 0.0

    def is_forgettable(self, now: float, window: float) -> bool:
        quiet = now - max(self.counted_at, self.open_until or self.counted_at)
        healthy = not self.failures and self.open_until is None
        return not self.probing and quiet >= 2 * window and (healthy or quiet >= _AN_HOUR)


@attrs.define(eq=False)
class _Gate:
    until: float = 0.0  # when a tool that another process found failing may be tried


@attrs.define(eq=False)
class CircuitBreaker:
    """A middleware that opens after too many failures, and then refuses calls until the tool may be tried again.

    Failures are the kinds ``timeout``, ``transient``, ``internal`` and ``outcome_unknown``. ``unavailable``,
    ``not_executed`` and cancelled calls are ignored: they say nothing about the tool. Every other outcome counts as a
    success. Open for its time, the breaker becomes half-open: one success closes it, one failure opens it again, for
    twice as long up to ``max_open_for``. Calls that began before a change of state do not count after it.
    (M. Nygard, Release It!; failure ratio, minimum throughput and half-open as in Polly.)

    Inside of Retry each attempt counts, and an open breaker ends the retrying; outside, a call counts once. It stands
    outside of Timeout and Classify, whose verdicts it counts, and inside of Validate. A probe may take as long as the
    tool does: set a time limit. Threads may share an instance.

    Args:
        registry: Where the tool is closed while its breaker is open: ``definitions()`` leaves it out and Available
            refuses it. It is open again when no breaker keeps it closed. Calls with a principal do not close a
            registry, which serves all principals; a function of the call may return the registry or view to close, or
            None. With ``key`` none is closed: one breaker of several says nothing about the tool as a whole. Default
            None: no registry.
        failures: Failures in a row that open it, ≥ 1. None: only the ratio opens it. Default 5.
        failure_ratio: Share of the calls in the window whose failure opens it, > 0 and ≤ 1. Default None: only
            failures in a row open it.
        window: Seconds for which a call counts towards the ratio; forgotten a tenth at a time. Default 60.
        min_calls: Calls in the window below which the ratio opens nothing, ≥ 1. Default 10.
        open_for: Seconds for which it stays open the first time, > 0. Default 30.
        max_open_for: Seconds for which it stays open at most. Default None: always ``open_for``.
        probes: Calls that may try a half-open breaker at once, ≥ 1. Default 1.
        key: Says which calls share a breaker: those for which it returns the same value. A call for which it returns
            None always passes. The breaker itself refuses the calls of an open key, and ``definitions()`` goes on
            showing the tool. Default None: each tool and principal has a breaker of its own.
        clock: Returns seconds; only differences count. Default ``time.monotonic``; tests pass their own.
        store: Shares the breaker with all processes that have one with the same options in this store, by the wall
            clocks of their hosts: failures anywhere count, and one process tries the tool for all. Each call then asks
            the store. Default None: this object alone.
        when_away: While the store gives no answer, "local" goes by the calls of this process alone, and "refuse"
            refuses each call as Unavailable, ``store_away``. The log says so once. Default "local".
        share_as: Keeps apart breakers with equal options in one store. Default "".

    Raises:
        SetupError: An option is out of its range, or of another type; or nothing says when it opens.
    """

    placement: ClassVar[Placement] = Placement(
        announces_body=True,
        kind="circuit_breaker",
        reason="inside of retry: each attempt counts, and an open breaker ends the retrying",
    )

    registry: ToolView | Callable[[ResolvedCall], ToolView | None] | None = None
    failures: int | None = attrs.field(default=5, validator=is_count(optional=True), kw_only=True)
    failure_ratio: float | None = attrs.field(
        default=None, validator=is_number(above=0, most=1, optional=True), kw_only=True
    )
    window: float = attrs.field(default=60.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    min_calls: int = attrs.field(default=10, validator=is_count(), kw_only=True)
    open_for: float = attrs.field(default=30.0, validator=is_number(above=0, unit="seconds"), kw_only=True)
    max_open_for: float | None = attrs.field(default=None, kw_only=True)
    probes: int = attrs.field(default=1, validator=is_count(), kw_only=True)
    key: Callable[[ResolvedCall], Hashable] | None = attrs.field(
        default=None, validator=is_function(optional=True), kw_only=True
    )
    clock: Callable[[], float] = attrs.field(
        default=timing.monotonic, validator=is_function(), kw_only=True, repr=False
    )
    store: Store | None = attrs.field(default=None, kw_only=True)
    when_away: Literal["refuse", "local"] = attrs.field(default="local", kw_only=True)
    share_as: str = attrs.field(default="", kw_only=True)
    _shared: SharedCircuits | None = attrs.field(init=False, default=None, repr=False)
    _gates: dict[str, _Gate] = attrs.field(init=False, factory=dict[str, "_Gate"], repr=False)
    _circuits: dict[Hashable, _Circuit] = attrs.field(init=False, factory=dict[Hashable, _Circuit], repr=False)
    _transitions: int = attrs.field(init=False, default=0, repr=False)  # of all circuits
    _swept: float = attrs.field(init=False, default=-math.inf, repr=False)
    _lock: Lock = attrs.field(init=False, factory=Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.failures is None and self.failure_ratio is None:
            raise SetupError("CircuitBreaker: one of `failures` and `failure_ratio` must say when it opens")
        check_number(
            "CircuitBreaker", "max_open_for", self.max_open_for, least=self.open_for, optional=True, unit="seconds"
        )
        if not isinstance(self.registry, ToolView):
            check_function("CircuitBreaker", "registry", self.registry, "a ToolRegistry or", optional=True)
        check_sharing("CircuitBreaker", self.store, self.when_away, self.share_as)
        if self.store is not None:
            self._shared = self._share(self.store)
        register_after_fork(self._restart_in_child)

    def _share(self, store: Store) -> SharedCircuits:
        rules = Rules(
            self.failures,
            self.failure_ratio,
            self.window,
            self.min_calls,
            self.open_for,
            self.max_open_for or self.open_for,
            self.probes,
        )
        effect = "calls are refused" if self.when_away == "refuse" else "each process goes by its own calls"
        prefix = f"circuit_breaker/{join_digest(self.share_as, repr(attrs.astuple(rules)))[:12]}/"
        clock = timing.wall_time if self.clock is timing.monotonic else self.clock
        return SharedCircuits(store, rules, prefix, AwayNotice("CircuitBreaker", effect), clock)

    @property
    def resources(self) -> tuple[Store, ...]:
        """The store, which the pipeline opens and closes."""
        return () if self.store is None else (self.store,)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``breaker_open``, with the seconds until it may be tried again."""
        key = call.tool.name if self.key is None and not call.principal else self._key_of(call)
        if key is None:
            return await call_next(call)
        if self._shared is not None:
            shared_outcome = await self._run_shared(self._shared, name_key("CircuitBreaker", key), call, call_next)
            if shared_outcome is not None:
                return shared_outcome
        began = self._transitions
        circuit = self._circuits.get(key)
        if circuit is not None and circuit.open_until is not None:
            return await self._probe(circuit, call, call_next)
        outcome = await call_next(call)
        if type(outcome) is Success:
            circuit = self._circuits.get(key)
            if self.failure_ratio is None:
                if circuit is None or not circuit.failures:  # no row of failures for this success to end
                    return outcome
            elif circuit is not None and circuit.transition <= began:
                window = circuit.window
                if window is not None and window.add_success(self.clock()):
                    circuit.failures = 0
                    return outcome
        self._count(key, began, call, outcome)
        return outcome

    async def _run_shared(self, shared: SharedCircuits, key: str, call: R, call_next: Handler[R]) -> Outcome | None:
        """Run a call by the circuit of the fleet; None: the store is away, and this process goes by its own calls."""
        name, registry = call.tool.name, self._registry_of(call)
        try:
            admission = await shared.admit(key)
        except StoreError:
            return Failure(Unavailable(name, "store_away")) if self.when_away == "refuse" else None
        if admission.refused:
            self._set_gate(key, name, registry, admission.seconds)
            return Failure(Unavailable(name, _REASON, admission.seconds or None))
        kind: str | None = CANCELLED
        try:
            outcome = await call_next(call)
            kind = kind_of(outcome)
        finally:
            failed = None if kind in _IGNORED_KINDS else kind in _FAILURE_KINDS
            tells = admission.probe or (failed is not None and (failed or not admission.is_clean))
            if tells or (failed is False and self.failure_ratio is not None):
                with anyio.move_on_after(_TELL, shield=True), suppress(StoreError):
                    changed = await shared.end(key, Ended(failed, admission))
                    if changed is not None:
                        self._set_gate(key, name, registry, changed)
        return outcome

    def _set_gate(self, key: str, name: str, registry: ToolView | None, seconds: float) -> None:
        """Close the tool in the registry for so many seconds, or open it again: 0."""
        if registry is None:
            return
        with self._lock:
            gate = self._gates.setdefault(key, _Gate())
            gate.until = self.clock() + seconds
        if seconds:
            registry.close(Unavailable(name, _REASON, seconds), lambda: max(0.0, gate.until - self.clock()), owner=gate)
        else:
            registry.reopen(name, _REASON, owner=gate)

    def _key_of(self, call: ResolvedCall) -> Hashable:
        if self.key is not None:
            return self.key(call)
        return (call.tool.name, call.principal) if call.principal else call.tool.name  # the hash of a str is cached

    def _count(self, key: Hashable, began: int, call: ResolvedCall, outcome: Outcome) -> None:
        if (kind := kind_of(outcome)) in _IGNORED_KINDS:
            return
        failed = kind in _FAILURE_KINDS
        with self._lock:
            circuit = self._circuits.get(key)
            if circuit is None and not failed and self.failure_ratio is None:
                return  # nothing to remember of a tool that works
            circuit = circuit or self._add_circuit(key)
            if circuit.transition > began:
                return
            circuit.counted_at = now = self.clock()
            circuit.failures = circuit.failures + 1 if failed else 0
            too_many = self.failures is not None and circuit.failures >= self.failures
            if circuit.window is not None and self.failure_ratio is not None:
                circuit.window.add(now, failed=failed)
                too_many = too_many or circuit.window.failure_ratio(self.min_calls) >= self.failure_ratio
            if failed and too_many:
                self._set_state(circuit, self.open_for, call.tool.name, self._registry_of(call))

    def _add_circuit(self, key: Hashable) -> _Circuit:
        now = self.clock()
        if now - self._swept >= self.window:
            self._swept = now
            for old in [old for old, circuit in self._circuits.items() if circuit.is_forgettable(now, self.window)]:
                del self._circuits[old]
        window = None if self.failure_ratio is None else CallWindow(self.window, now)
        circuit = self._circuits[key] = _Circuit(window, now)
        return circuit

    async def _probe(self, circuit: _Circuit, call: R, call_next: Handler[R]) -> Outcome:
        """Refuse the call if the circuit is open; if it is half-open, let the call try the tool."""
        name, registry = call.tool.name, self._registry_of(call)  # a function of the user's may raise: ask it first
        with self._lock:
            seconds = circuit.seconds_left(self.clock())
            if seconds or circuit.probing >= self.probes:
                return Failure(Unavailable(name, _REASON, seconds or None))
            circuit.probing += 1
            began = circuit.transition
        outcome: Outcome | None = None
        try:
            outcome = await call_next(call)
            return outcome
        finally:
            with self._lock:
                circuit.probing -= 1
                kind = CANCELLED if outcome is None else kind_of(outcome)
                if circuit.transition == began and kind not in _IGNORED_KINDS:
                    longer = min(circuit.opened_for * 2, self.max_open_for or self.open_for)
                    self._set_state(circuit, longer if kind in _FAILURE_KINDS else None, name, registry)

    def _set_state(self, circuit: _Circuit, open_for: float | None, name: str, registry: ToolView | None) -> None:
        """Open the circuit for so many seconds, or close it: None. The tool is closed or reopened in the registry."""
        now = self.clock()
        self._transitions += 1
        circuit.transition, circuit.counted_at, circuit.failures = self._transitions, now, 0
        circuit.opened_for = open_for or 0.0
        circuit.open_until = now + open_for if open_for else None
        if circuit.window is not None:
            circuit.window.clear(now)
        if registry is not None and open_for:
            why = Unavailable(name, _REASON, open_for)
            registry.close(why, lambda: circuit.seconds_left(self.clock()), owner=circuit)
        elif registry is not None:
            registry.reopen(name, _REASON, owner=circuit)

    def _restart_in_child(self) -> None:
        """After a fork: the calls of other threads, which may hold the lock or be probes, are in the parent only."""
        self._lock = Lock()
        self._circuits = {key: attrs.evolve(circuit, probing=0) for key, circuit in self._circuits.items()}

    def _registry_of(self, call: ResolvedCall) -> ToolView | None:
        registry = None if self.key is not None else self.registry
        if isinstance(registry, ToolView):
            registry = None if call.principal else registry
        elif registry is not None:
            registry = registry(call)
        return registry if registry is not None and call.tool.name in registry else None
