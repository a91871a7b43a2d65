"""The outcome of a call after one fault, for each fault and each effect of a tool."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from returns.result import Success

from support import PATIENT, a_tool
from toolcall_pipeline import Call, Effect, Outcome, Pipeline, Placement, ToolContext, ToolRegistry
from toolcall_pipeline.base import timing
from toolcall_pipeline.executors import Thread
from toolcall_pipeline.middlewares import Execute, Retry, Timeout, standard

# Each fault happens once, after the tool has done its work: a second attempt would succeed. `attempts` counts those of
# Retry, `runs` the bodies that began, `effects` the changes of the backend: one for an idempotent tool, and one for
# each key. Retry decides nothing about a crash, an answer or a cancellation, so these have no reason. The text of an
# "outcome_unknown" asks the model to check before it repeats the call.
TABLE = """
fault                     tool        attempts  runs  effects  outcome          waited  reason
connection reset          read        2         2     0        success          0.05    transient, and the tool is read
connection reset          idempotent  2         2     1        success          0.05    transient, and the tool is idempotent
connection reset          keyed       2         2     1        success          0.05    transient, and the tool is keyed
connection reset          mutating    1         1     1        outcome_unknown  -       not repeated: a mutating call that may have landed
429, Retry-After: 7       read        2         2     0        success          7.00    transient, and the tool is read
429, Retry-After: 7       idempotent  2         2     1        success          7.00    transient, and the tool is idempotent
429, Retry-After: 7       keyed       2         2     1        success          7.00    transient, and the tool is keyed
429, Retry-After: 7       mutating    1         1     1        outcome_unknown  -       not repeated: a mutating call that may have landed
503                       read        2         2     0        success          0.05    transient, and the tool is read
503                       idempotent  2         2     1        success          0.05    transient, and the tool is idempotent
503                       keyed       2         2     1        success          0.05    transient, and the tool is keyed
503                       mutating    1         1     1        outcome_unknown  -       not repeated: a mutating call that may have landed
timeout while queued      read        2         1     0        success          0.05    timeout, and it did not land
timeout while queued      idempotent  2         1     1        success          0.05    timeout, and it did not land
timeout while queued      keyed       2         1     1        success          0.05    timeout, and it did not land
timeout while queued      mutating    2         1     1        success          0.05    timeout, and it did not land
timeout inside the body   read        2         2     0        success          0.05    timeout, and the tool is read
timeout inside the body   idempotent  2         2     1        success          0.05    timeout, and the tool is idempotent
timeout inside the body   keyed       2         2     1        success          0.05    timeout, and the tool is keyed
timeout inside the body   mutating    1         1     1        outcome_unknown  -       not repeated: a mutating call that may have landed
crash                     read        1         1     0        internal         -       -
crash                     idempotent  1         1     1        internal         -       -
crash                     keyed       1         1     1        internal         -       -
crash                     mutating    1         1     1        internal         -       -
hang, in a thread         read        2         2     0        success          0.05    timeout, and the tool is read
hang, in a thread         idempotent  1         1     1        timeout          -       not repeated: the first one is still running
hang, in a thread         keyed       2         2     1        success          0.05    timeout, and the tool is keyed
hang, in a thread         mutating    1         1     1        outcome_unknown  -       not repeated: a mutating call that may have landed
hang, in the loop         read        1         1     0        success          -       -
hang, in the loop         idempotent  1         1     1        success          -       -
hang, in the loop         keyed       1         1     1        success          -       -
hang, in the loop         mutating    1         1     1        success          -       -
cancellation              read        1         1     0        cancelled        -       -
cancellation              idempotent  1         1     1        cancelled        -       -
cancellation              keyed       1         1     1        cancelled        -       -
cancellation              mutating    1         1     1        cancelled        -       -
"""  # noqa: E501  # a table has long lines
Row: TypeAlias = tuple[str, ...]
HEAD, *ROWS = [tuple(re.split(r"\s{2,}", line)) for line in TABLE.strip().splitlines()]


class Answered(Exception):
    """As an HTTP client raises it for a status that is not a success."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(status)
        self.response = SimpleNamespace(
            status_code=status, headers={key.replace("_", "-"): value for key, value in headers.items()}
        )


class World:
    """A backend, a tool that changes it, one fault, and counts of what happened."""

    def __init__(self, effect: Effect, fault: str) -> None:
        self.effect: Effect = effect
        self.fault = fault
        self.attempts = self.runs = 0
        self.effects: set[object] = set()
        self.waits: list[float] = []
        self.limits: list[anyio.CancelScope] = []
        self.caller = anyio.CancelScope()
        self.release = threading.Event()
        self.threads = Thread()
        self.execute = Execute(executors={"thread": self.threads})

    def expire(self) -> None:
        """Let the time of the newest limit end."""
        self.limits[-1].cancel()

    def work(self, context: tuple[ToolContext, ...]) -> bool:
        """Change the backend as the tool does; return whether this is the first run."""
        self.runs += 1
        done = {"idempotent": "as asked", "keyed": context[0].idempotency_key if context else "", "mutating": self.runs}
        if self.effect != "read":
            self.effects.add(done[self.effect])
        return self.runs == 1

    async def act(self, *context: ToolContext) -> str:
        if self.work(context) and self.fault in FAULTS:
            await FAULTS[self.fault](self)
        return "done"

    def act_in_thread(self, *context: ToolContext) -> str:
        if self.work(context):
            anyio.from_thread.run_sync(self.expire)
            self.release.wait(PATIENT)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def limit(self, _seconds: float) -> anyio.CancelScope:
        """Replace `anyio.move_on_after` by a scope that the fault ends."""
        self.limits.append(anyio.CancelScope())
        return self.limits[-1]

    def pipeline(self) -> Pipeline:
        tools = ToolRegistry()
        fn = self.act_in_thread if self.fault == "hang, in a thread" else self.act
        tools.register(a_tool(fn=fn, effect=self.effect, context=self.effect == "keyed"))
        retry = Retry(jitter=lambda: 0.5, sleep=self.sleep)
        pipeline = standard(tools).replace("retry", retry).replace("execute", self.execute)
        limited = self.fault.startswith(("timeout", "hang"))
        limit = Timeout(60) if limited else untouched
        return pipeline.after("retry", AttemptQueue(self)).after("retry", limit, name="limit")


class AttemptQueue:
    """A stage inside of the limit: counts attempts, and may hold the first one as a queue does."""

    placement = Placement(announces_body=True)

    def __init__(self, world: World) -> None:
        self.world = world

    async def __call__(self, call: Any, call_next: Any) -> Outcome:
        self.world.attempts += 1
        if self.world.fault == "timeout while queued" and self.world.attempts == 1:
            self.world.expire()
            await anyio.sleep_forever()
        return cast("Outcome", await call_next(call))


async def untouched(call: Any, call_next: Any) -> Outcome:
    return cast("Outcome", await call_next(call))


async def connection_reset(_world: World) -> None:
    raise ConnectionResetError


async def too_many_requests(_world: World) -> None:
    raise Answered(429, Retry_After="7")


async def unavailable(_world: World) -> None:
    raise Answered(503)


async def slow(world: World) -> None:
    world.expire()
    await anyio.sleep_forever()


async def crash(_world: World) -> None:
    raise RuntimeError


async def hang(world: World) -> None:
    with anyio.CancelScope(shield=True):
        world.expire()
        await anyio.lowlevel.checkpoint()


async def cancel(world: World) -> None:
    world.caller.cancel()
    await anyio.sleep_forever()


FAULTS: dict[str, Callable[[World], Awaitable[None]]] = {
    "connection reset": connection_reset,
    "429, Retry-After: 7": too_many_requests,
    "503": unavailable,
    "timeout inside the body": slow,
    "crash": crash,
    "hang, in the loop": hang,
    "cancellation": cancel,
}


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Iterator[dict[Row, None]]:
    """Collect the rows as they were measured, and print them at the end."""
    rows: dict[Row, None] = {}
    yield rows
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (HEAD, *rows))
    capture: Any = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("", *lines, sep="\n")  # noqa: T201


@pytest.mark.parametrize("row", ROWS, ids=[", ".join(row[:2]) for row in ROWS])
async def test_the_fault_matrix(row: Row, seen: dict[Row, None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault has the outcome of the table, with and without a report; a mutating tool never runs twice."""
    for watched in (True, False):
        world = World(cast("Effect", row[1]), row[0])
        monkeypatch.setattr(timing, "move_on_after", world.limit)
        pipeline, call = world.pipeline(), Call("probe")
        outcome: Outcome | None = None
        reason = "-"
        try:
            with world.caller:
                if watched:
                    report = await pipeline.report(call)
                    outcome = report.outcome
                    assert len(report.attempts) == world.attempts
                    reason = report.decisions[0].reason if report.decisions else "-"
                else:
                    outcome = await pipeline(call)
        finally:
            left = world.threads.abandoned
            world.release.set()
        kind = "cancelled" if outcome is None else "success" if type(outcome) is Success else outcome.failure().kind
        waited = "-".join(f"{wait:.2f}" for wait in world.waits) or "-"
        facts = (str(world.attempts), str(world.runs), str(len(world.effects)), kind, waited)
        assert (*row[:2], *facts) == row[:7]
        assert world.effect != "mutating" or world.runs <= 1
        assert left == int(row[0] == "hang, in a thread")
        assert world.caller.cancelled_caught == (kind == "cancelled")
        if watched:
            seen[*row[:2], *facts, reason] = None
            assert reason == row[7]


def test_the_table_is_whole() -> None:
    """The table has each fault once for each effect."""
    faults = dict.fromkeys(row[0] for row in ROWS)
    assert [row[:2] for row in ROWS] == [
        (fault, effect) for fault in faults for effect in ("read", "idempotent", "keyed", "mutating")
    ]
    assert set(faults) == {*FAULTS, "timeout while queued", "hang, in a thread"}
