"""CircuitBreaker: refuses the calls of a tool that keeps failing, and after a while tries it with one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from secrets import token_hex
from threading import Lock
from typing import ClassVar, Literal, TypeVar, get_args
from weakref import WeakValueDictionary

import attrs
from returns.result import Failure

from ..base import timing
from ..base.forking import register_after_fork
from ..base.options import check_function, check_number, is_count, is_function, is_number
from ..base.setup_error import SetupError
from ..engine.call import Outcome, ResolvedCall
from ..engine.compose import Handler, Placement
from ..engine.errors import ToolError, Unavailable
from ..engine.report import CANCELLED, kind_of
from ..stage_state.circuits import Admission, Begin, Breaking, Circuit, End, find_seconds, undo
from ..stage_state.keys import find_partition
from ..stage_state.limit_states import FleetStates, LocalStates, States, ask_states, list_store, share
from ..stores import Store, StoreError
from ..tools import ToolView

R = TypeVar("R", bound=ResolvedCall)

_FAILURE_KINDS = frozenset(each.kind for each in get_args(ToolError) if each.breaker == "failure")
# These say nothing about the tool.
_IGNORED_KINDS = frozenset((CANCELLED, *(each.kind for each in get_args(ToolError) if each.breaker == "ignored")))
_REASON = "breaker_open"
_TRIAL = 60.0  # seconds after which a probe of a fleet that never ended is forgotten: its process died
_CLEAN = Admission(is_clean=True)


@attrs.define(eq=False)
class _Gate:
    """Keeps a tool closed in a registry."""

    until: float = 0.0  # when it may be tried


@attrs.define(eq=False)
class CircuitBreaker:
    """A middleware that opens after too many failures, and then refuses calls until the tool may be tried again.

    Failures are the kinds ``timeout``, ``transient``, ``internal`` and ``outcome_unknown``. ``unavailable``,
    ``not_executed`` and cancelled calls are ignored: they say nothing about the tool. Every other outcome counts as a
    success. Open for its time, the breaker becomes half-open: one success closes it, one failure opens it again, for
    twice as long up to ``max_open_for``. Calls that began before a change of state do not count after it.
    (M. Nygard, Release It!; failure ratio, minimum throughput and half-open as in Polly.)

    Inside of Retry each attempt counts, and an open breaker ends the retrying; outside, a call counts once. A Ledger
    wants it outside. It stands outside of Timeout and Classify, whose verdicts it counts, and inside of Validate. A
    probe may take as long as the tool does: set a time limit. Threads may share an instance.

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
        runs_body=False,
        kind="circuit_breaker",
        reason="inside of retry an attempt counts, and an open breaker ends the retrying; outside of a ledger a call",
        holds_back="a call that a breaker refuses has not begun",
        decides=("breaker_open",),
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
    _local: LocalStates[Circuit, Begin | End, Admission] = attrs.field(init=False, repr=False)
    _fleet: FleetStates[Circuit, Begin | End, Admission] | None = attrs.field(init=False, repr=False)
    # Which registries hold.
    _gates: WeakValueDictionary[Hashable, _Gate] = attrs.field(
        init=False, factory=WeakValueDictionary[Hashable, "_Gate"], repr=False
    )
    _lock: Lock = attrs.field(init=False, factory=Lock, repr=False)  # of the gates

    resources = property(list_store)

    def __attrs_post_init__(self) -> None:
        if self.failures is None and self.failure_ratio is None:
            raise SetupError("CircuitBreaker: one of `failures` and `failure_ratio` must say when it opens")
        check_number(
            "CircuitBreaker", "max_open_for", self.max_open_for, least=self.open_for, optional=True, unit="seconds"
        )
        if not isinstance(self.registry, ToolView):
            check_function("CircuitBreaker", "registry", self.registry, "a ToolRegistry or", optional=True)
        rule = Breaking(
            self.failures,
            self.failure_ratio,
            self.window,
            self.min_calls,
            self.open_for,
            self.max_open_for or self.open_for,
            self.probes,
        )
        self._local = LocalStates(rule, self.clock)
        self._fleet = share(
            "CircuitBreaker",
            self.store,
            self.when_away,
            self.share_as,
            attrs.evolve(rule, trial=_TRIAL),
            Circuit,
            clock=timing.wall_time if self.clock is timing.monotonic else self.clock,
            undo=undo,
        )
        register_after_fork(self._restart_in_child)

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``breaker_open``, with the seconds until it may be tried again."""
        key = call.tool.name if self.key is None and call.principal == "" else find_partition(call, self.key)
        if key is None:
            return await call_next(call)
        registry = None if self.registry is None else self._registry_of(call)
        states: States[Circuit, Begin | End, Admission]
        if self._fleet is None:
            states, admission = self._local, self._admit_here(key)
        else:
            try:
                states, admission = await ask_states(self._fleet, self._local, key, Begin(token_hex(6)))
            except StoreError:
                return Failure(Unavailable(call.tool.name, "store_away"))
        if admission.refused:
            if self._fleet is not None:
                self._set_gate(key, call.tool.name, registry, admission)
            return Failure(Unavailable(call.tool.name, _REASON, admission.seconds or None))
        kind: str | None = CANCELLED
        try:
            outcome = await call_next(call)
            kind = kind_of(outcome)
            return outcome
        finally:
            failed = None if kind in _IGNORED_KINDS else kind in _FAILURE_KINDS
            if admission.probe or failed or (failed is False and self._counts_success(states, key, admission)):
                (changed,) = await states.tell(key, End(failed, admission))
                if changed is not None and changed.changed:
                    self._set_gate(key, call.tool.name, registry, changed)

    def _counts_success(self, states: object, key: Hashable, admission: Admission) -> bool:
        """Whether a success changes anything: there is a ratio, or a row of failures that it ends."""
        if self.failure_ratio is not None:
            return True
        if states is self._fleet:
            return not admission.is_clean
        held = self._local.by_key.get(key)
        return held is not None and held.state.failures > 0

    def _admit_here(self, key: Hashable) -> Admission:
        held = self._local.by_key.get(key)
        if held is None:
            return _CLEAN
        circuit = held.state
        if circuit.open_until is None:  # mostly, and then it need not wait for other threads
            return Admission(transition=circuit.transition, is_clean=not circuit.failures)
        return self._local.decide(key, Begin(token_hex(6)))

    def _set_gate(self, key: Hashable, name: str, registry: ToolView | None, change: Admission) -> None:
        """Close the tool in the registry for so many seconds, or open it again: 0."""
        if registry is None:
            return
        with self._lock:
            gate = self._gates.setdefault(key, _Gate())
            gate.until = self.clock() + change.seconds
            if change.seconds:
                why = Unavailable(name, _REASON, change.seconds)
                registry.close(why, lambda: find_seconds(gate.until, self.clock()), owner=gate)
            else:
                registry.reopen(name, _REASON, owner=gate)

    def _restart_in_child(self) -> None:
        """After a fork: the calls of other threads, which may hold the lock or be probes, are in the parent only."""
        self._lock = Lock()
        for held in self._local.by_key.values():
            held.state.probes = {}

    def _registry_of(self, call: ResolvedCall) -> ToolView | None:
        registry = None if self.key is not None else self.registry
        if isinstance(registry, ToolView):
            registry = None if call.principal else registry
        elif registry is not None:
            registry = registry(call)
        return registry if registry is not None and call.tool.name in registry else None
