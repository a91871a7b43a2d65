"""About 100 signatures: every kind of annotation that a tool may have, for tests that compare all of them."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypeVar
from uuid import UUID

import annotated_types
import attrs
from pydantic import (
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    FutureDate,
    HttpUrl,
    Json,
    NaiveDatetime,
    RootModel,
    Secret,
    SecretStr,
    StringConstraints,
    Tag,
)
from typing_extensions import TypeAliasType, TypedDict

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mode(StrEnum):
    READ = "r"
    WRITE = "w"


class Ratio(Enum):
    HALF = 0.5
    WHOLE = 1.0


class Mixed(Enum):
    NOTHING = None
    YES = True
    TEXT = "text"


class Corner(Enum):
    ORIGIN = (0, 0)
    RIGHT = (1, 0)


class Holiday(Enum):
    NEW_YEAR = date(2026, 1, 1)
    MAY_DAY = date(2026, 5, 1)


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Point:
    x: int
    y: float = 0.0
    tags: list[str] = field(default_factory=list[str])


@dataclass
class Counted:
    name: str
    size: int = field(init=False, default=3)


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list["Tree"])


@dataclass
class Held(Generic[T]):
    held: T


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Loose(TypedDict, total=False):
    title: str


class Pair(NamedTuple):
    left: int
    right: str = "r"


@attrs.frozen
class Span:
    start: int
    end: int | None = None


class Model(BaseModel):
    title: str
    count: Annotated[int, Field(ge=0)] = 1


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    title: str


class Aliased(BaseModel):
    from_: str = Field(alias="from")


class Tags(RootModel[list[str]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    breed: str = ""


class Page(BaseModel, Generic[T]):
    items: list[T]


UserId = NewType("UserId", int)
Json_ = TypeAliasType("Json_", "dict[str, Json_] | list[Json_] | str | int | bool | None")
Names = TypeAliasType("Names", list[str])


def kind_of(value: Any) -> str | None:
    return "text" if isinstance(value, str) else "number" if isinstance(value, int) else None


ANNOTATIONS: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "None": None,
    "Any": Any,
    "object": object,
    "bytes": bytes,
    "base64": Base64Bytes,
    "complex": complex,
    "Decimal": Decimal,
    "Decimal, bounded": Annotated[Decimal, Field(ge=0, lt=100)],
    "Decimal, digits": Annotated[Decimal, Field(max_digits=5, decimal_places=2)],
    "Fraction": Fraction,
    "date": date,
    "datetime": datetime,
    "aware datetime": AwareDatetime,
    "naive datetime": NaiveDatetime,
    "future date": FutureDate,
    "time": time,
    "timedelta": timedelta,
    "UUID": UUID,
    "Path": Path,
    "AnyUrl": AnyUrl,
    "HttpUrl": HttpUrl,
    "IPv4Address": IPv4Address,
    "IPv6Address": IPv6Address,
    "IPv4Network": IPv4Network,
    "Pattern": re.Pattern[str],
    "ByteSize": ByteSize,
    "SecretStr": SecretStr,
    "Secret": Secret[int],
    "Json": Json[list[int]],
    "optional": Optional[int],  # noqa: UP045  # the old spelling is a type of its own
    "optional date": date | None,
    "union": int | str,
    "union of number and boolean": float | bool,
    "union of containers": list[int] | dict[str, int],
    "union of classes": Point | Movie,
    "union of bytes and str": bytes | str,
    "union of date and str": date | str,
    "literal": Literal["a", "b"],
    "literal of numbers": Literal[1, 2],
    "literal of all": Literal["a", 1, True, None],  # noqa: PYI061  # a literal of its own
    "literal of members": Literal[Color.RED, Level.HIGH],
    "literal of one member": Literal[Color.RED],
    "list of member literals": list[Literal[Color.RED, Color.BLUE]],
    "enum": Color,
    "int enum": Level,
    "str enum": Mode,
    "enum of floats": Ratio,
    "enum of all": Mixed,
    "enum of tuples": Corner,
    "enum of dates": Holiday,
    "literal of a tuple": Literal[Corner.ORIGIN],
    "flag": Rights,
    "list": list,
    "list of int": list[int],
    "list of lists": list[list[int]],
    "list of Any": list[Any],
    "dict": dict,
    "dict of int": dict[str, int],
    "dict by int": dict[int, str],
    "dict by enum": dict[Color, int],
    "dict by literal": dict[Literal["a", "b"], int],
    "dict by date": dict[date, int],
    "dict by bounded text": dict[Annotated[str, Field(pattern="^[a-z]+$")], int],
    "tuple": tuple[int, str],
    "tuple of any length": tuple[int, ...],
    "tuple of none": tuple[()],
    "bare tuple": tuple,
    "set": set[int],
    "frozenset": frozenset[str],
    "set of floats": set[float],
    "bounded set": Annotated[set[int], Field(min_length=2, max_length=3)],
    "deque": deque[int],
    "Counter": Counter[str],
    "defaultdict": defaultdict[str, list[int]],
    "OrderedDict": OrderedDict[str, int],
    "Iterable": Iterable[int],
    "bare Iterable": Iterable,
    "bounded Iterable": Annotated[Iterable[int], Field(min_length=1, max_length=2)],
    "Collection": Collection[str],
    "Sequence": Sequence[int],
    "Mapping": Mapping[str, int],
    "AbstractSet": AbstractSet[int],
    "MutableSequence": MutableSequence[str],
    "MutableMapping": MutableMapping[str, bool],
    "positive int": Annotated[int, Field(gt=0)],
    "int between": Annotated[int, Field(ge=-3, le=3)],
    "multiple of": Annotated[int, Field(multiple_of=3)],
    "float between": Annotated[float, Field(gt=0, lt=1)],
    "float multiple": Annotated[float, Field(multiple_of=0.5)],
    "short text": Annotated[str, Field(min_length=1, max_length=3)],
    "pattern": Annotated[str, Field(pattern="^[a-z]{2}$")],
    "pattern of digits": Annotated[str, Field(pattern=r"^\d{3}$")],
    "stripped text": Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)],
    "lowered text": Annotated[str, StringConstraints(to_lower=True)],
    "bounded list": Annotated[list[int], Field(min_length=1, max_length=2)],
    "bounded dict": Annotated[dict[str, int], Field(min_length=1, max_length=2)],
    "annotated_types": Annotated[int, annotated_types.Ge(2), annotated_types.Lt(9)],
    "annotated_types length": Annotated[list[str], annotated_types.Len(1, 3)],
    "bounded date": Annotated[date, Field(ge=date(2026, 1, 1))],
    "bounded timedelta": Annotated[timedelta, Field(le=timedelta(days=1))],
    "bounded bytes": Annotated[bytes, Field(max_length=3)],
    "new type": UserId,
    "alias": Names,
    "recursive alias": Json_,
    "dataclass": Point,
    "dataclass, not all by init": Counted,
    "recursive dataclass": Tree,
    "generic dataclass": Held[int],
    "list of dataclasses": list[Point],
    "typed dict": Movie,
    "typed dict, all optional": Loose,
    "named tuple": Pair,
    "attrs": Span,
    "optional attrs": Span | None,
    "model": Model,
    "closed model": Closed,
    "open model": Open,
    "aliased model": Aliased,
    "root model": Tags,
    "generic model": Page[int],
    "tagged union": Annotated[Cat | Dog, Field(discriminator="kind")],
    "untagged union": Cat | Dog,
    "union by function": Annotated[Annotated[str, Tag("text")] | Annotated[int, Tag("number")], Discriminator(kind_of)],
    "dict of models": dict[str, Model],
}
