"""Probes of `check_stage` and `check_executor`: tools, a guard, a span, watched event loops, and handed-on calls."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import Any, NoReturn, Self

import anyio
import anyio.lowlevel
import attrs
from opentelemetry.context import attach, detach
from opentelemetry.trace import INVALID_SPAN_CONTEXT, Span, SpanContext, set_span_in_context

from ..engine.call import Call
from ..engine.guards import Guard
from .clocks import no_waiting

PATIENCE = 10.0  # seconds; a call of nothing but probes ends sooner
LOOPS = ("asyncio", "trio")
WHEN_CANCELLED = (
    "when it is cancelled. Let cancellation pass: do not catch BaseException, and undo in `finally` what must be undone"
)
_STARTING = ("start_span", "start_as_current_span")
SETTLING = 20  # turns of the loop that tasks need to end
_KEPT = ("id", "deps", "idempotency_key")  # what the tool knows the call by
_COPIES = "a copy made with attrs.evolve(call, …), with_params or with_state"


class ProbeError(Exception):
    """The exception that the probes raise."""


@attrs.define(eq=False)
class Breaks:
    """The rules that were broken. The first one counts: what is checked may catch the error, or raise another."""

    who: str
    where: str
    texts: list[str] = attrs.field(factory=list[str])

    def rule(self, text: str) -> NoReturn:
        """Raises AssertionError: this rule is broken."""
        self.texts.append(f"{self.who}, on {self.where}: {text}")
        self.tell()
        raise AssertionError

    def tell(self) -> None:
        """Raises AssertionError for the first rule that was broken, if one was."""
        if self.texts:
            raise AssertionError(self.texts[0])


@attrs.define(eq=False)
class BodyGuard(Guard):
    """Counts the bodies that begin and end; ``answer``, if there is one, refuses them."""

    counts_bodies = True

    answer: Any = None
    begun: int = 0
    ended: int = 0

    def refuse(self, call: Call) -> Any:
        """The answer in place of the body."""
        del call
        return self.answer

    def begin(self, call: Call) -> None:
        """A body begins."""
        del call
        self.begun += 1

    def end(self, call: Call) -> None:
        """A body ended."""
        del call
        self.ended += 1


class WatchSpan(Span):
    """Stands in the place of the current span, and learns of each span that is started: it is asked for its context."""

    def __init__(self) -> None:
        self.started = 0

    def get_span_context(self) -> SpanContext:
        """The context of no span. A tracer asks for it when it starts a span; so do log records, which do not count."""
        frame = inspect.currentframe()
        asking = None if frame is None else frame.f_back
        starts = asking is not None and asking.f_code.co_name in _STARTING
        while asking is not None and asking.f_code.co_name in (*_STARTING, "__enter__"):
            asking = asking.f_back
        of_pipeline = asking is not None and asking.f_globals["__name__"].startswith("toolcall_pipeline.telemetry.")
        self.started += starts and not of_pipeline  # a report of a pipeline that the stage calls
        return INVALID_SPAN_CONTEXT

    def _do_nothing(self, *_: Any, **__: Any) -> None:
        pass

    end = set_attributes = set_attribute = add_event = update_name = set_status = record_exception = _do_nothing

    def is_recording(self) -> bool:
        """It is, so that stages add their attributes."""
        return True


@contextmanager
def watch_spans(breaks: Breaks) -> Generator[None]:
    """Raises AssertionError if a span is started in the block."""
    span = WatchSpan()
    token = attach(set_span_in_context(span))
    try:
        yield
    finally:
        detach(token)
    if span.started:
        breaks.rule(
            "it starts spans of its own. The pipeline makes one for each stage; to add a word, use report.note()"
        )


@contextmanager
def watch_sleep(breaks: Breaks) -> Generator[None]:
    """Raises AssertionError if this thread calls `time.sleep` in the block. Not seen while another profiler runs."""
    slept = False

    def watch(frame: FrameType, event: str, function: Any) -> None:
        nonlocal slept
        if event == "c_call" and function is time.sleep:  # subprocess polls with it for a process that ends just now
            slept = slept or frame.f_globals.get("__name__") not in sys.stdlib_module_names

    if sys.getprofile() is not None:
        yield
        return
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)
    if slept:
        breaks.rule("it holds up the event loop with time.sleep: await anyio.sleep, or do it in a thread")


def on_each_loop(who: str, loops: Sequence[str], check: Callable[[Breaks], Awaitable[None]]) -> None:
    """Run a check on each of these event loops, as far as they are installed; nothing waits for a time there.

    Raises:
        AssertionError: The check raised it, or a task that was started in it still runs at its end.
    """
    for loop in loops:
        if find_spec(loop) is not None:
            breaks = Breaks(who, loop)
            try:
                with no_waiting():
                    anyio.run(partial(_without_leaks, breaks, check), backend=loop)
            finally:
                breaks.tell()


async def _without_leaks(breaks: Breaks, check: Callable[[Breaks], Awaitable[None]]) -> None:
    await anyio.lowlevel.checkpoint()
    before = {task.id for task in anyio.get_running_tasks()}
    with watch_spans(breaks), watch_sleep(breaks):
        await check(breaks)
    left: list[anyio.TaskInfo] = []
    for _ in range(SETTLING):
        left = [task for task in anyio.get_running_tasks() if task.id not in before]
        if not left:
            return
        await anyio.lowlevel.checkpoint()
    breaks.rule(f"it leaves a task running, {left[0].name!r}: end it before you answer, or in __aexit__ or aclose()")


async def cancel_inside(breaks: Breaks, run: Callable[[Callable[[], Awaitable[None]]], Awaitable[Any]]) -> None:
    """Cancel what ``run`` does as soon as it waits in the function that it is given.

    Raises:
        AssertionError: It then answers or raises something, or does not end.
    """
    moved, ended, release = anyio.Event(), anyio.Event(), anyio.Event()
    scope = anyio.CancelScope()
    waiting = False
    came: list[str] = []

    async def wait() -> None:
        nonlocal waiting
        waiting = True
        moved.set()
        await release.wait()

    async def start() -> None:
        with scope:
            try:
                answer = await run(wait)
                came.append(f"answers with a value of type {type(answer).__name__}")
            except Exception as exc:  # noqa: BLE001  # what is checked may raise anything
                came.append(f"raises {type(exc).__name__}")
            finally:
                ended.set()
                moved.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        try:
            await moved.wait()
            if waiting:
                scope.cancel()
                with anyio.move_on_after(PATIENCE / 2):
                    await ended.wait()
                if not ended.is_set():
                    came.append("does not end")
        finally:  # also if the time for all calls is up: what is shielded would never end
            release.set()
    if waiting and came:
        breaks.rule(f"it {came[0]} {WHEN_CANCELLED}")


def check_handed_on(breaks: Breaks, given: Call, handed: Any, phase: type[Call]) -> None:
    """Raises AssertionError if that is neither the call that the stage was given nor a copy, of this phase."""
    if handed is given:
        return
    if not isinstance(handed, phase):
        breaks.rule(f"it hands on a {type(handed).__name__} where it has to be a {phase.__name__}")
    lost = [name for name in _KEPT if hasattr(given, name) and getattr(handed, name) != getattr(given, name)]
    if given.report is not handed.report:
        lost.append("report")
    if not set(_guards_of(given)) <= set(_guards_of(handed)):
        lost.append("guards")
    if given.state and not given.state.keys() <= (handed.state or {}).keys():
        lost.append("state")
    if lost:
        breaks.rule(
            f"it hands on a call of its own making, without {', '.join(lost)}: hand on the call that you were given, "
            f"or {_COPIES}"
        )


@attrs.define(eq=False)
class Unchanged:
    """Raises AssertionError if the call is changed in the block."""

    breaks: Breaks
    call: Call
    before: dict[str, Any] = attrs.field(init=False)
    params: dict[str, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.before = {each.name: getattr(self.call, each.name) for each in attrs.fields(type(self.call))}
        self.params = dict(getattr(self.call, "params", {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, exc: object, traceback: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raises AssertionError if it is changed now."""
        changed = [name for name, value in self.before.items() if getattr(self.call, name) is not value]
        if getattr(self.call, "params", {}) != self.params:
            changed.append("params")
        if changed:
            self.breaks.rule(f"it changes the call that it was given ({', '.join(changed)}): hand on {_COPIES}")


def _guards_of(call: Call) -> tuple[Any, ...]:
    return () if call.guards is None else call.guards.each
