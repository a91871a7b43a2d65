"""Groups of calls of which any may be cancelled at any await, through each stage that keeps something in a store.

After each group all that a cancelled call had taken must be there again, each call must have ended, and the next call
must get its answer: that is what each `Trial` checks.
"""

from __future__ import annotations

import asyncio
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
from returns.result import Failure, Success

from support import a_call
from toolcall_pipeline import Outcome, ToolRegistry, Transient
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.middlewares import Audit, CircuitBreaker, Concurrency, Ledger, Quota, RateLimit, standard
from toolcall_pipeline.stores import Change, Entry, Memory, Store
from toolcall_pipeline.testing import FakeClock

GROUPS = int(os.environ.get("TOOLCALL_GROUPS", "60"))  # of each stage and store, as `make torture` sets it
PATIENCE = 60.0  # seconds for one group: no call waits so long unless it waits for ever
_MOST = 6  # calls of a group
DONE: Outcome = Success("done")


class Hesitant(Memory):
    """A store in memory that lets other tasks run before and after each step."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice

    async def get(self, key: str, /) -> Entry | None:
        await pause(self._dice)
        found = await super().get(key)
        await pause(self._dice)
        return found

    async def write(self, *changes: Change) -> int | None:
        await pause(self._dice)
        version = await super().write(*changes)
        await pause(self._dice)
        return version


async def pause(dice: random.Random, most: int = 3) -> None:
    """Let other tasks run, up to so many times."""
    for _ in range(dice.randrange(most + 1)):
        await anyio.lowlevel.checkpoint()


class Trial(ABC):
    """One stage, and what must hold after each group.

    Args:
        store: An open store.
        dice: Decides everything.
    """

    def __init__(self, store: Store | None, dice: random.Random) -> None:
        self.store, self.dice = store, dice
        self.began = 0  # bodies of this group

    @abstractmethod
    async def call(self, group: int, number: int) -> Outcome:
        """One call of a group."""

    @abstractmethod
    async def check(self, group: int, calls: int) -> None:
        """Raise AssertionError if a group left something behind."""

    async def prepare(self, group: int) -> None:
        """Do what a group needs before it; by default nothing."""
        del group

    async def settle(self) -> None:
        """Wait for what comes back; a caller that was cancelled twice does not."""

        def on_the_way() -> object:
            stage: Any = getattr(self, "stage", None)
            shared: Any = getattr(stage, "_shared", None)
            states: Any = getattr(stage, "_fleet", None) if shared is None else shared.states
            return states is not None and states._values._queues

        while on_the_way():  # noqa: ASYNC110  # it tells nobody of its end
            await anyio.sleep(0.0005)

    async def finish(self) -> None:
        """Check what holds after all groups; by default nothing."""
        del self.store

    async def body(self, *_: object) -> Outcome:
        self.began += 1
        await pause(self.dice)
        return DONE


class _Countable(Trial):
    """A stage that lets so many calls of a group pass: those whose bodies did not begin took nothing."""

    stage: Any
    limit = 4

    async def call(self, group: int, number: int) -> Outcome:
        del number
        outcome: Outcome = await self.stage(a_call(principal=f"p{group}"), self.body)
        return outcome

    async def check(self, group: int, calls: int) -> None:
        del calls
        ran, self.began = self.began, 0
        assert ran <= self.limit
        passed = 0
        while type(await self.stage(a_call(principal=f"p{group}"), self.body)) is Success:
            passed += 1
        assert ran + passed == self.limit, f"{ran} ran, then {passed} passed, of {self.limit}"


class Quotas(_Countable):
    def __init__(self, store: Store | None, dice: random.Random) -> None:
        super().__init__(store, dice)
        self.stage = Quota(self.limit, store=store)


class Rates(_Countable):
    def __init__(self, store: Store | None, dice: random.Random) -> None:
        super().__init__(store, dice)
        limit = RateLimit(1, per=1e6, burst=self.limit, store=store)
        self.stage = limit.queueing(max_wait=1) if store is None else limit


class Units(Trial):
    def __init__(self, store: Store | None, dice: random.Random) -> None:
        super().__init__(store, dice)
        self.stage = Concurrency(2, store=store)
        self.prompt = Concurrency(2, store=store, max_queue=0)
        self.running = 0

    async def call(self, group: int, number: int) -> Outcome:
        del number
        return await self.stage(a_call(principal=f"p{group}"), self.body)

    async def body(self, *given: object) -> Outcome:
        self.running += 1
        assert self.running <= 2
        try:
            return await super().body(*given)
        finally:
            self.running -= 1

    async def check(self, group: int, calls: int) -> None:
        del calls
        stage = self.stage if self.store is None else self.prompt
        both = anyio.Event()
        inside = 0

        async def hold(_: object) -> Outcome:
            nonlocal inside
            inside += 1
            if inside == 2:
                both.set()
            await both.wait()
            return DONE

        outcomes: list[Outcome] = []

        async def one() -> None:
            outcomes.append(await stage(a_call(principal=f"p{group}"), hold))
            if type(outcomes[-1]) is Failure:
                both.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)
        assert outcomes == [DONE, DONE]


class Breakers(Trial):
    """A breaker that is half-open: calls that were cancelled while they tried the tool leave the trial to the next."""

    def __init__(self, store: Store | None, dice: random.Random) -> None:
        super().__init__(store, dice)
        self.stage = CircuitBreaker(failures=1, open_for=1, store=store)
        self.running, self.ended = 0, False

    async def prepare(self, group: int) -> None:
        async def fail(_: object) -> Outcome:
            return Failure(Transient())

        clock.advance(2)
        await self.stage(a_call(principal=f"p{group}"), fail)
        assert type(await self.stage(a_call(principal=f"p{group}"), self.body)) is Failure
        clock.advance(2)
        self.ended = False

    async def call(self, group: int, number: int) -> Outcome:
        del number
        return await self.stage(a_call(principal=f"p{group}"), self.body)

    async def body(self, *given: object) -> Outcome:
        self.running += 1
        assert self.ended or self.running == 1
        try:
            outcome = await super().body(*given)
            self.ended = True
            return outcome
        finally:
            self.running -= 1

    async def check(self, group: int, calls: int) -> None:
        del calls
        assert await self.stage(a_call(principal=f"p{group}"), self.body) == DONE


class _Piped(Trial):
    """A stage of a whole pipeline, around a tool that changes something."""

    def __init__(self, store: Store | None, dice: random.Random) -> None:
        super().__init__(store, dice)
        self.tools = ToolRegistry()
        self.told: dict[str, int] = {}  # bodies that began, by name
        self.tools.tool(name="pay")(self.pay)
        self.pipeline = self.build()

    def build(self) -> Any:
        raise NotImplementedError

    async def pay(self, to: str) -> str:
        """Pay."""
        self.told[to] = self.told.get(to, 0) + 1
        self.began += 1
        await pause(self.dice)
        return to


class Audits(_Piped):
    def build(self) -> Any:
        self.audit = Audit(self.store or Memory())
        return standard(self.tools).after("validate", self.audit)

    async def call(self, group: int, number: int) -> Outcome:
        outcome: Outcome = await self.pipeline.call("pay", {"to": f"{group} {number}"})
        return outcome

    async def check(self, group: int, calls: int) -> None:
        assert await self.call(group, calls) == Success(f"{group} {calls}")

    async def finish(self) -> None:
        log = AuditLog(self.audit.store)
        verdict = await log.verify()
        assert not verdict.faults
        asked: set[str] = set()
        ended: dict[str, int] = {}
        async for row in log.read():
            if row["event"] == "asked":
                asked.add(row["id"])
            else:
                assert row["id"] in asked or not row["bodies"]
                ended[row["id"]] = row["bodies"]
        assert asked <= set(ended)
        assert sum(ended.values()) == sum(self.told.values())


class Ledgers(_Piped):
    def build(self) -> Any:
        self.stage: Any = Ledger(self.store or Memory(), lease=1e9)
        return standard(self.tools).before("retry", self.stage)

    async def call(self, group: int, number: int) -> Outcome:
        id_ = number // 2  # some come twice
        arguments = {"to": f"{group} {id_}"}
        outcome: Outcome = await self.pipeline.call("pay", arguments, id=f"{id_}", conversation=f"c{group}")
        return outcome

    async def check(self, group: int, calls: int) -> None:
        for number in range(0, calls, 2):
            before = self.told.get(f"{group} {number // 2}", 0)
            outcome = await self.call(group, number)
            ran = self.told.get(f"{group} {number // 2}", 0)
            assert ran <= 1
            if type(outcome) is Success:
                assert ran == 1
            else:
                error: Any = outcome.failure()
                assert (error.kind, before) == ("outcome_unknown", 1)
        assert not self.stage._inside  # no delivery that has ended is taken for one that runs
        assert not self.stage._awaited


TRIALS: dict[str, Callable[[Store | None, random.Random], Trial]] = {
    "quota": Quotas,
    "rate_limit": Rates,
    "concurrency": Units,
    "circuit_breaker": Breakers,
    "audit": Audits,
    "ledger": Ledgers,
}
clock = FakeClock()


async def run_groups(name: str, store: Store | None, groups: Sequence[int], seed: int, *, threads: bool) -> None:
    """Run groups of calls through a stage.

    Args:
        name: Of the stage in `TRIALS`.
        store: An open store; None: the memory of the stage itself.
        groups: Their numbers.
        seed: Of the dice.
        threads: Whether the store answers from a thread: then cancellations come after some time, too.
    """
    dice = random.Random(seed)
    with clock:
        trial = TRIALS[name](store, dice)
        opened = getattr(trial, "pipeline", None)
        if opened is not None:
            await opened.__aenter__()
        for group in groups:
            calls = dice.randrange(1, _MOST + 1)
            with anyio.fail_after(PATIENCE):
                trial.began = 0
                await trial.prepare(group)
                trial.began = 0
                await _cancel_some(trial, group, calls, threads=threads)
                await trial.settle()
                await trial.check(group, calls)
        await trial.finish()
        if opened is not None:
            await opened.__aexit__(None, None, None)


async def _cancel_some(trial: Trial, group: int, calls: int, *, threads: bool) -> None:
    dice = trial.dice
    steps = dice.choice((2, 6, 20))
    ends = [dice.choice((None, dice.randrange(steps), 1)) for _ in range(calls)]  # some at one moment
    native = _is_asyncio() and dice.random() < 0.5
    run = _run_native if native else _run_scoped
    await run(trial, group, ends, steps, threads=threads)


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _step(dice: random.Random, *, threads: bool) -> None:
    if threads and dice.random() < 0.3:
        await anyio.sleep(dice.random() * 0.002)
    else:
        await anyio.lowlevel.checkpoint()


async def _run_scoped(trial: Trial, group: int, ends: Sequence[int | None], steps: int, *, threads: bool) -> None:
    scopes = [anyio.CancelScope() for _ in ends]

    async def one(number: int) -> None:
        with scopes[number]:
            await pause(trial.dice, 4)
            await trial.call(group, number)

    async with anyio.create_task_group() as tasks:
        for number in range(len(ends)):
            tasks.start_soon(one, number)
        for step in range(steps):
            await _step(trial.dice, threads=threads)
            for scope, end in zip(scopes, ends, strict=True):
                if end == step:
                    scope.cancel()


async def _run_native(trial: Trial, group: int, ends: Sequence[int | None], steps: int, *, threads: bool) -> None:
    async def one(number: int) -> None:
        await pause(trial.dice, 4)
        await trial.call(group, number)

    tasks = [asyncio.create_task(one(number)) for number in range(len(ends))]
    again = [trial.dice.random() < 0.2 for _ in ends]
    for step in range(steps + 1):
        await _step(trial.dice, threads=threads)
        for number, end in enumerate(ends):
            if end is not None and (end == step or (again[number] and end == step - 1)):
                tasks[number].cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
