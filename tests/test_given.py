"""`pipeline.run`: what a program gives arrives as it is, and what a tool does to its arguments stays in the tool."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import attrs
import pytest
from pydantic import BaseModel, Field, Secret, SecretStr, computed_field
from returns.result import Success

from annotation_table import (
    ANNOTATIONS,
    Color,
    Corner,
    Counted,
    Held,
    Level,
    Mode,
    Model,
    Movie,
    Names,
    Page,
    Pair,
    Point,
    Span,
    UserId,
)
from shapes import taking
from support import nothing
from toolcall_pipeline import Call, Effect, InvalidParams, SetupError, Tool, ToolFailed, ToolRegistry, tool
from toolcall_pipeline.middlewares import standard


class Base(BaseModel):
    size: int = 1
    kept: int = Field(default=0, exclude=True)

    @computed_field
    def double(self) -> int:
        return 2 * self.size


class Derived(Base):
    more: str = "more"


class Name(str):
    __slots__ = ()


class Triple(Pair):
    pass


@attrs.frozen
class LongSpan(Span):
    unit: str = "line"


@dataclass
class Point3(Point):
    z: int = 0


class Stamp(datetime):
    pass


class Odd:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    def __hash__(self) -> int:
        return 0


async def give(hint: Any, value: object) -> Any:
    """Run a tool with one parameter of that type; what it was called with, or its outcome."""
    tools, got = ToolRegistry(), list[Any]()

    def probe(x: Any) -> None:
        got.append(x)

    probe.__annotations__ = {"x": hint}
    outcome = await standard(tools).run(tools.tool(effect="read")(probe), x=value)
    return got[0] if got else outcome


SAME: dict[str, tuple[Any, object]] = {
    "secret": (SecretStr, SecretStr("hunter2")),
    "secret of a number": (Secret[int], Secret(7)),
    "model": (Model, Model(title="a")),
    "model of a subclass": (Base, Derived(kept=7)),
    "optional model": (Base | None, Derived(kept=7)),
    "generic model": (Page[int], Page[int](items=[1])),
    "dataclass": (Point, Point(1)),
    "dataclass of a subclass": (Point, Point3(1, z=3)),
    "dataclass, not all by init": (Counted, Counted("a")),
    "generic dataclass": (Held[int], Held(1)),
    "attrs": (Span, Span(1)),
    "attrs of a subclass": (Span, LongSpan(1)),
    "optional attrs": (Span | None, LongSpan(1)),
    "named tuple": (Pair, Pair(1)),
    "named tuple of a subclass": (Pair, Triple(1)),
    "enum": (Color, Color.RED),
    "enum of tuples": (Corner, Corner.ORIGIN),
    "int enum": (Level, Level.HIGH),
    "str enum for text": (str, Mode.READ),
    "literal of a member": (Literal[Color.RED], Color.RED),
    "bytes": (bytes, b"\xff\x00"),
    "text of a subclass": (str, Name("ann")),
    "path": (Path, Path("a/b")),
    "UUID": (UUID, UUID(int=7)),
    "decimal": (Decimal, Decimal("1.50")),
    "date": (date, date(2026, 1, 2)),
    "datetime of a subclass": (datetime, Stamp(2026, 1, 2, tzinfo=timezone.utc)),  # noqa: UP017
    "text, where a date may be": (date | str, "2026-01-02"),
    "text, where bytes may be": (bytes | str, "abc"),
    "anything": (Any, Odd()),
    "object": (object, Odd()),
    "Counter": (dict[str, int], Counter("aab")),
    "range for an iterable": (Iterable[int], range(3)),
    "counter as a mapping": (Mapping[str, int], OrderedDict(b=1, a=2)),
    "new type": (UserId, 3),
}


@pytest.mark.parametrize(("hint", "value"), [pytest.param(*row, id=name) for name, row in SAME.items()])
async def test_a_value_of_the_type_is_the_same_object(hint: Any, value: object) -> None:
    """An instance arrives as the same object, with all that its JSON form would leave out."""
    assert await give(hint, value) is value


EQUAL: dict[str, tuple[Any, Any, Any]] = {
    "list of models": (list[Base], [Derived(kept=7)], None),
    "dict of dataclasses": (dict[str, Point], {"a": Point3(1, z=3)}, None),
    "tuple of attrs": (tuple[Span, ...], (LongSpan(1),), None),
    "list of secrets": (list[SecretStr], [SecretStr("a")], None),
    "typed dict": (Movie, {"title": "a", "year": 1}, None),
    "dict by number": (dict[int, str], {1: "a"}, None),
    "set": (set[int], {1, 2}, None),
    "frozenset": (frozenset[str], frozenset("ab"), None),
    "sequence": (Sequence[int], (1, 2), None),
    "collection": (Collection[int], {1, 2}, None),
    "alias": (Names, ["a"], None),
    "nested": (dict[str, list[Point | None]], {"a": [Point(1), None]}, None),
    "integer for a float": (float, 2, 2.0),
    "tuple for a list": (list[int], (1, 2), [1, 2]),
    "object for a dataclass": (Point, {"x": 1}, Point(1)),
    "text for a date": (date, "2026-01-02", date(2026, 1, 2)),
}


@pytest.mark.parametrize(("hint", "value", "expected"), [pytest.param(*row, id=name) for name, row in EQUAL.items()])
async def test_containers_and_json_forms(hint: Any, value: Any, expected: Any) -> None:
    """A container is another one with the same items; the JSON form of a type becomes that type."""
    got = await give(hint, value)
    expected = value if expected is None else expected
    assert (got, type(got)) == (expected, type(expected))
    items: Any = expected if type(expected) in (list, tuple) else ()
    assert all(mine is theirs for mine, theirs in zip(got if items else (), items, strict=True))


async def test_an_iterator_becomes_a_list() -> None:
    """What can be read only once is read when the call is validated."""
    assert await give(Iterable[int], iter([1, 2])) == [1, 2]


REFUSED: dict[str, tuple[Any, object]] = {
    "text for a number": (int, "5"),
    "text for an iterable": (Iterable[str], "abc"),
    "wrong items": (Iterable[int], ["a"]),
    "wrong items of a set": (Iterable[int], {"a"}),
    "another class": (Point, Span(1)),
    "another attrs class": (Span, Point(1)),
    "no literal": (Literal[1], True),
    "instances beside JSON": (list[Point], [Point(1), {"x": 1}]),
    "secret for text": (str, SecretStr("hunter2")),
}


@pytest.mark.parametrize(("hint", "value"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
async def test_a_value_of_another_type_is_refused(hint: Any, value: object) -> None:
    """A value that is neither of the type nor its JSON form is refused, and never repaired into something else."""
    outcome = await give(hint, value)
    error = outcome.failure()
    assert isinstance(error, InvalidParams)
    assert error.problems[0].path.startswith("x")
    assert "hunter2" not in repr(outcome)


async def test_a_mapping_with_values_of_a_program_keeps_them() -> None:
    """`pipeline.call` takes them as well: no secret becomes asterisks on its way."""
    tools = ToolRegistry()

    @tools.tool
    async def login(user: str, password: SecretStr, since: date) -> str:
        return f"{user} {password.get_secret_value()} {since:%Y}"

    sent = {"user": "ann", "password": SecretStr("hunter2"), "since": "2026-01-02"}
    assert await standard(tools).call("login", sent) == Success("ann hunter2 2026")


DECODED = {"base64", "Json"}  # their values are not what they accept: these types decode


@pytest.mark.parametrize("name", sorted(ANNOTATIONS.keys() - DECODED))
async def test_what_a_model_sends_arrives_the_same_by_run(name: str) -> None:
    """A param that was read from JSON is one of the type, so run() hands it on."""
    for sent in (1, 0.5, "1", "a", "2026-01-01", "r", "red", [1, 2], ["a"], {"title": "a"}, {"x": 1}, {"a": 1}, None):
        parsed = taking(ANNOTATIONS[name]).parse({"x": sent})
        if type(parsed) is dict:
            assert repr(await give(ANNOTATIONS[name], parsed["x"])) == repr(parsed["x"])


ONCE: dict[str, Any] = {
    "Iterator": Iterator[int],
    "Generator": Generator[int, None, None],
    "AsyncIterator": AsyncIterator[int],
    "Awaitable": Awaitable[int],
    "inside": list[Iterator[int]],
}


@pytest.mark.parametrize("hint", [pytest.param(hint, id=name) for name, hint in ONCE.items()])
def test_what_can_be_read_once_is_no_parameter(hint: Any) -> None:
    """An iterator is a SetupError that says what to write."""
    with pytest.raises(SetupError, match=r"probe: .* can be read only once.*annotate list\[\.\.\.\]"):
        taking(hint).definition()


class Nested(BaseModel):
    color: Literal[Color.RED]
    numbers: Iterable[int] = ()


@dataclass
class Fields:
    default: Iterable[int]
    metadata: Literal[Color.BLUE, "plain"] = "plain"


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Nested, {"color": "red", "numbers": [1]}, {"color": "red", "numbers": "1"}),
        (list[Nested], [{"color": "red"}], [{"color": "blue"}]),
        (Fields, {"default": [1], "metadata": "blue"}, {"default": ["1"]}),
        (Literal[Level.LOW, "a"], 1, True),
    ],
)
def test_iterables_and_member_literals_are_read_inside_of_classes(hint: Any, good: Any, bad: Any) -> None:
    """They are checked when the call is validated, wherever they stand."""
    made = taking(hint)
    assert type(made.parse({"x": good})) is dict
    assert isinstance(made.parse({"x": bad}), InvalidParams)
    assert "ValidatorIterator" not in repr(made.parse({"x": good}))


LIST: Any = list  # by these names a type checker does not narrow a value to a list of unknown things
DICT: Any = dict


def spoil(x: Any) -> None:
    """Change what can be changed."""
    if type(x) is LIST:
        for each in x:
            spoil(each)
        x.append("spoilt")
    elif type(x) is DICT:
        for each in x.values():
            spoil(each)
        x["spoilt"] = True


SPOILT: dict[str, Tool[..., Any]] = {
    "Any": taking(Any),
    "list": taking(list),
    "dict": taking(dict[str, Any]),
    "not plain": taking(Any | date),
    "schema": Tool.from_schema(name="probe", parameters=None, handler=nothing),
}


@pytest.mark.parametrize("effect", ["read", "mutating"])
@pytest.mark.parametrize("name", SPOILT)
async def test_a_tool_does_not_change_the_arguments_of_its_caller(name: str, effect: Effect) -> None:
    """What a tool does to its lists and dicts reaches neither the caller nor its own next attempt."""
    seen: list[str] = []

    async def probe(x: Any) -> None:
        seen.append(repr(x))
        spoil(x)
        raise ToolFailed("later", kind="transient", landed=False)

    made = SPOILT[name]
    made.fn, made.effect, made.run_in = probe, effect, "loop"
    tools = ToolRegistry()
    tools.register(made)
    inner: Any = {"b": [1]} if name == "dict" else [{"b": [1]}]
    sent = {"x": inner}
    before = repr(sent)
    pipeline = standard(tools, attempts=3)
    await pipeline.call("probe", sent)
    await pipeline.run(made, x=inner)
    assert repr(sent) == before
    assert len(seen) == 6
    assert len(set(seen)) == 1
    parsed: Any = made.parse(sent)
    spoil(parsed["x"])
    assert repr(sent) == before


def test_arguments_that_hold_themselves_are_copied() -> None:
    """A list that holds itself is refused where it cannot be read, and copied where nobody reads it."""
    ring: list[Any] = []
    ring += [ring, ring]
    parsed: Any = tool(lambda_taking(Any)).parse({"x": ring})
    assert parsed["x"] is not ring
    assert parsed["x"][0] is parsed["x"]
    assert isinstance(taking(list[date]).parse({"x": ring}), InvalidParams)


def lambda_taking(hint: Any) -> Any:
    return taking(hint).fn


async def test_run_by_call() -> None:
    """The arguments of `run` are a dict like any other for a stage that reads them."""
    seen: list[object] = []

    async def look(call: Call, call_next: Any) -> Any:
        seen.append(call.arguments)
        return await call_next(call)

    tools = ToolRegistry()

    @tools.tool
    async def add(a: int, b: int = 1) -> int:
        return a + b

    assert await standard(tools).before("resolve", look).run(add, 1) == Success(2)
    assert seen == [{"a": 1}]
