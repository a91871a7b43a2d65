"""Histories as programs: drawn by dice, run against the model, and cut down to the steps without which none fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

import attrs

from simulation.model import Arrival, Model, Request
from simulation.processes import ARRIVAL, EXPIRES, LEASE, VERSIONS, Killed, Process, SharedStore
from simulation.virtual_time import Deadlock, VirtualLoop, virtual_time
from toolcall_pipeline import Call as ToolCall
from toolcall_pipeline import Failure, SetupError
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.stores import StoreError

_AGAIN = 0.25  # of the histories begin with a call that is lost, and comes again twice at once
_TICKS = 40  # steps of the loop between two steps of a history, at most


@attrs.frozen
class Call:
    """A call comes to a process. The next step waits for its answer, or for some steps of the loop."""

    process: str
    tool: str
    arguments: dict[str, object]
    id: str = ""
    principal: str = "ann"
    conversation: str = "c1"
    reply: str = ""
    ends: tuple[str, ...] = ("ok",)
    ticks: int | None = None


@attrs.frozen
class Resume:
    """The call of an approval comes to a process."""

    process: str
    number: int = 0
    ends: tuple[str, ...] = ("ok",)
    ticks: int | None = None


@attrs.frozen
class Decide:
    """A person decides on a call that waits."""

    process: str
    number: int = 0
    yes: bool = True


@attrs.frozen
class Cancel:
    """The caller of the oldest call that runs goes away."""


@attrs.frozen
class Kill:
    """A process is no more; the others see it at once, or when its lease ends."""

    process: str
    at_once: bool = True


@attrs.frozen
class Restart:
    """A process is closed, if it lives, and starts anew."""

    process: str


@attrs.frozen
class Fail:
    """The next steps to the store fail, each before or after it was made; "": it does not.

    "killed before", "killed after": the process dies there.
    """

    process: str
    how: tuple[str, ...] = ("before",)


@attrs.frozen
class Jump:
    """Time passes."""

    seconds: float


@attrs.frozen
class Skew:
    """The wall clock of a process is set."""

    process: str
    seconds: float


@attrs.frozen
class Change:
    """A process has another version of a tool."""

    process: str
    tool: str
    version: str


@attrs.frozen
class Purge:
    """The ledger's rows are removed from the store: an approval is the authority of its own use."""


@attrs.frozen
class Settle:
    """A person says of each undecided call what became of it, where the backend shows that."""

    process: str


Step: TypeAlias = Settle | Purge | Call | Resume | Decide | Cancel | Kill | Restart | Fail | Jump | Skew | Change


@attrs.frozen
class Program:
    """A history.

    Attributes:
        seed: Of the dice that say how the steps of its tasks mix.
        has_store: Whether its processes share a store.
        options: Of its processes.
        steps: Its steps.
    """

    seed: int
    has_store: bool
    options: tuple[str, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        steps = "".join(f"    {_write(each)},\n" for each in self.steps)
        return f"Program({self.seed}, {self.has_store}, {self.options!r}, (\n{steps}))"


def _write(step: Step) -> str:
    given = [
        f"{field.name}={value!a}"
        for field in attrs.fields(type(step))
        if (value := getattr(step, field.name)) != field.default
    ]
    return f"{type(step).__name__}({', '.join(given)})"


class History:
    """One run of a program."""

    def __init__(self, loop: VirtualLoop, program: Program) -> None:
        self.loop, self.program = loop, program
        self.dice = random.Random(program.seed)
        self.model = Model(loop, program.has_store, frozenset(program.options))
        self.shared = SharedStore(loop) if program.has_store else None
        self.processes: dict[str, Process] = {}
        self.all: list[Process] = []
        self.running: dict[asyncio.Task[None], Arrival] = {}

    async def run(self) -> list[str]:
        """Run it; the rules that did not hold."""
        for step in self.program.steps:
            await self._step(step)
            if self.model.broken:
                break
        await self._wait()
        await asyncio.sleep(10)  # for what comes late
        if "audit" in self.program.options:
            log = AuditLog(cast("Any", (await self._find("auditor")).door))
            for fault in (await log.verify()).faults:
                self.model.break_rule(f"the audit: {fault}")
        for process in self.all:
            await asyncio.create_task(process.stop())
        return self.model.broken

    async def _wait(self) -> None:
        while self.running:
            await asyncio.wait(list(self.running))

    async def _find(self, name: str) -> Process:
        process = self.processes.get(name)
        if process is None or process.dead or process.ended:
            tools = dict(VERSIONS["first"] if process is None else process.tools)
            skew = [0.0] if process is None else process.skew
            process = Process(
                name, self.model, self.shared, self.model.options, random.Random(self.dice.random()), tools, skew=skew
            )
            self.processes[name] = process
            self.all.append(process)
            await asyncio.create_task(process.start())
        await asyncio.create_task(_renew(process))
        return process

    async def _step(self, step: Step) -> None:  # noqa: C901, PLR0912  # a table
        match step:
            case Call():
                process = await self._find(step.process)
                call = ToolCall(
                    step.tool, step.arguments, step.id, step.principal, conversation=step.conversation, reply=step.reply
                )
                scope = step.principal, step.conversation, step.tool
                delivery = (*scope, step.reply, step.id, repr(step.arguments)) if step.id else None
                arrival = self._make(process, dict(step.arguments), scope, delivery, step.ends)
                await self._begin(arrival, lambda: process.pipeline(call), step.ticks)
            case Resume():
                if step.number < len(self.model.requests):
                    process = await self._find(step.process)
                    request = self.model.requests[step.number]
                    its = request.arrival
                    arrival = self._make(process, its.arguments, its.scope, None, step.ends)
                    arrival.approval = request.id
                    await self._begin(arrival, lambda: process.pipeline.resume(request.id), step.ticks)
            case Decide():
                if step.number < len(self.model.requests):
                    await self._decide(await self._find(step.process), self.model.requests[step.number], step.yes)
            case Cancel():
                for task in self.running:
                    task.cancel()
                    break
            case Kill():
                if step.process in self.processes and not self.processes[step.process].dead:
                    self.model.kill(self.processes[step.process], at_once=step.at_once)
            case Restart():
                await self._restart(step.process)
            case Fail():
                if self.shared is not None:
                    (await self._find(step.process)).faults.extend(step.how)
            case Jump():
                self.loop.now += step.seconds
                for process in self.processes.values():
                    waits = any(each.process is process for each in self.running.values())
                    if waits or self.loop.now > process.lease_until:  # a limit is over, or the lease is
                        process.faulted.append(self.model.step())
            case Settle():
                if self.shared is not None:
                    await asyncio.create_task(self._settle(await self._find(step.process)))
            case Purge():
                if self.shared is not None:
                    self.shared.purge()
            case Skew():
                (await self._find(step.process)).skew[0] = step.seconds
            case Change():
                (await self._find(step.process)).replace(VERSIONS[step.version][step.tool])

    async def _restart(self, name: str) -> None:
        process = self.processes.get(name)
        if process is not None and not process.dead:
            for task, arrival in list(self.running.items()):
                if arrival.process is process:
                    await asyncio.wait([task])
            await asyncio.create_task(_close(process))
            self.model.kill(process, at_once=True)
        await self._find(name)

    async def _decide(self, process: Process, request: Request, yes: bool) -> None:
        if request.approved is not None or request.rejected:
            return
        process.enter()
        process.faults.clear()
        if yes:
            request.approved = self.model.step()
        else:
            request.rejected = True
        expires_at = self.loop.now + EXPIRES
        with suppress(StoreError, SetupError):  # it may be forgotten by now
            decide = process.approvals.approve if yes else process.approvals.reject
            found: Any = await decide(request.id, by="Eve")
            request.is_sure = yes and found is not None and found.state == "approved"
            if request.is_sure:
                request.expires_at = expires_at
            elif yes and self.loop.now < request.expires_at - LEASE:
                self.model.break_rule(f"{request.id} waits, and cannot be approved: {found and found.state}")

    async def _settle(self, process: Process) -> None:
        process.enter()
        process.faults.clear()
        for each in await process.ledger.undecided():
            scope = each.principal, each.conversation, each.tool
            found = self.model.find_lost(scope, each.key)
            if found is not None:
                found.asked_off = self.model.step()
                if await process.ledger.resolve(each.id, landed=found.landed, value=found.token, by="Eve"):
                    found.settled = self.model.step()

    def _make(self, process: Process, arguments: dict[str, object], scope: Any, delivery: Any, ends: Any) -> Arrival:
        note = "note" in process.tools[scope[2]].parameters.schema["properties"]
        model = self.model
        if scope[2] == "wire":
            delivery = None  # its approval is what it is known by
        arrival = Arrival(model, process, scope[2], arguments, scope, delivery, ends, note, model.step(), self.loop.now)
        model.arrivals.append(arrival)
        if self.loop.now > process.lease_until:  # it could not be renewed
            process.faulted.append(model.now)
        return arrival

    async def _begin(self, arrival: Arrival, call: Callable[[], Any], ticks: int | None) -> None:
        task = asyncio.create_task(self._run(arrival, call))
        self.running[task] = arrival
        task.add_done_callback(self._forget)
        if ticks is None:
            await asyncio.wait([task])
        else:
            for _ in range(ticks):
                await asyncio.sleep(0)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.running.pop(task, None)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self.model.break_rule(f"the simulation itself: {exc!r}")

    async def _run(self, arrival: Arrival, call: Callable[[], Any]) -> None:
        process, model = arrival.process, self.model
        process.enter()
        ARRIVAL.set(arrival)
        try:
            outcome = await call()
        except Killed:
            return
        except asyncio.CancelledError:
            if not process.dead:
                arrival.end = model.step()
            return
        except BaseException as exc:  # it is a finding, whatever it is
            model.break_rule(f"{type(exc).__name__} left the pipeline: {exc}")
            return
        if process.dead:  # nobody gets that
            return
        arrival.outcome, arrival.end = outcome, model.step()
        model.check_outcome(arrival)
        if type(outcome) is Failure:
            error: Any = cast("Any", outcome).failure()
            if error.kind == "awaiting_approval":
                self._note_request(arrival, error)

    def _note_request(self, arrival: Arrival, error: Any) -> None:
        if all(each.id != error.id for each in self.model.requests):
            self.model.requests.append(Request(error.id, arrival, arrival.at + EXPIRES))


async def _renew(process: Process) -> None:
    process.enter()
    await process.renew_lease()


async def _close(process: Process) -> None:
    process.enter()
    with suppress(Exception):
        await process.pipeline.__aexit__(None, None, None)


def run_program(program: Program) -> list[str]:
    """Run a history; the rules that did not hold."""
    with virtual_time() as loop:
        history = History(loop, program)
        try:
            return loop.run_until_complete(history.run())
        except Deadlock:
            return [*history.model.broken, "a call waits for ever"]


# Drawing


def draw(seed: int) -> Program:
    """The history of a number."""
    dice = random.Random(seed)
    has_store = dice.random() < 0.8
    chances = {"approve": 0.3, "quota": 0.1, "small": 0.1} if has_store else {"small": 0.3}
    options = tuple(name for name, chance in chances.items() if dice.random() < chance)
    tools = ["pay", "pay", "send", "charge", "charge", "put", "look"]
    if "approve" in options:
        tools = ["wire", "wire", "wire", "wire", "pay", "charge"]
    few = dice.sample(tools, k=2)
    steps = [_draw_step(dice, few, has_store, options) for _ in range(dice.randrange(3, 14))]
    if has_store and "approve" not in options and dice.random() < _AGAIN:
        steps = [*_draw_again(dice, few), *steps[:3]]
    return Program(seed, has_store, options, tuple(steps))


def _draw_again(dice: random.Random, tools: Sequence[str]) -> Sequence[Step]:
    """A call is lost, and delivered again to two processes at once."""
    tool = dice.choice(("send", "send", "send", *tools))
    lost = Call("p", tool, {"to": "a"}, "1", ends=dice.choice((("hangs",), ("hangs",), ("lost before",), ("missing",))))
    steps: list[Step] = [lost]
    if lost.ends == ("hangs",):
        steps = [attrs.evolve(lost, ticks=100 * _TICKS), Kill("p")]
    again = attrs.evolve(lost, process="q", ends=dice.choice((("hangs",), ("ok",))), ticks=dice.randrange(_TICKS))
    return [*steps, again, attrs.evolve(again, process="r", ends=("ok",), ticks=None)]


def _draw_step(dice: random.Random, tools: Sequence[str], has_store: bool, options: Sequence[str]) -> Step:  # noqa: C901, PLR0912  # a table
    process = dice.choice(("p", "q", "p", "q", "r")) if has_store else "p"
    ticks = None if dice.random() < 0.6 else dice.randrange(_TICKS)
    ends = dice.choice((
        ("ok",), ("ok",), ("ok",), ("lost",), ("lost before",), ("fails",), ("missing",), ("late",), ("part",),
        ("hangs",), ("undone", "ok"), ("undone", "lost"), ("lost", "ok"), ("lost", "lost"), ("lost before", "ok"),
    ))  # fmt: skip
    if "approve" in options and dice.random() < 0.5:
        if dice.random() < 0.05:
            return Skew(process, dice.choice((-8 * 86400.0, 8 * 86400.0)))
        number = dice.choice((0, 0, 0, 1))
        if (roll := dice.random()) < 0.35:
            return Decide(process, number, dice.random() < 0.85)
        if roll < 0.45 and set(tools) == {"wire"}:  # others rely on what is purged
            return Purge()
        return Resume(process, number, ends, ticks)
    roll = dice.random()
    if roll < 0.62:
        arguments: dict[str, object] = {"to": dice.choice(("a", "a", "a", "a ", "\u00e9", "e\u0301"))}
        if dice.random() < 0.4:
            arguments["amount"] = dice.choice((1, "1", 2))
        return Call(
            process,
            dice.choice(tools),
            arguments,
            dice.choice(("1", "1", "2", "")),
            dice.choice(("ann", "ann", "ann", "bob")),
            dice.choice(("c1", "c1", "c1", "c2")),
            dice.choice(("", "", "r")),
            ends,
            ticks,
        )
    if roll < 0.70:
        return Cancel()
    if roll < 0.80:
        return Kill(process, dice.random() < 0.7)
    if roll < 0.82:
        return Settle(process)
    if roll < 0.84:
        return Restart(process)
    if roll < 0.91:
        return Fail(process, tuple(dice.choice(("before", "after")) for _ in range(dice.randrange(1, 4))))
    if roll < 0.95:
        return Jump(dice.choice((1, 40, 700, 4000, 8 * 86400.0)))
    if roll < 0.96:
        return Skew(process, dice.choice((-3600.0, 120.0, 8 * 86400.0)))
    return Change(process, dice.choice(tools), dice.choice(("first", "described", "noted")))


# Searching


def search(seeds: Sequence[int], *, most: int = 1) -> list[tuple[Program, list[str]]]:
    """Run the histories of some numbers; those that fail, each cut down."""
    found: list[tuple[Program, list[str]]] = []
    for seed in seeds:
        program = draw(seed)
        if run_program(program):
            found.append(shrink(program))
            if len(found) >= most:
                break
    return found


def shrink(program: Program) -> tuple[Program, list[str]]:
    """Leave out and simplify steps as long as the history fails."""
    best, broken = program, run_program(program)
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _simplify(best):
            if now := run_program(candidate):
                best, broken, is_smaller = candidate, now, True
                break
    return best, broken


def _simplify(program: Program) -> Sequence[Program]:
    steps = program.steps
    found = [attrs.evolve(program, steps=steps[:at] + steps[at + 1 :]) for at in range(len(steps))]
    found += [
        attrs.evolve(program, options=tuple(each for each in program.options if each != name))
        for name in program.options
    ]
    for at, step in enumerate(steps):
        for name, plain in (("ticks", None), ("reply", ""), ("id", ""), ("ends", ("ok",)), ("conversation", "c1")):
            if hasattr(step, name) and getattr(step, name) != plain:
                changed = attrs.evolve(cast("Any", step), **{name: plain})
                found.append(attrs.evolve(program, steps=(*steps[:at], changed, *steps[at + 1 :])))
    return found
