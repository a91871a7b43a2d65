"""The hand-written loop and the pipeline, which does more, around the same tools."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolcall_pipeline import Call, Pipeline, Tool, ToolRegistry
from toolcall_pipeline.middlewares import Retry, standard
from toolcall_pipeline.testing.overhead.slices import Scenario

Function: TypeAlias = Callable[..., Awaitable[int]]
Run: TypeAlias = Callable[[Call], Awaitable[object]]
ARGUMENTS: dict[str, object] = {"a": 2, "b": 3}
ADD = Call("add", ARGUMENTS)
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


async def no_sleep(seconds: float) -> None:
    """Stand in for sleep, on both sides."""


_ADAPTER = TypeAdapter(Add)
_TOOLS: dict[str, tuple[TypeAdapter[Add], Function]] = {
    function.__name__: (_ADAPTER, function) for function in (add, boom, flaky)
}


async def by_hand(call: Call) -> tuple[str, object]:
    """Do by hand what people write: look up, validate, try, retry, return. The unit of most rows."""
    found = _TOOLS.get(call.name)
    if found is None:
        return "unknown", call.name
    adapter, function = found
    try:
        params = adapter.validate_python(call.arguments)
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
            await no_sleep(0.0)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything
            return "failed", str(exc)


def around(*functions: Function) -> Pipeline:
    """Build the default stack. No provider is set in this process, so calls are not recorded."""
    tools = ToolRegistry()
    for function in functions:
        tools.register(Tool(function.__name__, function, "read"))
    return standard(tools).replace("retry", Retry(ATTEMPTS, first_delay=0, sleep=no_sleep))


def with_more(pipeline: Pipeline, make: Callable[[], Any], count: int) -> Pipeline:
    """Add that many stages, right inside of validate."""
    for number in range(count):
        pipeline = pipeline.after("validate", make(), name=f"more_{number}")
    return pipeline


def calls(run: Run, *sent: Call) -> Scenario:
    """Await the calls one after the other, again and again: the same driver loop for both sides."""
    turn = itertools.cycle(sent or (ADD,))

    async def batch(times: int) -> None:
        for call in itertools.islice(turn, times):
            await run(call)

    return Scenario(batch)


def calls_by_name(
    run: Callable[[str, Mapping[str, object]], Awaitable[object]], name: str, arguments: Mapping[str, object]
) -> Scenario:
    """Await ``run(name, arguments)`` again and again."""

    async def batch(times: int) -> None:
        for _ in range(times):
            await run(name, arguments)

    return Scenario(batch)


def plain(function: Callable[..., object], *arguments: object, whole: bool = False) -> Scenario:
    """Call a plain function again and again; ``whole`` as for a `Scenario`."""

    async def batch(times: int) -> None:
        for _ in range(times):
            function(*arguments)

    return Scenario(batch, whole=whole)


def named(names: Iterable[str]) -> list[Call]:
    """Return a call of each name, all with the same arguments."""
    return [Call(name, ARGUMENTS) for name in names]
