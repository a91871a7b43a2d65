"""What a call costs does not grow with tools, calls and keys that it has nothing to do with. Counted, never timed."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from anyio.lowlevel import checkpoint

from benchmarks.growth import __main__ as growth
from benchmarks.growth.charts import Curve
from benchmarks.growth.table import BY_KEY, CHARTS
from benchmarks.growth.tools import make_tools
from counting import count_instructions, count_peak
from support import a_call, a_tool
from toolcall_pipeline import Call, Crashed, Failure, Outcome, ResolvedCall, ToolRegistry, Unavailable
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import CircuitBreaker, Concurrency, Resolve
from toolcall_pipeline.stage_state.concurrency_units import Partition, Partitions

FEW, MANY = 100, 3_000
ROUGHLY = 1.3  # times as much is the same: dicts differ in their collisions, and lists in their spare room


def registry_of(size: int) -> ToolRegistry:
    registry = ToolRegistry()
    for tool in make_tools(size):
        registry.register(tool)
    return registry


def tool_of(found: object) -> str:
    assert isinstance(found, ResolvedCall)
    return found.tool.name


def grows(count: Callable[[int], float]) -> float:
    return count(MANY) / count(FEW)


def test_a_name_from_a_provider_is_found_without_a_list_of_all_names() -> None:
    def count(size: int) -> int:
        registry = registry_of(size)
        changed = next(sent for own, sent in registry.provider_names(64).items() if sent != own)
        registry.find_by_provider_name(changed)
        return count_peak(lambda: registry.find_by_provider_name(changed)) + 1_000

    assert grows(count) < ROUGHLY


def test_names_from_a_provider_follow_the_registry() -> None:
    registry = registry_of(10)
    (own,) = [own for own, sent in registry.provider_names(64).items() if own != sent]
    tool, sent = registry[own], registry.provider_names(64)[own]
    assert registry.find_by_provider_name(sent) is tool
    registry.unregister(own)
    assert registry.find_by_provider_name(sent) is None
    assert own not in registry.provider_names(64)
    registry.register(tool)
    assert registry.find_by_provider_name(sent) is tool
    view = registry.view({own})
    assert view.find_by_provider_name(sent) is tool


def test_a_name_in_another_case_is_compared_with_few_others() -> None:
    def count(size: int) -> int:
        registry = registry_of(size)
        resolve = Resolve(registry, canonical_names=True)
        first = next(iter(registry.tools))
        assert tool_of(resolve(Call(first.title()))) == first  # makes the index
        return count_instructions(lambda: resolve(Call(first.upper())))

    assert grows(count) < ROUGHLY


def test_a_read_in_another_case_needs_no_near_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search looks at every name, and nothing can be weaker in effect than a read."""

    def search(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr("toolcall_pipeline.tools.name_search.suggest_names", search)
    registry = registry_of(FEW)
    first = next(iter(registry.tools))
    assert tool_of(Resolve(registry, canonical_names=True)(Call(first.upper()))) == first


def test_the_index_of_names_outlives_what_is_closed() -> None:
    """A breaker that opens and closes does not make the next name in another case expensive."""

    def count(size: int) -> int:
        registry = registry_of(size)
        resolve = Resolve(registry, canonical_names=True)
        first, second, *_ = registry.tools
        assert tool_of(resolve(Call(first.title()))) == first
        registry.disable(second)
        return count_instructions(lambda: resolve(Call(first.upper())))

    assert grows(count) < ROUGHLY


def test_a_wrong_name_is_not_compared_in_a_loop() -> None:
    """The scorers look at every name, in C; nothing of ours does."""

    def count(size: int) -> int:
        resolve = Resolve(registry_of(size))
        resolve(Call("fetch_all_invoices"))
        return count_instructions(lambda: resolve(Call("fetch_each_invoice")))

    assert grows(count) < ROUGHLY


def test_a_view_does_not_look_at_what_it_leaves_out() -> None:
    def count(size: int) -> int:
        registry = registry_of(size)
        view = registry.view(list(registry.tools)[:5])
        assert len(view.definitions()) == len(openai.tools(view)) == 5
        return count_instructions(lambda: (view.definitions(), view.list_shown()))

    assert grows(count) < ROUGHLY


def test_a_view_keeps_the_order_of_registration() -> None:
    registry = registry_of(5)
    a, b, c, *_ = registry.tools
    view = registry.view([c, b, a])
    assert view.callable_names() == [a, b, c]
    view.disable(b)
    first = registry[a]
    registry.unregister(a)
    assert view.callable_names() == [c]
    registry.register(first)
    assert view.callable_names() == [c, a]
    registry.replace(attrs.evolve(registry[c], hidden=True))
    assert view.callable_names() == [a]
    assert [tool.name for tool in view.list_shown()] == [b, c, a]


@pytest.mark.parametrize("left", [None, lambda: 1.0], ids=["for good", "for a time"])
def test_a_tool_is_closed_and_opened_whatever_else_is_closed(left: Callable[[], float] | None) -> None:
    def count(size: int) -> int:
        registry = registry_of(size)
        last, *others = registry.tools
        for name in others:
            registry.close(Unavailable(name, "paused"), left)

        def close_and_open() -> None:
            registry.close(Unavailable(last, "paused"), left)
            assert registry.closed.get(last)
            registry.reopen(last, "paused")
            assert not registry.closed.get(last)

        return count_instructions(close_and_open)

    assert grows(count) < ROUGHLY


def test_tools_are_removed_whatever_is_not_compiled_yet() -> None:
    def count(size: int) -> int:
        registry = ToolRegistry()
        for number in range(size):
            registry.register(a_tool(name=f"tool_{number}"))
        return count_instructions(lambda: registry.unregister("tool_7"))

    assert grows(count) < ROUGHLY


async def test_a_call_leaves_a_queue_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not searched for: those that wait are never compared with each other."""
    compared = 0

    def compare(self: object, other: object) -> bool:
        nonlocal compared
        compared += 1
        return self is other

    partition = Partition(0)
    scopes = [anyio.CancelScope() for _ in range(50)]

    async def wait(scope: anyio.CancelScope) -> None:
        with scope:
            await partition.wait(1, None)

    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(wait, scope)
        while partition.waiting < len(scopes):
            await checkpoint()
        assert partition.queue is not None
        kind = type(next(iter(partition.queue)))
        monkeypatch.setattr(kind, "__eq__", compare)
        for scope in reversed(scopes):
            scope.cancel()
            await checkpoint()
    assert (partition.waiting, compared) == (0, 0)


def test_a_new_partition_costs_the_same_however_many_are_in_use() -> None:
    def count(busy: int) -> float:
        partitions = Partitions()
        for number in range(busy):
            partitions.add(number, 1).free = 0

        def add_many() -> None:
            for number in range(5_000):
                partitions.add(("idle", number), 1)

        return count_instructions(add_many)

    assert count(1_024 * 3 - 1) < 2 * count(10)


def test_partitions_of_a_busy_hour_are_forgotten() -> None:
    partitions = Partitions()
    for number in range(10_000):
        partitions.add(number, 1).free = 0
    for partition in partitions.by_key.values():
        partition.free = 1
    for number in range(30_000):
        partitions.add(("later", number), 1)
    assert len(partitions.by_key) <= 1_024


async def bytes_of_each(stage: Any, inside: Callable[[Any], Awaitable[Outcome]]) -> float:
    tool = a_tool()
    await stage(a_call(tool, principal="first"), inside)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1_000):
            await stage(a_call(tool, principal=f"principal {number}"), inside)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / 1_000
    finally:
        tracemalloc.stop()


async def test_a_key_takes_little_memory() -> None:
    """Each partition of a limit, and each breaker: the name of its principal included."""

    async def fail(_: object) -> Outcome:
        return Failure(Crashed(RuntimeError()))

    assert await bytes_of_each(Concurrency(1), fail) < 450
    assert await bytes_of_each(CircuitBreaker(), fail) < 500
    assert await bytes_of_each(CircuitBreaker(failure_ratio=0.5), fail) < 900


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("growth")
    assert growth.main(["--tiny", "--to", str(folder)]) == 0
    return folder


@pytest.mark.long
def test_the_benchmark_measures_every_curve(written: Path) -> None:
    found = json.loads((written / "growth.json").read_text(encoding="utf-8"))
    assert list(found["charts"]) == list(BY_KEY)
    for chart in CHARTS:
        curves = found["charts"][chart.key]["curves"]
        assert [curve["name"] for curve in curves] == [subject.name for subject in chart.subjects]
        assert any(curve["reference"] for curve in curves)
        for curve in curves:
            assert [size for size, _ in curve["points"]] == list(chart.sizes[:2])


def test_charts_that_were_not_measured_stay(written: Path) -> None:
    before = json.loads((written / "growth.json").read_text(encoding="utf-8"))["charts"]
    assert growth.main(["--tiny", "--only", "kept", "--to", str(written)]) == 0
    after = json.loads((written / "growth.json").read_text(encoding="utf-8"))["charts"]
    assert list(after) == list(BY_KEY)
    assert {key: after[key] for key in after if key != "kept"} == {key: before[key] for key in before if key != "kept"}


def test_an_exponent_says_how_a_curve_grows() -> None:
    assert Curve("flat", False, {10: 2.0, 100: 2.0}).exponent == 0
    assert Curve("linear", False, {10: 2.0, 100: 20.0}).exponent == pytest.approx(1)
    assert Curve("nothing", False, {10: 0.0, 100: 20.0}).exponent == 0
    assert Curve("one", False, {10: 1.0}).exponent is None
