"""Mistakes of whoever builds a pipeline name the stage, the tool or the option, and what to write instead."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest
from returns.result import Failure, Success

from support import a_tool
from toolcall_pipeline import Call, Crashed, SetupError, Tool, ToolRegistry, gather, gather_sync, render, tool
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.middlewares import RateLimit, standard

TOOLS = ToolRegistry()
TOOLS.register(a_tool("read", "read"))
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def forgets(call: Any) -> Any:
    """A check without `return`."""


def agrees(call: Any) -> Any:
    return True


def succeeds(call: Any) -> Any:
    return Success(call.name)


def refuses_by_text(call: Any) -> Any:
    return Failure("no")


def asks_later(call: Any) -> Any:
    return forgets_later(call, None)


async def forgets_later(call: Any, call_next: Any) -> Any:
    """A middleware without `return`."""


async def no_await(call: Any, call_next: Any) -> Any:
    return call_next(call)


async def unwraps(call: Any, call_next: Any) -> Any:
    return (await call_next(call)).unwrap()


async def refuses(call: Any, call_next: Any) -> Any:
    return Failure("no")


def not_async(call: Any, call_next: Any) -> Any:
    return Success(1)


async def answers(call: Any) -> Any:
    return {"ok": True}


def answers_at_once(call: Any) -> Any:
    return Success(1)


def same(call: Any) -> Any:
    return call


async def fine(call: Any, call_next: Any) -> Any:
    return await call_next(call)


# stage -> what its crash says
BUGS: dict[Any, str] = {
    forgets: "forgets returned None (is a `return` missing?), and a check returns the call or Failure(error)",
    agrees: "agrees returned a value of type bool, and a check returns the call or Failure(error)",
    succeeds: "succeeds returned a value of type Success, and a check returns the call or Failure(error)",
    refuses_by_text: "refuses_by_text gave Failure(str), and a Failure holds a ToolError, such as "
    'Denied("who", approved("why"))',
    asks_later: "asks_later returned a coroutine, and a check returns the call or Failure(error)",
    forgets_later: "forgets_later answered with None (is a `return` missing?), and a stage answers with an Outcome: "
    "Success(value), Failure(error), or what `await call_next(call)` gave",
    no_await: "no_await answered with a coroutine: write `return await call_next(call)`",
    unwraps: "unwraps answered with a value of type str, and a stage answers with an Outcome: Success(value), "
    "Failure(error), or what `await call_next(call)` gave",
    refuses: 'refuses gave Failure(str), and a Failure holds a ToolError, such as Denied("who", approved("why"))',
    not_async: "not_async answered with Success, which nobody can await: make it `async def`",
    answers: "answers answered with a value of type dict, and a stage answers with an Outcome: Success(value), "
    "Failure(error), or what `await call_next(call)` gave",
    answers_at_once: "answers_at_once answered with Success, which nobody can await: make it `async def`",
}
ENDS = (answers, answers_at_once)


def cause_of(outcome: Any) -> BaseException:
    assert isinstance(outcome, Failure)
    error: Any = cast("Failure[Any]", outcome).failure()
    assert type(error) is Crashed
    assert error.cause is not None
    return error.cause


@pytest.mark.parametrize("traced", [True, False], ids=["traced", "bare"])
@pytest.mark.parametrize("stage", BUGS, ids=lambda stage: stage.__name__)
async def test_the_bug_of_a_stage_names_it(stage: Any, traced: bool) -> None:
    """In each place, in the bare chain and in the watched one: which stage it was, what it did, and the fix."""
    pipeline = standard(TOOLS, timeout=60) if traced else standard(TOOLS, timeout=60).without("trace")
    if stage in ENDS:
        at = {"end": pipeline.replace("execute", stage)}
    else:
        at = {place: pipeline.before(place, stage) for place in pipeline.stages[1 if traced else 0 :]}
    for place, broken in at.items():
        expected = BUGS[stage] if stage not in ENDS else BUGS[stage].replace(stage.__name__, "execute", 1)
        cause = cause_of(await broken.call("read"))
        assert isinstance(cause, SetupError), place
        assert str(cause) == expected, place
        assert str(cause_of((await broken.report(Call("read"))).outcome)) == expected, place


@pytest.mark.parametrize("stage", [forgets, no_await], ids=lambda stage: stage.__name__)
async def test_of_several_stages_a_bug_names_those_that_it_may_be(stage: Any) -> None:
    """Nobody looks at each answer of a bare chain, which would cost every call; with a report it is known."""
    other: Any = fine if stage is no_await else same
    pipeline = standard(TOOLS).before("retry", stage).before("validate", other, name="other")
    assert f"one of other, {stage.__name__} " in str(cause_of(await pipeline.call("read")))
    report = await pipeline.report(Call("read"))
    assert str(cause_of(report.outcome)).startswith(f"{stage.__name__} ")
    assert next(each.name for each in report.stages if each.verdict) == stage.__name__


NO_CALLS: list[Any] = [{"name": "read"}, None, "read", a_tool(), 3]


@pytest.mark.parametrize("call", NO_CALLS, ids=lambda call: type(call).__name__)
async def test_what_is_no_call_is_told_and_logged(call: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A pipeline takes a Call. It does not raise for anything else, and logs it."""
    pipeline: Any = standard(TOOLS)
    expected = f"a pipeline takes a Call, not {'None' if call is None else 'a value of type'}"
    with caplog.at_level(logging.ERROR, "toolcall_pipeline"):
        assert str(cause_of(await pipeline(call))).startswith(expected)
        assert str(cause_of((await pipeline.report(call)).outcome)).startswith(expected)
    assert len(caplog.records) == 2
    assert all(expected in str(record.exc_info) for record in caplog.records)


class Hostile:
    """A value with which nothing can be done."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__

    def __hash__(self) -> int:
        raise ValueError("no hash")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no ==")


class HostileName(str):
    """A name that finds its tool, and cannot be compared then."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        raise ValueError("no !=")


HOSTILE: Any = Hostile()


@pytest.mark.parametrize(
    "call",
    [Call(HostileName("read")), Call("read", id=HOSTILE), Call("read", principal=HOSTILE)],
    ids=["name", "id", "principal"],
)
async def test_a_bug_in_a_stage_is_logged_with_an_odd_call(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the call holds, the log says which stage has the bug."""
    with caplog.at_level(logging.ERROR, "toolcall_pipeline"):
        await standard(TOOLS).before("retry", no_await)(call)
    (record,) = caplog.records
    assert "no_await answered with a coroutine" in str(record.exc_info)


def plain(path: str = "a") -> str:
    return path


def with_options(**options: Any) -> Callable[[], object]:
    decorate: Any = tool
    return lambda: decorate(**options)(plain)


def with_schema(**options: Any) -> Callable[[], object]:
    return lambda: Tool.from_schema(name="plain", parameters=SCHEMA, handler=plain, **options)


PLAIN: Any = plain
A_CALL: Any = {"name": "read"}
A_WHOLE_CALL: Any = Call("read", {})
A_TOOL: Any = TOOLS.tools["read"]
NAME_WANTED = "a call takes the name of a tool: call('read', …); or use run(tool, …), which is typed"
FUNCTIONS: Any = [plain]
AT_SET_UP: dict[str, tuple[Callable[[], object], str]] = {
    "a list of functions": (lambda: standard(FUNCTIONS), "standard: `tools` must be a ToolRegistry, not [<function"),
    "a view by text": (lambda: TOOLS.view("read"), "view: `names` must be a collection of names of tools, not 'read'"),
    "an option of @tool": (with_options(efect="read"), "plain: @tool has no option `efect`; it has name, "),
    "an option of from_schema": (with_schema(efect="read"), "plain: @tool has no option `efect`; it has name, "),
    "run of a function": (lambda: standard(TOOLS).run(PLAIN), "run() takes a tool, not <function plain"),
    "run of a call": (lambda: standard(TOOLS).run(A_CALL), "run() takes a tool, not {'name': 'read'}"),
    "call of a tool": (lambda: standard(TOOLS).call(A_TOOL, {}), NAME_WANTED),
    "call_sync of a tool": (lambda: standard(TOOLS).call_sync(A_TOOL), NAME_WANTED),
    "call of a Call": (
        lambda: standard(TOOLS).call(A_WHOLE_CALL),
        "a call takes the name of a tool; a Call that is made",
    ),
    "call_sync of a Call": (lambda: standard(TOOLS).call_sync(A_WHOLE_CALL), "a call takes the name of a tool; a Call"),
    "a key by another name": (
        lambda: RateLimit(1, key=cast("Any", "user")),
        'RateLimit: `key` must be "principal", "conversation" or a plain function or None, not \'user\'',
    ),
    "a Call of a tool": (lambda: standard(TOOLS)(Call(A_TOOL)), NAME_WANTED),
    "a report of a tool": (lambda: anyio.run(standard(TOOLS).report, Call(A_TOOL)), NAME_WANTED),
    "gather of a tool": (lambda: anyio.run(gather, standard(TOOLS), [Call(A_TOOL)]), NAME_WANTED),
    "gather_sync of a tool": (lambda: gather_sync(standard(TOOLS), [Call("read"), Call(A_TOOL)]), NAME_WANTED),
    "a resource like a parameter": (with_options(resource="path"), "plain: `resource` 'path' is also a parameter"),
    "a resource like a property": (with_schema(resource="path"), "plain: `resource` 'path' is also a parameter"),
    "a resource that is a number": (with_options(resource=3), "plain: `resource` must be a name or a plain function"),
    "an async resource": (with_options(resource=fine), "plain: `resource` must be a name or a plain function"),
}


@pytest.mark.parametrize(("make", "text"), AT_SET_UP.values(), ids=AT_SET_UP)
def test_a_mistake_at_set_up_names_what_is_wrong(make: Callable[[], object], text: str) -> None:
    """Each is a SetupError at once."""
    with pytest.raises(SetupError) as caught:
        make()
    assert text in str(caught.value)


def test_a_crash_names_the_class_of_its_cause() -> None:
    """The class may be known, the text of an exception may not; a pickle keeps as much."""
    crash = Crashed(ValueError("a secret"))
    assert repr(crash) == repr(pickle.loads(pickle.dumps(crash))) == "Crashed(ValueError)"
    assert repr(Crashed()) == "Crashed()"


def takes_number(number: int) -> int:
    return number


def takes_names(names: list[str]) -> int:
    return len(names)


async def nobody_awaited() -> Any:
    """A call that nobody awaited."""


DONE: Any = Success(1)
CALL: Any = Call("read")
PIPELINE: Any = standard(TOOLS)

# what was written -> the error
WRITTEN: dict[str, tuple[Callable[[], Any], str]] = {
    "a name in place of the function": (
        lambda: TOOLS.tool(cast("Any", "search")),
        "@tool takes a function, not 'search'; a name is an option: @tool(name='search')",
    ),
    "context=True without a context": (
        lambda: tool(context=True)(cast("Any", takes_number)),
        "takes_number: context=True makes its first parameter the ToolContext, and number is another type",
    ),
    "context=True, and a list": (
        lambda: tool(context=True)(cast("Any", takes_names)),
        "takes_names: context=True makes its first parameter the ToolContext, and names is another type",
    ),
    "one call for gather": (
        lambda: gather_sync(PIPELINE, CALL),
        "gather: `calls` must be a collection of Calls, not Call(",
    ),
    "dicts for gather": (
        lambda: gather_sync(PIPELINE, [cast("Any", {"name": "read"})]),
        "gather: `calls` must be a collection of Calls, as calls(reply) of an adapter makes it, not [{'name': 'read'}]",
    ),
    "a dict for gather": (
        lambda: gather_sync(PIPELINE, cast("Any", {"name": "read"})),
        "gather: `calls` must be a collection of Calls, as calls(reply) of an adapter makes it, not {'name': 'read'}",
    ),
    "calls before the pipeline": (
        lambda: gather_sync(cast("Any", [CALL]), PIPELINE),
        "gather: `pipeline` must be a Pipeline, not [Call(",
    ),
    "a list of tools for a provider": (
        lambda: openai.tools(cast("Any", [1])),
        "tools: `registry` must be a ToolRegistry, not [1]",
    ),
    "a pipeline for a provider": (
        lambda: anthropic.tools(PIPELINE),
        "tools: `registry` must be a ToolRegistry, not <Pipeline ",
    ),
    "calls of an outcome": (
        lambda: openai.calls([], DONE),
        "calls: `registry` must be a Pipeline or ToolRegistry or None, not <Success",
    ),
    "an outcome in place of the call": (
        lambda: openai.message(DONE, CALL),
        "a call is answered with its outcome, not a Call: message(call, await pipeline(call))",
    ),
    "calls in place of pairs": (
        lambda: anthropic.messages([CALL]),
        "messages() takes pairs of a call and its outcome, not a Call",
    ),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_what_was_meant_otherwise_says_what_to_write(written: str) -> None:
    """Each is a SetupError that names the option, what was given and what is allowed."""
    run, expected = WRITTEN[written]
    with pytest.raises(SetupError) as raised:
        run()
    assert str(raised.value).startswith(expected)


def test_an_outcome_that_nobody_awaited_is_told() -> None:
    """A forgotten `await` would else be a crash of a tool, in the words for the model."""
    unawaited: Any = nobody_awaited()
    with pytest.raises(SetupError, match=r"render\(\) takes an outcome, and this has to be awaited first"):
        render(unawaited)
    with pytest.raises(SetupError, match="a call is answered with its outcome, not a coroutine"):
        openai.message(CALL, unawaited)
    unawaited.close()
