"""check_executor: checks that an executor of one's own does what `Execute` relies on."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, cast, get_args

import anyio
import anyio.lowlevel
import attrs
from returns.result import Failure

from ..base.setup_error import SetupError
from ..engine.call import Call, ValidCall
from ..engine.errors import NotExecuted, ToolError
from ..engine.guards import Guards, NotBegunError, OneEffect
from ..executors import Executor
from ..tools.definition import Tool
from .probes import (
    LOOPS,
    PATIENCE,
    WHEN_CANCELLED,
    BodyGuard,
    Breaks,
    ProbeError,
    Unchanged,
    cancel_inside,
    on_each_loop,
)

_NOT_BEGUN = Failure(NotExecuted("a guard refused"))
_UNSEEN = 0.1  # seconds: grace period for a body that starts without `begin_body`
_POLL = 0.001  # seconds


def check_executor(executor: Executor, *, loops: Sequence[str] = LOOPS) -> None:
    """Check an executor of one's own against the rules for executors.

    On each event loop it is opened, runs sync and async tools that return, raise and hang, as far as its ``check_tool``
    takes them, and is closed. The tools are functions of a module, so that another process finds them.

    - ``run`` runs the body once, returns what the tool returned, and raises what it raised or returns a Failure.
    - It does not change the call, and lets cancellation pass.
    - With ``announces_body`` it calls `begin_body` once before each body and `end_body` once after it, also if it is
      cancelled, and runs no body that `begin_body` refuses.
    - ``check_tool`` raises nothing but SetupError.
    - It works on each loop, does not hold it up with `time.sleep`, starts no span and, once closed, leaves no task.

    Args:
        executor: The executor. It is opened and closed once for each loop, if it is a context manager.
        loops: The event loops, those that are installed. Default ``("asyncio", "trio")``; ``("asyncio",)`` for an
            executor that works on that one only, or cannot be opened twice.

    Raises:
        AssertionError: A rule is broken; the text names the executor, the loop, the rule and the way out.
    """
    name: Any = getattr(executor, "name", None)
    who = name if isinstance(name, str) and name else type(executor).__name__

    async def check(breaks: Breaks) -> None:
        if who != name:
            breaks.rule(f"its `name` is {name!r}: reports need a text that is not empty")
        async with AsyncExitStack() as stack:
            if hasattr(type(executor), "__aenter__"):
                await stack.enter_async_context(executor)
            await _check_open(executor, breaks)

    on_each_loop(who, loops, check)


async def _check_open(executor: Executor, breaks: Breaks) -> None:
    taken = 0
    for echo, fail, hang in ((_echo, _fail, _hang), (_echo_async, _fail_async, _hang_async)):
        if not _takes(executor, echo, breaks):
            continue
        taken += 1
        with anyio.move_on_after(PATIENCE) as limit:
            await _check_return(executor, echo, breaks)
            await _check_raise(executor, fail, breaks)
            if executor.announces_body:
                await _check_refused(executor, echo, breaks)
        if limit.cancelled_caught:
            breaks.rule(f"it does not answer within {PATIENCE:g} seconds")
        await _check_cancelled(executor, hang, breaks)
    if not taken:
        breaks.rule("its `check_tool` refuses sync and async tools of a module: nothing could be checked")


def _takes(executor: Executor, body: Callable[..., Any], breaks: Breaks) -> bool:
    try:
        executor.check_tool(_make_call(body, BodyGuard()).tool)
    except SetupError:
        return False
    except Exception as exc:  # noqa: BLE001  # what is checked may raise anything
        breaks.rule(f"its `check_tool` raises {type(exc).__name__}: raise SetupError for a tool that cannot run here")
    return True


async def _check_return(executor: Executor, body: Callable[..., Any], breaks: Breaks) -> None:
    guard = _bodies.watch()
    call = _make_call(body, guard)
    with Unchanged(breaks, call):
        try:
            value: Any = await executor.run(call)
        except Exception as exc:  # noqa: BLE001  # as above
            breaks.rule(f"it raises {type(exc).__name__}({exc}) where the tool returned a value")
    if value != {"echo": 7}:
        breaks.rule(f"it returns a value of type {type(value).__name__}, and not what the tool returned")
    await _check_marks(executor, guard, breaks)


async def _check_raise(executor: Executor, body: Callable[..., Any], breaks: Breaks) -> None:
    guard = _bodies.watch()
    try:
        value: Any = await executor.run(_make_call(body, guard))
    except ProbeError:
        await _check_marks(executor, guard, breaks)
        return
    except Exception as exc:  # noqa: BLE001  # as above
        breaks.rule(f"it raises {type(exc).__name__}({exc}) where the tool raised another exception: let that pass")
    if type(value) is not Failure:
        breaks.rule(f"it returns a value of type {type(value).__name__} where the tool raised: let the exception pass")
    error: object = cast("Any", value).failure()
    if not isinstance(error, get_args(ToolError)):
        breaks.rule(f"it returns Failure({type(error).__name__}), and a Failure holds a ToolError")
    await _check_marks(executor, guard, breaks)


async def _check_marks(executor: Executor, guard: BodyGuard, breaks: Breaks) -> None:
    if _bodies.begun > 1:
        breaks.rule(f"it runs the body {_bodies.begun} times for one call: only a stage that `repeats` may do so")
    if not executor.announces_body:
        return
    await _wait_for_end(guard)
    if (guard.begun, guard.ended) != (1, 1):
        breaks.rule(
            f"with announces_body = True it called begin_body {guard.begun} and end_body {guard.ended} times for one "
            "body: call each once, or leave `announces_body` out"
        )
    if _bodies.unmarked:
        breaks.rule(
            "with announces_body = True the body runs outside of begin_body and end_body: call the one right before "
            "it, and the other right after it"
        )


async def _wait_for_end(guard: BodyGuard) -> None:
    with anyio.move_on_after(PATIENCE):  # a thread may say so later
        while guard.begun > guard.ended:  # noqa: ASYNC110  # said in another thread
            await anyio.sleep(_POLL)


async def _check_refused(executor: Executor, body: Callable[..., Any], breaks: Breaks) -> None:
    _BEGUN.clear()
    try:
        value: Any = await executor.run(_make_call(body, BodyGuard(_NOT_BEGUN)))
    except NotBegunError:
        value = _NOT_BEGUN
    except Exception as exc:  # noqa: BLE001  # as above
        breaks.rule(f"it raises {type(exc).__name__} where begin_body refuses the body: let NotBegunError pass")
    if value is not _NOT_BEGUN or _BEGUN.is_set():
        breaks.rule("it runs a body that begin_body refuses: call that before the body, and let NotBegunError pass")


async def _check_cancelled(executor: Executor, body: Callable[..., Any], breaks: Breaks) -> None:
    guard = _bodies.watch()
    global _loop_thread  # noqa: PLW0603  # a body has no other way to know it
    _loop_thread = threading.get_ident()
    _BEGUN.clear()
    _RELEASED.clear()

    async def run(wait: Callable[[], Awaitable[None]]) -> object:
        waiting, value = False, None
        async with anyio.create_task_group() as tasks:

            async def tell() -> None:
                nonlocal waiting
                with anyio.move_on_after(PATIENCE if executor.announces_body else _UNSEEN):
                    while not (guard.begun or _BEGUN.is_set()):  # noqa: ASYNC110  # said in another thread
                        await anyio.sleep(_POLL)
                waiting = True
                await wait()

            tasks.start_soon(tell)
            value = await executor.run(_make_call(body, guard))
            if waiting:  # said here: the end of the group is cancelled again
                breaks.rule(f"it answers with a value of type {type(value).__name__} {WHEN_CANCELLED}")
            tasks.cancel_scope.cancel()
        return value

    try:
        await cancel_inside(breaks, run)
    finally:
        _RELEASED.set()
    if executor.announces_body:
        await _wait_for_end(guard)
        if guard.begun > guard.ended:
            breaks.rule(
                "with announces_body = True it does not call end_body when it is cancelled after "
                "begin_body: call it in `finally`"
            )


def _make_call(body: Callable[..., Any], guard: BodyGuard) -> ValidCall:
    tool = Tool.from_schema(name="probe", parameters=None, handler=body, effect="read")
    call = Call("probe", {"value": 7}, "call_1").under(None, Guards.of(guard, OneEffect(tool=tool)))
    return call.resolved(tool).validated({"value": 7})


@attrs.define(eq=False)
class _Bodies:
    """Counts the bodies of one call, and those that ran while the guard knew of none."""

    guard: BodyGuard = attrs.field(factory=BodyGuard)
    begun: int = 0
    unmarked: int = 0

    def watch(self) -> BodyGuard:
        self.guard, self.begun, self.unmarked = BodyGuard(), 0, 0
        return self.guard

    def begin(self) -> None:
        _BEGUN.set()
        self.begun += 1
        self.unmarked += self.guard.begun <= self.guard.ended


# The bodies, and their signals, which work in this process only.
_BEGUN, _RELEASED = threading.Event(), threading.Event()
_bodies = _Bodies()
_loop_thread = 0


def _echo(value: int) -> dict[str, int]:
    _bodies.begin()
    return {"echo": value}


async def _echo_async(value: int) -> dict[str, int]:
    _bodies.begin()
    await anyio.lowlevel.checkpoint()
    return {"echo": value}


def _fail(value: int) -> None:
    _bodies.begin()
    raise ProbeError(value)


async def _fail_async(value: int) -> None:
    _bodies.begin()
    await anyio.lowlevel.checkpoint()
    raise ProbeError(value)


def _hang(value: int) -> int:
    _BEGUN.set()
    if threading.get_ident() != _loop_thread:  # it could not be cancelled there
        _RELEASED.wait(PATIENCE)
    return value


async def _hang_async(value: int) -> int:
    _BEGUN.set()
    with anyio.move_on_after(PATIENCE):  # also where the executor shields it: the check must end
        while not _RELEASED.is_set():  # noqa: ASYNC110  # set where nobody can await it
            await anyio.sleep(_POLL)
    return value
