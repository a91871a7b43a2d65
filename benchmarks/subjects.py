"""What is measured: the loop that people write by hand, and the pipeline, which does more, around the same tools."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from benchmarks.timing import Batch
from middlewares import Retry, standard
from pipeline import Handler, Outcome, Pipeline, Tool, ToolRegistry, ValidCall

Function: TypeAlias = Callable[..., Awaitable[int]]
Run: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[object]]
ARGUMENTS: dict[str, object] = {"a": 2, "b": 3}
ATTEMPTS = 3


class Add(TypedDict):
    """The arguments of all tools here."""

    a: int
    b: int


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def boom(a: int, b: int) -> int:
    """Fail."""
    raise RuntimeError(a + b)


_turns = itertools.cycle((True, False))


async def flaky(a: int, b: int) -> int:
    """Fail every other time: a call takes two attempts."""
    if next(_turns):
        raise ConnectionError
    return a + b


async def at_once(seconds: float) -> None:
    """Stand in for sleep, on both sides."""


_ADAPTER = TypeAdapter(Add)
_TOOLS: dict[str, tuple[TypeAdapter[Add], Function]] = {
    function.__name__: (_ADAPTER, function) for function in (add, boom, flaky)
}


async def by_hand(name: str, arguments: Mapping[str, object]) -> tuple[str, object]:
    """The unit: look up, validate, try, retry, return."""
    found = _TOOLS.get(name)
    if found is None:
        return "unknown", name
    adapter, function = found
    try:
        params = adapter.validate_python(arguments)
    except ValidationError as exc:
        return "invalid", str(exc)
    attempt = 1
    while True:
        try:
            return "ok", await function(**params)
        except (ConnectionError, TimeoutError) as exc:
            if attempt == ATTEMPTS:
                return "transient", str(exc)
            attempt += 1
            await at_once(0.0)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything
            return "failed", str(exc)


def around(*functions: Function) -> Pipeline:
    """The default stack. No provider is set in this process, so nobody records."""
    tools = ToolRegistry()
    for function in functions:
        tools.register(Tool(function.__name__, function, "read"))
    return standard(tools).replace("retry", Retry(ATTEMPTS, first_delay=0, sleep=at_once))


async def pass_on(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    """Do nothing, as a middleware."""
    return await call_next(call)


def let_pass(call: ValidCall) -> ValidCall:
    """Do nothing, as a check."""
    return call


def with_more(pipeline: Pipeline, stage: Any, count: int) -> Pipeline:
    """The same with so many more stages, right inside of validate."""
    for number in range(count):
        pipeline = pipeline.after("validate", stage, name=f"more_{number}")
    return pipeline


_VERBS = ("create", "delete", "fetch", "find", "list", "merge", "read", "search", "update", "write")
_NOUNS = ("account", "branch", "comment", "document", "event", "file", "invoice", "message", "order", "project")


def many_tools(count: int) -> ToolRegistry:
    """Tools with names of the usual length: ``find_invoice_017``."""
    tools = ToolRegistry()
    for number, verb, noun in itertools.islice(itertools.product(range(count), _VERBS, _NOUNS), count):
        name = f"{verb}_{noun}_{number:03}"
        tools.register(Tool.from_schema(name=name, parameters=None, handler=add, effect="read"))
    return tools


def misspelt(names: Collection[str], count: int) -> list[str]:
    """So many names, all different, that differ from one of these by a letter."""
    known = list(names)
    wrong = (name[:1] + letter + name[2:] for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for name in known)
    found = [name for name in dict.fromkeys(wrong) if name not in names]
    return random.Random(0).sample(found, count)  # noqa: S311  # the same in each run


def calls(run: Run, name: str = "add", arguments: Mapping[str, object] = ARGUMENTS) -> Batch:
    """The same call again and again."""

    async def batch(times: int) -> None:
        for _ in range(times):
            await run(name, arguments)

    return batch


def calls_in_turn(run: Run) -> Batch:
    """Two calls of one tool with other arguments each, again and again: nobody repeats anything."""
    other = {"a": 3, "b": 2}

    async def batch(times: int) -> None:
        for _ in range(times // 2):
            await run("add", ARGUMENTS)
            await run("add", other)

    return batch


def calls_of(run: Run, names: Iterable[str]) -> Batch:
    """One name after the other, in a circle. Resolve remembers 512: of a longer circle, none."""
    turn = itertools.cycle(names)

    async def batch(times: int) -> None:
        for name in itertools.islice(turn, times):
            await run(name, ARGUMENTS)

    return batch
