"""check_stage and check_executor: each rule finds a stage or an executor that breaks it, and ours break none."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import sleep
from typing import Any, ClassVar, Self

import anyio
import attrs
import pytest
from opentelemetry import trace

from support import a_call
from toolcall_pipeline import (
    Call,
    Crashed,
    Denied,
    Failure,
    NotExecuted,
    Outcome,
    Placement,
    ResolvedCall,
    SetupError,
    StateKey,
    Success,
    Tool,
    ToolRegistry,
    ValidCall,
)
from toolcall_pipeline.engine.compose.stage import Stage
from toolcall_pipeline.executors import Executor, Loop, NotBegunError, Process, Thread, begin_body, end_body
from toolcall_pipeline.middlewares import (
    Available,
    Cache,
    CircuitBreaker,
    Classify,
    Concurrency,
    Execute,
    LoopGuard,
    RateLimit,
    Resolve,
    Retry,
    Shape,
    Timeout,
    Trace,
    Validate,
)
from toolcall_pipeline.testing import check_executor, check_stage

Next = Callable[[Any], Awaitable[Outcome]]
tracer = trace.get_tracer("somebody's own")  # as a module has it
TENANT = StateKey[str]("tenant")
TOOLS = ToolRegistry()
OURS = [
    Resolve(TOOLS),
    Available(TOOLS),
    Validate(),
    RateLimit(10),
    RateLimit(10).queueing(max_wait=5),
    Concurrency(5),
    Cache(60),
    LoopGuard(),
    Shape(2000),
    CircuitBreaker(TOOLS),
    Retry(3),
    Timeout(60),
    Classify(),
    Execute(),
    Trace(),
]
KEPT: list[Any] = []


@pytest.mark.parametrize("stage", OURS, ids=lambda stage: type(stage).__name__)
def test_our_own_stages_keep_the_rules(stage: object) -> None:
    check_stage(stage)


@pytest.mark.parametrize(
    "executor",
    [Loop(), Thread(), pytest.param(Process(workers=1), marks=pytest.mark.long)],
    ids=lambda executor: executor.name,
)
def test_our_own_executors_keep_the_rules(executor: Executor) -> None:
    check_executor(executor)


# --- stages that break a rule, and what they are told ------------------------------------------------------------
def returns_nothing(call: Call) -> Any:
    """Returns no verdict."""


def raises(call: Call) -> Call:
    raise KeyError(call.id)


def changes_its_call(call: ValidCall) -> ValidCall:
    call.params["limit"] = 5
    return call


def forgets_the_params(call: ValidCall) -> Call:
    return Call(call.name)


async def calls_on_with_a_call_of_its_own(call: Call, call_next: Next) -> Outcome:
    return await call_next(Call(call.name, call.arguments, call.id))


async def hides_a_call_of_its_own(call: Call, call_next: Next) -> Outcome:
    try:
        return await call_next(Call(call.name))
    except Exception as exc:  # also what the check raises
        return Failure(Crashed(exc))


async def answers_with_a_value(call: Call, call_next: Next) -> Any:
    return (await call_next(call)).value_or(None)


async def fails_with_a_text(call: Call, call_next: Next) -> Any:
    await call_next(call)
    return Failure("no")


async def raises_for_a_failure(call: Call, call_next: Next) -> Outcome:
    return Success((await call_next(call)).unwrap())


async def raises_another_exception(call: Call, call_next: Next) -> Outcome:
    try:
        return await call_next(call)
    except Exception as exc:
        raise LookupError from exc


def forgets_to_be_async(call: Call, call_next: Next) -> Any:
    return Success(5)


async def answers_when_cancelled(call: Call, call_next: Next) -> Outcome:
    try:
        return await call_next(call)
    except BaseException as exc:
        return Failure(Crashed(RuntimeError(str(exc))))


async def raises_when_cancelled(call: Call, call_next: Next) -> Outcome:
    try:
        return await call_next(call)
    except BaseException as exc:
        raise exc if isinstance(exc, Exception) else RuntimeError from exc


async def shields_its_inside(call: Call, call_next: Next) -> Outcome:
    answers: list[Outcome] = []
    with anyio.CancelScope(shield=True):
        answers.append(await call_next(call))
    return answers[0]


async def tries_twice(call: Call, call_next: Next) -> Outcome:
    await call_next(call)
    return await call_next(call)


@attrs.frozen
class Marks:
    """Declares more than its function does."""

    placement: ClassVar[Placement] = Placement(announces_body=True)
    function: Callable[[Any, Next], Awaitable[Outcome]]

    async def __call__(self, call: ValidCall, call_next: Next) -> Outcome:
        return await self.function(call, call_next)


async def runs_the_body(call: ValidCall, call_next: Next) -> Outcome:
    return Success(await call.tool.fn(**call.params))


async def denies_afterwards(call: ValidCall, call_next: Next) -> Outcome:
    await call_next(call)
    return Failure(Denied("afterwards"))


class MarksAsAnEnd:
    placement = Placement(announces_body=True)

    async def __call__(self, call: ValidCall) -> Outcome:
        try:
            return Success(await call.tool.fn(**call.params))
        except Exception as exc:
            return Failure(Crashed(exc))


async def an_end_that_raises(call: ValidCall) -> Outcome:
    return Success(await call.tool.fn(**call.params))


async def works_on_asyncio_only(call: Call, call_next: Next) -> Outcome:
    await asyncio.sleep(0)
    return await call_next(call)


async def changes_its_call_for_a_while(call: ValidCall, call_next: Next) -> Outcome:
    call.params["limit"] = 5
    try:
        return await call_next(call)
    finally:
        del call.params["limit"]


async def wraps_an_outcome(call: Call, call_next: Next) -> Outcome:
    return Success(await call_next(call))


async def denies_after_a_bug(call: ValidCall, call_next: Next) -> Outcome:
    try:
        return await call_next(call)
    except Exception:
        return Failure(Denied("afterwards"))


class EndsNoBodyWhenCancelled:
    placement = Placement(announces_body=True)

    async def __call__(self, call: ValidCall) -> Outcome:
        begin_body(call)
        try:
            outcome: Outcome = Success(await call.tool.fn(**call.params))
        except Exception as exc:
            outcome = Failure(Crashed(exc))
        end_body(call)
        return outcome


async def holds_up_the_loop(call: Call, call_next: Next) -> Outcome:
    sleep(0)  # noqa: ASYNC251  # what the check has to find
    return await call_next(call)


def holds_up_the_loop_as_a_check(call: Call) -> Call:
    time.sleep(0)
    return call


async def starts_a_span(call: Call, call_next: Next) -> Outcome:
    with tracer.start_as_current_span("mine"):
        return await call_next(call)


def starts_a_span_as_a_check(call: Call) -> Call:
    trace.get_tracer("late").start_span("mine").end()
    return call


async def leaves_a_task(call: Call, call_next: Next) -> Outcome:
    KEPT.append(asyncio.create_task(asyncio.sleep(60), name="left behind"))
    return await call_next(call)


class HasOneSlot:
    """Never gives back what it took."""

    def __init__(self) -> None:
        self.free = True

    async def __call__(self, call: Call, call_next: Next) -> Outcome:
        if not self.free:
            await anyio.sleep_forever()
        self.free = False
        return await call_next(call)


BROKEN: list[tuple[Any, str]] = [
    (returns_nothing, r"returned None \(is a `return` missing\?\)"),
    (raises, r"raises KeyError\('call_0'\) for a call: return Failure"),
    (changes_its_call, r"changes the call that it was given \(params\): hand on a copy"),
    (forgets_the_params, "hands on a Call where it has to be a ValidCall"),
    (calls_on_with_a_call_of_its_own, "hands on a call of its own making, without deps, guards, state"),
    (hides_a_call_of_its_own, "hands on a call of its own making, without id, deps, guards, state"),
    (answers_with_a_value, "answered with a value of type str, and a stage answers with an Outcome"),
    (fails_with_a_text, r"gave Failure\(str\), and a Failure holds a ToolError"),
    (raises_for_a_failure, "raises UnwrapFailedError"),
    (raises_another_exception, r"raises LookupError\(\) for an inside that raised another exception"),
    (forgets_to_be_async, "which nobody can await: make it `async def`"),
    (answers_when_cancelled, "answers with a value of type Failure when it is cancelled. Let cancellation pass"),
    (raises_when_cancelled, "raises RuntimeError when it is cancelled"),
    (tries_twice, r"runs its inside again and does not declare Placement\(repeats=True\)"),
    (Marks(runs_the_body), r"declares announces_body=True, and runs the body of the tool itself"),
    (Marks(denies_afterwards), r"answers 'permission' after its inside ran, as if nothing had"),
    (MarksAsAnEnd(), r"does not call begin_body\(call\) before each body"),
    (an_end_that_raises, r"lets an exception of the tool pass: answer with Failure\(Crashed\(exc\)\)"),
    (works_on_asyncio_only, "on trio: it raises TypeError"),
    (changes_its_call_for_a_while, r"changes the call that it was given \(params\): hand on a copy"),
    (wraps_an_outcome, "answers with an Outcome inside of a Success"),
    (Marks(denies_after_a_bug), r"answers 'permission' after its inside ran, as if nothing had"),
    (EndsNoBodyWhenCancelled(), r"does not call begin_body\(call\) before each body"),
    (holds_up_the_loop, "holds up the event loop with time.sleep: await anyio.sleep"),
    (holds_up_the_loop_as_a_check, "holds up the event loop with time.sleep"),
    (starts_a_span, "starts spans of its own"),
    (starts_a_span_as_a_check, "starts spans of its own"),
    (leaves_a_task, "on asyncio: it leaves a task running, 'left behind'"),
]


@pytest.mark.parametrize(("stage", "rule"), BROKEN, ids=[f"{n}-{rule[:30]}" for n, (_, rule) in enumerate(BROKEN)])
def test_a_stage_that_breaks_a_rule(stage: Any, rule: str) -> None:
    """The text names the stage, the loop, the rule, and what to write instead."""
    with pytest.raises(AssertionError, match=rule) as caught:
        check_stage(stage)
    who, _, rest = str(caught.value).partition(", on ")
    assert who == Stage.of(stage, "end" if "end" in who else None).name
    assert rest.startswith(("asyncio: it ", "trio: it ", f"asyncio: {who} "))


@pytest.mark.parametrize(
    ("stage", "for_a_cancellation", "for_all_calls", "rule"),
    [
        (shields_its_inside, 0.1, 10.0, "does not end when it is cancelled"),
        (shields_its_inside, 60.0, 0.2, "does not answer within 0.2 seconds"),
        (HasOneSlot(), 0.1, 0.2, "does not answer within 0.2 seconds"),
    ],
    ids=["shield", "shield and no time left", "slot"],
)
def test_a_stage_that_hangs(
    stage: Any, for_a_cancellation: float, for_all_calls: float, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check ends all the same."""
    monkeypatch.setattr("toolcall_pipeline.testing.probes.PATIENCE", for_a_cancellation)
    monkeypatch.setattr("toolcall_pipeline.testing.stage_rules.PATIENCE", for_all_calls)
    with pytest.raises(AssertionError, match=rule):
        check_stage(stage)


def for_tenants(call: ResolvedCall) -> ResolvedCall | Failure[Denied]:
    return call if call.get_state(TENANT) else Failure(Denied("tenants"))


async def without_annotations(call: Any, call_next: Any) -> Any:
    return await call_next(attrs.evolve(call, params={**call.params}))


without_annotations.__annotations__.clear()


def test_a_stage_that_needs_more_gets_a_call() -> None:
    """`call=` has what it reads; a stage without annotations gets a ValidCall."""
    with pytest.raises(AssertionError, match="no state 'tenant'"):
        check_stage(for_tenants)
    check_stage(for_tenants, call=a_call().with_state(TENANT, "a"))
    check_stage(without_annotations)
    check_stage(Execute(), call=a_call())


class Pool:
    """A stage that must be open, and keeps a task of its own meanwhile."""

    def __init__(self) -> None:
        self.is_open = False

    async def __aenter__(self) -> Self:
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        self.tasks.start_soon(anyio.sleep_forever)
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_open = False
        self.tasks.cancel_scope.cancel()
        await self.tasks.__aexit__(None, None, None)

    async def __call__(self, call: Call, call_next: Next) -> Outcome:
        assert self.is_open
        return await call_next(call)


def test_a_stage_is_opened_and_closed() -> None:
    """Its tasks may live until it is closed."""
    pool = Pool()
    check_stage(pool)
    assert not pool.is_open


def test_what_is_no_stage() -> None:
    """The set-up error is that of a stack."""
    with pytest.raises(SetupError, match="Retry is a class"):
        check_stage(Retry)
    with pytest.raises(SetupError, match="it cannot be called"):
        check_stage(5)


# --- executors ---------------------------------------------------------------------------------------------------
class Own(Executor):
    """Runs async tools in the loop."""

    name = "own"

    async def run(self, call: ValidCall) -> object:
        return await call.tool.fn(**call.params)

    def check_tool(self, tool: Tool[..., Any]) -> None:
        if not inspect.iscoroutinefunction(tool.fn):
            raise SetupError(f"{tool.name} is sync")


class Nameless(Own):
    name = ""


class Empty(Own):
    async def run(self, call: ValidCall) -> object:
        await super().run(call)
        return None


class Swallows(Own):
    async def run(self, call: ValidCall) -> object:
        try:
            return await super().run(call)
        except Exception:
            return None


class Wraps(Own):
    async def run(self, call: ValidCall) -> object:
        try:
            return await super().run(call)
        except Exception as exc:
            raise RuntimeError("own") from exc


class Eager(Own):
    """Says when a body begins after it did."""

    announces_body = True

    async def run(self, call: ValidCall) -> object:
        value = await super().run(call)
        begin_body(call)
        end_body(call)
        return value


class Unmarked(Own):
    announces_body = True


class Deaf(Own):
    announces_body = True

    async def run(self, call: ValidCall) -> object:
        try:
            begin_body(call)
        except NotBegunError:
            return Failure(NotExecuted("own words"))
        try:
            return await super().run(call)
        finally:
            end_body(call)


class Stubborn(Own):
    async def run(self, call: ValidCall) -> object:
        try:
            return await super().run(call)
        except BaseException as exc:
            if isinstance(exc, Exception):
                raise
            return 5


class Picky(Own):
    def check_tool(self, tool: Tool[..., Any]) -> None:
        raise ValueError


class Refuses(Own):
    def check_tool(self, tool: Tool[..., Any]) -> None:
        raise SetupError("none")


class Repeats(Own):
    async def run(self, call: ValidCall) -> object:
        try:
            return await super().run(call)
        except Exception:
            return await super().run(call)


class Changes(Own):
    async def run(self, call: ValidCall) -> object:
        value = await super().run(call)
        call.params.clear()
        return value


class FailsWithText(Own):
    async def run(self, call: ValidCall) -> object:
        try:
            return await super().run(call)
        except Exception as exc:
            return Failure(str(exc))


class Early(Own):
    """Says that a body ended before it began."""

    announces_body = True

    async def run(self, call: ValidCall) -> object:
        begin_body(call)
        end_body(call)
        return await super().run(call)


class Forgets(Own):
    """Does not say that a body ended which was cancelled."""

    announces_body = True

    async def run(self, call: ValidCall) -> object:
        begin_body(call)
        with suppress(Exception):
            value = await super().run(call)
            end_body(call)
            return value
        end_body(call)
        return Failure(Crashed(RuntimeError()))


class Shields(Own):
    async def run(self, call: ValidCall) -> object:
        with anyio.CancelScope(shield=True):
            return await super().run(call)
        raise AssertionError


class Sleeps(Own):
    async def run(self, call: ValidCall) -> object:
        sleep(0)  # noqa: ASYNC251  # as above
        return await super().run(call)


class Leaves(Own):
    async def run(self, call: ValidCall) -> object:
        KEPT.append(asyncio.create_task(asyncio.sleep(60)))
        return await super().run(call)


class Traces(Own):
    async def run(self, call: ValidCall) -> object:
        with tracer.start_as_current_span("mine"):
            return await super().run(call)


BAD_EXECUTORS: list[tuple[type[Executor], str]] = [
    (Nameless, "its `name` is ''"),
    (Empty, "returns a value of type NoneType, and not what the tool returned"),
    (Swallows, "returns a value of type NoneType where the tool raised: let the exception pass"),
    (Wraps, r"raises RuntimeError\(own\) where the tool raised another exception"),
    (Unmarked, "called begin_body 0 and end_body 0 times for one body"),
    (Eager, "the body runs outside of begin_body and end_body"),
    (Deaf, "let NotBegunError pass"),
    (Stubborn, "answers with a value of type int when it is cancelled"),
    (Picky, "`check_tool` raises ValueError"),
    (Refuses, "refuses sync and async tools"),
    (Repeats, "runs the body 2 times for one call"),
    (Changes, r"changes the call that it was given \(params\)"),
    (FailsWithText, r"returns Failure\(str\), and a Failure holds a ToolError"),
    (Early, "the body runs outside of begin_body and end_body"),
    (Forgets, "does not call end_body when it is cancelled after begin_body"),
    (Shields, "answers with a value of type int when it is cancelled"),
    (Sleeps, "holds up the event loop with time.sleep"),
    (Leaves, "leaves a task running"),
    (Traces, "starts spans of its own"),
]


@pytest.mark.parametrize(("executor", "rule"), BAD_EXECUTORS, ids=[each.__name__ for each, _ in BAD_EXECUTORS])
def test_an_executor_that_breaks_a_rule(executor: type[Executor], rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if executor in (Forgets, Shields):  # which take all of it
        monkeypatch.setattr("toolcall_pipeline.testing.executor_rules.PATIENCE", 1.0)
    check_executor(Own())
    with pytest.raises(AssertionError, match=rule):
        check_executor(executor())


def test_an_executor_for_one_loop() -> None:
    """It is checked on that loop only."""

    class OfAsyncio(Own):
        async def run(self, call: ValidCall) -> object:
            await asyncio.sleep(0)
            return await super().run(call)

    check_executor(OfAsyncio(), loops=("asyncio",))
    with pytest.raises(AssertionError, match="own, on trio: it raises TypeError"):
        check_executor(OfAsyncio())
