"""check_stage: checks that a stage of one's own does what every stage of a pipeline must do."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Any, NoReturn, TypeAlias, cast

import anyio
import anyio.lowlevel
import attrs
from returns.result import Failure, Success

from ..base.introspection import unwrap
from ..engine.call import Call, ResolvedCall, ValidCall
from ..engine.call_state import StateKey
from ..engine.compose.resources import OpenResources, list_resources
from ..engine.compose.stage import Stage
from ..engine.compose.stage_bugs import explain_answer, explain_verdict
from ..engine.errors import Crashed, Denied, Transient
from ..engine.guards import Guards, OneEffect
from ..engine.report import LiveReport
from ..tools import Effect, Tool
from .probes import (
    LOOPS,
    PATIENCE,
    SETTLING,
    BodyGuard,
    Breaks,
    ProbeError,
    Unchanged,
    cancel_inside,
    check_handed_on,
    on_each_loop,
)

_STATE = StateKey[object]("toolcall_pipeline.testing")
_HAS_NOT_RUN: tuple[Any, ...] = (Failure(Transient(landed="no")), Failure(Denied("probe")))  # the tool, for certain
_REPLIES: tuple[Any, ...] = (
    Success("done"),
    Failure(Transient()),
    *_HAS_NOT_RUN,
    Failure(Crashed(ProbeError("it crashed"))),
    ProbeError("a stage inside has a bug"),
)
_Reply: TypeAlias = Any  # an Outcome, or an exception to raise


def check_stage(stage: object, *, call: Call | None = None, loops: Sequence[str] = LOOPS) -> None:
    """Check a check, a middleware or an end of one's own against the rules for stages.

    It runs the stage by itself on each event loop, with calls of reads and of mutating tools, around an inside that
    succeeds, fails, raises and hangs. A stage that is an async context manager is opened first, once for each loop.

    - It answers with an Outcome, or a check with a call, whatever its inside does. It raises only what its inside did.
    - It hands on the call that it was given or a copy, of the same phase, and does not change the one that it has.
    - It lets cancellation pass.
    - It declares what it does: ``repeats`` if it runs its inside again, ``runs_body`` if it does the work of a tool
      itself; with ``announces_body`` an end says when the body begins.
    - It works on each loop, does not hold it up with `time.sleep`, starts no span and leaves no task behind.

    Args:
        stage: The stage, as a stack takes it. An observer stands in no chain and has none of these rules.
        call: A call in the phase that the stage takes, which it should let pass. Default None: calls of a tool "probe"
            without arguments, each of another principal. Give one to a stage that needs more, such as a state.
        loops: The event loops, those that are installed. Default ``("asyncio", "trio")``.

    Raises:
        AssertionError: A rule is broken; the text names the stage, the loop, the rule and the way out.
        SetupError: It is not a stage.
    """
    checked = Stage.of(stage, "end" if _is_end(stage) else None)
    if checked.role != "observe":
        on_each_loop(checked.name, loops, lambda breaks: _Check(checked, call, breaks).run())


def _is_end(stage: Any) -> bool:
    """An async function of one argument; a check is not async."""
    if not callable(stage) or isinstance(stage, type):
        return False
    arguments = [each for each in inspect.signature(stage).parameters.values() if each.default is each.empty]
    is_async = inspect.iscoroutinefunction(unwrap(stage)) or inspect.iscoroutinefunction(unwrap(stage.__call__))
    return len(arguments) == 1 and is_async


@attrs.define(eq=False)
class _Inside:
    """The inside of the stage. It looks at each call, and answers or raises."""

    check: _Check
    given: Call
    reply: _Reply
    unchanged: Unchanged
    ran: int = 0
    running: int = 0

    async def __call__(self, call: Any) -> Any:
        self.unchanged.check()
        self.check.look_at(self.given, call)
        if self.ran and not self.running and not self.check.stage.placement.repeats:
            self.check.breaks.rule("it runs its inside again and does not declare Placement(repeats=True)")
        self.ran += 1
        self.running += 1
        self.check.effect.undecided = int(not any(self.reply is each for each in _HAS_NOT_RUN))  # as a body would be
        try:
            await anyio.lowlevel.checkpoint()
            if callable(self.reply):
                await cast("Callable[[], Awaitable[None]]", self.reply)()
                return Success("released")
            if isinstance(self.reply, Exception):
                raise self.reply
            return self.reply
        finally:
            self.running -= 1


@attrs.define(eq=False)
class _Check:
    stage: Stage
    sample: Call | None
    breaks: Breaks
    numbers: Iterator[int] = attrs.field(factory=count)
    bodies: int = 0  # that the stage began
    guard: BodyGuard = attrs.field(factory=BodyGuard)
    effect: OneEffect = attrs.field(factory=OneEffect)  # of the present call
    body: _Reply = None  # what a body does

    async def run(self) -> None:
        async with OpenResources(list_resources([self.stage])):
            for effect in ("read", "mutating"):
                with anyio.move_on_after(PATIENCE) as limit:
                    await self._run_all(effect)
                if limit.cancelled_caught:
                    self.breaks.rule(f"it does not answer within {PATIENCE:g} seconds")

    async def _run_all(self, effect: Effect) -> None:
        if self.stage.role == "check":
            self._run_check(self._make_call(effect))
            return
        for reply in _REPLIES:
            if self.stage.role == "end":
                if type(reply) is Success or isinstance(reply, Exception):
                    await self._run_end(self._make_call(effect), reply)
            else:
                await self._run_middleware(self._make_call(effect), reply)
        call = self._make_call(effect)
        run = self.stage.run
        if self.stage.role == "end":
            self.guard.begun = self.guard.ended = 0
            await cancel_inside(self.breaks, lambda wait: run(self._with_body(call, wait)))
            self._check_marks_of_end(self.guard.begun)
        else:
            unchanged = Unchanged(self.breaks, call)
            await cancel_inside(self.breaks, lambda wait: run(call, _Inside(self, call, wait, unchanged)))

    def _run_check(self, call: Call) -> None:
        with Unchanged(self.breaks, call):
            try:
                verdict: Any = self.stage.run(call)
            except Exception as exc:  # noqa: BLE001  # what is checked may raise anything
                self._tell_raised(exc, "a call")
        if (mistake := explain_verdict((self.stage,), verdict)) is not None:
            self.breaks.rule(str(mistake))
        if isinstance(verdict, Call):
            self.look_at(call, verdict)

    async def _run_middleware(self, call: Call, reply: _Reply) -> None:
        self.bodies = 0
        with Unchanged(self.breaks, call) as unchanged:
            inside = _Inside(self, call, reply, unchanged)
            try:
                answer = await self.stage.run(call, inside)
            except Exception as exc:  # noqa: BLE001  # as above
                if exc is reply:
                    await self._check_work(did_answer=False)
                    return
                self.breaks.tell()
                self._tell_raised(exc, "an inside that raised another exception" if inside.ran else "a call")
        if (mistake := explain_answer((self.stage,), answer)) is not None:
            self.breaks.rule(str(mistake))
        if type(answer) is Success and type(cast("Any", answer).unwrap()) in (Success, Failure):
            self.breaks.rule("it answers with an Outcome inside of a Success: return what `await call_next(call)` gave")
        await self._check_work(did_answer=isinstance(answer, Success) and not inside.ran)

    async def _check_work(self, *, did_answer: bool) -> None:
        """Whether the stage did the work of the tool: it ran the body, also in a task, or answered in its place."""
        if self.stage.placement.runs_body:
            return
        for _ in range(SETTLING if not self.bodies else 0):  # a task that it left behind
            await anyio.lowlevel.checkpoint()
        tool = self.effect.tool
        if self.bodies or (did_answer and tool is not None and tool.effect != "read"):
            self.breaks.rule(
                "it does the work of the tool itself and does not declare Placement(runs_body=True): where it is cut "
                "off or raises, nothing is known to have begun, and an equal call runs"
            )

    async def _run_end(self, call: Any, reply: _Reply) -> None:
        self.bodies, self.guard.begun, self.guard.ended = 0, 0, 0
        with Unchanged(self.breaks, call):
            try:
                answer = await self.stage.run(self._with_body(call, reply))
            except Exception as exc:  # noqa: BLE001  # as above
                if exc is reply:
                    self.breaks.rule("it lets an exception of the tool pass: answer with Failure(Crashed(exc))")
                self._tell_raised(exc, "a call")
        if (mistake := explain_answer((self.stage,), answer)) is not None:
            self.breaks.rule(str(mistake))
        # The tool of a sample is the user's.
        self._check_marks_of_end(self.guard.begun if self.sample is not None else self.bodies)

    def _check_marks_of_end(self, bodies: int) -> None:
        if self.stage.placement.announces_body and (bodies, bodies) != (self.guard.begun, self.guard.ended):
            self.breaks.rule(
                "it declares Placement(announces_body=True), and does not call begin_body(call) before each body and "
                "end_body(call) after it, in `finally`: leave `announces_body` out, or call both"
            )

    def look_at(self, given: Call, handed: Any) -> None:
        """Raises AssertionError if that is neither the call that the stage was given nor a copy."""
        takes, gives = self.stage.phases()
        phase = gives if self.stage.role == "check" and gives is not takes else type(given)
        check_handed_on(self.breaks, given, handed, phase)

    def _tell_raised(self, exc: Exception, given: str) -> NoReturn:
        self.breaks.rule(f"it raises {type(exc).__name__}({exc}) for {given}: return Failure(error)")

    def _make_call(self, effect: Effect) -> Any:
        number = next(self.numbers)
        report = None if effect == "read" else LiveReport(Call("probe"))
        tool = Tool.from_schema(name="probe", parameters=None, handler=self._body, effect=effect)
        self.effect = OneEffect(tool=tool)
        guards = Guards.of(self.guard, self.effect)
        if self.sample is not None:
            return self.sample.with_state(_STATE, number).under(report, guards)
        call = Call("probe", {}, f"call_{number}", f"principal_{number}", object()).with_state(_STATE, number)
        call = call.under(report, guards)
        takes = self._find_phase()
        if not issubclass(takes, ResolvedCall):
            return call
        resolved = call.resolved(tool)
        return resolved.validated({}) if issubclass(takes, ValidCall) else resolved

    def _find_phase(self) -> type[Call]:
        """The phase of its annotation; without one it may stand anywhere, and reads what it likes."""
        first = next(iter(inspect.signature(self.stage.run).parameters.values()))
        return ValidCall if first.annotation is first.empty else self.stage.phases()[0]

    def _with_body(self, call: Any, body: _Reply) -> Any:
        self.body = body
        return call

    async def _body(self, **_: object) -> object:
        self.bodies += 1
        await anyio.lowlevel.checkpoint()
        if isinstance(self.body, Exception):
            raise self.body
        if callable(self.body):
            await cast("Callable[[], Awaitable[None]]", self.body)()
        return "done"
