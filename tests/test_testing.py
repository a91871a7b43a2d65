"""The public test kit. assert_trace and the clock that moves all stages have files of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from support import a_call
from toolcall_pipeline import (
    Call,
    Crashed,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    TimedOut,
    ToolRegistry,
    Transient,
    Unavailable,
    gather,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.middlewares import Retry, standard
from toolcall_pipeline.testing import FakeClock, ScriptedModel, assert_failure, assert_success, record_calls, script


async def test_a_fake_clock_moves_only_when_it_is_moved() -> None:
    """The time is what the test made it: by `advance`, by `sleep`, or by setting `now`."""
    clock = FakeClock(5.0)
    assert (clock(), clock()) == (5.0, 5.0)
    clock.advance(2.5)
    assert clock() == 7.5
    await clock.sleep(10)
    assert (clock(), clock.slept) == (17.5, [10])
    clock.now = 1.0
    clock.advance(-1)
    assert clock() == 0.0


def test_a_fake_clock_does_not_start_at_zero() -> None:
    """By default it does not start at 0, which code may take for "never"."""
    assert FakeClock()() > 0


async def test_a_stage_sleeps_on_a_fake_clock() -> None:
    """A stage with the clock's sleep waits on the fake clock: the wait is noted, and takes no real time."""
    clock = FakeClock()
    inside = script(Failure(Transient(retry_after=20)), Success("fine"))
    assert await Retry(sleep=clock.sleep)(a_call(), inside) == Success("fine")
    (wait,) = clock.slept
    assert wait >= 20
    assert clock() == FakeClock()() + wait


async def test_a_script_plays_its_parts_in_order() -> None:
    """Each call gets the next part: an outcome is returned, an exception raised; a call too many fails the test."""
    inside = script(Failure(Transient()), KeyError("a bug"), Success(1))
    first, second = a_call(), a_call()
    assert await inside(first) == Failure(Transient())
    with pytest.raises(KeyError):
        await inside(second)
    assert await inside(first) == Success(1)
    assert inside.calls == [first, second, first]
    with pytest.raises(AssertionError, match="no part for call 4"):
        await inside(first)


def break_down() -> None:
    raise KeyError("the reason")


def raised() -> KeyError:
    with pytest.raises(KeyError) as failed:
        break_down()
    return failed.value


def test_a_success_is_taken_apart() -> None:
    """`assert_success` returns the value, whatever it is, and `assert_failure` the error."""
    assert assert_success(Success(None)) is None
    error = Unavailable("probe", "paused")
    assert assert_failure(Failure(error)) is assert_failure(Failure(error), kind="unavailable") is error


def test_a_failure_tells_its_story() -> None:
    """The message has the kind, what the model is told, and the cause with its place; the cause is chained as well."""
    crash = Failure(Crashed(raised()))
    with pytest.raises(AssertionError) as failed:
        assert_success(crash)
    story = str(failed.value)
    assert story.startswith("the call failed: internal\n")
    assert "An unexpected error occurred while executing this tool" in story
    assert "KeyError: 'the reason'" in story
    assert 'raise KeyError("the reason")' in story
    assert isinstance(failed.value.__cause__, KeyError)
    with pytest.raises(AssertionError, match=r"^timeout wanted, and the call failed: internal") as other:
        assert_failure(crash, kind="timeout")
    assert isinstance(other.value.__cause__, KeyError)


def test_the_cause_behind_an_unknown_outcome() -> None:
    """It is that of the failure after which nobody knows what happened; some failures have none."""
    with pytest.raises(AssertionError) as failed:
        assert_success(Failure(OutcomeUnknown(Transient(raised()))))
    assert isinstance(failed.value.__cause__, KeyError)
    with pytest.raises(AssertionError) as without:
        assert_success(Failure(TimedOut(3.0)))
    assert without.value.__cause__ is None
    assert "caused by" not in str(without.value)


def test_a_success_where_a_failure_is_wanted() -> None:
    """The message has the value, cut where it is long."""
    with pytest.raises(AssertionError, match=r"^a failure wanted, and the call succeeded: <Success: 1>$"):
        assert_failure(Success(1))
    with pytest.raises(AssertionError, match=r"^timeout wanted") as failed:
        assert_failure(Success("x" * 10_000), kind="timeout")
    assert len(str(failed.value)) < 1000


def a_pipeline() -> Pipeline:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return standard(tools)


async def test_a_pipeline_keeps_what_it_was_asked() -> None:
    """Each way to call it counts, refused calls too; what is sent is kept as it was sent, with its outcome."""
    pipeline = record_calls(a_pipeline())
    (add,) = pipeline.registries[0]
    await pipeline.call("add", '{"a": 1, "b": "2"}', id="call_1")
    await pipeline.run(add, 3, b=4)
    report = await pipeline.report(Call("sub"))
    await gather(pipeline, [Call("add", {"a": 5})])
    assert pipeline.asked == [
        ("add", '{"a": 1, "b": "2"}'),
        ("add", {"a": 3, "b": 4}),
        ("sub", None),
        ("add", {"a": 5}),
    ]
    assert [call.id for call in pipeline.calls] == ["call_1", "", "", ""]
    kinds = [getattr(error_of(outcome), "kind", None) for outcome in pipeline.outcomes]
    assert kinds == [None, None, "unknown_tool", "validation"]
    assert report.outcome == pipeline.outcomes[2]


def test_a_recording_pipeline_is_a_pipeline() -> None:
    """It works for synchronous callers, and an edited one begins to record anew."""
    pipeline = record_calls(a_pipeline())
    assert pipeline.call_sync("add", {"a": 1, "b": 2}) == Success(3)
    edited = pipeline.without("retry")
    assert edited.call_sync("add", {"a": 1, "b": 2}) == Success(3)
    assert (len(pipeline.recorded), len(edited.recorded)) == (1, 1)


async def test_a_cancelled_call_has_no_outcome() -> None:
    """It is kept all the same."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def hang() -> None:
        scope.cancel()
        await anyio.sleep_forever()

    pipeline = record_calls(standard(tools))
    with anyio.CancelScope() as scope:
        await pipeline.call("hang")
    assert pipeline.outcomes == [None]


def error_of(outcome: Outcome[Any] | None) -> object:
    return outcome.failure() if isinstance(outcome, Failure) else None


async def loop_for_openai(client: Any, pipeline: Pipeline) -> str:
    tools = pipeline.registries[0]
    messages: list[Any] = [{"role": "user", "content": "Add."}]
    while True:
        reply = await client.chat.completions.create(model="any", messages=messages, tools=openai.tools(tools))
        messages.append(reply.choices[0].message)
        calls = openai.calls(reply, tools)
        if not calls:
            return str(reply.choices[0].message.content)
        outcomes = await gather(pipeline, calls)
        messages += [openai.message(call, outcome) for call, outcome in zip(calls, outcomes, strict=True)]


async def loop_for_anthropic(client: Any, pipeline: Pipeline) -> str:
    tools = pipeline.registries[0]
    messages: list[Any] = [{"role": "user", "content": "Add."}]
    while True:
        reply = await client.messages.create(max_tokens=9, messages=messages, tools=anthropic.tools(tools))
        messages.append({"role": "assistant", "content": reply.content})
        calls = anthropic.calls(reply, tools)
        if not calls:
            return "".join(block.text for block in reply.content)
        outcomes = await gather(pipeline, calls)
        messages.append(anthropic.messages(list(zip(calls, outcomes, strict=True))))


@pytest.mark.parametrize(
    ("client", "loop"), [("openai", loop_for_openai), ("anthropic", loop_for_anthropic)], ids=("openai", "anthropic")
)
async def test_a_loop_runs_with_a_scripted_model(client: str, loop: Callable[[Any, Pipeline], Awaitable[str]]) -> None:
    """A loop that is written for a client of a provider gets the replies of the script, calls side by side included."""
    model = ScriptedModel(
        Call("add", '{"a": 1}'), [Call("add", {"a": 1, "b": 2}, "b"), Call("add", {"a": 3, "b": 4}, "c")], "Done."
    )
    pipeline = record_calls(a_pipeline())
    assert await loop(getattr(model, client), pipeline) == "Done."
    assert [(call.id, call.name) for call in pipeline.calls] == [("call_1", "add"), ("b", "add"), ("c", "add")]
    assert pipeline.outcomes[1:] == [Success(3), Success(7)]
    assert len(model.asked) == 3
    assert "Missing required parameter: b" in str(model.asked[1]["messages"])


async def test_a_turn_runs_with_a_scripted_model() -> None:
    """The model of `run_turn` is asked with what failed, and corrects it."""
    model = ScriptedModel(Call("add", {"a": 1, "b": 2}, "1"))
    turn = await run_turn(model, [Call("add", {"a": 1}, "1")], a_pipeline())
    assert turn.outcomes == (Success(3),)
    ((answered, guidance, _),) = model.asked
    assert answered[0].call.id == "1"
    assert "b" in guidance


async def test_a_request_too_many_fails_the_test() -> None:
    """A loop that does not end is told after how many requests."""
    model = ScriptedModel("Done.", Call("add", "no JSON"))
    assert await model() == []
    (block,) = (await model.anthropic.messages.create()).content
    assert (block.type, block.input) == ("tool_use", "no JSON")
    with pytest.raises(AssertionError, match="no reply for request 3"):
        await model.openai.chat.completions.create()


TESTS = """
import pytest
from toolcall_pipeline.middlewares import Retry, Trace, standard
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.testing import assert_failure

tools = ToolRegistry()

@tools.tool(effect="read")
async def slow() -> None:
    await CLOCK.sleep(31)

@tools.tool(effect="read")
async def fails() -> None:
    raise ConnectionError

@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

@pytest.mark.anyio
async def test_clock(fake_clock):
    global CLOCK
    CLOCK = fake_clock
    assert_failure(await standard(tools, timeout=30).call("slow"), kind="timeout")

@pytest.mark.anyio
async def test_waits(no_waiting, recorded_spans):
    run = standard(tools).replace("retry", Retry(first_delay=100, jitter=lambda: 0.5))
    run = run.replace("trace", Trace(tracer_provider=recorded_spans.tracer_provider))
    assert_failure(await run.call("fails"), kind="transient")
    assert len(no_waiting.slept) == 2
    assert "attempt fails" in recorded_spans.tree
"""


@pytest.mark.long  # a pytest of its own
def test_the_fixtures_are_asked_for(tmp_path: Path) -> None:
    """They exist for a project that names them, and only there."""
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=."]
    command += ["-W", "ignore::pytest.PytestDeprecationWarning"]
    without = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "fixture 'fake_clock' not found" in without.stdout
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["toolcall_pipeline.testing.fixtures"]\n')
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout
