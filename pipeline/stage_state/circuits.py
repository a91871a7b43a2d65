"""Circuits of a breaker: what it counts, when it opens one and for how long, and who tries the tool then."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import attrs

_BUCKETS = 10  # of the window of a ratio
_AN_HOUR = 3600.0  # seconds of silence after which a circuit is forgotten
_ROUNDING = 1e-6  # seconds; adding two floats loses less, for any clock that shows less than a century


@attrs.define
class Circuit:
    """The state of one key: closed, open until a time, or after that time half-open."""

    transition: int = 0  # the number of its last change of state
    failures: int = 0  # in a row
    open_until: float | None = None  # None: closed
    opened_for: float = 0.0  # seconds, the last time
    # Calls that are trying it now: by name, until when.
    probes: dict[str, float] = attrs.field(factory=dict[str, float])
    calls: list[list[float]] = attrs.field(factory=list[list[float]])  # of each bucket: begin, calls, failures

    def seconds_left(self, now: float) -> float:
        """The seconds until it may be tried; 0 if it is closed or half-open."""
        return 0.0 if self.open_until is None else find_seconds(self.open_until, now)


class Admission(NamedTuple):
    """The permission of a call, and the report that its end owes; or what an end has changed."""

    refused: bool = False  # the call must not run
    seconds: float = 0.0  # until the circuit may be tried; 0: not known, or it is closed
    changed: bool = False  # an end opened the circuit, for `seconds`, or closed it: 0
    transition: int = 0  # the number of the last change of state
    probe: str = ""  # the name of the call as a probe; "": the circuit is closed
    is_clean: bool = False  # no failure is counted at present


_NOTHING = Admission()


class Begin(NamedTuple):
    """A call that asks whether it may run."""

    probe: str  # its name, should it be a probe


class End(NamedTuple):
    """The end of a call: whether it failed (None: it says nothing), and how it was admitted."""

    failed: bool | None
    admission: Admission


@attrs.frozen
class Breaking:
    """When a circuit opens, and for how long; the options of `CircuitBreaker`.

    It answers a `Begin` with the permission, and an `End` with what has changed.
    """

    failures: int | None
    failure_ratio: float | None
    window: float
    min_calls: int
    open_for: float
    max_open_for: float
    probes: int
    trial: float = attrs.field(default=inf, repr=False)  # seconds after which a probe counts as dead

    def begin(self, now: float) -> Circuit:  # noqa: ARG002
        """No call has come."""
        return Circuit()

    def decide(self, circuit: Circuit, asks: Begin | End, now: float) -> Admission:
        """Admit a call, or count its end."""
        return self._admit(circuit, asks.probe, now) if isinstance(asks, Begin) else self._end(circuit, asks, now)

    def keep(self, circuit: Circuit, now: float) -> float:
        """An hour of silence; and a healthy one twice the window."""
        if circuit.probes:
            return inf if self.trial == inf else self.trial + _AN_HOUR
        healthy = not circuit.failures and circuit.open_until is None
        return circuit.seconds_left(now) + (2 * self.window if healthy else max(_AN_HOUR, 2 * self.window))

    def _admit(self, circuit: Circuit, name: str, now: float) -> Admission:
        if circuit.open_until is None:
            return Admission(transition=circuit.transition, is_clean=not circuit.failures)
        seconds = circuit.seconds_left(now)
        if circuit.probes:
            circuit.probes = {each: until for each, until in circuit.probes.items() if until > now}
        if seconds or len(circuit.probes) >= self.probes:
            return Admission(refused=True, seconds=seconds, transition=circuit.transition)
        circuit.probes[name] = now + self.trial
        return Admission(transition=circuit.transition, probe=name)

    def _end(self, circuit: Circuit, ended: End, now: float) -> Admission:
        admission = ended.admission
        if admission.probe:
            circuit.probes.pop(admission.probe, None)
        if ended.failed is None or circuit.transition != admission.transition:
            return _NOTHING
        if admission.probe:
            longer = min(circuit.opened_for * 2, self.max_open_for)
            return _set_state(circuit, now, longer if ended.failed else 0.0)
        circuit.failures = circuit.failures + 1 if ended.failed else 0
        too_many = self.failures is not None and circuit.failures >= self.failures
        if self.failure_ratio is not None:
            self._count(circuit, now, failed=ended.failed)
            too_many = too_many or (ended.failed and self._find_ratio(circuit) >= self.failure_ratio)
        return _set_state(circuit, now, self.open_for) if ended.failed and too_many else _NOTHING

    def _count(self, circuit: Circuit, now: float, *, failed: bool) -> None:
        bucket = self.window / _BUCKETS
        while circuit.calls and circuit.calls[0][0] <= now - self.window:
            del circuit.calls[0]
        if not circuit.calls or circuit.calls[-1][0] + bucket <= now:
            circuit.calls.append([now, 0, 0])
        circuit.calls[-1][1] += 1
        circuit.calls[-1][2] += failed

    def _find_ratio(self, circuit: Circuit) -> float:
        """The share of failures in the window; 0 for too few calls."""
        calls, failures = sum(each[1] for each in circuit.calls), sum(each[2] for each in circuit.calls)
        return failures / calls if calls >= self.min_calls else 0.0


def find_seconds(until: float, now: float) -> float:
    """The seconds until a time; 0 if it has come."""
    seconds = until - now
    return seconds if seconds > _ROUNDING else 0.0


def undo(_: Begin | End, answer: Admission) -> End | None:
    """The end of a probe that tried nothing, which takes its admission back."""
    return End(None, answer) if answer.probe else None


def _set_state(circuit: Circuit, now: float, open_for: float) -> Admission:
    """Open the circuit for so many seconds, or close it: 0."""
    circuit.transition += 1
    circuit.failures, circuit.opened_for, circuit.calls, circuit.probes = 0, open_for, [], {}
    circuit.open_until = now + open_for if open_for else None
    return Admission(seconds=open_for, changed=True, transition=circuit.transition)
