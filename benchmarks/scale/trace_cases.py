"""One call for each way to end, with the spans that are red: for checks of what a backend shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import anyio
import attrs
from returns.result import Failure

from toolcall_pipeline import Denied, Handler, Outcome, Pipeline, ToolContext, ToolFailed, ToolRegistry, ValidCall
from toolcall_pipeline.middlewares import CircuitBreaker, Concurrency, LoopGuard, RateLimit, Retry, Trace, standard
from toolcall_pipeline.testing import FakeClock

_TIMEOUT = 0.05  # seconds; the tool that hangs is waited for three times
_LAST = 3  # the attempt at which `recover` succeeds
LOST = "transient: ConnectionResetError"
SECRETS = ("sk-4242", "10.0.0.7", "/srv/notes.txt")  # in the texts of exceptions, and in no span


def keep(pipeline: Pipeline) -> Pipeline:
    """The standard stack as it is."""
    return pipeline


@attrs.frozen
class TraceCase:
    """One call, and what its trace shows. A span is `call`, `attempt 1`, or a stage such as `attempt 1/execute`.

    Args:
        title: A short description.
        tool: The name that the model sends.
        red: The spans with the status ERROR, in the order of the tree, each with its ``error.type`` and the
            description of its status, if it has one.
        passed_on: The spans that passed a failure on, with their ``toolcall.stage.verdict``.
        arguments: Of the call.
        change: Edits the standard stack.
        before: Calls of the same tool that are made first, and are not looked at.
    """

    title: str
    tool: str
    red: tuple[str, ...] = ()
    passed_on: tuple[str, ...] = ()
    arguments: dict[str, object] | str = attrs.field(factory=dict[str, object], kw_only=True)
    change: Callable[[Pipeline], Pipeline] = attrs.field(default=keep, kw_only=True)
    before: int = attrs.field(default=0, kw_only=True)


def _fail(name: str, exception: Exception) -> Callable[[], Any]:
    async def fail() -> NoReturn:
        raise exception

    fail.__name__ = name
    return fail


async def look_up(word: str = "aurora", limit: int = 10) -> str:
    """Look a word up."""
    return f"{word}, {limit} times"


async def recover(context: ToolContext[object]) -> str:
    """Succeed at the third attempt."""
    if context.attempt < _LAST:
        raise ConnectionResetError("reset by 10.0.0.7")
    return "here"


def make_tools() -> ToolRegistry:
    """The tools that the cases call: each ends in its own way."""
    tools = ToolRegistry()
    lost = ConnectionResetError("reset by 10.0.0.7")
    tools.tool(effect="read")(look_up)
    tools.tool(effect="read", context=True)(recover)
    tools.tool(effect="read", name="hang")(anyio.sleep_forever)
    tools.tool(name="hang_paying")(anyio.sleep_forever)
    tools.tool(effect="read", name="closed")(anyio.sleep_forever)
    tools.tool(effect="read")(_fail("lose", lost))
    tools.tool()(_fail("pay", lost))
    tools.tool(effect="read")(_fail("crash", ZeroDivisionError("key sk-4242")))
    tools.tool(effect="read")(_fail("find_file", FileNotFoundError("/srv/notes.txt")))
    tools.tool(effect="read")(_fail("explain", ToolFailed("There is no such article.")))
    tools.disable("closed")
    return tools


async def ask(_call: ValidCall, _call_next: Handler[ValidCall]) -> Outcome:
    """A middleware that refuses."""
    return Failure(Denied("ask", "Ask a person first."))


async def stumble(call: ValidCall, _call_next: Handler[ValidCall]) -> Outcome:
    """A middleware with a bug."""
    raise KeyError(call.id)


def permit(_call: ValidCall) -> ValidCall | Failure[Denied]:
    """A check that refuses."""
    return Failure(Denied("permit", "Not today."))


async def busy(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    """A Concurrency whose units are all taken by another call."""
    full = Concurrency(1, max_queue=0)
    occupied = anyio.Event()

    async def occupy(_call: ValidCall) -> Outcome:
        occupied.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as group:
        group.start_soon(full, call, occupy)
        await occupied.wait()
        outcome = await full(call, call_next)
        group.cancel_scope.cancel()
        return outcome
    raise AssertionError


def before_retry(make: Callable[[], Any]) -> Callable[[Pipeline], Pipeline]:
    """Adds a stage that sees a call once. It is made for each pipeline: it may keep a state."""
    return lambda pipeline: pipeline.before("retry", make())


def in_attempts(make: Callable[[], Any]) -> Callable[[Pipeline], Pipeline]:
    """Adds a stage that sees each attempt."""
    return lambda pipeline: pipeline.after("retry", make())


def _attempts(times: int, failure: str, *stages: str) -> Iterable[str]:
    """Failed attempts, each with the stages below it, all red or passing on for the given reason."""
    for number in range(1, times + 1):
        yield f"attempt {number} [{failure}]"
        yield from (f"attempt {number}/{stage}" for stage in stages)


def _each(times: int, *stages: str) -> tuple[str, ...]:
    return tuple(f"attempt {number}/{stage}" for number in range(1, times + 1) for stage in stages)


_CANCELLED = ("execute [cancelled]", "classify [cancelled]")
CASES: Sequence[TraceCase] = (
    TraceCase("success", "look_up"),
    TraceCase(
        "success at attempt 3",
        "recover",
        (*_attempts(2, LOST, "classify [transient]"),),
        _each(2, "execute [internal]"),
    ),
    TraceCase(
        "time-out x 3", "hang", ("call [timeout]", *_attempts(3, "timeout", "timeout [timeout]")), _each(3, *_CANCELLED)
    ),
    TraceCase(
        "lost connection x 3",
        "lose",
        (f"call [{LOST}]", *_attempts(3, LOST, "classify [transient]")),
        _each(3, "execute [internal]"),
    ),
    TraceCase(
        "crash",
        "crash",
        (
            "call [internal: ZeroDivisionError]",
            *_attempts(1, "internal: ZeroDivisionError", "execute [internal]"),
        ),
    ),
    TraceCase(
        "file not found",
        "find_file",
        (
            "call [not_found: FileNotFoundError]",
            *_attempts(1, "not_found: FileNotFoundError", "classify [not_found]"),
        ),
        _each(1, "execute [internal]"),
    ),
    TraceCase(
        "the author's own failure",
        "explain",
        ("call [execution: ToolFailed]", *_attempts(1, "execution: ToolFailed", "classify [execution]")),
        _each(1, "execute [internal]"),
    ),
    TraceCase(
        "outcome unknown, connection lost",
        "pay",
        (
            "call [outcome_unknown: transient, ConnectionResetError]",
            *_attempts(1, LOST, "classify [transient]"),
            "retry [outcome_unknown]",
        ),
        _each(1, "execute [internal]"),
    ),
    TraceCase(
        "outcome unknown, timed out",
        "hang_paying",
        (
            "call [outcome_unknown: timeout]",
            *_attempts(1, "timeout", "timeout [timeout]"),
            "retry [outcome_unknown]",
        ),
        _each(1, *_CANCELLED),
    ),
    TraceCase("refused by resolve", "lookup_word", ("call [unknown_tool]", "resolve [unknown_tool]")),
    TraceCase("refused by available", "closed", ("call [unavailable: disabled]", "available [unavailable]")),
    TraceCase(
        "refused by validate",
        "look_up",
        ("call [validation: limit: type, *: additionalProperties]", "validate [validation]"),
        arguments={"limit": "many", "wrd": 1},
    ),
    TraceCase(
        "refused by validate, not JSON",
        "look_up",
        ("call [malformed_call: truncated]", "validate [malformed_call]"),
        arguments='{"limit": ',
    ),
    TraceCase(
        "refused by a check",
        "look_up",
        ("call [permission]", "permit [permission]"),
        change=before_retry(lambda: permit),
    ),
    TraceCase(
        "refused by a middleware",
        "look_up",
        ("call [permission]", "ask [permission]"),
        change=before_retry(lambda: ask),
    ),
    TraceCase(
        "refused by a middleware in an attempt",
        "look_up",
        ("call [permission]", *_attempts(1, "permission: ask", "ask [permission]")),
        change=in_attempts(lambda: ask),
    ),
    TraceCase(
        "refused by rate_limit",
        "look_up",
        ("call [unavailable: rate_limited]", "rate_limit [unavailable]"),
        change=before_retry(lambda: RateLimit(0.001)),
        before=1,
    ),
    TraceCase(
        "refused by circuit_breaker",
        "lose",
        ("call [unavailable: breaker_open]", "circuit_breaker [unavailable]"),
        change=before_retry(lambda: CircuitBreaker(failures=1)),
        before=1,
    ),
    TraceCase(
        "circuit_breaker opens while it is retried",
        "lose",
        (
            "call [unavailable: breaker_open]",
            *_attempts(2, LOST, "classify [transient]"),
            "attempt 3 [unavailable: breaker_open]",
            "attempt 3/circuit_breaker [unavailable]",
        ),
        _each(2, "execute [internal]"),
        change=in_attempts(lambda: CircuitBreaker(failures=2)),
    ),
    TraceCase(
        "refused by concurrency",
        "look_up",
        ("call [unavailable: busy]", "concurrency [unavailable]"),
        change=lambda pipeline: pipeline.before("retry", busy, name="concurrency"),
    ),
    TraceCase(
        "refused by loop_guard",
        "look_up",
        ("call [permission]", "loop_guard [permission]"),
        change=before_retry(lambda: LoopGuard(warn_after=2, refuse_after=3)),
        before=3,
    ),
    TraceCase(
        "a bug in a middleware",
        "look_up",
        ("call [internal: KeyError]", "stumble [internal]"),
        change=before_retry(lambda: stumble),
    ),
)


async def make_call(case: TraceCase, trace: Trace, call_id: str) -> Outcome:
    """Make the call of a case, and those before it, with the waits between attempts left out."""
    pipeline = standard(make_tools(), timeout=_TIMEOUT).replace("trace", trace)
    pipeline = case.change(pipeline.replace("retry", Retry(sleep=FakeClock().sleep)))
    for _ in range(case.before):
        await pipeline.call(case.tool, case.arguments)
    return await pipeline.call(case.tool, case.arguments, id=call_id)
