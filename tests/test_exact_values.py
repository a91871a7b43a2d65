"""Values of rich types are what was written: no other type wins, and no character is left out or rounded away."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import pydantic
import pytest

from toolcall_pipeline import InvalidParams, tool
from toolcall_pipeline.parameters.exact_json import loses_digits
from toolcall_pipeline.parameters.tool_parameters import Given

TYPES: dict[str, Any] = {
    "date": dt.date,
    "datetime": dt.datetime,
    "time": dt.time,
    "timedelta": dt.timedelta,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "complex": complex,
}
TEXTS = ("2026-11-21", "2026-11-21T10:00:00", "10:00", "P1D", "01", "1.50", "1/2", "2j")


@tool
async def texts(
    date: str | dt.date = "",
    datetime: str | dt.datetime = "",
    time: str | dt.time = "",
    timedelta: str | dt.timedelta = "",
    decimal: str | Decimal = "",
    fraction: str | Fraction = "",
    complex_: str | complex = "",
    listed: list[str | Decimal] | None = None,
    named: dict[str, str | dt.date | None] | None = None,
    last: Decimal | str = "",
) -> None: ...


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize("sent", TEXTS)
def test_text_stays_text_where_text_is_the_first_choice(sent: str, as_text: bool) -> None:
    """``str | Decimal`` takes "01" as "01": of types that read a text, the first one wins, as in pydantic itself."""
    arguments: dict[str, Any] = dict.fromkeys(
        ("date", "datetime", "time", "timedelta", "decimal", "fraction", "complex_"), sent
    )
    arguments |= {"listed": [sent], "named": {"a": sent}}
    assert arguments == texts.parse(json.dumps(arguments) if as_text else arguments)


def test_the_first_type_reads_the_text() -> None:
    """``Decimal | str`` is a Decimal where it can be one, also beside a ``str | Decimal``, which is equal to typing."""
    assert texts.parse({"last": "01"}) == {"last": Decimal(1)}
    assert texts.parse({"last": "x"}) == {"last": "x"}


def test_another_tool_does_not_decide_the_order() -> None:
    """The types of one tool are tried in its own order, whatever tools were made before it."""

    @tool
    async def one(v: dt.timedelta | dt.time = dt.time()) -> None: ...

    @tool
    async def two(v: dt.time | dt.timedelta = dt.time()) -> None: ...

    assert [each.parse({"v": "10:00"}) for each in (one, two)] == [
        {"v": dt.timedelta(hours=10)},
        {"v": dt.time(10)},
    ]


@tool
async def numbers(
    either: Decimal | int = 0,
    optional: int | Decimal | None = None,
    listed: list[Decimal | int] | None = None,
    ratio: Fraction = Fraction(0),
    parts: list[Fraction | int] | None = None,
    floating: Decimal | float = 0,
) -> None: ...


@pytest.mark.parametrize("number", ["12345678901234567.89", "0.1234567890123456789012", "-1.00000000000000000001"])
def test_a_number_is_exact_beside_an_integer(number: str) -> None:
    """A union with ``int`` and a Fraction get what was written, and not what a float leaves of it."""
    form = '{"either": N, "optional": N, "listed": [N, 7], "ratio": N, "parts": [N, 7]}'
    exact = Decimal(number)
    expected = {
        "either": exact,
        "optional": exact,
        "listed": [exact, 7],
        "ratio": Fraction(number),
        "parts": [Fraction(number), 7],
    }
    assert expected == numbers.parse(form.replace("N", number))


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
def test_an_integer_stays_an_integer(as_text: bool) -> None:
    """Of a union of Decimal and int an integer is an int, and of Decimal and float a number with a dot a float."""
    arguments = {"either": 5, "optional": -5, "listed": [5], "floating": 1.5}
    params: Any = numbers.parse(json.dumps(arguments) if as_text else arguments)
    assert params == arguments
    assert [type(params[name]) for name in ("either", "optional", "floating")] == [int, int, float]


@pytest.mark.parametrize("value", ["1_0", "٢", "1\uff12", "NaN", "1_0/3"])
@pytest.mark.parametrize("name", ["either", "optional", "ratio"])
def test_a_number_in_text_has_plain_digits(name: str, value: str) -> None:
    """Underscores and digits of other scripts are refused in a union and in a Fraction too."""
    assert isinstance(numbers.parse({name: value}), InvalidParams)


@tool
async def lax(
    count: Annotated[int, pydantic.Field(strict=False)] = 0,
    price: Annotated[float, pydantic.Field(strict=False)] = 0,
    sure: Annotated[bool, pydantic.Field(strict=False)] = False,
    name: Annotated[str, pydantic.Field(strict=False)] = "",
    counts: list[Annotated[int, pydantic.Field(strict=False)]] | None = None,
    by_default: int = pydantic.Field(default=0, strict=False),
) -> None: ...


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("count", True), ("count", 1.0), ("count", "1_0"), ("count", "5"), ("count", 12345678901234567.89),
        ("price", False), ("price", "1_0.5"), ("sure", 1), ("sure", "on"), ("sure", 0.0), ("counts", [True]),
        ("by_default", "7"),
    ],
)  # fmt: skip
def test_a_lax_field_is_read_by_the_same_rules(name: str, sent: object, as_text: bool) -> None:
    """``Field(strict=False)`` changes nothing: a mapping is judged as its JSON text is, and a repair is told."""
    arguments = {name: sent}
    error = lax.parse(json.dumps(arguments) if as_text else arguments)
    assert isinstance(error, InvalidParams)


@tool
async def load(
    data: pydantic.Json[Any] | None = None,
    amounts: pydantic.Json[dict[str, Decimal]] | None = None,
    inner: pydantic.Json[list[pydantic.Json[Decimal]]] | None = None,
    price: Decimal = Decimal(0),
    pattern: re.Pattern[str] | None = None,
    patterns: list[re.Pattern[str]] | None = None,
) -> None: ...


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("data", '{"a": 1, "a": 2}'), ("data", '[{"b": {"a": 1, "a": 1}}]'), ("data", "NaN"), ("data", "[1e999]"),
        ("data", "-Infinity"), ("amounts", '{"a": 1, "a": 2}'), ("inner", '["{\\"a\\": 1, \\"a\\": 1}"]'),
        ("data", "[1,"), ("data", ""), ("data", "[" * 5_000), ("amounts", "NaN"),
    ],
)  # fmt: skip
def test_json_in_a_text_is_judged_as_the_arguments_are(name: str, sent: str) -> None:
    """One name twice is refused, and so are NaN and a number that no float holds."""
    for arguments in ({name: sent}, json.dumps({name: sent})):
        error = load.parse(arguments)
        assert isinstance(error, InvalidParams)
        assert error.problems[0].path.startswith(name)


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
def test_a_number_of_json_in_a_text_is_exact(as_text: bool) -> None:
    """A Decimal in it gets what was written there, whatever was written around it."""
    number = "12345678901234567.89"
    arguments = {
        "data": '{"a": [1, 0.5, null]}',
        "amounts": f'{{"a": {number}, "b": 0.1}}',
        "inner": f'["{number}", "1"]',
    }
    expected = {
        "data": {"a": [1, 0.5, None]},
        "amounts": {"a": Decimal(number), "b": Decimal("0.1")},
        "inner": [Decimal(number), Decimal(1)],
    }
    assert expected == load.parse(json.dumps(arguments) if as_text else arguments)
    around = '{"price": 0.10000000000000000001, "amounts": "{\\"a\\": 0.1}"}'
    assert load.parse(around) == {"price": Decimal("0.10000000000000000001"), "amounts": {"a": Decimal("0.1")}}


@pytest.mark.parametrize("sent", ["(" * 1_500, "(" * 100_000, "a{99999999999}", "a" * 2_001, "[z-a]", "("])
def test_a_pattern_that_cannot_be_compiled_is_refused(sent: str) -> None:
    """Also one that is nested too deeply, counts too far, or takes long to compile because it is long."""
    for arguments in ({"pattern": sent}, json.dumps({"pattern": sent}), {"patterns": ["a", sent]}):
        error = load.parse(arguments)
        assert isinstance(error, InvalidParams)
        (problem,) = error.problems
        assert (problem.path, problem.rule) in (("pattern", "format"), ("patterns[1]", "format"))


def test_a_pattern_is_compiled() -> None:
    """As its type says, and an instance is taken as it is."""
    params: Any = load.parse({"pattern": "a+", "patterns": ["b"]})
    assert params == {"pattern": re.compile("a+"), "patterns": [re.compile("b")]}
    given = re.compile("(" * 50 + ")" * 50 + "x" * 3_000)
    assert load.parse(Given(pattern=given)) == {"pattern": given}


@tool
async def weigh(
    weight: float = 0, optional: float | None = None, listed: list[float] | None = None, either: float | str = 0
) -> None: ...


@pytest.mark.parametrize(
    "value", [Decimal("0.1234567890123456789"), Decimal("0.1"), Fraction(1, 3), Fraction(10**400)], ids=range(4)
)
def test_a_program_gives_a_float_no_number_that_it_would_round(value: Any) -> None:
    """A Decimal and a Fraction are no float, unless the float is the same number."""
    for arguments in ({"weight": value}, {"optional": value}, {"listed": [value]}, {"either": value}):
        assert isinstance(weigh.parse(Given(arguments)), InvalidParams)
    assert weigh.parse(Given(weight=Decimal("0.5"), listed=[Fraction(1, 4)])) == {"weight": 0.5, "listed": [0.25]}
    assert weigh.parse(Given(weight=5, optional=0.1, either=1.5)) == {"weight": 5, "optional": 0.1, "either": 1.5}


OF_A_DATE = {"P{}Y": 365 * 86_400, "P{}M": 30 * 86_400, "P{}W": 7 * 86_400, "P{}D": 86_400}
OF_A_TIME = {"PT{}H": 3_600, "PT{}M": 60, "PT{}S": 1, "10:00:{}": 1, "2026-11-21T10:00:{}Z": 1}
SECONDS = OF_A_DATE | OF_A_TIME
FRACTIONS = [f"{10**power // base**power:0{power}}" for base in (2, 5, 10) for power in range(1, 17)]


@pytest.mark.parametrize("form", SECONDS)
@pytest.mark.parametrize("mark", [".", ","])
def test_a_fraction_loses_digits_unless_it_is_whole_microseconds(form: str, mark: str) -> None:
    """A year has 365 days and a month 30, as pydantic reads them; zeros at the end and small letters change nothing."""
    for digits in (*FRACTIONS, "3", "123456", "999999999"):
        is_lost = (Fraction(f"0.{digits}") * SECONDS[form] * 10**6).denominator != 1
        for written in (form.format(f"1{mark}{digits}"), form.format(f"1{mark}{digits}000").lower()):
            assert loses_digits(written) is is_lost, written
    assert not loses_digits(form.format("1"))
    assert not loses_digits(form.format(f"1{mark}0"))
