"""Signatures with every type that pydantic knows, and calls of them, to compare a framework with and without us."""

from __future__ import annotations

import json
import random
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    AnyUrl,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ByteSize,
    Field,
    HttpUrl,
    NonNegativeInt,
    PositiveFloat,
    SecretStr,
    StrictBool,
    StrictInt,
    StringConstraints,
)
from typing_extensions import TypedDict


class Color(Enum):
    """Texts."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """Numbers."""

    LOW = 1
    HIGH = 2


class Plain(BaseModel):
    """Scalars, one with a default."""

    name: str
    size: int = 3


class Rich(BaseModel):
    """Values that JSON does not have, some of them with a default."""

    day: date
    tags: set[str] = {"a"}
    price: Decimal = Decimal("1.5")
    items: list[Plain] = Field(default_factory=list[Plain])


class Renamed(BaseModel):
    """A field with two names."""

    query: Annotated[str, Field(validation_alias=AliasChoices("query", "q"))]


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: float = 0.5


class Shape(TypedDict):
    """A typed dict."""

    kind: Literal["circle", "square"]
    sides: list[int]


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: str


def split(value: Any) -> Any:
    """Read a text as a list of words."""
    return value.split(",") if isinstance(value, str) else value


def tidy(value: Any) -> Any:
    """Read a text without blanks around it, as a number if it is one."""
    return value.strip().removesuffix("px") if isinstance(value, str) else value


def is_even(value: int) -> int:
    """Refuse odd numbers."""
    if value % 2:
        raise ValueError("must be even")
    return value


ID = "12345678-1234-5678-1234-567812345678"
# A type; values of JSON that are right for it; its default, or ... where it shall have none.
TYPES: list[tuple[Any, list[Any], Any]] = [
    (int, [0, 7, "7"], 5),
    (float, [1.5, 2, "2.5"], 0.5),
    (bool, [True, False, "yes"], False),
    (str, ["", "x", "é"], "d"),
    (bytes, ["abc", ""], b"d"),
    (Decimal, ["1.50", 2, 2.5], Decimal(1)),
    (date, ["2024-02-29"], date(2024, 1, 1)),
    (datetime, ["2024-02-29T10:00:00Z", "2024-02-29 10:00"], datetime(2024, 1, 1)),  # noqa: DTZ001
    (time, ["10:00", "10:00:30"], time(1)),
    (timedelta, ["PT5S", 30], timedelta(1)),
    (UUID, [ID, ID.replace("-", "")], UUID(int=1)),
    (Path, ["/a/b", "c"], Path("d")),
    (Color, ["red", "blue"], Color.RED),
    (Level, [1, 2], Level.LOW),
    (Literal["a", "b", 3], ["a", 3], "a"),
    (list[int], [[], [1, 2], ["3"]], ...),
    (list[str], [["a"], []], ...),
    (set[int], [[1, 2, 2], []], ...),
    (frozenset[str], [["a", "b"]], frozenset("a")),
    (tuple[int, str], [[1, "a"]], (1, "a")),
    (tuple[int, ...], [[1, 2, 3], []], ()),
    (dict[str, int], [{"a": 1}, {}], ...),
    (int | None, [None, 4], None),
    (int | str, [1, "1", "x"], 1),
    (int | list[int], [1, [1]], 1),
    (Plain, [{"name": "a"}, {"name": "a", "size": 4}, {"name": "a", "more": 1}], ...),
    (Rich, [{"day": "2024-01-01"}, {"day": "2024-01-01", "tags": ["x"], "items": [{"name": "n"}]}], ...),
    (Renamed, [{"query": "x"}, {"q": "x"}], ...),
    (list[Plain], [[{"name": "a"}], []], ...),
    (Plain | None, [None, {"name": "a"}], None),
    (Point, [{"x": 1}, {"x": 1, "y": 2}], ...),
    (Shape, [{"kind": "circle", "sides": [1]}], ...),
    (Pair, [[1, "a"]], ...),
    (Any, [1, "x", None, [1], {"a": 1}], None),
    (AnyUrl, ["https://a.b/c"], ...),
    (HttpUrl, ["http://a.b"], ...),
    (IPv4Address, ["10.0.0.1"], ...),
    (IPv4Network, ["10.0.0.0/8"], ...),
    (SecretStr, ["hush"], ...),
    (ByteSize, ["1kb", 10], ...),
    (Base64Bytes, ["aGk="], ...),
    (Sequence[int], [[1, 2]], ()),
    (Mapping[str, float], [{"a": 1}], ...),
    (deque[int], [[1]], ...),
    (StrictInt, [1], 1),
    (StrictBool, [True], True),
    (NonNegativeInt, [0, "5"], 1),
    (PositiveFloat, [0.5], 1.0),
    (Annotated[int, Field(ge=1, le=9)], [1, 9, "4"], 2),
    (Annotated[str, Field(min_length=2, pattern="^[a-z]+$")], ["ab"], "cd"),
    (Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)], [" A "], "b"),
    (Annotated[list[str], BeforeValidator(split)], ["a,b", ["a"], ""], ...),
    (Annotated[int, BeforeValidator(tidy)], ["12px", 3, " 4 "], 1),
    (Annotated[int, AfterValidator(is_even)], [2, "4"], 0),
    (Annotated[datetime, Field(description="When.")], ["2024-02-29T10:00:00+01:00"], ...),
]
WRONG: list[Any] = [
    None,
    True,
    -1,
    2.5,
    "x",
    "",
    "[1, 2]",
    '{"name": "a"}',
    [],
    [1, "a"],
    {},
    {"a": {}},
    "None",
    "true",
]
_FIRST_ALIASED = ("query", "q", "text")


class Ran:
    """The values that the function of a tool was run with, each time."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def __call__(self, values: Mapping[str, Any]) -> str:
        self.values.append(repr({name: show(value) for name, value in values.items()}))
        return "ok"


def show(value: Any) -> Any:
    """A value in which equal ones look equal: a set has no order."""
    if type(value) in (set, frozenset):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return value


def make_signature(number: int) -> tuple[Callable[[Ran], Callable[..., str]], list[tuple[str, list[Any], bool]]]:
    """A signature of one to four parameters, the same for the same number.

    Returns:
        Makes the function that notes its runs; and of each parameter its names, right values, and whether it has a
        default. Some have a second name.
    """
    dice = random.Random(number)
    count = dice.randint(1, 4)
    chosen = [TYPES[number % len(TYPES)], *dice.sample(TYPES, count - 1)]
    parameters: list[tuple[str, list[Any], bool]] = []
    fields: list[tuple[str, Any, Any]] = []
    for place, (plain, right, default) in enumerate(chosen):
        kind: Any = plain
        name = ("query", "limit", "when", "extra")[place]
        has_default = default is not ... and dice.random() < 0.6
        if place == 0 and dice.random() < 0.15:
            kind = Annotated[plain, Field(validation_alias=AliasChoices(*_FIRST_ALIASED))]
        fields.append((name, kind, default if has_default else ...))
        parameters.append((name, right, has_default))
    order = sorted(fields, key=lambda each: each[2] is not ...)

    def make(ran: Ran) -> Callable[..., str]:
        module = sys.modules[f"signature_{number}"] = ModuleType(f"signature_{number}")  # where types are looked up
        space = vars(module)
        space["ran"] = ran
        shown: list[str] = []
        for name, kind, default in order:
            space |= {f"T_{name}": kind, f"D_{name}": default}
            shown.append(f"{name}: T_{name}" + ("" if default is ... else f" = D_{name}"))
        source = f"def work({', '.join(shown)}) -> str:\n    'Work.'\n    return ran(locals())\n"
        exec(source, space)  # a signature can be made in no other way that all frameworks read
        function: Callable[..., str] = space["work"]
        return function

    return make, parameters


def make_calls(number: int, parameters: Sequence[tuple[str, list[Any], bool]], count: int) -> list[dict[str, Any]]:
    """Arguments for a signature, the same for the same number: every second one has a mistake."""
    dice = random.Random(1_000 + number)

    def right() -> dict[str, Any]:
        return {
            name: dice.choice(values)
            for name, values, has_default in parameters
            if not has_default or dice.random() < 0.6
        }

    calls: list[dict[str, Any]] = []
    for place in range(count):
        sent = right()
        if place % 2:
            sent = spoil(dice, sent, [name for name, _, _ in parameters])
        calls.append(json.loads(json.dumps(sent)))
    return calls


def spoil(dice: random.Random, sent: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Make one of the mistakes that models make."""
    name = dice.choice(names)
    match dice.randrange(9):
        case 0:
            return {key: value for key, value in sent.items() if key != name}
        case 1:
            return {**sent, "more": dice.choice(WRONG)}
        case 2:
            return {key + "s" if key == name else key: value for key, value in sent.items()}
        case 3:
            return {"q" if key == "query" else key.title(): value for key, value in sent.items()}
        case 4:
            return {**sent, name: json.dumps(sent.get(name))}
        case 5:
            return {**sent, name: None}
        case 6:
            return {**sent, name: [sent.get(name)]}
        case 7:
            return {"arguments": sent}
        case _:
            return {**sent, name: dice.choice(WRONG)}
