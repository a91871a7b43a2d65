"""A middleware of one's own is not the body: what runs, what is told, and what an equal call gets afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import anyio
import anyio.to_thread
import pytest
from returns.result import Failure, Success

from toolcall_pipeline import (
    Call,
    Denied,
    Effect,
    Outcome,
    Placement,
    SetupError,
    Stack,
    ToolContext,
    ToolRegistry,
    Transient,
    ValidCall,
    is_failure,
)
from toolcall_pipeline.base import timing
from toolcall_pipeline.executors import Executor
from toolcall_pipeline.middlewares import (
    Available,
    Cache,
    Concurrency,
    Execute,
    Ledger,
    RateLimit,
    Resolve,
    Validate,
    standard,
)
from toolcall_pipeline.stores import Memory

Act = Literal["raises", "times out", "is cancelled", "refuses", "is busy", "answers"]
When = Literal["before", "after", "works"]
Around = Literal["alone", "conversation", "ledger"]


def count_lines(path: Path) -> int:
    return len(path.read_text()) if path.exists() else 0


class Own(Executor):
    """Runs bodies in the loop's thread, and does not say when they begin."""

    name: ClassVar[str] = "own"

    async def run(self, call: ValidCall) -> object:
        return await anyio.to_thread.run_sync(lambda: call.tool.fn(**call.params))


def write(path: str) -> str:
    """Write one more line: the trace of a body in any process."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("x")
    return "written"


async def write_in_loop(path: str) -> str:
    """Write one more line."""
    return write(path)


def write_keyed(context: ToolContext, path: str) -> str:
    """Write one more line."""
    assert context.idempotency_key
    return write(path)


async def write_keyed_in_loop(context: ToolContext, path: str) -> str:
    """Write one more line."""
    return write_keyed(context, path)


class Middleware:
    """Does one thing to the first call, and passes the others on.

    Args:
        when: It acts before it calls on, after it did, or after it did the work of the tool itself.
        runs_body: As it declares.
    """

    def __init__(self, act: Act, when: When, runs_body: bool | None, limits: list[anyio.CancelScope]) -> None:
        self.act: Act = act
        self.when, self.limits = when, limits
        self.placement = Placement(runs_body=runs_body)
        self.is_done = False

    async def __call__(self, call: ValidCall, call_next: Any) -> Outcome:
        if self.is_done:
            return await self.pass_on(call, call_next)
        self.is_done = True
        if self.when == "after":
            await call_next(call)
        elif self.when == "works":
            write(**call.params)
        match self.act:
            case "raises":
                raise RuntimeError
            case "times out" | "is cancelled":
                self.limits[0 if self.act == "is cancelled" else -1].cancel()
                await anyio.sleep_forever()
            case "refuses":
                return Failure(Denied("own", "no"))
            case "is busy":
                return Failure(Transient(landed="no"))
            case "answers":
                pass
        return Success("written")

    async def pass_on(self, call: ValidCall, call_next: Any) -> Outcome:
        outcome: Outcome = await call_next(call)
        return outcome


class Told(NamedTuple):
    """What is seen of two equal calls."""

    ran: int  # bodies of the first call
    told: str | None  # to its caller: the kind of error; None: a value; "cancelled"
    ran_again: int  # bodies of the second call
    told_again: str | None


def expect(act: Act, when: When, runs_body: bool | None, effect: Effect, around: Around) -> Told:
    """The rule: only an end, an executor, and what says so, run bodies."""
    plain = {"raises": "internal", "times out": "timeout", "is cancelled": "cancelled", "refuses": "permission"}
    told = {**plain, "is busy": "transient"}.get(act)
    ran = int(when != "before")
    began = when == "after" or (when == "works" and runs_body is True)
    answered = act == "answers" or (when == "works" and act in ("refuses", "is busy"))  # it says itself what it did
    if not began or answered or effect != "mutating":
        return Told(ran, told, 1, None)
    lost = told if act == "is cancelled" else "outcome_unknown"
    return Told(ran, lost, 1, None) if around == "alone" else Told(ran, lost, 0, "outcome_unknown")


ACTS: tuple[Act, ...] = ("raises", "times out", "is cancelled", "refuses", "is busy", "answers")
PLACES: tuple[tuple[When, bool | None], ...] = (
    ("before", None),
    ("before", False),
    ("after", None),
    ("after", False),
    ("after", True),
    ("works", None),
    ("works", True),
)
CELLS: list[tuple[Act, When, bool | None]] = [
    (act, when, runs_body)
    for when, runs_body in PLACES
    for act in ACTS
    if (act, when) not in {("answers", "before"), ("is busy", "after")}
]  # an answer with a value before it calls on is work; a made-up "did not land" is in the next test


async def see(cell: tuple[Act, When, bool | None], effect: Effect, around: Around, run_in: str, path: Path) -> Told:
    act, when, runs_body = cell
    in_loop = run_in == "loop"
    keyed: Callable[..., Any] = write_keyed_in_loop if in_loop else write_keyed
    plain: Callable[..., Any] = write_in_loop if in_loop else write
    tools = ToolRegistry()
    if effect == "keyed" and run_in != "own":
        tools.tool(name="write", effect=effect, run_in=run_in, context=True)(keyed)
    else:
        tools.tool(name="write", effect=effect, run_in=run_in)(plain)
    limits: list[anyio.CancelScope] = []
    pipeline = standard(tools, attempts=1, executors={"own": Own()}, timeout=60)
    if around == "ledger":
        pipeline = pipeline.before("retry", Ledger(Memory()))
    pipeline = pipeline.before("classify", Middleware(act, when, runs_body, limits))
    conversation = "" if around == "alone" else "talk"
    seen: list[Any] = []

    def limit(_seconds: float) -> anyio.CancelScope:
        limits.append(anyio.CancelScope())
        return limits[-1]

    with pytest.MonkeyPatch.context() as patched:
        async with pipeline:
            for number in range(2):
                before = count_lines(path)
                call = Call("write", {"path": str(path)}, f"call_{number}", conversation=conversation)
                told: str | None = "cancelled"
                with anyio.CancelScope() as caller:
                    limits[:] = [caller]
                    patched.setattr(timing, "move_on_after", limit)
                    told = kind_of(await pipeline(call))
                patched.undo()
                seen += [count_lines(path) - before, told]
    return Told(*seen)


def kind_of(outcome: Outcome) -> str | None:
    return outcome.failure().kind if is_failure(outcome) else None


@pytest.mark.parametrize("around", ["alone", "conversation", "ledger"])
@pytest.mark.parametrize("run_in", ["loop", "thread", "own"])
@pytest.mark.parametrize("effect", ["read", "idempotent", "keyed", "mutating"])
async def test_only_what_says_so_is_the_body(effect: Effect, run_in: str, around: Around, tmp_path: Path) -> None:
    """What fails before it calls on has begun nothing; after it called on, the inside decides."""
    if effect == "keyed" and run_in == "own":
        run_in = "thread"  # that executor gives no context
    cells = [cell for cell in CELLS if not (effect == "keyed" and cell[1] == "works")]  # the work takes no context
    expected = {cell: expect(*cell, effect, around) for cell in cells}
    seen = {cell: await see(cell, effect, around, run_in, tmp_path / str(at)) for at, cell in enumerate(cells)}
    assert seen == expected


@pytest.mark.parametrize("around", ["alone", "ledger"])
@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_body_in_another_process(effect: Effect, around: Around, tmp_path: Path) -> None:
    """The same where the body runs in a worker."""
    cells: list[tuple[Act, When, bool | None]] = [("raises", "before", None), ("raises", "after", None)]
    expected = {cell: expect(*cell, effect, around) for cell in cells}
    seen = {cell: await see(cell, effect, around, "process", tmp_path / str(at)) for at, cell in enumerate(cells)}
    assert seen == expected


@pytest.mark.parametrize("runs_body", [None, False])
async def test_a_stage_cannot_deny_what_began_inside(runs_body: bool | None, tmp_path: Path) -> None:
    """Nor is what it makes up repeated."""
    told = await see(("is busy", "after", runs_body), "mutating", "conversation", "loop", tmp_path / "lines")
    assert told == Told(1, "outcome_unknown", 0, "outcome_unknown")


def around_body(stage: Any) -> Stack[Any, Any]:
    tools = ToolRegistry()
    return Stack().wrap(stage).check(Resolve(tools)).check(Available(tools)).check(Validate())


class Works:
    """A middleware that says that it does the work."""

    placement = Placement(runs_body=True)

    async def __call__(self, call: Any, call_next: Any) -> Any:
        return await call_next(call)


def let_pass(call: ValidCall) -> ValidCall:
    return call


def test_what_runs_bodies_stands_inside_of_all_that_decides() -> None:
    """Set-up says so, and where it has to stand."""
    with pytest.raises(SetupError, match=r"^works runs the body, and must stand inside of resolve, which decides"):
        around_body(Works()).end(Execute())
    plain = standard(ToolRegistry())
    for inner in (Ledger(Memory()), Concurrency(1), RateLimit(1), Cache(1)):
        pipeline = plain.before("retry", inner, name="inner")
        with pytest.raises(SetupError, match=r"^works must stand inside of inner: .*; put it there with \.before\("):
            pipeline.before("inner", Works())
        pipeline.after("inner", Works())
    with pytest.raises(SetupError, match=r"^works runs the body, and must stand inside of let_pass"):
        plain.before("retry", let_pass).before("let_pass", Works())


def lose(_: ValidCall) -> Outcome:
    raise ConnectionError


WORKS: dict[str, tuple[Callable[[ValidCall], Outcome] | None, list[str]]] = {
    "paid": (lambda _: Success("paid"), ["yes"]),
    "not begun": (lambda _: Failure(Transient(landed="no")), ["no"]),
    "refused": (lambda _: Failure(Denied("own", "no")), []),
    "lost": (lose, ["maybe"]),
    "the tool paid": (None, ["yes"]),
}


@pytest.mark.parametrize("case", WORKS)
async def test_the_attempt_of_a_stage_that_does_the_work_says_whether_it_landed(case: str) -> None:
    """As that of the tool's own body: by the answer of the stage, or by that of its inside, if it called on."""
    work, landed = WORKS[case]
    tools = ToolRegistry()

    class Pays(Works):
        async def __call__(self, call: Any, call_next: Any) -> Any:
            return await call_next(call) if work is None else work(call)

    @tools.tool
    async def pay() -> str:
        return "paid by the tool"

    report = await standard(tools, attempts=1).before("execute", Pays()).report(Call(pay.name))
    assert [attempt.landed for attempt in report.attempts] == landed


def test_a_placement_that_says_what_a_stage_cannot_do_is_refused() -> None:
    """An end announces bodies, and a middleware runs them."""

    class Announces(Works):
        placement = Placement(announces_body=True)

    class Checks:
        placement = Placement(runs_body=True)

        def __call__(self, call: ValidCall) -> ValidCall:
            return call

    plain = standard(ToolRegistry())
    with pytest.raises(SetupError, match=r"^announces says announces_body=True, which is of an end"):
        plain.before("retry", Announces())
    with pytest.raises(SetupError, match=r"^checks says runs_body=True, which is of a middleware"):
        plain.before("retry", Checks())


async def test_a_task_left_behind_begins_no_body_after_a_failure(tmp_path: Path) -> None:
    """Somebody was told already that there is none."""
    path = tmp_path / "lines"
    tools = ToolRegistry()
    tools.tool(name="write")(write_in_loop)
    later: list[Callable[[], Any]] = []

    async def leave(call: ValidCall, call_next: Any) -> Outcome:
        later.append(lambda: call_next(call))
        return Failure(Denied("own", "no"))

    pipeline = standard(tools).before("retry", leave)
    assert kind_of(await pipeline.call("write", {"path": str(path)})) == "permission"
    with suppress(Exception):
        assert kind_of(await later[0]()) == "not_executed"
    assert not path.exists()
