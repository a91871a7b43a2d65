"""What the type checkers must say of tools, stages and chains that are written with `returns`; checked, never run.

Each ignore below is an error that a checker has to find: an unused one fails the build.
"""

# pyright: reportUnknownMemberType=false
# for the methods of `returns` itself, whose own types hold what pyright calls unknown
from __future__ import annotations

from typing import assert_type

from returns.future import FutureResult, future_safe
from returns.io import IOResult, impure_safe
from returns.maybe import Maybe
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success, safe

from toolcall_pipeline import (
    Denied,
    Handler,
    Outcome,
    Pipeline,
    ResolvedCall,
    Stack,
    ToolContext,
    ToolError,
    ToolRegistry,
    ValidCall,
    as_result,
)
from toolcall_pipeline.middlewares import Execute, Resolve, Validate, standard

tools = ToolRegistry()


# --- what a tool returns is opened -------------------------------------------------------------------------------
@tools.tool
def result(number: int) -> Result[int, str]:
    return Success(number)


@tools.tool
async def async_result(number: int) -> Result[int, ToolError]:
    return Success(number)


@tools.tool(effect="read")
async def outcome(number: int) -> Outcome[int]:
    return Success(number)


@tools.tool(effect="read")
def future_result(number: int) -> FutureResult[int, str]:
    return FutureResult.from_value(number)


@tools.tool(effect="read")
@future_safe
async def future_safely(number: int) -> int:
    return number


@tools.tool
def io_result(number: int) -> IOResult[int, str]:
    return IOResult.from_value(number)


@tools.tool(effect="read")
@impure_safe
def impurely(number: int) -> int:
    return number


@tools.tool(effect="read")
@safe
def safely(number: int) -> int:
    return number


@tools.tool
def perhaps(number: int) -> Maybe[int]:
    return Maybe.from_value(number)


@tools.tool(context=True)
async def with_context(context: ToolContext, number: int) -> Result[int, str]:
    return Success(number + context.attempt)


@tools.tool(effect="read")
async def or_failure(number: int) -> int | Failure[ToolError]:
    return number or Failure(Denied("me"))


@tools.tool(effect="read")
async def plain(number: int) -> str:
    return str(number)


async def runs(pipeline: Pipeline) -> None:
    """`pipeline.run` knows the value, whichever container it came in; the parameters are checked."""
    assert_type(await pipeline.run(result, 1), Outcome[int])
    assert_type(await pipeline.run(async_result, 1), Outcome[int])
    assert_type(await pipeline.run(outcome, 1), Outcome[int])
    assert_type(await pipeline.run(future_result, 1), Outcome[int])
    assert_type(await pipeline.run(future_safely, 1), Outcome[int])
    assert_type(await pipeline.run(io_result, 1), Outcome[int])
    assert_type(await pipeline.run(impurely, 1), Outcome[int])
    assert_type(await pipeline.run(safely, 1), Outcome[int])
    assert_type(await pipeline.run(perhaps, 1), Outcome[int])
    assert_type(await pipeline.run(with_context, 1), Outcome[int])
    assert_type(await pipeline.run(or_failure, 1), Outcome[int])
    assert_type(await pipeline.run(plain, 1), Outcome[str])
    assert_type(pipeline.run_sync(perhaps, 1), Outcome[int])
    assert_type(result(1), Result[int, str])
    assert_type(await async_result(1), Result[int, ToolError])
    assert_type(future_result(1), FutureResult[int, str])
    assert_type(perhaps(1), Maybe[int])
    await pipeline.run(result, "one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await pipeline.run(future_result, "one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    wrong: Outcome[str] = await pipeline.run(result, 1)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    del wrong


# --- outcomes are results ----------------------------------------------------------------------------------------
async def railways(pipeline: Pipeline) -> None:
    """What is done with an outcome keeps its types."""
    found = as_result(await pipeline.run(result, 1))
    assert_type(found, Result[int, ToolError])
    assert_type(found.map(str), Result[str, ToolError])
    assert_type(found.bind(spell), Result[str, ToolError])
    assert_type(found.lash(recover), Result[int, ToolError])
    assert_type(found.alt(kind_of), Result[int, str])
    if is_successful(found):
        found.unwrap()
    found.map(spell_badly)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def spell(number: int) -> Result[str, ToolError]:
    return Success(str(number))


def spell_badly(number: str) -> str:
    return number


def recover(error: ToolError) -> Result[int, ToolError]:
    return Success(0) if error.kind == "not_found" else Failure(error)


def kind_of(error: ToolError) -> str:
    return error.kind


async def futures(pipeline: Pipeline) -> None:
    """Several calls are one typed expression."""

    def show(number: int) -> FutureResult[str, ToolError]:
        return pipeline.future(plain, number)

    chain = pipeline.future(result, 1).bind(show).map(len)
    assert_type(chain, FutureResult[int, ToolError])
    assert_type(pipeline.future("plain", {"number": 1}, id="c1"), FutureResult[object, ToolError])
    assert_type((await chain), IOResult[int, ToolError])
    pipeline.future(result, 1).bind(spell)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pipeline.future(result, "one")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


# --- stages may be annotated with Result -------------------------------------------------------------------------
async def shout(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> Result[object, ToolError]:
    return as_result(await call_next(call)).map(str)


def admit(call: ResolvedCall) -> Success[ResolvedCall] | Failure[ToolError]:
    return Success(call) if call.principal else Failure(Denied("admit"))


async def my_end(call: ValidCall) -> Result[int, ToolError]:
    return Success(len(call.params))


async def no_outcome(call: ResolvedCall, call_next: Handler[ResolvedCall]) -> str:
    return str(await call_next(call))


async def of_another_error(call: ValidCall) -> Result[int, str]:
    return Success(len(call.params))


def stacks() -> None:
    """In a stack and in a pipeline; what gives no outcome is refused."""
    stack = Stack().check(Resolve(tools)).check(admit).wrap(shout).check(Validate())
    stack.end(my_end)
    standard(tools).before("retry", shout).replace("execute", my_end)
    stack.end(Execute())
    stack.wrap(no_outcome)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    stack.end(of_another_error)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
