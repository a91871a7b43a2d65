"""What may come of a history, by the table of the design: effects, answers, refusals, and what is told.

Several outcomes are right while calls overlap or a store fails. So each rule here speaks of what was certain: a body
must not begin while an equal one is undecided for sure, and a refusal must have a reason that was possible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from unicodedata import normalize

import attrs
from returns.result import Success

from simulation.processes import LEASE, QUOTA, Killed, Process
from toolcall_pipeline import ToolFailed

if TYPE_CHECKING:
    from simulation.virtual_time import VirtualLoop

_DAY = 86400.0
KEEP = 7 * _DAY  # seconds that a store keeps an answer
_HOUR = 3600.0  # that a process remembers what is undecided
REMEMBERED = ("pay", "send", "wire", "charge")
DEFAULTS: dict[str, object] = {"amount": 1, "note": ""}
Scope: TypeAlias = tuple[str, str, str]

# Of each end: whether the effect lands, and the kind that is told where it is not undecided.
ENDS = {
    "ok": (True, "success"),
    "fails": (False, "execution"),
    "undone": (False, "transient"),
    "missing": (False, "not_found"),
    "lost": (True, "transient"),
    "lost before": (False, "transient"),
    "part": (True, "transient"),
    "late": (False, "timeout"),
    "hangs": (True, "success"),
}
_CANNOT_TELL = 0.3  # of the times that a backend is asked what became of a call, it does not answer
UNDECIDED = ("missing", "lost", "lost before", "part", "late")


class Violation(Exception):
    """A rule that did not hold."""


def write_strict(arguments: dict[str, object], *, note: bool) -> str:
    """A text that is equal for strictly equal arguments, with the defaults that the tool sees."""
    seen = {"amount": 1, **({"note": ""} if note else {}), **arguments}
    return repr(sorted(seen.items()))


def write_loose(arguments: dict[str, object]) -> str:
    """A text that is equal for loosely equal arguments; one that equals its default says nothing."""
    loose = {name: normalize("NFC", str(value)).strip() for name, value in arguments.items()}
    return repr(sorted(each for each in loose.items() if each[1] != str(DEFAULTS.get(each[0]))))


@attrs.define(eq=False)
class Body:
    """A body that began, and what became of its effect."""

    number: int
    arrival: Arrival
    arguments: dict[str, object]
    key: str
    began: int  # the step of the model
    at: float
    end: str = "running"
    landed: bool = False
    may_land: bool = True  # it runs, or what it has sent is on its way
    asked_off: int | None = None  # when somebody was told what became of it
    settled: int | None = None  # from when on everybody knows that

    @property
    def token(self) -> str:
        return f"t{self.number}"

    @property
    def is_undecided(self) -> bool:
        """Whether its end says nothing of its effect."""
        return self.end in UNDECIDED or self.end in ("cancelled", "running")


@attrs.define(eq=False)
class Arrival:
    """One call as it came to a process."""

    model: Model
    process: Process
    tool: str
    arguments: dict[str, object]
    scope: Scope  # principal, conversation, tool
    delivery: tuple[str, ...] | None
    ends: tuple[str, ...]
    note: bool
    start: int
    at: float
    approval: str = ""  # that it resumes
    end: int | None = None
    outcome: Any = None
    bodies: list[Body] = attrs.field(factory=list["Body"])
    tells: list[Body] = attrs.field(factory=list["Body"])  # of which it found out what became
    fails_at: int = 0  # faults of its process before it

    @property
    def strict(self) -> str:
        return write_strict(self.arguments, note=self.note)

    @property
    def loose(self) -> str:
        return write_loose(self.arguments)

    @property
    def is_healthy(self) -> bool:
        """Whether it ended, and its store gave each answer that it wanted."""
        return self.end is not None and not any(self.start <= each <= self.end for each in self.process.faulted)

    # What its body does.

    async def act(self, tool: str, arguments: dict[str, object], key: str) -> str:
        """The body of a tool."""
        model = self.model
        self.process.check_alive()
        end = self.ends[min(len(self.bodies), len(self.ends) - 1)]
        body = Body(len(model.bodies), self, arguments, key, model.step(), model.loop.now)
        if tool != self.tool or write_strict(arguments, note=self.note) != self.strict:
            model.break_rule(f"{self.tool} {self.arguments} ran as {tool} {arguments}")
        model.check_begin(body)
        self.bodies.append(body)
        model.bodies.append(body)
        try:
            await self.process.pause()
            if end == "hangs":
                await asyncio.sleep(20)
                await self.process.pause()
            return await self._end(body, end)
        except (asyncio.CancelledError, Killed):
            body.may_land = body.end == "late"
            body.end = "cancelled"
            raise

    async def _end(self, body: Body, end: str) -> str:
        model = self.model
        token = model.land(body) if ENDS[end][0] else body.token
        body.may_land = end == "late"
        if end == "late":
            model.loop.call_later(5, model.land_late, body)
        body.end = end
        await self.process.pause()
        if end in ("ok", "hangs", "fails"):
            for each in model.bodies:
                if each is not body and body.key and each.key == body.key:
                    self.tells.append(each)
                    each.asked_off = model.now
        if end in ("ok", "hangs"):
            return token
        if end == "fails":
            raise ToolFailed("no")
        if end == "undone":
            raise ToolFailed("not now", kind="transient", landed=False)
        if end == "missing":
            raise FileNotFoundError
        if end == "late":
            raise TimeoutError
        raise ConnectionRefusedError if end == "part" else ConnectionResetError

    async def verify(self, tool: str, arguments: dict[str, object], key: str) -> object:
        """What the backend knows of a lost call."""
        model, strict = self.model, write_strict(arguments, note=self.note)
        del key
        await self.process.pause()
        found = model.find_lost((*self.scope[:2], tool), "", strict)
        if found is None or self.process.dice.random() < _CANNOT_TELL:
            return None
        found.asked_off = model.now
        self.tells.append(found)
        return Success(found.token) if found.landed else False


@attrs.define(eq=False)
class Request:
    """A decision of a person that a call waits for."""

    id: str
    arrival: Arrival
    expires_at: float
    approved: int | None = None  # the step; also where the store says only that it may be written
    is_sure: bool = False
    rejected: bool = False


@attrs.define(eq=False)
class Model:
    """Watches one history.

    Args:
        loop: Whose time it is.
        has_store: Whether the processes share a store; without one each remembers by itself.
        options: Of the processes.
    """

    loop: VirtualLoop
    has_store: bool
    options: frozenset[str]
    now: int = 0  # steps
    bodies: list[Body] = attrs.field(factory=list[Body])
    arrivals: list[Arrival] = attrs.field(factory=list[Arrival])
    requests: list[Request] = attrs.field(factory=list[Request])
    answers: dict[str, Body] = attrs.field(factory=dict[str, Body])  # the backend's own, by key
    killed: dict[int, tuple[int, float]] = attrs.field(factory=dict[int, tuple[int, float]])  # by id of the process
    broken: list[str] = attrs.field(factory=list[str])

    def step(self) -> int:
        """The number of a new step."""
        self.now += 1
        return self.now

    def break_rule(self, text: str) -> None:
        """Note that a rule does not hold: who runs it may catch what is raised."""
        self.broken.append(text)

    def kill(self, process: Process, *, at_once: bool) -> None:
        """A process is no more; from a time on, everybody sees that."""
        process.kill(at_once=at_once)
        self.killed[id(process)] = self.step(), self.loop.now + (0 if at_once else LEASE + 1)

    def find_lost(self, scope: Scope, key: str, strict: str = "") -> Body | None:
        """The one body that is meant by what is known of a lost call. None: that cannot be told, or what comes yet.

        One that runs beside it, perhaps of the same delivery, is not lost, and says nothing of it.
        """
        found = [
            each
            for each in self.bodies
            if each.arrival.scope == scope
            and each.is_undecided
            and not self._surely_runs(each)
            and (not key or each.key == key)
            and (not strict or each.arrival.strict == strict)
        ]
        if len(found) != 1:
            return None
        is_gone = found[0].end == "running" and found[0].arrival.process.dead
        return found[0] if is_gone or not found[0].may_land else None

    # Effects

    def land(self, body: Body) -> str:
        """An effect takes place, or an earlier one with its key answers for it. Returns the answer."""
        if body.key and body.key in self.answers:
            first = self.answers[body.key]
            if not _is_same(first.arrival, body.arrival):
                self.break_rule(f"{_show(body)} got the answer of {_show(first)}, by its key")
            body.landed = True
            return first.token
        body.landed = True
        if body.key:
            self.answers[body.key] = body
        for each in self.bodies:
            is_other = each is not body and each.landed and body.at - each.at < KEEP - _DAY
            its, mine = each.arrival.delivery, body.arrival.delivery
            if self.has_store and is_other and its == mine is not None and body.arrival.tool in ("pay", "send"):
                self.break_rule(f"{_show(body)} took effect twice, first as {_show(each)}")
        return body.token

    def land_late(self, body: Body) -> None:
        """What was sent arrives after nobody waits for its answer."""
        if body.may_land:
            body.may_land = False
            self.land(body)

    def check_begin(self, body: Body) -> None:
        """A body begins: nothing that is equal may be undecided, but for the keyed ones that take its key."""
        arrival = body.arrival
        if arrival.tool not in REMEMBERED:
            return
        if arrival.tool == "wire" and "approve" in self.options:
            self._check_approved(body)
        lost = [each for each in self._equal(body) if self._is_surely_undecided(each, arrival)]
        if arrival.tool == "charge":
            strict = [
                each
                for each in self._equal(body)
                if _is_same(each.arrival, arrival) and (each in lost or self._may_be_undecided(each, arrival))
            ]
            if lost and not strict:
                self.break_rule(f"{_show(body)} began though {_show(lost[0])} is undecided and not strictly equal")
            elif (
                any(each in lost for each in strict)
                and all(each.key != body.key for each in strict)
                and not self._has_key(arrival, body.key)  # the key of the very delivery comes first
            ):
                self.break_rule(f"{_show(body)} has another key than {_show(strict[0])}, which is undecided")
            self._check_key(body)
        elif lost:
            self.break_rule(f"{_show(body)} began though {_show(lost[0])} is undecided")
        elif any(each.end not in ("undone", "fails") for each in arrival.bodies):
            self.break_rule(f"{_show(body)} is a second body of one call")

    def _check_key(self, body: Body) -> None:
        arrival = body.arrival
        known = [each for each in self.bodies if each.key == body.key]
        if known and not any(
            _is_one_delivery(each.arrival, arrival)
            or (_is_same(each.arrival, arrival) and self._may_be_undecided(each, arrival))
            for each in known
        ):
            self.break_rule(f"{_show(body)} has the key of {_show(known[0])}")
        elif (
            known
            and all(self._surely_runs(each) and not _is_one_delivery(each.arrival, arrival) for each in known)
            and not any(self._may_be_claimed(each, arrival) for each in self.arrivals)  # one that had that key
        ):
            self.break_rule(f"{_show(body)} runs beside {_show(known[0])}, and has its key")

    def _surely_runs(self, body: Body) -> bool:
        """Whether a body runs in a process that all others see: it is not lost, so its key is its own."""
        process = body.arrival.process
        return body.end == "running" and not process.dead and self.loop.now <= process.lease_until

    def _check_approved(self, body: Body) -> None:
        arrival = body.arrival
        granted = [
            each
            for each in self.requests
            if each.approved is not None
            and each.arrival.scope == arrival.scope
            and each.arrival.strict == arrival.strict
        ]
        used = [
            each
            for each in self.bodies
            if each.arrival.scope == arrival.scope
            and each.arrival.strict == arrival.strict
            and (each.landed or each.may_land or each.is_undecided)
        ]
        if len(used) >= len(granted):
            self.break_rule(f"{_show(body)} began with {len(granted)} approvals, {len(used)} of them used")

    def _equal(self, body: Body) -> Iterable[Body]:
        arrival = body.arrival
        for each in self.bodies:
            is_equal = each.arrival.scope == arrival.scope and each.arrival.loose == arrival.loose
            if is_equal and each.arrival is not arrival:
                yield each

    # What is certain

    def _is_surely_undecided(self, body: Body, by: Arrival) -> bool:
        """Whether a call that came when it did must see that a body is undecided."""
        its = body.arrival
        if not body.is_undecided or body.asked_off is not None or self._may_be_lifted(body):
            return False
        age, at_hand = self.loop.now - body.at, its.process is by.process
        if its.process.dead:
            step, until = self.killed[id(its.process)]
            if its.end is None or not its.is_healthy:
                return self.has_store and by.start > step and by.at > until and age < KEEP - _DAY
        if its.end is None or its.end >= by.start:
            return False
        if self.has_store and its.is_healthy:
            return age < KEEP - _DAY
        return at_hand and age < _HOUR - LEASE

    def _may_be_lifted(self, body: Body) -> bool:
        return body.end == "missing" and any(
            (each.arrival.end is None or each.arrival.end > body.began)
            and (each.end in ("ok", "hangs") or each.asked_off is not None)
            and self._can_lift(each, body)
            for each in self.bodies
        )

    def _is_surely_lifted(self, body: Body, by: Arrival) -> bool:
        its = body.arrival
        return (
            body.end == "missing"
            and its.end is not None
            and its.is_healthy
            and any(
                each.arrival.start > its.end
                and each.end in ("ok", "hangs")
                and each.arrival.is_healthy
                and each.arrival.end is not None
                and each.arrival.end < by.start
                and self._can_lift(each, body)
                for each in self.bodies
            )
        )

    def _can_lift(self, other: Body, body: Body) -> bool:
        mine, its = body.arrival.scope, other.arrival.scope
        return mine[:2] == its[:2] and mine[2] != its[2] and its[2] != "look"

    def _may_be_undecided(self, body: Body, by: Arrival) -> bool:
        """Whether a call may have met a body that ran, or of which it was not known what became."""
        its, end = body.arrival, by.end or self.now
        if body.began > end or self._is_surely_lifted(body, by):
            return False
        if body.settled is not None and body.settled < by.start:
            return False
        if body.is_undecided:
            return True
        return its.end is None or its.end >= by.start or not its.is_healthy

    # What is told

    def check_outcome(self, arrival: Arrival) -> None:
        """A call has its answer."""
        outcome = arrival.outcome
        if arrival.is_healthy:
            for each in arrival.tells:  # one that ran beside it may have noted its own end later
                if each.arrival is arrival or (each.arrival.end or arrival.start) < arrival.start:
                    each.settled = arrival.end
        if type(outcome) is Success:
            self._check_success(arrival, cast("str", outcome.unwrap()))
            return
        error: Any = outcome.failure()
        if (answer := self._kept_answer(arrival)) is not None and arrival.is_healthy:
            self.break_rule(f"{_tell(arrival)} was told {error.kind}, and its answer was {answer}")
        own = arrival.bodies[-1] if arrival.bodies else None
        if own is not None and own.is_undecided and arrival.tool in ("pay", "send", "wire") and own.asked_off is None:
            told = error.kind == "outcome_unknown" or (
                error.kind == "not_found" and own.end == "missing" and error.details.suggestion
            )
            if not told:
                self.break_rule(f"{_show(own)} may have landed, and was told as {error.kind}")
        if not self._has_reason(arrival, error):
            self.break_rule(f"{_tell(arrival)} was refused: {error.kind} {getattr(error, 'reason', '')}")

    def _kept_answer(self, arrival: Arrival) -> str | None:
        """The answer that the same delivery has had for sure."""
        if arrival.delivery is None or not self.has_store or arrival.tool == "look":
            return None
        for each in self.arrivals:
            its = each.outcome
            if each is arrival or each.delivery != arrival.delivery or each.end is None or type(its) is not Success:
                continue
            if each.end < arrival.start and each.is_healthy and self.loop.now - each.at < KEEP - _DAY:
                return cast("str", its.unwrap())
        return None

    def _check_success(self, arrival: Arrival, token: str) -> None:
        body = self.bodies[int(token[1:])]
        its = body.arrival
        kept = self._kept_answer(arrival)
        if kept is not None and kept != token and arrival.tool != "put":
            self.break_rule(f"{_tell(arrival)} got {token}, and had got {kept}")
        if kept is not None and arrival.bodies and arrival.is_healthy:
            self.break_rule(f"{_tell(arrival)} ran again, and had got {kept}")
        if its is arrival:
            return
        if _is_one_delivery(its, arrival) or any(_has_had(each, token) for each in self._same_delivery(arrival)):
            return
        if its.approval and its.approval == arrival.approval:
            return
        is_equal = its.scope == arrival.scope and its.strict == arrival.strict
        if not is_equal:
            self.break_rule(f"{_tell(arrival)} got the answer of {_show(body)}")
        elif arrival.tool == "wire" or self._has_key(arrival, body.key):  # by its approval, or by its key
            return
        elif not self._may_be_undecided(body, arrival):
            self.break_rule(f"{_tell(arrival)} did not run, and got the answer of {_show(body)}")

    def _same_delivery(self, arrival: Arrival) -> Iterable[Arrival]:
        return (each for each in self.arrivals if each is not arrival and _is_one_delivery(each, arrival))

    def _has_key(self, arrival: Arrival, key: str) -> bool:
        """Whether a body of this delivery had a key, for which the backend has one answer."""
        return bool(key) and any(
            _is_one_delivery(each, arrival) and any(body.key == key for body in each.bodies) for each in self.arrivals
        )

    def _has_reason(self, arrival: Arrival, error: Any) -> bool:
        kind: str = error.kind
        same = [
            each
            for each in self.arrivals
            if _is_one_delivery(each, arrival)
            or (arrival.tool == "wire" and (each.scope, each.strict) == (arrival.scope, arrival.strict))
            or (arrival.approval and each.approval == arrival.approval)  # whatever default a schema adds by now
        ]
        if any(ENDS[body.end][1] == kind for each in same for body in each.bodies if body.end in ENDS):
            return True
        if arrival.tool == "wire" and kind in ("awaiting_approval", "permission", "not_found", "not_executed"):
            return "approve" in self.options and self._may_wait(arrival)
        if kind == "outcome_unknown":
            if any(body.is_undecided for each in same for body in each.bodies):  # a delivery has one answer
                return True
            return any(
                each.arrival.scope == arrival.scope
                and each.arrival.loose == arrival.loose
                and self._may_be_undecided(each, arrival)
                for each in self.bodies
            ) or any(self._may_be_claimed(each, arrival) for each in self.arrivals if each is not arrival)
        if kind != "unavailable":
            return False
        if not arrival.is_healthy or self.loop.now > arrival.process.lease_until or "small" in self.options:
            return True
        if error.reason == "quota":
            took = [each for each in self.arrivals if each.scope[:2] == arrival.scope[:2]]
            return len(took) > QUOTA
        return any(
            each.end is None or each.end >= arrival.start or not each.is_healthy for each in same if each is not arrival
        ) or bool(arrival.approval or arrival.tool == "wire")

    def _may_be_claimed(self, other: Arrival, by: Arrival) -> bool:
        """Whether an equal call may have been written down as one that began, though no body of it did."""
        is_gone = other.process.dead or other.process.lease_until < self.loop.now
        return other.scope == by.scope and other.loose == by.loose and is_gone and not other.is_healthy

    def _may_wait(self, arrival: Arrival) -> bool:
        """Whether a call that needs a decision may be answered without running: not the first one after a yes."""
        request = next((each for each in self.requests if each.id == arrival.approval), None)
        if request is None or not request.is_sure or request.approved is None or not arrival.is_healthy:
            return True
        used = any(each.scope == arrival.scope and each.loose == arrival.loose for each in self.arrivals
                   if each is not arrival and each is not request.arrival)  # fmt: skip
        is_late = self.loop.now > request.expires_at - LEASE
        return used or is_late or request.approved > arrival.start or arrival.note != request.arrival.note


def _is_one_delivery(one: Arrival, other: Arrival) -> bool:
    return one is other or (one.delivery is not None and one.delivery == other.delivery)


def _has_had(arrival: Arrival, token: str) -> bool:
    outcome: Any = arrival.outcome
    return type(outcome) is Success and cast("Any", outcome).unwrap() == token


def _is_same(one: Arrival, other: Arrival) -> bool:
    """Whether a call may have the key of another: strictly equal, or one delivery, whatever default a schema adds."""
    return one.strict == other.strict or _is_one_delivery(one, other)


def _show(body: Body) -> str:
    return f"body {body.number} ({body.end}) of {_tell(body.arrival)}"


def _tell(arrival: Arrival) -> str:
    number = arrival.model.arrivals.index(arrival)
    return f"call {number} to {arrival.process.name}: {arrival.scope[2]}({arrival.arguments!a})"
