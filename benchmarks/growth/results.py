"""The text of larger and larger results, and what is left of it where it is cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.growth.charts import Chart, Subject
from benchmarks.overhead.subjects import plain
from toolcall_pipeline import Success, render
from toolcall_pipeline.testing.overhead.slices import Measurable


def _rows(size: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"item {n:06}", "count": n % 10} for n in range(max(1, size // 48))]


def _tree(size: int) -> dict[str, Any]:
    return {f"k{n:06}": {"a": [1, 2, {"b": None, "c": True}]} for n in range(max(1, size // 53))}


def _text(size: int) -> str:
    return 'lorem "ipsum" \n' * (size // 15)


def _rendered(make: Callable[[int], object], **options: Any) -> Callable[[int], Measurable]:
    def render_it(value: object) -> object:
        return render(Success(value), **options)

    return lambda size: plain(render_it, make(size))


def _dumped(make: Callable[[int], object]) -> Callable[[int], Measurable]:
    return lambda size: plain(json.dumps, make(size))


RESULTS = Chart(
    "results",
    "The text of a larger result",
    "bytes of the result, as JSON",
    "µs of CPU for each text",
    (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    (
        Subject("rows, whole", _rendered(_rows, limit=None)),
        Subject("rows, cut at 100,000 characters", _rendered(_rows)),
        Subject("a tree, whole", _rendered(_tree, limit=None)),
        Subject("one text, whole", _rendered(_text, limit=None)),
        Subject("rows, json.dumps alone", _dumped(_rows), reference=True),
        Subject("a tree, json.dumps alone", _dumped(_tree), reference=True),
    ),
)
