"""Circuits of a breaker in a store: failures of all processes, until when a circuit is open, and who tries it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any

import attrs

from ..stores import Store
from .shared_values import AwayNotice, SharedValues

_BUCKETS = 10  # of the window of a ratio
_PROBE = 60.0  # seconds after which a probe that never ended is forgotten: its process died
_AN_HOUR = 3600.0  # seconds of silence after which a circuit is forgotten


@attrs.frozen
class Rules:
    """The conditions that open a circuit, and for how long; the options of `CircuitBreaker`."""

    failures: int | None
    failure_ratio: float | None
    window: float
    min_calls: int
    open_for: float
    max_open_for: float
    probes: int


@attrs.frozen
class Admission:
    """The permission of a call, and the report that its end owes.

    Attributes:
        refused: Whether the call must not run.
        seconds: Seconds until the circuit may be tried. 0: not known, or the call may run.
        transition: The number of the last change of state.
        probe: The name of the call as a probe; "": the circuit is closed.
        is_clean: Whether no failure is counted at present.
    """

    refused: bool
    seconds: float = 0.0
    transition: int = 0
    probe: str = ""
    is_clean: bool = False


@attrs.frozen
class Ended:
    """The end of a call: whether it failed (None: it says nothing), and how it was admitted."""

    failed: bool | None
    admission: Admission


@attrs.define
class _Circuit:
    transition: int = 0
    failures: int = 0
    open_until: float | None = None
    opened_for: float = 0.0
    probes: dict[str, float] = attrs.field(factory=dict[str, float])  # by name, until when
    calls: list[list[float]] = attrs.field(factory=list[list[float]])  # of each bucket: begin, calls, failures


@attrs.define(eq=False)
class SharedCircuits:
    """The circuits of one breaker, by keys, for all processes that share the store.

    Args:
        store: The store.
        rules: When they open.
        prefix: The beginning of the keys in the store.
        notice: Logs that the store is away.
        clock: Returns seconds, on all hosts the same ones.
    """

    store: Store
    rules: Rules
    prefix: str
    notice: AwayNotice
    clock: Callable[[], float]
    _values: SharedValues[str | Ended, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._values = SharedValues(self.store, self._decide)

    async def admit(self, key: str) -> Admission:
        """Whether a call may run now.

        Raises:
            StoreError: The store gave no answer.
        """
        admission: Admission = await self._ask(key, token_hex(6))
        return admission

    async def end(self, key: str, ended: Ended) -> float | None:
        """Count the end of a call.

        Returns:
            Seconds for which it opened the circuit; 0: it closed it; None: neither.

        Raises:
            StoreError: The store gave no answer.
        """
        changed: float | None = await self._ask(key, ended)
        return changed

    async def _ask(self, key: str, asks: str | Ended) -> Any:
        with self.notice:
            return await self._values.ask(self.prefix + key, asks)

    def _decide(self, value: bytes | None, asked: Sequence[str | Ended]) -> tuple[bytes | None, float, list[Any]]:
        now = self.clock()
        circuit = _Circuit() if value is None else _Circuit(**json.loads(value))
        before = attrs.asdict(circuit)
        answers = [
            self._end(circuit, each, now) if isinstance(each, Ended) else self._admit(circuit, each, now)
            for each in asked
        ]
        after = attrs.asdict(circuit)
        if after == before:
            return None, 0.0, answers
        ttl = _AN_HOUR + self.rules.window + max(0.0, (circuit.open_until or now) - now)
        return json.dumps(after).encode(), ttl, answers

    def _admit(self, circuit: _Circuit, name: str, now: float) -> Admission:
        if circuit.open_until is None:
            return Admission(refused=False, transition=circuit.transition, is_clean=not circuit.failures)
        if circuit.open_until > now:
            return Admission(refused=True, seconds=circuit.open_until - now)
        circuit.probes = {each: until for each, until in circuit.probes.items() if until > now}
        if len(circuit.probes) >= self.rules.probes:
            return Admission(refused=True)
        circuit.probes[name] = now + _PROBE
        return Admission(refused=False, transition=circuit.transition, probe=name)

    def _end(self, circuit: _Circuit, ended: Ended, now: float) -> float | None:
        rules, admission = self.rules, ended.admission
        if admission.probe:
            circuit.probes.pop(admission.probe, None)
        if ended.failed is None or circuit.transition != admission.transition:
            return None
        if admission.probe:
            longer = min(circuit.opened_for * 2, rules.max_open_for)
            return _set_state(circuit, now, longer if ended.failed else 0.0)
        circuit.failures = circuit.failures + 1 if ended.failed else 0
        too_many = rules.failures is not None and circuit.failures >= rules.failures
        if rules.failure_ratio is not None:
            too_many = self._count(circuit, now, failed=ended.failed) >= rules.failure_ratio or too_many
        return _set_state(circuit, now, rules.open_for) if ended.failed and too_many else None

    def _count(self, circuit: _Circuit, now: float, *, failed: bool) -> float:
        """Count a call in the window, and return the share of failures; 0 for too few calls."""
        bucket = self.rules.window / _BUCKETS
        circuit.calls = [each for each in circuit.calls if each[0] > now - self.rules.window]
        if not circuit.calls or circuit.calls[-1][0] + bucket <= now:
            circuit.calls.append([now, 0, 0])
        circuit.calls[-1][1] += 1
        circuit.calls[-1][2] += failed
        calls, failures = sum(each[1] for each in circuit.calls), sum(each[2] for each in circuit.calls)
        return failures / calls if calls >= self.rules.min_calls else 0.0


def _set_state(circuit: _Circuit, now: float, open_for: float) -> float:
    """Open the circuit for so many seconds, or close it: 0."""
    circuit.transition += 1
    circuit.failures, circuit.opened_for, circuit.calls, circuit.probes = 0, open_for, [], {}
    circuit.open_until = now + open_for if open_for else None
    return open_for
