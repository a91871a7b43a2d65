"""A world for the property of effects: a stack of stages that do what they should not, and a tool that is watched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar, Literal, TypeAlias, cast
from unittest import mock

import anyio
import anyio.lowlevel
import attrs
from returns.result import Failure, Success

from support import a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Denied,
    Effect,
    ExecutionFailed,
    NotExecuted,
    Outcome,
    Pipeline,
    Placement,
    Stack,
    TimedOut,
    ToolFailed,
    ToolRegistry,
    Transient,
    Unavailable,
    approved,
)
from toolcall_pipeline.base import timing
from toolcall_pipeline.executors import Executor, Loop
from toolcall_pipeline.middlewares import Available, Classify, Concurrency, Execute, Resolve, Retry, Timeout, Validate

Event: TypeAlias = Literal["", "expire outer", "expire inner", "cancel", "disable", "pause", "enable"]
Body: TypeAlias = Literal["ok", "reset", "undone", "denied", "refused", "crash", "hang", "hang off"]
Kind: TypeAlias = Literal[
    "pass on", "twice", "at once", "behind", "never", "work", "call of its own", "swallow", "raise", "limit", "pipeline"
]

ANSWERS: dict[str, Outcome] = {
    "success": Success("made up"),
    "unavailable": Failure(Unavailable("probe", "busy")),
    "not executed": Failure(NotExecuted(approved("held back"))),
    "denied": Failure(Denied("stage")),
    "not landed": Failure(TimedOut(1, landed="no")),
    "passing": Failure(Transient(landed="no")),
    "crashed": Failure(Crashed(RuntimeError())),
    "execution": Failure(ExecutionFailed(approved("no good"))),
}


@attrs.frozen
class Part:
    """One stage of somebody else."""

    kind: Kind
    before: Event = ""  # what happens before it calls on, and after
    after: Event = ""
    answer: str = "denied"  # where it makes one up


@attrs.frozen
class Shape:
    """What is drawn: a stack, a tool, and what happens."""

    parts: tuple[Part | Literal["retry", "limit", "queue"], ...]
    end: Literal["execute", "own end", "own end around execute", "own executor", "own executor around loop"]
    effect: Effect
    bodies: tuple[Body, ...]
    waits: Event = ""  # what happens while Retry waits
    timeout: bool = False  # of the call


class World:
    """Runs one shape, and remembers which bodies began and what they said."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.caller: anyio.CancelScope = cast("Any", None)  # made in the event loop
        self.limits: list[anyio.CancelScope] = []
        self.begun = 0
        self.landed: set[int] = set()  # bodies that may have landed
        self.said: set[str] = set()  # kinds of error that those gave themselves
        self.doubled = False
        self.tools = ToolRegistry()
        self.tools.register(
            a_tool(fn=self.body, effect=shape.effect, context=shape.effect == "keyed", verify_with="look")
        )
        self.tools.register(a_tool("look"))
        self.tasks: Any = None

    async def happen(self, event: Event) -> None:
        if event.startswith("expire"):
            living = [limit for limit in self.limits if not limit.cancel_called]
            if living:
                living[0 if event == "expire outer" else -1].cancel()
        elif event == "cancel":
            self.caller.cancel()
        elif event in ("disable", "pause"):
            getattr(self.tools, event)("probe")
        elif event == "enable":
            self.tools.enable("probe")
        await anyio.lowlevel.checkpoint()

    async def body(self, *_context: Any, **_: Any) -> object:
        """The tool, and what a stage does that does its work."""
        number, self.begun = self.begun, self.begun + 1
        self.doubled |= bool(self.landed)
        self.landed.add(number)
        what = self.shape.bodies[number % len(self.shape.bodies)]
        await anyio.lowlevel.checkpoint()
        match what:
            case "ok":
                return "done"
            case "reset":
                raise ConnectionResetError
            case "undone":
                self.landed.discard(number)
                raise ToolFailed("not done", kind="transient", landed=False)
            case "denied":
                self.said.add("permission")
                raise ToolFailed("no", kind="permission")
            case "refused":
                self.landed.discard(number)
                return Failure(Unavailable("probe", "busy"))
            case "crash":
                self.said.add("internal")
                raise RuntimeError
            case "hang":
                await self.happen("expire inner")
                await anyio.sleep(0.001)
                return "done"
            case "hang off":
                with anyio.CancelScope(shield=True):
                    await self.happen("expire outer")
                return "done"

    def limit(self, _seconds: float) -> anyio.CancelScope:
        self.limits.append(anyio.CancelScope())
        return self.limits[-1]

    def middleware(self, part: Part) -> Callable[[Any, Any], Awaitable[Outcome]]:
        async def stage(call: Any, call_next: Any) -> Any:
            await self.happen(part.before)
            answer = await self.do(part, call, call_next)
            await self.happen(part.after)
            return answer

        cast("Any", stage).placement = Placement(runs_body=True if part.kind == "work" else None)
        return stage

    async def do(self, part: Part, call: Any, call_next: Any) -> Any:  # noqa: C901  # a table
        answer = ANSWERS[part.answer]
        match part.kind:
            case "pass on":
                return await call_next(call)
            case "twice":
                first = await call_next(call)
                second = await call_next(call)
                return first if part.answer == "success" else second
            case "at once":
                found: list[Any] = []

                async def one() -> None:
                    found.append(await call_next(call))

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(one)
                    tasks.start_soon(one)
                return found[0 if part.answer == "success" else -1]
            case "behind":
                self.tasks.start_soon(self.quietly, call_next, call)
                return answer
            case "never":
                return answer
            case "work":
                return Success(await self.body())
            case "call of its own":
                own = Call(call.name).resolved(call.tool).validated(dict(call.params))
                return await call_next(own)
            case "swallow":
                await call_next(call)
                return answer
            case "raise":
                await call_next(call)
                raise RuntimeError
            case "limit":
                with self.limit(1):
                    return await call_next(call)
                return answer
            case "pipeline":
                return await self.inner(call)

    async def quietly(self, call_next: Any, call: Any) -> None:
        with suppress(Exception):  # nobody waits for it
            await call_next(call)

    async def inner(self, call: Call) -> Outcome:
        return await (
            Stack()
            .check(Resolve(self.tools))
            .check(Available(self.tools))
            .check(Validate())
            .wrap(Classify())
            .end(Execute())(call)
        )

    async def sleep(self, _seconds: float) -> None:
        await self.happen(self.shape.waits)

    def pipeline(self) -> Pipeline:
        stack: Any = Stack().check(Resolve(self.tools)).check(Available(self.tools)).check(Validate())
        parts = list(self.shape.parts)
        if any(isinstance(part, Part) and part.kind == "work" for part in parts):
            parts.sort(key=lambda part: part != "queue")  # which may hold a body back, so it stands around them
        for number, part in enumerate(parts):
            if part == "retry":
                stack = stack.wrap(Retry(3, jitter=lambda: 0.5, sleep=self.sleep))
            elif part == "limit":
                stack = stack.wrap(Timeout(60), name=f"limit{number}")
            elif part == "queue":
                stack = stack.wrap(Concurrency(1, max_queue=0), name=f"queue{number}")
            else:
                stack = stack.wrap(self.middleware(part), name=f"part{number}")
        pipeline: Pipeline = stack.wrap(Classify()).end(self.end(), name="end")
        return pipeline

    def end(self) -> Any:
        world = self

        class Own(Executor):
            name: ClassVar[str] = "own"

            async def run(self, call: Any) -> object:
                return await world.body()

        class Around(Executor):
            name: ClassVar[str] = "around"

            async def run(self, call: Any) -> object:
                return await Loop().run(call)

        async def own_end(_call: Any) -> Outcome:
            value: Any = await self.body()
            return cast("Outcome", value) if type(value) is Failure else Success(value)

        async def around_execute(call: Any) -> Outcome:
            return await Execute()(call)

        ends: dict[str, Any] = {
            "execute": Execute(),
            "own end": own_end,
            "own end around execute": around_execute,
            "own executor": Execute(Own()),
            "own executor around loop": Execute(Around()),
        }
        return ends[self.shape.end]

    async def run(self, *, watched: bool) -> Outcome | None:
        """The outcome; None for a cancelled call. All that was left behind has ended, too."""
        self.caller = anyio.CancelScope()
        call = Call("probe", timeout=60 if self.shape.timeout else None)
        outcome: Outcome | None = None
        with mock.patch.object(timing, "move_on_after", self.limit):
            pipeline = self.pipeline()
            async with anyio.create_task_group() as self.tasks:
                with self.caller:
                    outcome = (await pipeline.report(call)).outcome if watched else await pipeline(call)
        return outcome
