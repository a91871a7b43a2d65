"""Tools that give back containers of `returns`, in a module that workers can import."""

from __future__ import annotations

from typing import Any

from returns.context import RequiresContext
from returns.future import FutureResult, future, future_safe
from returns.io import IO, IOFailure, IOResult, IOSuccess, impure_safe
from returns.maybe import Maybe, Nothing, Some, maybe
from returns.result import Failure, Result, Success, safe

from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()
SUCCESS, FAILURE, RAISE = "success", "failure", "raise"


def work(how: str) -> int:
    """Return 7, or raise what is not found."""
    if how != SUCCESS:
        raise FileNotFoundError("/secret/path")
    return 7


def either(how: str) -> Result[int, str]:
    return Success(work(how)) if how != FAILURE else Failure("no such order")


async def later(how: str) -> Any:
    return either(how)


@tools.tool(effect="read", run_in=None)
def result(how: str) -> Result[int, str]:
    return either(how)


@tools.tool(effect="read")
async def async_result(how: str) -> Result[int, str]:
    return either(how)


@tools.tool(effect="read")
@safe
def safely(how: str) -> int:
    return work(how)


@tools.tool(effect="read")
@impure_safe
def impurely(how: str) -> int:
    return work(how)


@tools.tool(effect="read")
@future_safe
async def future_safely(how: str) -> int:
    return work(how)


@tools.tool(effect="read")
def io_result(how: str) -> IOResult[int, str]:
    return IOSuccess(work(how)) if how != FAILURE else IOFailure("no such order")


@tools.tool(effect="read")
def future_result(how: str) -> FutureResult[int, str]:
    return FutureResult(later(how))


@tools.tool(effect="read")
@future
async def future_of_result(how: str) -> Result[int, str]:
    return either(how)


@tools.tool(effect="read")
def io_of_result(how: str) -> IO[Result[int, str]]:
    return IO(either(how))


@tools.tool(effect="read")
async def nested(how: str) -> Any:
    return Success(Some(IOSuccess(FutureResult(later(how)))))


@tools.tool(effect="read")
def perhaps(how: str) -> Maybe[int]:
    return Some(work(how)) if how != FAILURE else Nothing


@tools.tool(effect="read")
async def perhaps_later(how: str) -> Maybe[Maybe[int]]:
    return Some(perhaps.fn(how))


@tools.tool(effect="read")
@maybe
def maybe_none(how: str) -> int | None:
    return work(how) if how != FAILURE else None


@tools.tool(effect="read")
async def reader(how: str) -> RequiresContext[int, str]:
    return RequiresContext(lambda _: work(how))
