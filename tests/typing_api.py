"""What the type checkers must say; checked, never run.

Each ignore below is an error that a checker has to find: an unused one fails the build.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, assert_never, assert_type

from returns.result import Failure, Result, Success

from toolcall_pipeline import (
    Call,
    CallReport,
    Crashed,
    Denied,
    ExecutionFailed,
    Handler,
    NeedsUserInput,
    Outcome,
    Pipeline,
    PublicText,
    ResolvedCall,
    ResourceNotFound,
    Stack,
    StateKey,
    Tool,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolView,
    ValidCall,
    approved,
    is_failure,
    is_success,
    raise_for_error,
    render,
    tool,
)
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.builtin import install
from toolcall_pipeline.executors import Executor, Process, Thread
from toolcall_pipeline.middlewares import (
    Available,
    CircuitBreaker,
    Classify,
    Concurrency,
    Execute,
    LoopGuard,
    RateLimit,
    Resolve,
    Retry,
    Timeout,
    Trace,
    Validate,
    standard,
)
from toolcall_pipeline.stores import Memory

C = TypeVar("C", bound=Call)
tools = ToolRegistry()
PAGES = StateKey[int]("pages")


# --- a view registers no tools -----------------------------------------------------------------------------------
def read_and_close(tool: Tool[..., object]) -> None:
    """A view reads and closes tools, and a pipeline takes it; a registry is a view of all its tools."""
    view = tools.view({"search"})
    view.pause("search")
    standard(view)
    openai.tools(view)
    everything: ToolView = tools
    everything.definitions()
    view.register(tool)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    view.merge(tools)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    install(view, standard(view))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- state keeps its type ----------------------------------------------------------------------------------------
def hand_on(call: C, context: ToolContext) -> C:
    """The value has the type of its key, and the call keeps its phase."""
    assert_type(call.get_state(PAGES), int)
    assert_type(call.get_state(PAGES, None), int | None)
    assert_type(context.get_state(PAGES), int)
    call.with_state(PAGES, "five")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    return call.with_state(PAGES, 5)


# --- what a model may see ----------------------------------------------------------------------------------------
def no_leaks(exc: Exception, count: int) -> None:
    """The text of an exception is not a text for a model, unless it is approved."""
    ExecutionFailed("The index is being rebuilt")
    ExecutionFailed(approved(f"{count} of them failed"))
    ExecutionFailed(str(exc))  # pyright: ignore[reportArgumentType]
    ResourceNotFound(f"{exc}")  # pyright: ignore[reportArgumentType]
    Denied("policy", repr(exc))  # pyright: ignore[reportArgumentType]
    NeedsUserInput(str(exc))  # pyright: ignore[reportArgumentType]
    approved(exc)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(render(ExecutionFailed("no")), PublicText)


# --- tools keep their types --------------------------------------------------------------------------------------
@tools.tool(effect="read", reveal=FileNotFoundError)
async def read_file(path: str, start_line: int = 1) -> str:
    return path[start_line:]


@tools.tool
def count(words: list[str]) -> int:
    return len(words)


@tool(effect="keyed", context=True)
async def pay(context: ToolContext, amount: int) -> bool:
    return bool(context.idempotency_key) and amount > 0


@tool(context=True)
async def of_deps(context: ToolContext[list[int]], amount: int) -> int:
    assert_type(context.deps, list[int])
    return context.deps[0] + amount


async def plain_calls() -> None:
    assert_type(await read_file("a", start_line=2), str)
    assert_type(count(["a"]), int)
    assert_type(await pay(ToolContext("c1"), 3), bool)
    await read_file(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await pay(3)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]


async def typed_runs(pipeline: Pipeline) -> None:
    assert_type(await pipeline.run(read_file, path="a"), Outcome[str])
    assert_type(await pipeline.run(count, ["a"]), Outcome[int])
    assert_type(await pipeline.run(pay, amount=3), Outcome[bool])
    assert_type(await pipeline.run(of_deps, amount=3), Outcome[int])
    await pipeline.run(read_file, path=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await pipeline.run(read_file)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await pipeline.run(read_file, pth="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await pipeline.run(pay, ToolContext("c1"), amount=3)  # type: ignore[misc, arg-type]  # pyright: ignore[reportCallIssue]


def an_effect_is_one_of_four() -> None:
    tool(effect="write")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# --- outcomes ----------------------------------------------------------------------------------------------------
async def outcomes(pipeline: Pipeline) -> str:
    outcome = await pipeline.call("read_file", {"path": "a"}, id="c1")
    assert_type(outcome, Outcome)
    as_result: Result[object, ToolError] = outcome
    del as_result
    assert_type(await pipeline.report(Call("read_file")), CallReport)
    typed = await pipeline.run(read_file, "a")
    assert_type(raise_for_error(typed), str)
    if is_failure(typed):
        assert_type(typed, Failure[ToolError])
    if is_success(typed):
        assert_type(typed.unwrap(), str)
    match typed:
        case Success(value):
            return value
        case Failure(error):
            return render(error)


def a_match_over_errors_is_complete(error: ToolError) -> str:
    if error.kind == "timeout":
        return f"{error.after}"
    match error:
        case Crashed():
            return "crashed"
        case _:
            pass
    return error.category


def an_incomplete_match_is_an_error(error: Denied | Crashed) -> str:
    match error:
        case Denied():
            return "denied"
        case _:
            assert_never(error)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def values_are_frozen(call: Call, error: Denied) -> None:
    call.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    error.by = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


# --- stages in order ---------------------------------------------------------------------------------------------
def allow(call: C) -> C:
    return call


def allow_three(call: ResolvedCall) -> ResolvedCall | Failure[Denied]:
    return Failure(Denied("allow_three")) if len(call.tool.name) > 3 else call


async def log(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    assert_type(call.params, dict[str, Any])
    return await call_next(call)


async def time(call: C, call_next: Handler[C]) -> Outcome:
    return await call_next(call)


async def ask(call: Call, call_next: Handler[ResolvedCall]) -> Outcome:
    made: Tool[..., Any] = read_file
    return await call_next(call.resolved(made))


async def async_check(call: Call) -> Call:
    return call


right: Pipeline = (
    Stack()
    .observe(Trace())
    .wrap(time)
    .check(allow)
    .check(Resolve(tools))
    .check(allow_three)
    .check(Available(tools))
    .check(Validate())
    .wrap(log)
    .wrap(Retry())
    .wrap(Timeout(30))
    .wrap(Classify())
    .end(Execute())
)
asked: Pipeline = Stack().wrap(ask).check(Validate()).end(Execute())
edited: Pipeline = (
    standard(tools).before("retry", log).after("resolve", allow).without("trace").replace("execute", Execute())
)

shared: Pipeline = (
    Stack()
    .check(Resolve(tools))
    .wrap(RateLimit(5, store=Memory()))
    .check(Validate())
    .check(RateLimit(5))
    .wrap(RateLimit(5, store=Memory()))
    .wrap(Concurrency(5, store=Memory()))
    .wrap(CircuitBreaker(store=Memory()))
    .end(Execute())
)
Stack().wrap(RateLimit(5, store=Memory()))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().check(RateLimit(5))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Audit:
    """A middleware of a class, for any call whose tool is known."""

    async def __call__(self, call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Outcome:
        return await call_next(call)


async def seen(call: Call, call_next: Handler[Call]) -> Outcome:
    return await call_next(call)


# a middleware for an earlier phase stands where a later one has been reached, and that one stays
checked = Stack().check(Resolve(tools)).wrap(seen).wrap(Audit()).check(Validate())
checked.wrap(Audit()).wrap(seen).wrap(LoopGuard()).wrap(Retry()).wrap(Classify()).end(Execute())

Stack().check(Validate())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().check(Available(tools))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().wrap(Retry())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().wrap(Timeout(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().end(Execute())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().check(Resolve(tools)).wrap(log)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
Stack().check(Resolve(tools)).wrap(Retry())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
Stack().check(Resolve(tools)).end(Execute())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().check(async_check)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().check(time)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().wrap(allow)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Stack().check(Resolve(tools)).check(Resolve(tools)).check(Validate()).wrap(Classify())(Call("x"))  # type: ignore[operator]  # pyright: ignore[reportCallIssue]


async def arguments_are_a_mapping_text_or_none(pipeline: Pipeline, arguments: Mapping[str, object]) -> None:
    await pipeline.call("x", arguments)
    await pipeline.call("x", "{}")
    await pipeline.call("x")
    await pipeline.call("x", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Elsewhere(Executor):
    """An executor needs a name and a run, and inherits the rest."""

    name = "elsewhere"

    async def run(self, call: ValidCall) -> object:
        return call.params


class Nowhere:
    """Not an executor: it has no name."""

    async def run(self, call: ValidCall) -> object:
        return call.params


somewhere: Pipeline = standard(tools, executor=Elsewhere(), executors={"heavy": Process(2), "light": Thread(8)})
standard(tools, executor="process")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
standard(tools, executor=Process)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
standard(tools, executor=Nowhere())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Execute(executors=[Process()])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
