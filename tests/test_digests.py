"""Identities: the forms that are compared and kept, which calls are the same, and the leases of owners."""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections import deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from threading import Event
from typing import Annotated, Any, cast
from uuid import UUID

import anyio
import anyio.to_thread
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr

from support import PATIENT
from toolcall_pipeline import Call, Failure, Secret, Success, Tool, ToolFailed, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.once import owners
from toolcall_pipeline.once.digests import NotPlainError, write_loose, write_strict
from toolcall_pipeline.once.intents import are_alike, delivery_of, intent_of, read_asked, write_arguments
from toolcall_pipeline.once.kept_outcomes import _LONGEST, write_outcome  # pyright: ignore[reportPrivateUsage]
from toolcall_pipeline.once.old_digests import find_old_digests
from toolcall_pipeline.once.owners import _SAFE, Owner, _find_host, _find_start, lives  # pyright: ignore[reportPrivateUsage]
from toolcall_pipeline.once.undecided import Lost
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.policies.facts import make_plain_arguments
from toolcall_pipeline.policies.plan import describe_plan
from toolcall_pipeline.stores import Memory, SQLite


class Size(Enum):
    LARGE = "l"


@attrs.frozen
class Point:
    x: int


class Odd:
    """Shows nothing to compare."""

    __slots__ = ()


class Loud(int):
    """Writes itself as it likes."""

    def __str__(self) -> str:
        return "loud"


class Twin(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int = 0
    hidden: int = Field(default=0, exclude=True)


class Other(BaseModel):
    x: int = 0


@dataclasses.dataclass
class Pair:
    a: object
    b: object = dataclasses.field(default=None, compare=False)


class Pin(SecretStr):
    """A secret of another class."""


_EAST = timezone(timedelta(hours=2))
_NFC, _NFD = "caf\u00e9", "cafe\u0301"
# A store keeps digests of these forms: one that changes makes each kept call another one.
FORMS: dict[str, tuple[Any, str]] = {
    "null": (None, "N"),
    "a boolean": (True, "T"),
    "an integer": (1500, "i1500;"),
    "a subclass of int": (Loud(7), f"({__name__}.Loud)i7;"),
    "a large integer": (-(1 << 70_000), f"h{-(1 << 70_000):x};"),
    "negative zero": (-0.0, "f-0.0;"),
    "not a number": (float("nan"), "fnan;"),
    "a Decimal": (Decimal("-1.50"), "(decimal.Decimal)d-1.50;"),
    "a Fraction": (Fraction(1, 3), "(fractions.Fraction)q1/3;"),
    "a text": (" a ", "s3: a "),
    "bytes": (b"\x01\xff", "(builtins.bytes)b01ff;"),
    "a UUID": (UUID(int=7), "(uuid.UUID)s36:00000000-0000-0000-0000-000000000007"),
    "a path": (PurePosixPath("/a/b"), f"({PurePosixPath.__module__}.PurePosixPath)s4:/a/b"),
    "an instant": (datetime(2026, 1, 2, 3, tzinfo=UTC), "(datetime.datetime)t2026-01-02T03:00:000.0;"),
    "a date": (date(2026, 1, 2), "(datetime.date)t2026-01-02;"),
    "a time": (time(3, 4), "(datetime.time)t03:04:00,0,;"),
    "a duration": (timedelta(1, 2, 3), "(datetime.timedelta)t1,2,3;"),
    "an enum": (Size.LARGE, f"({__name__}.Size)e5:LARGE"),
    "a mapping": ({"b": 1, "a": None}, "m2:s1:aNs1:bi1;"),
    "a set": ({"b", "a"}, "(builtins.set)l2:s1:as1:b"),
    "a tuple": ((True, "a"), "(builtins.tuple)l2:Ts1:a"),
    "a list": ([True, "a"], "l2:Ts1:a"),
    "an object": (Point(1), f"({__name__}.Point)o1:s1:xi1;"),
}
# The values of a row are each another one than all others of it, as a tool sees them.
APART: dict[str, tuple[Any, ...]] = {
    "blanks": ("abc", "abc\n", " abc", "abc ", "abc\r\n", "abc\u00a0", "\tabc", ""),
    "ways to write a text": (_NFC, _NFD, "CAFE"),
    "numbers": (1, 1.0, True, "1", "1.0", Decimal(1), Decimal("1.0"), Fraction(1), 1 + 0j, Loud(1), b"1"),
    "zeros": (0, 0.0, -0.0, False, "0", None, "", Decimal(0), Decimal("-0")),
    "words": (True, "true", "True", "TRUE", 1),
    "no numbers": (float("nan"), float("inf"), float("-inf"), "nan", Decimal("NaN"), None),
    "offsets": (
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 1, 1, 14, tzinfo=_EAST),
        datetime(2026, 1, 1, 12),  # noqa: DTZ001
        date(2026, 1, 1),
        "2026-01-01T12:00:00Z",
    ),
    "times": (time(3), time(3, fold=1), time(3, tzinfo=UTC), timedelta(hours=3)),
    "nested": ({"a": {"b": "x"}}, {"a": {"b": "x "}}, {"a": {"b": ["x"]}}, {"a": {"b": ("x",)}}, {"a": "b"}),
    "names": ({"a": 1}, {"a ": 1}, {_NFC: 1}, {_NFD: 1}, {1: 1}, {"1": 1}, {True: 1}),
    "collections": ([1, 2], [2, 1], (1, 2), {1, 2}, frozenset((1, 2)), {1: 2}, deque((1, 2)), [[1, 2]], [1, [2]]),
    "models": (
        Twin(x=1),
        Twin(x=1, hidden=1),
        Twin.model_validate({"x": 1, "more": 1}),
        Twin.model_validate({"x": 1, "more": "1"}),
        Other(x=1),
        {"x": 1},
    ),
    "dataclasses": (Pair(1), Pair(1, 1), Pair("1"), Pair(1.0), {"a": 1, "b": None}),
    "secrets": (SecretStr("a"), SecretStr("a "), SecretStr("b"), Pin("a"), "a", SecretBytes(b"a")),
    "enums": (Size.LARGE, "l", "LARGE"),
    "patterns": (re.compile("a"), re.compile("a", re.IGNORECASE), re.compile("a "), "a"),
    "paths": (PurePosixPath("a"), PurePosixPath("a "), "a"),
}


@pytest.mark.parametrize(("value", "form"), FORMS.values(), ids=FORMS)
def test_the_form_of_a_value_stays(value: object, form: str) -> None:
    """A release that changes a form would run the calls again that a store has answers for."""
    assert write_strict(value) == form


_ANY_TEXT = st.text(st.characters(exclude_categories=()))  # also halves of surrogate pairs
_PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(2**9_999, 2**10_001) | st.floats() | _ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_ANY_TEXT, inner),
)


def _write_plain(value: Any) -> str:
    """The form of JSON, as every store has kept it since the first release."""
    match value:
        case None | bool():
            return {None: "N", True: "T", False: "F"}[value]
        case int():
            return f"h{value:x};" if abs(value) >= 1 << 10_000 else f"i{value};"
        case float():
            return f"f{value!r};"
        case str():
            return f"s{len(value)}:{value}"
        case list():
            items = [_write_plain(each) for each in cast("list[Any]", value)]
            return f"l{len(items)}:" + "".join(items)
        case _:
            pairs = sorted(_write_plain(name) + _write_plain(each) for name, each in value.items())
            return f"m{len(pairs)}:" + "".join(pairs)


@given(st.dictionaries(_ANY_TEXT, _PLAIN))
def test_arguments_are_written_as_in_all_releases(arguments: dict[str, Any]) -> None:
    """Whatever JSON a model sends: another form would make another call of each one that a store has kept."""
    assert write_arguments(Call("act", arguments)) == write_strict(arguments) == _write_plain(arguments)


@pytest.mark.parametrize("values", APART.values(), ids=APART)
def test_values_that_differ_for_a_tool_are_not_equal(values: tuple[Any, ...]) -> None:
    """Strict equality is the tool's own view: neither a type nor a blank is lost, however deep, and a copy is equal."""
    for wrap in (_as_it_is, _in_a_list, _in_a_model):
        forms = [write_strict(wrap(each)) for each in values]
        assert len(set(forms)) == len(values)
        assert [write_strict(wrap(copy.deepcopy(each))) for each in values] == forms


def _as_it_is(value: object) -> object:
    return value


def _in_a_list(value: object) -> object:
    return [{"deep": (value,)}]


def _in_a_model(value: object) -> object:
    return Twin.model_construct(x=value)


_BOTH: Any = {"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}]}
_TEXT: Any = {"type": "string"}
LOOSE: list[tuple[Any, Any, Any, bool]] = [
    ("abc", "abc\n", _TEXT, True),
    (_NFC, f" {_NFD} ", _TEXT, True),
    ("abc", "Abc", _TEXT, False),
    ("a b", "a  b", _TEXT, False),
    (1, "1", _BOTH, True),
    (1, "1", {"type": ["integer", "string"]}, True),
    (1, "1", _TEXT, False),
    ("1", "1.0", _TEXT, False),
    ("007", 7, _BOTH, False),
    (1, 1.0, _BOTH, True),
    (Fraction(1, 2), 1, _BOTH, False),
    (Fraction(7), 7, _BOTH, True),
    (True, "true", {"anyOf": [{"type": "boolean"}, {"type": "string"}]}, False),
    (True, 1, _BOTH, False),
    (["a "], ["a"], {"type": "array", "items": _TEXT}, True),
    ([1], ["1"], {"type": "array", "items": _BOTH}, True),
    ({"k": "a "}, {"k": "a"}, {"type": "object"}, True),
    ({"k ": "a"}, {"k": "a"}, {"type": "object"}, False),
]


@pytest.mark.parametrize(("one", "other", "schema", "same"), LOOSE)
def test_what_is_loosely_equal(one: object, other: object, schema: Any, same: bool) -> None:
    """Blanks at the ends and composed signs make no difference; a number and its text only where a union reads both."""
    whole: Any = {"type": "object", "properties": {"value": schema}}
    assert (write_loose(one, whole, ("value",)) == write_loose(other, whole, ("value",))) is same
    assert write_strict(one) != write_strict(other)


@pytest.mark.parametrize("value", [value for value, _ in FORMS.values()], ids=FORMS)
def test_params_that_are_as_they_were_written_have_that_form(value: object) -> None:
    """A form that is known is used again where it says the same, and never where it does not."""
    call = make_call({"value": value})
    written = write_arguments(call)
    for params in ({"value": value}, {"value": [value]}, {"value": "other"}, {"value": value, "more": 1}, {}):
        assert read_asked(call, params, written) == read_asked(call, params)


def test_how_deep_a_value_may_be() -> None:
    """A value that is nested too deeply, or that shows nothing to compare, has no form, so it equals nothing."""
    nested: Any = "leaf"
    for _ in range(150):
        nested = [nested]
    assert write_strict(nested).endswith("s4:leaf")
    for _ in range(100):
        nested = [nested]
    for value in (nested, Odd(), print):
        with pytest.raises(NotPlainError):
            write_strict(value)


def make_call(arguments: Any, id_: str = "") -> Any:
    tools = ToolRegistry()

    @tools.tool
    def act(value: Any = None) -> None: ...

    return standard(tools).resolve(Call("act", arguments, id_))


def test_a_call_without_an_id_is_its_own_delivery() -> None:
    """It has no name, so no other call is taken for it."""
    assert delivery_of(make_call({"value": 1})) == ""
    assert len(delivery_of(make_call({"value": 1}, "a"))) >= 32


def test_what_has_no_form_is_equal_to_nothing() -> None:
    """Two calls with such an object are refused together if their arguments were written alike, and never answered."""
    one, same, other = (intent_of(make_call({"value": each}), {"value": Odd()}) for each in (1, 1, 2))
    assert one.strict == same.strict == other.strict == ""
    assert one.loose == same.loose != other.loose
    assert intent_of(make_call({"value": 1}), {"value": 1}).loose != one.loose


@pytest.mark.parametrize("verified", [False, True])
def test_a_lost_call_that_is_kept_for_verify_counts_with_its_arguments(*, verified: bool) -> None:
    """The memory of what is undecided is bounded by what it takes: more for a long text."""
    sizes = list[int]()
    for value in ("x", "x" * 1_000):
        tool = attrs.evolve(make_call({}).tool, verify=_know_nothing if verified else None)
        call = attrs.evolve(make_call({"value": value}), tool=tool)
        sizes.append(Lost.of(call, {"value": value}, "", liftable=False).payload)
    one, long = sizes
    assert (long - one >= 8 * 999) is verified


@pytest.mark.parametrize("landed", [None, False])
async def test_what_an_author_says_of_a_failure_is_an_end(landed: bool | None) -> None:
    """A failure that the author raised is a known end: the same call runs again in that conversation."""
    tools, runs = ToolRegistry(), list[int]()

    @tools.tool
    async def act() -> None:
        runs.append(1)
        raise ToolFailed("No.", landed=landed)

    pipeline = standard(tools)
    for id_ in "ab":
        assert type(await pipeline.call("act", id=id_, conversation="talk")) is Failure
    assert len(runs) == 2


async def test_a_long_value_is_kept_as_the_beginning_of_its_text() -> None:
    """256 kB of the text that a model reads; a value under other names than texts is kept as text as well."""
    call = make_call({})
    assert _LONGEST == 262_144
    assert write_outcome(Success({1: "a"}), call) == {"t": '{"1": "a"}'}
    assert write_outcome(Success({"a": {1: 2}}), call) == {"t": '{"a": {"1": 2}}'}
    assert write_outcome(Success({"a": [1, None]}), call) == {"v": {"a": [1, None]}}


async def test_the_lease_of_an_owner(tmp_path: Any) -> None:
    """It is written when the owner opens, renewed several times in its length, and given back at the end."""
    async with SQLite(tmp_path / "a.db") as store:
        ends = list[int]()

        async def at_each() -> None:
            ends.append(1)

        owner = Owner(store, 0.4, at_each)
        may_begin = [owner.may_begin]
        await owner.open()
        may_begin.append(owner.may_begin)
        assert await store.get(f"o/{owner.name}") is not None
        with anyio.fail_after(PATIENT):
            while len(ends) < 2:  # noqa: ASYNC110  # another thread does it
                await anyio.sleep(0.02)
        may_begin.append(owner.may_begin)
        await owner.close()
        may_begin.append(owner.may_begin)
        assert may_begin == [False, True, True, False]
        assert await store.get(f"o/{owner.name}") is None


async def test_a_lease_outlives_a_renewal_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between renewals are so short that two of them fit into the time for which a body may begin."""
    pauses = list[float]()

    class Ending(Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return len(pauses) > 2 or super().wait(0)

    monkeypatch.setattr(owners, "Event", Ending)
    owner: Any = Owner(Memory(), 30.0, _nothing)
    await anyio.to_thread.run_sync(owner._keep)
    assert len(pauses) == 3
    assert 0 < 2 * max(pauses) < 30.0 * _SAFE


async def test_who_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of this process by its list of what runs, another of this host by its start, others by their lease."""
    owner, store = Owner(Memory(), 1.0, _nothing), Memory()
    owner.running.add("mine")
    assert await lives(store, owner.name, "mine")
    assert not await lives(store, owner.name, "another")
    pid, host = os.getppid(), _find_host()
    assert await lives(store, f"x|{pid}|{_find_start(pid)}|{host}", "d") is bool(host and _find_start(pid))
    assert not await lives(store, f"x|{pid}|1|{host}x", "d")  # another host, without a lease
    if host:
        with monkeypatch.context() as patch:
            patch.setattr(owners, "_find_start", _one_tick)  # this process and the other one began at once
            assert await lives(store, f"x|{pid}|7|{host}", "d")
        assert not await lives(store, f"x|{pid}|1|{host}", "d")  # its pid is used again
        assert not await lives(store, f"x|{os.getpid()}|1|{host}", "d")
    await owner.close()


def _one_tick(_: int) -> int:
    return 7


async def _nothing() -> None: ...


def _know_nothing(call: object, key: str) -> None: ...


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (Decimal("2.0"), 2),
        (Decimal("2.5"), 2.5),
        ([Decimal(1), {"a": (Decimal("0.5"),)}], [1, {"a": [0.5]}]),
        ("x", "x"),
    ],
)
def test_a_policy_sees_numbers_as_json_has_them(sent: Any, seen: Any) -> None:
    """A Decimal is a number for a schema, whole or not, wherever it is held."""
    tools = ToolRegistry()

    @tools.tool
    def act(value: Any = None) -> None: ...

    pipeline = standard(tools)
    found: Any = pipeline.resolve(Call("act", {"value": 1}))
    call: Any = pipeline.validate(found)
    shown = make_plain_arguments(attrs.evolve(call, params={"value": sent}))
    assert shown == {"value": seen}
    assert type(shown["value"]) is type(seen)


def test_a_rule_without_a_place_is_named_by_its_number() -> None:
    """A person counts from one."""
    tool = make_call({}).tool
    rules = RuleSet((PolicyRule("allow", tool="other"), PolicyRule("deny", tool="act")))
    assert [name for name, _ in rules.list_for(tool)] == ["rule 2"]


def test_a_plan_holds_no_secret() -> None:
    """It says with which arguments a tool would run: a declared secret is masked, also where it is sent again."""
    tools = ToolRegistry()

    @tools.tool
    def enter(code: Annotated[str, Secret], note: str = "") -> None: ...

    pipeline = standard(tools)
    found: Any = pipeline.resolve(Call("enter", {"code": "hunter2-x", "note": "by hunter2-x"}))
    call: Any = pipeline.validate(found)
    plan = describe_plan(call, ["a remark"])
    assert plan == (
        'only a plan was asked for; enter would run, a remark with {"note": "by [redacted]", "code": "[redacted]"}'
    )


@pytest.mark.parametrize(("count", "same"), [(1, True), (30, True), (31, False), (1_000, False)])
def test_a_long_run_of_marks_stays_as_it_is(count: int, same: bool) -> None:
    """NFC orders up to 30 combining marks, as Unicode's Stream-Safe Text has them; to order more takes too long."""
    for before in ("", "x" * 100):
        one = f"{before}a\u0301" + "\u0323" * (count - 1) + "z"
        other = f"{before}a" + "\u0323" * (count - 1) + "\u0301z"
        whole: Any = {"type": "object"}
        assert one == other or (write_loose(one, whole) == write_loose(other, whole)) is same


@pytest.mark.parametrize("kind", [list, dict])
def test_how_deep_a_kept_value_may_be(kind: type[Any]) -> None:
    """32 levels are kept as they are, and a value with more as the text that a model reads."""
    value, call = cast("Any", 7), make_call({})
    for depth in range(1, 40):
        value = [value] if kind is list else {"a": value}
        assert write_outcome(Success(value), call).keys() == ({"v"} if depth <= 32 else {"t"})


OLD: list[tuple[Any, Any, bool]] = [
    (7, 7.0, True),
    (7, "7", True),
    (Decimal("7.00"), "7", True),
    (True, "true", True),
    (False, "FALSE ", True),
    (True, False, False),
    (False, 0, False),
    ("a ", "a", True),
    ([1], (1,), True),
    ([1], [2], False),
    (int("1" * 40), "1" * 40, True),
    (int("1" * 41), "1" * 41, False),
]


@pytest.mark.parametrize(("one", "other", "same"), OLD)
def test_what_the_release_before_took_for_one(one: Any, other: Any, same: bool) -> None:
    """Its digests find its rows: a number and its text are one, and so are a truth value and its word."""
    for wrap in (_as_it_is, _in_a_list):
        found = [find_old_digests(make_call({"value": wrap(each)}, "a"), b"")[1] for each in (one, other)]
        assert (found[0] == found[1]) is same


class Slotted:
    __slots__ = ("__weakref__", "left", "right")

    def __init__(self, left: object, right: object) -> None:
        self.left, self.right = left, right


class Named(Slotted):
    __slots__ = "name"  # noqa: PLC0205  # as some write it

    def __init__(self, left: object, name: object) -> None:
        super().__init__(left, 0)
        self.name = name


@pytest.mark.parametrize("kind", [Slotted, Named])
def test_the_release_before_saw_each_slot(kind: type) -> None:
    """Also one that is written as a text, and those of the classes before it."""
    digests = [find_old_digests(make_call({"value": kind(*held)}, "a"), b"")[1] for held in ((1, 2), (3, 2), (1, 4))]
    assert len({*digests}) == 3
    assert find_old_digests(make_call({"value": kind(1, 2)}, "a"), b"")[1] == digests[0]


@pytest.mark.parametrize("digits", [1, 200, 300])
@pytest.mark.parametrize("zeros", [0, 1, 99, 100, 101, 199, 200, 201, 300, 399, 400])
def test_a_decimal_of_400_digits_is_its_integer(digits: int, zeros: int) -> None:
    """A longer one is not written out: its exponent may be of any size."""
    number, decimal = int("3" * digits) * 10**zeros, Decimal(f"{'3' * digits}e{zeros}")
    for sign in (1, -1):
        same = write_loose(number * sign, {}, ()) == write_loose(decimal.copy_sign(sign), {}, ())
        assert same is (digits + zeros <= 400)


@pytest.mark.parametrize(("depth", "same"), [(190, True), (210, False)])
def test_how_deep_the_release_before_looked(depth: int, same: bool) -> None:
    """A value that is nested more deeply than 200 levels equalled nothing."""
    value: Any = 7
    for _ in range(depth):
        value = [value]
    one, other = (find_old_digests(make_call({"value": value}, "a"), b"") for _ in range(2))
    assert (one == other) is same


@pytest.mark.parametrize(("one", "other", "schema", "same"), LOOSE)
def test_two_calls_are_alike_in_either_order(one: Any, other: Any, schema: Any, same: bool) -> None:
    """It is the loose equality, asked of params without their digests."""
    tool = Tool.from_schema(name="act", description="Act.", parameters=_take(schema), handler=_take)
    for first, second in ((one, other), (other, one)):
        assert are_alike(tool, {"value": first}, {"value": second}) is same


def _take(value: Any) -> Any:
    return {"type": "object", "properties": {"value": value}}
