"""A failing call is freed with its outcome: from Python 3.12 on without a collection of garbage, before with one."""

from __future__ import annotations

import gc
import linecache
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from returns.result import Failure

from support import PATIENT, Exported
from toolcall_pipeline import Call, Outcome, Pipeline, ToolContext, ToolFailed, ToolRegistry, gather, is_failure
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.privacy.kept_causes import release_frames
from toolcall_pipeline.testing.clocks import no_waiting


class Held:
    """Stands for what a call holds: a variable of its body, or an object of its caller."""


@pytest.fixture(autouse=True)
def _collects_nothing(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(100, "toolcall_pipeline")  # a log record keeps its exception
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def fail_with_a_chain(exc: type[Exception]) -> None:
    """Raise an exception that has a context and a cause, each with frames of its own."""
    try:
        try:
            int("no number")
        except ValueError:
            raise KeyError("k") from None
    except KeyError as before:
        raise exc("why") from before


def fail_in_a_group(exc: type[Exception]) -> None:
    """Raise a group of an exception that has frames."""
    try:
        fail_with_a_chain(exc)
    except exc as inner:
        raise ExceptionGroup("several", [inner]) from None


def fail_by_itself(exc: type[Exception]) -> None:
    """Raise an exception that is in a variable of the frame that raises it."""
    raised = exc("why")
    raise raised


def fail_far_down(exc: type[Exception]) -> None:
    """Raise an exception behind a long piece of code, which has as long a table of lines."""
    source = "def far():\n" + "    len('')\n" * 300 + "    raise exc(len('why'))\nfar()\n"
    linecache.cache["<far>"] = len(source), None, [*source.splitlines(keepends=True)], "<far>"
    exec(compile(source, "<far>", "exec"), {"exc": exc})


RAISED: dict[str, Callable[[], None]] = {
    "a chain": lambda: fail_with_a_chain(ValueError),
    "transient": lambda: fail_with_a_chain(ConnectionError),
    "a time-out": lambda: fail_with_a_chain(TimeoutError),
    "not found": lambda: fail_with_a_chain(FileNotFoundError),
    "a group": lambda: fail_in_a_group(PermissionError),
    "a text for the model": lambda: fail_by_itself(ToolFailed),
    "in its own variable": lambda: fail_by_itself(OSError),
    "far down": lambda: fail_far_down(OSError),
}


def make_tools(held: list[weakref.ref[Held]], fail: Callable[[], None], effect: Any) -> ToolRegistry:
    """One tool for each place where a body can run, the async ones and those with a context too."""
    tools = ToolRegistry()

    def hold() -> Held:
        held.append(weakref.ref(made := Held()))
        return made

    @tools.tool(effect=effect)
    async def asynchronous() -> None:
        local = hold()
        fail()
        del local

    @tools.tool(effect=effect, context=True)
    async def with_context(context: ToolContext) -> None:
        local = hold()
        context.progress(1)
        fail()
        del local

    @tools.tool(effect=effect)
    def threaded() -> None:
        local = hold()
        fail()
        del local

    @tools.tool(effect=effect, run_in="loop")
    def blocking() -> None:
        local = hold()
        fail()
        del local

    @tools.tool(effect=effect)
    async def answering() -> object:
        local = hold()
        try:
            fail()
        except Exception as exc:
            return Failure(exc)
        return local

    @tools.tool(effect=effect)
    async def waiting() -> None:
        local = hold()
        try:
            fail_with_a_chain(ValueError)  # one in its own variable would be the body's own cycle
        except Exception:
            await anyio.sleep_forever()
        del local

    return tools


def make_pipelines(tools: ToolRegistry) -> Iterator[Pipeline]:
    plain = standard(tools)
    yield plain
    yield plain.replace("trace", Trace(tracer_provider=Exported().provider))


async def are_freed(held: list[weakref.ref[Held]]) -> None:
    """Wait until nothing of it is there: a thread that has answered, and the loop, still hold what they ran last."""
    with anyio.fail_after(PATIENT):
        while any(each() is not None for each in held):
            if sys.version_info < (3, 12):
                gc.collect()
            await anyio.sleep(0.001)


@pytest.mark.parametrize("effect", ["read", "mutating"])
@pytest.mark.parametrize("raised", RAISED)
async def test_a_failing_body_is_freed_with_its_outcome(raised: str, effect: str) -> None:
    """Wherever the body runs, whatever it raises, with spans and without: neither its variables nor the deps stay."""
    held: list[weakref.ref[Held]] = []
    tools = make_tools(held, RAISED[raised], effect)
    for pipeline in make_pipelines(tools):
        for tool in tools:
            held.append(weakref.ref(deps := Held()))
            with no_waiting():
                call = Call(tool.name, deps=deps, timeout=0.02 if tool.name == "waiting" else None)
                assert is_failure(await pipeline(call))
                assert len(await gather(pipeline, [call, call])) == 2
                assert (await pipeline.report(call)).error is not None
            del call, deps
            await are_freed(held)
            held.clear()


async def test_a_failing_stage_is_freed_with_its_outcome() -> None:
    """A stage that raises keeps nothing, before it called on and after it, by itself or what the body raised."""
    held: list[weakref.ref[Held]] = []
    tools = make_tools(held, RAISED["a chain"], "read")

    async def before(call: Call, call_next: Any) -> Outcome:
        held.append(weakref.ref(local := Held()))
        fail_with_a_chain(ValueError)
        del local
        return await call_next(call)  # type: ignore[no-any-return]

    async def after(call: Call, call_next: Any) -> Outcome:
        held.append(weakref.ref(local := Held()))
        outcome: Any = await call_next(call)
        error: Any = outcome.failure()
        del local
        raise error.cause

    for stage in (before, after):
        for pipeline in make_pipelines(tools):
            edited: Pipeline = pipeline.before("retry", stage)
            assert is_failure(await edited.call("asynchronous"))
            await are_freed(held)
            held.clear()


def test_a_call_from_a_thread_is_freed_with_its_outcome() -> None:
    """The loop that serves callers without one keeps nothing either."""
    held: list[weakref.ref[Held]] = []
    pipeline = standard(make_tools(held, RAISED["a chain"], "read"))
    for name in ("asynchronous", "threaded", "blocking"):
        assert is_failure(pipeline.call_sync(name))
    assert is_failure(pipeline.call_sync("answering"))  # the portal's thread holds its last call until its next
    if sys.version_info < (3, 12):
        gc.collect()
    assert [each() for each in held[:-1]] == [None] * (len(held) - 1)


def test_a_debugger_may_look_at_what_an_error_keeps() -> None:
    """A trace function of Python reads the lines of each frame that is made, in code of any length."""
    code = """
import sys
from toolcall_pipeline.privacy.kept_causes import release_frames
for length in (1, 30, 300, 3000):
    try:
        exec("def far():\\n" + "    len('')\\n" * length + "    raise OSError\\nfar()")
    except OSError as exc:
        sys.settrace(lambda *_: None)
        release_frames(exc)
        sys.settrace(None)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("raised", RAISED)
def test_the_stack_that_an_error_keeps_prints_as_before(raised: str) -> None:
    """It has each file, line, function and column, also of causes and of a group, and no variables and no callers."""
    caught: BaseException | None = None
    try:
        exec("fail()", {"fail": RAISED[raised]})  # a frame of no module
    except Exception as exc:
        caught = exc
    assert caught is not None
    printed = traceback.format_exception(caught)
    kept = release_frames(caught)
    assert kept is caught
    assert traceback.format_exception(kept) == printed
    for frame, _ in traceback.walk_tb(kept.__traceback__):
        assert (frame.f_locals, frame.f_back) == ({}, None)
    stack = kept.__traceback__
    assert release_frames(kept).__traceback__ is stack
