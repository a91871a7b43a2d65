"""Cache: what is kept, for whom and how long, what invalidates it, and which calls wait for each other."""

from __future__ import annotations

import dataclasses
import enum
import gc
import json
import threading
import tracemalloc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from returns.result import Failure, Success

from support import PATIENT, StoppedTime, a_call, a_tool, count_run_variables
from toolcall_pipeline import (
    Call,
    Effect,
    ExecutionFailed,
    Outcome,
    SetupError,
    Stack,
    TimedOut,
    Tool,
    ToolContext,
    ToolRegistry,
    Transient,
    ValidCall,
)
from toolcall_pipeline.middlewares import Available, Resolve, Retry, Validate, standard
from toolcall_pipeline.middlewares.cache import Cache
from toolcall_pipeline.testing import FakeClock, script

EFFECTS: list[Effect] = ["read", "idempotent", "keyed", "mutating"]
PROBE = a_tool()
SET = a_tool("set", "idempotent")


class Counted:
    """An inside that returns how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, call: ValidCall) -> Outcome:
        self.runs += 1
        return Success(self.runs)


def asked(params: dict[str, Any] | None = None, tool: Tool[..., Any] = PROBE, principal: str = "") -> ValidCall:
    return a_call(tool, params, principal=principal)


WRONG: dict[str, dict[str, Any]] = {
    "a ttl of zero": {"ttl": 0},
    "a negative ttl": {"ttl": -1.0},
    "text for a ttl": {"ttl": "60"},
    "a bool for a ttl": {"ttl": True},
    "a ttl of nan": {"ttl": float("nan")},
    "a ttl without names": {"ttl": {}},
    "a ttl of zero by name": {"ttl": {"probe": 0}},
    "names in ttl and tools": {"ttl": {"probe": 60}, "tools": {"probe"}},
    "tools as text": {"ttl": 60, "tools": "probe"},
    "tools that are no names": {"ttl": 60, "tools": [PROBE]},
    "tools without names": {"ttl": 60, "tools": ()},
    "no size": {"ttl": 60, "size": 0},
    "no bytes": {"ttl": 60, "max_bytes": 0},
    "half of a byte": {"ttl": 60, "max_bytes": 0.5},
    "half of a size": {"ttl": 60, "size": 0.5},
    "an unknown on_write": {"ttl": 60, "on_write": "forget"},
    "an async key": {"ttl": 60, "key": Counted()},
    "a copy that is no function": {"ttl": 60, "copy": 1},
}


@pytest.mark.parametrize("options", [pytest.param(options, id=name) for name, options in WRONG.items()])
def test_what_makes_no_sense_is_refused_at_once(options: dict[str, Any]) -> None:
    """A wrong option is a set-up error that names the option and what is allowed."""
    with pytest.raises(SetupError, match=r"Cache: `\w+(\['probe'\])?` must be"):
        Cache(**options)


def test_it_stands_inside_of_validate() -> None:
    """It needs params, and is refused where there are none yet."""
    with pytest.raises(SetupError, match="cache needs a ValidCall"):
        standard(ToolRegistry()).before("validate", Cache(60))


async def test_an_equal_call_does_not_run_again() -> None:
    """For `ttl` seconds an answer is given again; the time starts when it is asked for."""
    clock, inside = FakeClock(0.0), Counted()
    cache = Cache(60, clock=clock)

    async def slow(call: ValidCall) -> Outcome:
        clock.now += 10
        return await inside(call)

    assert await cache(asked(), slow) == Success(1)
    clock.now = 59.9
    assert await cache(asked(), slow) == Success(1)
    clock.now = 60
    assert await cache(asked(), slow) == Success(2)


async def test_each_tool_may_have_its_own_time() -> None:
    """A ttl by name holds for the tools that it names."""
    clock, inside = FakeClock(0.0), Counted()
    cache = Cache({"long": 60, "short": 1.5}, clock=clock)
    tools = [a_tool(name) for name in ("long", "short", "other")]
    for now, runs in ((0, 3), (1, 4), (2, 6), (59, 8)):
        clock.now = now
        for tool in tools:
            await cache(asked(tool=tool), inside)
        assert inside.runs == runs


CACHED: list[tuple[Effect, dict[str, Any], bool, bool]] = [
    ("read", {}, True, True),
    ("idempotent", {}, False, True),
    ("keyed", {"context": True}, False, False),
    ("mutating", {}, False, False),
    ("read", {"context": True}, False, True),
    ("read", {"polling": True}, False, True),
]


@pytest.mark.parametrize(("effect", "options", "unnamed", "named"), CACHED, ids=str)
async def test_which_tools_are_cached(effect: Effect, options: dict[str, Any], unnamed: bool, named: bool) -> None:
    """Read tools are cached; those that poll or take a context, and idempotent ones, only by name; others never."""
    tool = a_tool(effect=effect, **options)
    for cache, cached in ((Cache(60), unnamed), (Cache(60, tools=["probe"]), named), (Cache(60, tools=["x"]), False)):
        inside = Counted()
        for _ in range(2):
            await cache(asked(tool=tool), inside)
        assert inside.runs == (1 if cached else 2)


async def test_answers_are_not_shared_between_principals_or_tools() -> None:
    """Answers are kept for each principal, and another tool of the same name is another tool."""
    cache, inside = Cache(60), Counted()
    for call in (asked(principal="ann"), asked(principal="bob"), asked(tool=a_tool()), asked()):
        await cache(call, inside)
        await cache(call, inside)
    assert inside.runs == 4


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Point:
    x: float
    tags: list[str] = dataclasses.field(default_factory=list[str])


@attrs.define
class Place:
    x: float


class Patch(BaseModel):
    name: str | None = None


EQUAL: list[tuple[object, object]] = [
    ({"a": 1, "b": [1, {"c": None}]}, {"b": [1, {"c": None}], "a": 1}),
    ({1, 2, 3}, {3, 2, 1}),
    (Colour.RED, Colour("red")),
    (date(2024, 1, 1), date(2024, 1, 1)),
    (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
    (Path("a/b"), Path("a/b")),
    (UUID(int=1), UUID(int=1)),
    (Decimal("1.0"), Decimal("1.0")),
    (float("nan"), float("nan")),
]
UNEQUAL: list[tuple[object, object]] = [
    (1, True),
    (1, 1.0),
    (0, False),
    (0.0, -0.0),
    (1, "1"),
    (1, Size.ONE),
    ("red", Colour.RED),
    (b"a", "a"),
    ([1], (1,)),
    ({1}, frozenset({1})),
    ([1, 2], [2, 1]),
    ({"a": None}, {}),
    (Decimal("1.0"), Decimal("1.00")),
    (date(2024, 1, 1), "2024-01-01"),
    (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    (Path("a"), "a"),
]


@pytest.mark.parametrize(
    ("one", "other", "runs"),
    [
        pytest.param(one, other, runs, id=f"{one!r} {'and' if runs == 1 else 'not'} {other!r}")
        for pairs, runs in ((EQUAL, 1), (UNEQUAL, 2))
        for one, other in pairs
    ],
)
async def test_params_are_compared_by_value_and_type(one: object, other: object, runs: int) -> None:
    """Params are equal if values and types are, at any depth and in any order of names."""
    cache, inside = Cache(60), Counted()
    for value in (one, other, deepcopy(one)):
        await cache(asked({"value": [value]}), inside)
    assert inside.runs == runs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
async def test_no_two_values_that_read_differently_are_equal(one: object, other: object) -> None:
    """One JSON value gets the answer to another only if both are written alike."""
    cache, inside = Cache(60), Counted()
    await cache(asked({"value": one}), inside)
    await cache(asked({"value": deepcopy(one)}), inside)
    assert inside.runs == 1
    await cache(asked({"value": other}), inside)
    assert (inside.runs == 1) == (written(one) == written(other))


def written(value: object) -> str:
    return json.dumps(value, sort_keys=True)  # with 1, 1.0 and true, 0.0 and -0.0 apart


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


OTHER_DATA = [Point(1.5), Place(1.5), Patch(), int, len, threading.Lock(), (n for n in range(1)), nested(10_000)]


@pytest.mark.parametrize("value", OTHER_DATA, ids=lambda value: type(value).__name__)
async def test_params_that_are_no_plain_data_are_not_cached(value: object) -> None:
    """A call with objects of a user in its params, or too deeply nested ones, runs each time, unless `key` is given."""
    for cache, runs in ((Cache(60), 2), (Cache(60, key=lambda _: "it"), 1)):
        inside = Counted()
        for _ in range(2):
            await cache(asked({"value": [value]}), inside)
        assert inside.runs == runs


async def test_a_key_stands_in_for_the_params() -> None:
    """Calls of one tool and principal with the same key are equal; a call with the key None is not cached."""
    inside = Counted()
    cache = Cache(60, key=lambda call: call.params.get("path"))
    for params in ({"path": "a", "page": 1}, {"path": "a", "page": 2}, {"path": "b"}, {}, {}):
        await cache(asked(params), inside)
    assert inside.runs == 4
    await cache(asked({"path": "a"}, principal="bob"), inside)
    assert inside.runs == 5


@pytest.mark.parametrize("failure", [Failure(Transient()), Failure(ExecutionFailed("no")), RuntimeError()], ids=repr)
async def test_no_failure_is_kept(failure: Outcome | Exception) -> None:
    """A failed call is made again, and its success is kept."""
    cache, inside = Cache(60), script(failure, Success(1))
    if isinstance(failure, Exception):
        with pytest.raises(RuntimeError):
            await cache(asked(), inside)
    else:
        assert await cache(asked(), inside) is failure
    assert await cache(asked(), inside) == Success(1)
    assert await cache(asked(), inside) == Success(1)


async def test_a_kept_value_cannot_be_changed() -> None:
    """The first caller gets the tool's own object; the cache keeps a copy of it and gives copies of that."""
    original = {"rows": [1]}
    cache, inside = Cache(60), script(Success(original))
    first = (await cache(asked(), inside)).unwrap()
    assert first is original
    original["rows"].append(2)
    second: Any = (await cache(asked(), inside)).unwrap()
    assert second == {"rows": [1]}
    second["rows"].append(3)
    assert await cache(asked(), inside) == Success({"rows": [1]})


async def test_text_is_not_copied() -> None:
    """An immutable value needs no copy: each caller gets the same outcome object."""
    outcome: Outcome = Success("text" * 1000)
    cache, inside = Cache(60), script(outcome)
    assert await cache(asked(), inside) is outcome
    assert await cache(asked(), inside) is outcome


async def test_a_value_that_cannot_be_copied_is_not_kept() -> None:
    """A value that cannot be copied is fetched for each call, unless `copy` can do it."""
    inside = script(Success([threading.Lock()]), Success([threading.Lock()]))
    cache = Cache(60)
    assert (await cache(asked(), inside)).unwrap() is not (await cache(asked(), inside)).unwrap()
    cache, inside = Cache(60, copy=lambda value: value), script(Success([threading.Lock()]))
    assert (await cache(asked(), inside)).unwrap() is (await cache(asked(), inside)).unwrap()


async def test_the_answers_used_last_are_kept() -> None:
    """Beyond `size` the answer that was used least recently goes."""
    cache, inside = Cache(60, size=2), Counted()
    for n, runs in ((1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4), (1, 4), (3, 5)):
        await cache(asked({"n": n}), inside)
        assert inside.runs == runs


MIB = 2**20


class Sized:
    """An inside that returns an answer of so many bytes, and counts."""

    def __init__(self, size: int) -> None:
        self.size, self.runs = size, 0

    async def __call__(self, call: ValidCall) -> Outcome:
        self.runs += 1
        return Success([str(self.runs) * (self.size // len(str(self.runs)))])


async def test_no_more_bytes_than_that_are_kept() -> None:
    """Beyond `max_bytes` the answers that were used least recently go; a larger one is given and not kept."""
    cache, inside = Cache(60, max_bytes=3 * MIB), Sized(MIB - 10_000)
    for n, runs in ((1, 1), (2, 2), (3, 3), (1, 3), (4, 4), (1, 4), (3, 4), (2, 5)):
        await cache(asked({"n": n}), inside)
        assert inside.runs == runs
    large = Sized(4 * MIB)
    for runs in (1, 2):
        await cache(asked({"n": 0}), large)
        assert large.runs == runs
    await cache(asked({"n": 2}), inside)
    assert inside.runs == 5


async def test_large_params_count() -> None:
    """An answer is as large as it is with its params, which are kept with it."""
    cache, inside = Cache(60, max_bytes=MIB), Counted()
    for text, runs in (("a" * MIB, 1), ("a" * MIB, 2), ("a" * 1000, 3), ("a" * 1000, 3)):
        await cache(asked({"text": text}), inside)
        assert inside.runs == runs


async def test_a_large_answer_is_shared_all_the_same() -> None:
    """Calls that wait for an equal one get its answer, also if it is too large to be kept."""
    gate = Gate()
    async with callers(Cache(60, max_bytes=1000), gate) as made:
        for _ in range(3):
            await made.call(asked())
        await gate.end(Success(["x" * MIB]))
    assert [len(made.became[n].unwrap()[0]) for n in range(3)] == [MIB] * 3
    assert gate.begun == 1


@pytest.mark.parametrize("max_bytes", [64 * MIB, None])
async def test_memory_is_bounded(max_bytes: int | None) -> None:
    """Of 40 answers of 5 MB no more than the limit stays, 64 MiB by default."""
    cache = Cache(60) if max_bytes else Cache(60, max_bytes=None)
    tracemalloc.start()
    try:
        for n in range(40):
            await cache(asked({"n": n}), Sized(5_000_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 50_000_000 < kept < 70 * MIB if max_bytes else kept > 190_000_000


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900), st.sampled_from(["read", "write", "wait"])), max_size=40)
)
async def test_the_bytes_are_those_of_the_entries(steps: list[tuple[int, int, str]]) -> None:
    """However answers come, expire, are replaced and invalidated, the sum is right and within the limit."""
    clock = FakeClock(0.0)
    cache: Any = Cache(60, size=4, max_bytes=2000, clock=clock)
    for n, size, what in steps:
        if what == "write":
            await cache(asked(tool=a_tool("other", "mutating")), Counted())
        clock.now += 30 if what == "wait" else 0
        await cache(asked({"n": n}), Sized(size + 1))
        kept = cache._answers
        assert kept._bytes == sum(answer.size for answer in kept._answers.values()) <= 2000


FORGETS: list[tuple[str, str, bool]] = [
    ("forget_all", "ann", True),
    ("forget_all", "bob", True),
    ("forget_own", "ann", True),
    ("forget_own", "bob", False),
    ("keep", "ann", False),
    ("keep", "bob", False),
]


@pytest.mark.parametrize("ending", [Success(1), Failure(Transient()), RuntimeError(), "cancelled"], ids=repr)
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("tools", [None, {"probe"}], ids=["all", "named"])
@pytest.mark.parametrize(("on_write", "writer", "forgets"), FORGETS)
async def test_a_write_invalidates_answers(
    on_write: Any, writer: str, forgets: bool, tools: set[str] | None, effect: Effect, ending: Any
) -> None:
    """After a call of a tool that is not `read`, however it ended, ann's answers are fetched again."""
    cache, inside = Cache(60, tools=tools, on_write=on_write), Counted()
    await cache(asked(principal="ann"), inside)
    tool = a_tool("other", effect, context=effect == "keyed")
    with anyio.CancelScope() as scope:
        if ending == "cancelled":
            scope.cancel()
            await cache(asked(tool=tool, principal=writer), forever)
        else:
            try:
                await cache(asked(tool=tool, principal=writer), script(ending))
            except RuntimeError:
                assert isinstance(ending, RuntimeError)
    await cache(asked(principal="ann"), inside)
    assert inside.runs == (2 if forgets and effect != "read" else 1)


async def forever(call: object) -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


async def test_too_many_writers_invalidate_everything() -> None:
    """If more principals than `size` wrote, no principal gets an answer from before its own write."""
    cache, inside = Cache(60, size=2, on_write="forget_own"), Counted()
    tool = a_tool("other", "mutating")
    await cache(asked(principal="ann"), inside)
    for principal in ("ann", "bob", "eve"):
        await cache(asked(tool=tool, principal=principal), Counted())
    await cache(asked(principal="ann"), inside)
    assert inside.runs == 2


async def test_an_idempotent_call_runs_again_after_another() -> None:
    """An idempotent tool that is told a, b and a again runs three times; told a twice in a row it runs once."""
    for on_write in ("forget_all", "forget_own", "keep"):
        cache, inside = Cache(60, tools={"set"}, on_write=on_write), Counted()
        for to, principal, runs in (
            ("a", "ann", 1),
            ("a", "ann", 1),
            ("b", "bob", 2),
            ("a", "ann", 3),
            ("a", "ann", 3),
        ):
            await cache(asked({"to": to}, SET, principal), inside)
            assert inside.runs == runs
        await cache(asked(tool=a_tool("other", "mutating")), Counted())
        await cache(asked({"to": "a"}, SET, "ann"), inside)
        assert inside.runs == 4
        await cache(asked(tool=a_tool("reading")), Counted())
        await cache(asked({"to": "a"}, SET, "ann"), inside)
        assert inside.runs == 4


async def test_an_answer_from_the_cache_is_no_write() -> None:
    """An idempotent call that is answered from the cache changed nothing and invalidates nothing."""
    cache, inside, read = Cache(60, tools={"set", "probe"}), Counted(), Counted()
    for _ in range(3):
        await cache(asked(tool=SET), inside)
        await cache(asked(), read)
    assert (inside.runs, read.runs) == (1, 1)


class Gate:
    """An inside whose calls run until the test ends them."""

    def __init__(self) -> None:
        self.open: list[tuple[anyio.Event, list[Any]]] = []
        self.running = self.most = self.begun = 0

    async def __call__(self, call: ValidCall) -> Outcome:
        ended, how = anyio.Event(), list[Any]()
        self.open.append((ended, how))
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await ended.wait()
        finally:
            self.running -= 1
            self.open.remove((ended, how))
        if isinstance(how[0], Exception):
            raise how[0]
        outcome: Outcome = how[0]
        return outcome

    async def end(self, how: Any, which: int = 0) -> None:
        ended, told = self.open[which]
        told.append(how)
        ended.set()
        await settle()


async def settle() -> None:
    """Let the other tasks run as far as they can."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


class Callers:
    """Calls made at once, and the outcome of each."""

    def __init__(self, group: anyio.abc.TaskGroup, cache: Cache, inside: Any) -> None:
        self.group, self.cache, self.inside = group, cache, inside
        self.scopes: list[anyio.CancelScope] = []
        self.became: dict[int, Any] = {}

    @property
    def waiting(self) -> list[int]:
        return [n for n in range(len(self.scopes)) if n not in self.became]

    async def call(self, call: ValidCall) -> None:
        self.scopes.append(anyio.CancelScope())
        self.group.start_soon(self._call, len(self.scopes) - 1, call)
        await settle()

    async def cancel(self, number: int) -> None:
        self.scopes[number].cancel()
        await settle()

    async def _call(self, number: int, call: ValidCall) -> None:
        with self.scopes[number]:
            try:
                self.became[number] = await self.cache(call, self.inside)
            except RuntimeError as exc:
                self.became[number] = exc
        self.became.setdefault(number, "cancelled")


@asynccontextmanager
async def callers(cache: Cache, inside: Any) -> AsyncGenerator[Callers]:
    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as group:
            yield Callers(group, cache, inside)


@pytest.mark.parametrize("outcome", [Success("text"), Success([1]), Failure(Transient())], ids=repr)
async def test_equal_calls_at_once_run_once(outcome: Outcome) -> None:
    """A call made while an equal one is under way gets its outcome, also a failure, with a copy of the value."""
    gate = Gate()
    async with callers(Cache(60), gate) as made:
        for _ in range(5):
            await made.call(asked())
        await made.call(asked({"n": 2}))
        assert (gate.begun, gate.running) == (2, 2)
        await gate.end(outcome)
        assert [made.became[n] for n in range(5)] == [outcome] * 5
        assert made.waiting == [5]
        await gate.end(outcome)
    assert made.became[0] is outcome
    if outcome == Success([1]):
        assert len({id(made.became[n].unwrap()) for n in range(5)}) == 5


@pytest.mark.parametrize("value", [[threading.Lock()], (n for n in range(1))], ids=["lock", "iterator"])
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_value_that_cannot_be_copied_is_fetched_by_each(value: object, effect: Effect) -> None:
    """A call that waited for such a value runs itself, beside the others, and invalidates if it is a write."""
    cache, gate, other = Cache(60, tools=["probe", "other"]), Gate(), Counted()
    tool, reading = a_tool(effect=effect), a_tool("other")
    async with callers(cache, gate) as made:
        for _ in range(3):
            await made.call(asked(tool=tool))
        await gate.end(Success(value))
        assert gate.running == 2
        await cache(asked(tool=reading), other)
        await gate.end(Success(2))
        await gate.end(Success(3))
    assert {made.became[n].unwrap() for n in (1, 2)} == {2, 3}
    await cache(asked(tool=reading), other)
    assert other.runs == (1 if effect == "read" else 2)


ENDINGS = ["cancel", "success", "failure", "crash"]


@given(st.integers(2, 6), st.lists(st.tuples(st.sampled_from(ENDINGS), st.integers(0, 5)), max_size=10))
async def test_a_cancelled_call_leaves_no_call_waiting(count: int, steps: list[tuple[str, int]]) -> None:
    """However calls end or are cancelled, exactly one runs while others wait, and all get an outcome."""
    gate = Gate()
    async with callers(Cache(60), gate) as made:
        for _ in range(count):
            await made.call(asked())
        for what, which in [*steps, *[("success", 0)] * count]:
            waiting = made.waiting
            assert gate.running == min(1, len(waiting))
            if not waiting:
                break
            if what == "cancel":
                cancelled = waiting[which % len(waiting)]
                await made.cancel(cancelled)
                assert made.became[cancelled] == "cancelled"
            else:
                endings = {"success": Success(1), "failure": Failure(Transient()), "crash": RuntimeError()}
                await gate.end(endings[what])
                assert len(made.waiting) == (len(waiting) - 1 if what == "crash" else 0)
    assert gate.most == 1
    assert set(made.became) == set(range(count))


async def test_a_time_limit_ends_one_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the call that runs is out of time, an equal call that waits runs in its place."""
    gate, time = Gate(), StoppedTime(monkeypatch)
    tools = ToolRegistry()
    tools.register(PROBE)
    run = standard(tools).before("retry", Cache(60)).replace("execute", gate)
    outcomes: list[Outcome] = []

    async def patient() -> None:
        while not gate.begun:
            await anyio.lowlevel.checkpoint()
        outcomes.append(await run.call("probe"))

    async def time_passes() -> None:
        while not gate.begun:
            await anyio.lowlevel.checkpoint()
        await settle()
        time.advance(60)

    async with anyio.create_task_group() as group:
        group.start_soon(patient)
        group.start_soon(time_passes)
        assert await run.call("probe", timeout=60) == Failure(TimedOut(60, landed="maybe"))  # its end does not mark
        await settle()
        assert gate.begun == 2
        await gate.end(Success(1))
    assert outcomes == [Success(1)]


async def test_a_call_after_a_write_gets_no_older_answer() -> None:
    """A call that begins after a write does not wait for a call from before it, whose answer is not kept either."""
    cache, gate = Cache(60), Gate()
    async with callers(cache, gate) as made:
        await made.call(asked())
        await made.call(asked())
        await cache(asked(tool=a_tool("other", "mutating")), Counted())
        await made.call(asked())
        assert gate.running == 2
        await gate.end(Success("before"))
        await made.call(asked())
        assert gate.running == 1
        await gate.end(Success("after"))
    assert made.became == {n: Success(what) for n, what in enumerate(["before", "before", "after", "after"])}
    assert await cache(asked(), script()) == Success("after")


async def test_an_answer_from_during_a_write_is_invalidated() -> None:
    """An answer that came while a write was under way is not given after the write has ended."""
    cache, gate, inside = Cache(60), Gate(), Counted()
    async with callers(cache, gate) as made:
        await made.call(asked(tool=a_tool("other", "mutating")))
        await cache(asked(), inside)
        await cache(asked(), inside)
        assert inside.runs == 1
        await gate.end(Success(1))
        await cache(asked(), inside)
    assert inside.runs == 2


async def test_idempotent_calls_at_the_same_time_are_not_kept() -> None:
    """Of two such calls at once it is unknown which took effect last, so neither answer is given again."""
    cache, gate = Cache(60, tools={"set"}), Gate()
    async with callers(cache, gate) as made:
        await made.call(asked({"to": "a"}, SET))
        await made.call(asked({"to": "b"}, SET))
        await gate.end(Success("b"), 1)
        await gate.end(Success("a"))
        for to in ("a", "b"):
            await made.call(asked({"to": to}, SET))
        assert gate.running == 2
        await gate.end(Success(1))
        await gate.end(Success(1))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_calls_of_another_event_loop_do_not_wait(backend: str) -> None:
    """A call in the loop of another thread does not wait for one here; its answer is kept for all."""
    cache, gate, inside = Cache(60), Gate(), Counted()
    async with callers(cache, gate) as made:
        await made.call(asked())
        there = await anyio.to_thread.run_sync(lambda: anyio.run(elsewhere, cache, inside, backend=backend))
        assert there == Success(1)
        await made.call(asked())
        assert made.became == {1: Success(1)}
        await gate.end(Success("late"))


async def elsewhere(cache: Cache, inside: Any) -> Outcome:
    return await cache(asked(), inside)


async def test_the_report_says_where_the_answer_came_from() -> None:
    """A call that was answered from the cache has a note that says so and no attempt; a call that ran has no note."""
    clock, runs = FakeClock(0.0), list[str]()

    async def read(path: str) -> str:
        runs.append(path)
        return path

    tools = ToolRegistry()
    tools.register(Tool("read", read, "read"))
    run = standard(tools).before("retry", Cache(60, clock=clock))
    first = await run.report(Call("read", {"path": "a"}))
    clock.now = 2.5
    second = await run.report(Call("read", '{"path": "a"}'))
    assert first.outcome == second.outcome == Success("a")
    assert runs == ["a"]
    assert (len(first.attempts), len(second.attempts)) == (1, 0)
    notes = [[row.note for row in report.stages if row.name == "cache" and row.note] for report in (first, second)]
    assert notes == [[], ["answered by an earlier call, 2.5 s ago"]]
    assert "execute" not in {row.name for row in second.stages}


async def test_it_needs_none_of_the_other_stages() -> None:
    """It works in a stack without the other stages, and sees a call with all its attempts as one."""
    inside = script(Failure(Transient()), Success(1))
    tools = ToolRegistry()
    tools.register(PROBE)
    checked = Stack().check(Resolve(tools)).check(Available(tools)).check(Validate())
    run = checked.wrap(Cache(60)).wrap(Retry(2, 0)).end(inside)
    assert [await run.call("probe") for _ in range(3)] == [Success(1)] * 3
    assert len(inside.calls) == 2


async def test_a_tool_with_a_context_is_kept_apart_by_a_key() -> None:
    """A `key` can tell calls apart by what a tool gets beside its params."""
    tools = ToolRegistry()
    runs: list[object] = []

    async def mine(context: ToolContext) -> object:
        runs.append(context.deps)
        return context.deps

    tools.register(a_tool(fn=mine, context=True))
    run = standard(tools).before("retry", Cache(60, tools={"probe"}, key=lambda call: str(call.deps)))
    assert [await run.call("probe", deps=deps) for deps in "aba"] == [Success("a"), Success("b"), Success("a")]
    assert runs == ["a", "b"]


async def test_nothing_stays_in_the_loop_of_a_cache_that_is_gone() -> None:
    """A cache for each request is a normal pattern: no run variable stays, which would live as long as the loop."""

    async def request() -> weakref.ref[Cache]:
        cache = Cache(60)
        assert await cache(a_call(PROBE), script(Success(1))) == Success(1)
        return weakref.ref(cache)

    await request()
    before = count_run_variables()
    gone = [await request() for _ in range(20)]
    gc.collect()
    assert [cache() for cache in gone] == [None] * 20
    assert count_run_variables() == before
