"""The cost of a call with larger and larger arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from benchmarks.growth.charts import Chart, Subject
from benchmarks.overhead.subjects import calls, plain
from toolcall_pipeline import Call, Limits, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.testing.overhead.slices import Measurable

_NO_LIMITS = Limits(bytes=None, keys=None)
_WORD = "lorem ipsum "


class Item(TypedDict):
    """One of many."""

    name: str
    count: int


async def note(text: str) -> int:
    """Keep a text."""
    return len(text)


async def total(numbers: list[int]) -> int:
    """Add numbers up."""
    return len(numbers)


async def order(items: list[Item]) -> int:
    """Order things."""
    return len(items)


def _text(size: int) -> tuple[str, dict[str, Any]]:
    return "note", {"text": (_WORD * (size // len(_WORD) + 1))[: size - 11]}


def _numbers(size: int) -> tuple[str, dict[str, Any]]:
    return "total", {"numbers": [100_000 + n % 900_000 for n in range((size - 14) // 8)]}


def _items(size: int) -> tuple[str, dict[str, Any]]:
    return "order", {"items": [{"name": f"item {n:06}", "count": n % 10} for n in range(max(1, (size - 12) // 37))]}


def _pipeline() -> Any:
    tools = ToolRegistry()
    for function in (note, total, order):
        tools.tool(effect="read")(function)
    return standard(tools, limits=_NO_LIMITS)


def _sent(make: Callable[[int], tuple[str, dict[str, Any]]], *, as_text: bool) -> Callable[[int], Measurable]:
    def build(size: int) -> Measurable:
        name, arguments = make(size)
        return calls(_pipeline(), Call(name, json.dumps(arguments) if as_text else arguments))

    return build


def _parsed(make: Callable[[int], tuple[str, dict[str, Any]]]) -> Callable[[int], Measurable]:
    def build(size: int) -> Measurable:
        return plain(json.loads, json.dumps(make(size)[1]))

    return build


def _validated(size: int) -> Measurable:
    wanted = TypedDict("wanted", {"items": list[Item]})  # noqa: UP013  # made here, for pydantic alone
    return plain(TypeAdapter(wanted).validate_json, json.dumps(_items(size)[1]))


ARGUMENTS = Chart(
    "arguments",
    "A call with larger arguments",
    "bytes of the arguments, as JSON",
    "µs of CPU for each call",
    (100, 1_000, 10_000, 100_000, 1_000_000),
    (
        Subject("one text, in a mapping", _sent(_text, as_text=False)),
        Subject("one text, as JSON text", _sent(_text, as_text=True)),
        Subject("numbers, in a mapping", _sent(_numbers, as_text=False)),
        Subject("numbers, as JSON text", _sent(_numbers, as_text=True)),
        Subject("objects, in a mapping", _sent(_items, as_text=False)),
        Subject("objects, as JSON text", _sent(_items, as_text=True)),
        Subject("one text, json.loads alone", _parsed(_text), reference=True),
        Subject("objects, json.loads alone", _parsed(_items), reference=True),
        Subject("objects, pydantic alone", _validated, reference=True),
    ),
)
