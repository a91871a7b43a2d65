"""The whole way of a call: from the reply of a provider to the message that answers it.

`WAYS` are counted, see `counted`. As a program it prints their times: warm, and cold, where other work has emptied the
processor's caches between two calls, as with an agent that calls once a second.

    python -m benchmarks.overhead.whole_way [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Callable
from statistics import median
from time import thread_time_ns
from typing import Any, TypeAlias

import attrs

from benchmarks.overhead.subjects import ARGUMENTS, add, by_hand
from toolcall_pipeline import Call, ToolRegistry, gather
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, openai
from toolcall_pipeline.middlewares import standard

Json: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[], Awaitable[object]]

_AT_ONCE = 1_000
_MANY = 250  # rows of a result of about 10 kB

_tools = ToolRegistry()
_tools.tool(effect="read")(add)


@attrs.frozen
class Point:
    """A place."""

    x: int
    y: int


@_tools.tool(effect="read")
async def walk(to: Point) -> int:
    """Walk."""
    return to.x + to.y


@_tools.tool(effect="read")
async def rows(n: int) -> list[dict[str, int]]:
    """List rows."""
    return [{"id": each, "value": each * each, "other": 7} for each in range(n)]


_run = standard(_tools)
_FUNCTIONS: dict[str, Callable[..., Awaitable[object]]] = {"add": add, "rows": rows}


@attrs.frozen
class Way:
    """A row.

    Attributes:
        what: Its name.
        run: Goes the whole way once.
        unit: The row whose count this one is divided by; None: it is a unit.
        limit: Of the figure; None: it is printed and not judged.
        calls: How many are counted.
    """

    what: str
    run: Run
    unit: str | None = None
    limit: float | None = None
    calls: int = 100


def chat(name: str, arguments: str) -> Json:
    """A chat completion with one call."""
    asked = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    said = {"role": "assistant", "content": None, "tool_calls": [asked]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": said}
    return {"id": "x", "object": "chat.completion", "choices": [choice]}


_GOOD = chat("add", json.dumps(ARGUMENTS))
_ITEM: Json = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": json.dumps(ARGUMENTS)}
_RESPONSE: Json = {"id": "x", "object": "response", "status": "completed", "output": [_ITEM]}
_USE: Json = {"type": "tool_use", "id": "t1", "name": "add", "input": ARGUMENTS}
_CLAUDE: Json = {"id": "x", "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [_USE]}
_PARTS: list[Json] = [{"functionCall": {"name": "add", "args": ARGUMENTS}}]
_GEMINI: Json = {"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": _PARTS}}]}
_SAID: Json = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "add", "input": ARGUMENTS}}]}
_BEDROCK: Json = {"stopReason": "tool_use", "output": {"message": _SAID}}
_THOUSAND = [Call("add", ARGUMENTS, id=str(each)) for each in range(_AT_ONCE)]


def _way(adapter: Any, reply: object) -> Run:
    async def go() -> object:
        return [adapter.message(call, await _run(call)) for call in adapter.calls(reply, _tools)]

    return go


def _by_hand(reply: Json) -> Run:
    """The same as people write it, in its shortest form: nothing is checked."""

    async def go() -> object:
        answers: list[Json] = []
        for asked in reply["choices"][0]["message"]["tool_calls"]:
            function = asked["function"]
            try:
                value = await _FUNCTIONS[function["name"]](**json.loads(function["arguments"]))
            except Exception as exc:  # noqa: BLE001  # a tool may raise anything
                value = str(exc)
            text = json.dumps(value) if isinstance(value, list) else str(value)
            answers.append({"role": "tool", "tool_call_id": asked["id"], "content": text})
        return answers

    return go


async def _responses() -> object:
    calls = openai.calls(_RESPONSE, _tools)
    return [openai.message(call, await _run(call), api="responses") for call in calls]


async def _turn() -> object:
    said, calls = openai.send_back(openai.calls(_GOOD, _tools), _tools)
    return said, [openai.message(*each) for each in zip(calls, await gather(_run, calls), strict=True)]


async def _at_once() -> object:
    return [openai.message(*each) for each in zip(_THOUSAND, await gather(_run, _THOUSAND), strict=True)]


async def _at_once_by_hand() -> object:
    return await asyncio.gather(*map(by_hand, _THOUSAND))


WAY, ROWS, GATHER = "the whole way, by hand", "a result of 10 kB, by hand", f"{_AT_ONCE:,} at once, by hand"
_BIG = chat("rows", json.dumps({"n": _MANY}))
WAYS = (
    Way(WAY, _by_hand(_GOOD)),
    Way("the whole way: chat", _way(openai, _GOOD), WAY, 7),
    Way("the whole way: Responses", _responses, WAY, 11.5),
    Way("the whole way: Anthropic", _way(anthropic, _CLAUDE), WAY, 8.3),
    Way("the whole way: Gemini", _way(gemini, _GEMINI), WAY),
    Way("the whole way: Bedrock", _way(bedrock, _BEDROCK), WAY),
    Way("the whole way: a turn of the README's loop", _turn, WAY, 13.5),
    Way("the whole way: unknown name", _way(openai, chat("ad", json.dumps(ARGUMENTS))), WAY, 8),
    Way("the whole way: bad parameter", _way(openai, chat("add", '{"a": "two", "b": 3}')), WAY, 10.5),
    Way("the whole way: missing parameter", _way(openai, chat("add", '{"b": 3}')), WAY, 10.5),
    Way("the whole way: JSON text", _way(openai, chat("walk", '{"to": "{\\"x\\": 2, \\"y\\": 3}"}')), WAY, 16),
    Way(ROWS, _by_hand(_BIG), calls=20),
    Way("a result of 10 kB", _way(openai, _BIG), ROWS, 1.8, calls=20),
    Way(GATHER, _at_once_by_hand, calls=1),
    Way(f"{_AT_ONCE:,} at once, with messages", _at_once, GATHER, 1.9, calls=1),
)


async def measure(rounds: int) -> dict[str, tuple[float, float]]:
    """Measure each row warm and cold, in turns; return the medians in microseconds of the thread's time."""
    junk, document = bytearray(8 << 20), json.dumps([{f"k{n}": [str(n)] * 20} for n in range(2_000)])

    def empty_caches() -> None:
        json.loads(document)
        sum(junk[::64])

    times: dict[str, tuple[list[int], list[int]]] = {way.what: ([], []) for way in WAYS}
    for way in WAYS:
        for _ in range(3 * way.calls // 2 + 1):
            await way.run()
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for way in WAYS:
            for found, prepare in zip(times[way.what], (way.run, _nothing), strict=True):
                await prepare()
                if prepare is _nothing:
                    empty_caches()
                start = thread_time_ns()
                await way.run()
                found.append(thread_time_ns() - start)
    return {what: (median(warm) / 1e3, median(cold) / 1e3) for what, (warm, cold) in times.items()}


async def _nothing() -> None:
    await asyncio.sleep(0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead.whole_way", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="how often each row is measured; default 100")
    logging.disable(logging.CRITICAL)
    found = asyncio.run(measure(parser.parse_args().rounds))
    print(f"  {'microseconds':45} {'warm':>9} {'ratio':>7} {'cold':>9} {'ratio':>7}")
    for way in WAYS:
        warm, cold = found[way.what]
        over = found[way.unit or way.what]
        print(f"  {way.what:45} {warm:9.1f} {warm / over[0]:7.1f} {cold:9.1f} {cold / over[1]:7.1f}")


if __name__ == "__main__":
    main()
