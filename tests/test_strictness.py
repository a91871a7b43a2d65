"""core_schema: numbers and numeric text are no dates, and a Decimal has plain digits, wherever they stand."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from toolcall_pipeline import Call, InvalidParams, ValidCall, tool
from toolcall_pipeline.middlewares import Validate


@dataclasses.dataclass
class Trip:
    day: dt.date


class Stay(pydantic.BaseModel):
    since: dt.datetime
    nights: dt.timedelta | None = None


class Price(pydantic.BaseModel):
    amount: Decimal
    note: Any = None


class Tree(pydantic.BaseModel):
    planted: dt.date | None = None
    branches: list[Tree] = []


class Meal(typing_extensions.TypedDict):
    at: dt.time


class Row(NamedTuple):
    day: dt.date


@attrs.frozen
class Visit:
    day: dt.date


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    born: dt.date


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    born: dt.datetime


Day = TypeAliasType("Day", dt.datetime)


@tool(effect="read")
async def plan(
    at: dt.datetime | None = None,
    day: dt.date | None = None,
    hour: dt.time | None = None,
    length: dt.timedelta | None = None,
    day_or_count: dt.date | int | None = None,
    past: pydantic.PastDate | None = None,
    aware: pydantic.AwareDatetime | None = None,
    named: Day | None = None,
    lax: Annotated[dt.datetime, pydantic.Field(strict=False)] | None = None,
    days: list[dt.date] | None = None,
    by_day: dict[str, dt.datetime] | None = None,
    pair: tuple[dt.date, int] | None = None,
    trip: Trip | None = None,
    stay: Stay | None = None,
    tree: Tree | None = None,
    meal: Meal | None = None,
    row: Row | None = None,
    visit: Visit | None = None,
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")] | None = None,
    mixed: Decimal | int | dt.date | None = None,
    amount: Decimal | None = None,
    root: complex | None = None,
) -> str:
    return "planned"


def wrap(name: str, value: Any) -> Any:
    return {
        "days": [value],
        "by_day": {"a": value},
        "pair": [value, 1],
        "trip": {"day": value},
        "stay": {"since": value},
        "tree": {"branches": [{"branches": [{"planted": value}]}]},
        "meal": {"at": value},
        "row": [value],
        "visit": {"day": value},
        "pet": {"kind": "dog", "born": value},
    }.get(name, value)


def validate(name: str, value: Any, *, text: bool) -> Any:
    arguments: Any = {name: wrap(name, value)}
    return Validate()(Call("plan", json.dumps(arguments) if text else arguments).resolved(plan))


TEMPORAL = (
    "at", "day", "hour", "length", "past", "aware", "named", "lax", "days", "by_day", "pair", "trip", "stay", "tree",
    "meal", "row", "visit", "pet",
)  # fmt: skip
NUMBERS = (2024, 0, -1, 86400, 1704067200, 1.5, "2024", "0", "-86400", "+1704067200", " 2024", "1704067200.0", "2.7E7")


@pytest.mark.parametrize("text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize("value", NUMBERS, ids=repr)
@pytest.mark.parametrize("name", TEMPORAL)
def test_a_number_is_no_date(name: str, value: Any, text: bool) -> None:
    """Neither a number nor numeric text becomes a date, a datetime, a time or a duration, at any depth."""
    error = validate(name, value, text=text).failure()
    assert isinstance(error, InvalidParams)
    assert error.problems[0].path.startswith(name)


@pytest.mark.parametrize("text", [False, True], ids=["mapping", "text"])
def test_a_union_keeps_the_number(text: bool) -> None:
    """Where a union admits a number too, the number stays one, and numeric text is refused."""
    assert validate("day_or_count", 2024, text=text).params == {"day_or_count": 2024}
    assert isinstance(validate("day_or_count", "86400", text=text).failure(), InvalidParams)
    assert type(validate("mixed", 5, text=text).params["mixed"]) is int
    assert validate("mixed", "86400", text=text).params == {"mixed": Decimal(86400)}


RIGHT = {
    "at": ("2026-11-21T10:00:00", dt.datetime.fromisoformat("2026-11-21T10:00:00")),
    "day": ("2026-11-21", dt.date(2026, 11, 21)),
    "hour": ("10:30", dt.time(10, 30)),
    "length": ("P1DT2H", dt.timedelta(days=1, hours=2)),
    "past": ("2020-01-01", dt.date(2020, 1, 1)),
    "named": ("2026-11-21 10:00", dt.datetime.fromisoformat("2026-11-21T10:00:00")),
    "days": ("2026-11-21", [dt.date(2026, 11, 21)]),
    "trip": ("2026-11-21", Trip(dt.date(2026, 11, 21))),
    "stay": ("2026-11-21T10:00:00", Stay(since=dt.datetime.fromisoformat("2026-11-21T10:00:00"))),
    "visit": ("2026-11-21", Visit(dt.date(2026, 11, 21))),
    "amount": ("3.10", Decimal("3.10")),
    "root": ("1+2j", 1 + 2j),
}


@pytest.mark.parametrize("text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize("name", RIGHT)
def test_the_json_form_is_accepted(name: str, text: bool) -> None:
    """A date in its JSON form arrives as before, without a repair."""
    sent, expected = RIGHT[name]
    call = validate(name, sent, text=text)
    assert isinstance(call, ValidCall)
    assert (call.params, call.repairs) == ({name: expected}, ())


TIMES: dict[str, Callable[[str], tuple[str, Fraction]]] = {  # the text of a fraction of a second, and what it is of
    "at": lambda digits: (f"2026-11-21T10:00:00.{digits}", Fraction(f"0.{digits}")),
    "aware": lambda digits: (f"2026-11-21 10:00:00,{digits}+02:00", Fraction(f"0.{digits}")),
    "hour": lambda digits: (f"10:00:00.{digits}", Fraction(f"0.{digits}")),
    "days": lambda digits: (f"2026-11-21T00:00:00.{digits}", Fraction(0)),  # a date is no datetime
}
LENGTHS = {
    "PT0.{}S": 1,
    "-PT3,{}S": 1,
    "PT1.{}M": 60,
    "P1DT0.{}H": 3600,
    "P0.{}D": 86_400,
    "P2.{}W": 604_800,
    "00:00:01.{}": 1,
    "2 days, 00:00:00,{}": 1,
    "3 d 00:00:01.{}": 1,
}
DIGITS = st.from_regex(r"[0-9]{0,4}[0-9]{1,6}0{0,4}", fullmatch=True)


@given(digits=DIGITS, name=st.sampled_from(["at", "aware", "hour", "days"]), text=st.booleans())
def test_a_time_is_what_was_written(digits: str, name: str, text: bool) -> None:
    """Python has no time below the microsecond: digits there are refused, unless they are zeros."""
    sent, seconds = TIMES[name](digits)
    verdict: Any = validate(name, sent, text=text)
    if name == "days" or (seconds * 10**6).denominator != 1:
        assert isinstance(verdict.failure(), InvalidParams)
    else:
        assert verdict.params[name].microsecond == seconds * 10**6


@given(digits=DIGITS, form=st.sampled_from([*LENGTHS]), text=st.booleans())
def test_a_duration_is_what_was_written(digits: str, form: str, text: bool) -> None:
    """A fraction of any unit is read if it is a whole number of microseconds, and refused otherwise."""
    length = Fraction(f"0.{digits}") * LENGTHS[form] * 10**6
    whole = validate("length", form.replace("{}", "0"), text=text).params["length"]
    verdict: Any = validate("length", form.format(digits), text=text)
    if length.denominator != 1:
        assert isinstance(verdict.failure(), InvalidParams)
    else:
        assert abs(verdict.params["length"]) - abs(whole) == dt.timedelta(microseconds=int(length))


def test_the_longest_fraction_that_is_whole() -> None:
    """A day has 2**13 times some microseconds, so 13 digits may be whole; 14 never are."""
    assert validate("length", f"P{2**-13:.13f}D", text=True).params == {"length": dt.timedelta(microseconds=10_546_875)}
    assert isinstance(validate("length", f"P{2**-14:.14f}D", text=True).failure(), InvalidParams)


@pytest.mark.parametrize(
    ("name", "value", "noun"),
    [
        ("at", "2026-11-21T10:00:00.1234567Z", "datetime"),
        ("aware", "2026-11-21T10:00:00.123456789+01:00", "datetime"),
        ("named", "2026-11-21T10:00:00.0000001", "datetime"),
        ("lax", "2026-11-21T10:00:00.0000001", "datetime"),
        ("by_day", "2026-11-21T10:00:00.0000001", "datetime"),
        ("stay", "2026-11-21T10:00:00.0000001", "datetime"),
        ("hour", "10:30:00.0000001", "time"),
        ("meal", "10:30:00.0000001", "time"),
        ("length", "PT0.0000001S", "duration"),
        ("length", f"PT0.{'1' * 5_000}S", "duration"),
    ],
)
def test_the_problem_says_that_microseconds_are_all(name: str, value: str, noun: str) -> None:
    """The model is told which digits are too many."""
    (problem,) = validate(name, value, text=True).failure().problems
    assert (problem.rule, problem.expected) == ("format", f"a {noun} without a fraction of a microsecond")


@pytest.mark.parametrize("value", ["1_0", "٢٠٢٤", "1\uff12", "NaN", "-Infinity", "0x10"])
@pytest.mark.parametrize("name", ["amount", "root"])
def test_a_decimal_has_plain_digits(name: str, value: str) -> None:
    """Digits of other scripts, underscores, hexadecimal numbers and infinities are no Decimal and no complex number."""
    assert isinstance(validate(name, value, text=True).failure(), InvalidParams)


def test_an_infinite_number_is_not_complex() -> None:
    """A number too large for a float is refused, and not read as infinity."""
    verdict: Any = Validate()(Call("plan", '{"root": 1e400}').resolved(plan))
    assert isinstance(verdict.failure(), InvalidParams)


@given(sent=st.text(alphabet="0123456789+-.:eETZPdD _", max_size=12))
def test_a_datetime_shows_its_own_year(sent: str) -> None:
    """Whatever text is taken for a datetime or a date has that year in it."""
    for name in ("at", "day"):
        verdict = validate(name, sent, text=True)
        if isinstance(verdict, ValidCall) and verdict.params.get(name) is not None:
            assert f"{verdict.params[name].year:04}" in sent


@pytest.mark.parametrize(
    "number",
    ["12345678901234567.89", "0.1234567890123456789012", "100000000000000000000000000001.5", "1.00000000000000000001"],
)
def test_a_decimal_is_the_number_that_was_written(number: str) -> None:
    """Also where a float would round it: at the top, in a list, in a model, and beside numbers of other types."""

    @tool
    async def pay(amount: Decimal, each: list[Decimal], price: Price, rate: float = 0) -> None: ...

    price = f'{{"amount": {number}, "note": 0.25}}'
    text = f'{{"amount": {number}, "each": [{number}, 0.5], "price": {price}, "rate": {number}}}'
    params: Any = pay.parameters.parse(text)
    exact = Decimal(number)
    assert (params["amount"], params["each"], params["price"].amount) == (exact, [exact, Decimal("0.5")], exact)
    assert (params["price"].note, params["rate"]) == (0.25, float(number))


@pytest.mark.parametrize("number", ["0.1234567890123456789012", "-12345678901234567.89", "1.00000000000000000001e5"])
@pytest.mark.parametrize("form", ['{{"amount": {}}}', '{{"amount": {}, "rate": 0.5}}'], ids=["alone", "beside another"])
def test_one_rounded_number_is_enough(number: str, form: str) -> None:
    """A Decimal is exact whether or not the call has numbers that a float holds."""

    @tool
    async def pay(amount: Decimal, rate: float = 0) -> None: ...

    params: Any = pay.parameters.parse(form.format(number))
    assert params["amount"] == Decimal(number)


def test_two_numbers_that_a_float_makes_equal_are_no_decimal() -> None:
    """Which of them a Decimal should be is not known, so the call is refused."""

    @tool
    async def pay(amount: Decimal, rate: float) -> None: ...

    parse = pay.parameters.parse
    assert isinstance(parse('{"amount": 0.1, "rate": 0.10000000000000000001}'), InvalidParams)
    assert parse('{"amount": 0.10, "rate": 0.1}') == {"amount": Decimal("0.1"), "rate": 0.1}
    assert isinstance(parse('{"amount": 1e400, "rate": 0.1}'), InvalidParams)
