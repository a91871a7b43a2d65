"""What travels to another process and back: the name of a function, its arguments, and what came of it.

Both ways as pickles that are made and read here, so that what cannot be pickled is told as what it is. A function goes
by its address, since a decorator has put a `Tool` in its place; the module that holds it is imported over there.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from inspect import isawaitable
from typing import Any, Literal, TypeAlias, cast

from opentelemetry.context import get_current
from opentelemetry.propagate import inject
from returns.result import Failure

from ..call import Call, ValidCall
from ..errors import Crashed, SetupError
from ..report import CallReport, Progress
from ..telemetry.spans import continued
from ..tools.context import ToolContext
from ..tools.definition import Tool
from .protocol import seconds_left

Function: TypeAlias = Callable[..., Any]
Dumps: TypeAlias = Callable[[Any], bytes]
# Call id, attempt, idempotency key, seconds left, principal, deps: clocks of two machines have nothing in common.
Facts: TypeAlias = tuple[str, int, str, float | None, str, object]
Job: TypeAlias = tuple[Any, dict[str, Any], Facts | None, dict[str, str] | None]
How: TypeAlias = Literal["gave", "raised", "not_begun", "stuck"]
Reply: TypeAlias = tuple[How, Any, list[Progress]]


_PLAIN = frozenset((str, int, float, bool, type(None)))


class RemoteError(Exception):
    """Stands for an exception that could not travel: the name of its type, and nothing else of it."""


class RemoteTraceback(Exception):  # noqa: N818  # no error: where one came from
    """The stack of an exception in the process that raised it, as the cause of what arrived here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


def address_of(tool: Tool[..., Any]) -> str | None:
    """``module:name`` where its function, or the tool that was made of it, can be found; None where it cannot be."""
    module, name = getattr(tool.fn, "__module__", None), getattr(tool.fn, "__qualname__", None)
    if not module or not name:
        return None
    if _at(sys.modules.get(module), name) is not tool.fn:
        return None
    if module == "__main__" and (spec := getattr(sys.modules[module], "__spec__", None)) is not None:
        module = spec.name  # of python -m: over there it has its own name
    return f"{module}:{name}"


def _at(module: object, name: str) -> object:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found.fn if isinstance(found, Tool) else cast("object", found)


@cache
def function_at(address: str) -> Function:
    """The function, in a process that may not have imported it yet. Raises SetupError where it is not there."""
    module, _, name = address.partition(":")
    try:
        found = _at(import_module(module), name)
    except Exception as exc:
        raise SetupError(f"{address} cannot be imported where the tool is to run: {type(exc).__name__}: {exc}") from exc
    if not callable(found):
        raise SetupError(f"{address} is not there where the tool is to run")
    return cast("Function", found)


def is_plain(value: object) -> bool:
    """Whether it is sure to travel, so that it can share a pickle with others and spoil nothing for them."""
    return type(value) in _PLAIN


def job_of(key: str, call: ValidCall, dumps: Dumps) -> Job | bytes:
    """The call, ready to go with others in one pickle. Raises SetupError as `packed` does."""
    if call.tool.context or not _PLAIN.issuperset(map(type, call.params.values())):
        return packed(key, call, dumps)
    return key, call.params, None, _carrier()


def packed(function: Any, call: ValidCall, dumps: Dumps = pickle.dumps) -> bytes:
    """The call, ready to go. Raises SetupError for arguments, or a caller's own object, that cannot travel."""
    facts: Facts | None = None
    if call.tool.context:
        facts = (call.id, call.attempt, call.idempotency_key, seconds_left(), call.principal, call.deps)
    try:
        return dumps((function, call.params, facts, _carrier()))
    except Exception as exc:
        what = "its arguments or its deps" if facts is not None else "its arguments"
        raise SetupError(f"{call.tool.name}: {what} cannot travel to another process: {exc}") from exc


def _carrier() -> dict[str, str] | None:
    if not get_current():  # nothing that could be carried
        return None
    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier or None


def run(function: Function, job: Job, finish: Callable[[Awaitable[Any]], Any]) -> Reply:
    """Run a sync tool over there; never raises. ``finish`` is for one that gives a coroutine after all."""
    _, params, facts, carrier = job
    progress: list[Progress] = []
    try:
        with _in_trace(carrier):
            value = function(*_context(facts, progress), **params)
            return "gave", finish(value) if isawaitable(value) else value, progress
    except BaseException as exc:  # noqa: BLE001  # of a tool that exits too: it was given a process, not ours
        return "raised", exc, progress


async def arun(function: Function, job: Job) -> Reply:
    """Run an async tool over there; raises nothing but the cancellation of whoever awaits it."""
    _, params, facts, carrier = job
    progress: list[Progress] = []
    try:
        if carrier is None and facts is None:  # of a batch of tiny calls, the most
            return "gave", await function(**params), progress
        with _in_trace(carrier):
            return "gave", await function(*_context(facts, progress), **params), progress
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return "raised", RemoteError("CancelledError"), progress  # of something that it awaited
    except BaseException as exc:  # noqa: BLE001  # see run
        return "raised", exc, progress


async def awaited(value: Awaitable[Any]) -> Any:
    """Its value, as the coroutine that a runner wants."""
    return await value


def _context(facts: Facts | None, progress: list[Progress]) -> tuple[ToolContext] | tuple[()]:
    if facts is None:
        return ()
    id_, attempt, key, left, principal, deps = facts
    deadline = None if left is None else time.monotonic() + left
    report = CallReport(Call(""), progress=progress)
    return (ToolContext(id_, attempt, key, deadline, principal, deps, report),)


@contextmanager
def _in_trace(carrier: dict[str, str] | None) -> Generator[None]:
    if carrier is None:
        yield
        return
    with continued(carrier):
        yield


def answered(reply: Reply, dumps: Dumps = pickle.dumps) -> bytes:
    """A reply, ready to go back; of what cannot travel it says so."""
    how, value, progress = reply
    if how == "raised":
        return dumps((how, (_sendable(value, dumps), _stack(value)), progress))
    try:
        return dumps(reply)
    except Exception as exc:  # noqa: BLE001  # a foreign __reduce__ may raise anything
        return dumps(("stuck", f"what it returned cannot travel back: {type(exc).__name__}: {exc}", progress))


def not_begun(exc: Exception) -> bytes:
    """The reply to a job that cannot be read where it is to run, or whose function is not there."""
    read = f"its arguments cannot be read where it is to run: {type(exc).__name__}: {exc}"
    return answered(("not_begun", str(exc) if isinstance(exc, SetupError) else read, []))


def _sendable(exc: BaseException, dumps: Dumps) -> object:
    """The exception itself; or its type, arguments and attributes, where it cannot be made of its arguments alone."""
    try:
        if type(pickle.loads(dumps(exc))) is type(exc):  # noqa: S301  # our own
            return exc
    except Exception:  # noqa: BLE001, S110  # see answered
        pass
    parts = (type(exc), _those_that_travel(exc.args, dumps), _those_that_travel(vars(exc), dumps))
    try:
        pickle.loads(dumps(parts))  # noqa: S301  # our own
    except Exception:  # noqa: BLE001  # of a class that only exists there
        return RemoteError(type(exc).__name__)
    return parts


def _those_that_travel(values: Any, dumps: Dumps) -> Any:
    def travels(value: object) -> bool:
        try:
            pickle.loads(dumps(value))  # noqa: S301  # our own
        except Exception:  # noqa: BLE001  # see answered
            return False
        return True

    if isinstance(values, tuple):
        return tuple(value if travels(value) else None for value in cast("tuple[object, ...]", values))
    return {name: value for name, value in values.items() if travels(value)}


def _stack(exc: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(exc))
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        return type(exc).__name__


def opened(reply: Reply | bytes, call: ValidCall) -> object:
    """What the tool returned, or a Failure of what it raised, with the other process's stack as its cause."""
    try:
        read: Any = pickle.loads(reply) if isinstance(reply, bytes) else reply  # noqa: S301  # from one of our own
        how, value, progress = cast("Reply", read)
    except Exception as exc:  # noqa: BLE001  # of a class that cannot be made again from its own pickle
        return Failure(Crashed(TypeError(f"what it returned cannot be read here: {type(exc).__name__}: {exc}")))
    if call.report is not None:
        call.report.progress.extend(progress)
    if how == "gave":
        return cast("object", value)
    if how == "raised":
        sent, stack = cast("tuple[Any, str]", value)
        raised = sent if isinstance(sent, BaseException) else _made_again(*sent)
        raised.__cause__ = RemoteTraceback(stack)
        return Failure(Crashed(raised))
    return Failure(Crashed(SetupError(value) if how == "not_begun" else TypeError(value)))


def _made_again(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    exc = kind.__new__(kind, *args)  # past an __init__ that wants something else
    exc.args = args
    vars(exc).update(state)
    return exc
