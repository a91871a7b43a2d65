"""Rules, approvals, audits and plans see one accepted JSON: what the tool gets, by the names of the schema."""

import collections
import dataclasses
import enum
import ipaddress
import json
import pathlib
import re
import zoneinfo
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar, cast

import attrs
import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    HttpUrl,
    Json,
    PostgresDsn,
    RootModel,
    SecretStr,
)
from pydantic import dataclasses as pydantic_dataclasses
from typing_extensions import TypedDict, Unpack

from toolcall_pipeline import Approvals, Call, Secret, Success, ToolRegistry
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.middlewares import Approve, Audit, DryRun, Ledger, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.policies.facts import make_plain_arguments, show_arguments
from toolcall_pipeline.stores import Memory

T = TypeVar("T")
_UNFIT: Any = None  # a default that its type refuses
_TEXT_DEFAULT: Any = "made"


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)

    path: str = Field(alias="thePath", serialization_alias="other")
    kept: int = Field(3, exclude=True)
    size: int = _UNFIT
    kids: list["Model"] = Field(default_factory=list["Model"], alias="theKids")
    choice: str = Field("c", validation_alias=AliasChoices(AliasPath("a", "b"), "plainChoice"))
    made: int = Field(default_factory=lambda: _TEXT_DEFAULT)


@dataclasses.dataclass
class Record:
    path: Annotated[str, Field(alias="thePath")]
    size: int = _UNFIT
    kids: list["Record"] = dataclasses.field(default_factory=list["Record"])
    later: int = dataclasses.field(init=False, default=9)


@pydantic_dataclasses.dataclass(config=ConfigDict(extra="allow"))
class Checked:
    path: str = Field(alias="thePath")
    size: int = Field(_UNFIT, alias="theSize")


class Unset:
    """A sentinel, which the schema does not show."""


_UNSET: Any = Unset()


def _freeze(items: list[int]) -> Any:
    return tuple(items)


@attrs.define
class Shape:
    _path: str
    size: int = attrs.field(default=_UNFIT, alias="theSize")
    unset: int = _UNSET
    items: list[int] = attrs.field(converter=_freeze, factory=list[int])
    kid: "Shape | None" = None


class Renamed(TypedDict):
    path: Annotated[str, Field(alias="thePath")]
    left: NotRequired[Annotated[int, Field(alias="theLeft")]]


class Another(TypedDict):
    path: Annotated[str, Field(alias="aPath")]
    more: int


class Pair(NamedTuple):
    held: Renamed
    size: int = _UNFIT


class Box(BaseModel, Generic[T]):
    value: T = Field(alias="theValue")


class Listed(RootModel[list[Renamed]]): ...


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str = Field(alias="catName")


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field(alias="dogName")


class Color(enum.Enum):
    RED = "red"


def _split(text: str) -> Any:
    return text.split()


def top(
    path: Annotated[str, Field(alias="thePath")],
    number: Annotated[int, Field(alias="theNumber")] = _UNFIT,
    other: int = Field(5, alias="theOther"),
    held: Renamed = {"path": "/default"},  # noqa: B006  # it is shown by the names of the schema
    unset: int = _UNSET,
) -> None: ...


def model(model: Model, more: list[Model] | None = None) -> None: ...
def record(record: Record, checked: Checked | None = None) -> None: ...
def shape(shape: Shape) -> None: ...
def typed(held: Renamed, either: Renamed | Another | None = None) -> None: ...
def named(pair: Pair) -> None: ...
def options(**given: Unpack[Renamed]) -> None: ...
def others(number: int, **given: Renamed) -> None: ...
def inside(box: Box[int], listed: Listed, pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...
def texts(
    color: Color, url: HttpUrl, dsn: PostgresDsn, pattern: re.Pattern[str], path: pathlib.Path, at: datetime,
    ip: ipaddress.IPv4Address, zone: zoneinfo.ZoneInfo, took: timedelta, exact: Decimal, size: ByteSize,
) -> None: ...  # fmt: skip
def containers(
    by_key: dict[str, Renamed], queue: collections.deque[Renamed], one: tuple[int, Renamed], some: set[int],
    by_number: dict[int, str],
) -> None: ...  # fmt: skip


_X = {"thePath": "/x"}
_EMPTY: dict[str, Any] = {"size": None, "kids": []}
_BARE: dict[str, Any] = {"kept": 3, "size": None, "theKids": [], "plainChoice": "c", "made": "made"}
_TEXTS = {
    "color": "red",
    "url": "https://x.example/y",
    "dsn": "postgresql://a@b/c",
    "pattern": "a+",
    "path": "/a/../b",
    "at": "2026-01-02T03:04:05Z",
    "ip": "10.0.0.1",
    "zone": "Europe/Berlin",
    "took": "PT1H",
    "exact": "0.10000000000000000000000001",
    "size": 5,
}
# A function, what was sent, and what was accepted; {}: what was sent.
CASES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (top, _X, {**_X, "theNumber": None, "theOther": 5, "held": {"thePath": "/default"}}),
    (top, {"path": "/x", "held": _X, "theOther": 6}, {**_X, "theNumber": None, "theOther": 6, "held": _X}),
    (model, {"model": {**_X, "extra": 1}}, {"model": {**_X, **_BARE, "extra": 1}, "more": None}),
    (
        model,
        {"model": {**_X, "theKids": [{**_X, "size": 2, "plainChoice": "d"}]}},
        {"model": {**_X, **_BARE, "theKids": [{**_X, **_BARE, "size": 2, "plainChoice": "d"}]}, "more": None},
    ),
    (
        record,
        {"record": {**_X, "kids": [_X]}, "checked": {**_X, "extra": 1}},
        {"record": {**_X, "size": None, "kids": [{**_X, **_EMPTY}]}, "checked": {**_X, "theSize": None, "extra": 1}},
    ),
    (
        shape,
        {"shape": {"path": "/x", "items": [1], "kid": {"path": "/y", "theSize": 2, "unset": 3}}},
        {
            "shape": {
                "path": "/x",
                "theSize": None,
                "items": [1],
                "kid": {"path": "/y", "theSize": 2, "unset": 3, "items": [], "kid": None},
            }
        },
    ),
    (typed, {"held": {**_X, "theLeft": 1}, "either": {"aPath": "/y", "more": 1}}, {}),
    (typed, {"held": _X, "either": _X}, {}),
    (named, {"pair": [_X]}, {"pair": [_X, None]}),
    (named, {"pair": {"held": _X, "size": 2}}, {"pair": [_X, 2]}),
    (options, {"thePath": "/x", "theLeft": 1}, {}),
    (others, {"number": 1, "any": _X}, {}),
    (inside, {"box": {"theValue": 1}, "listed": [_X], "pet": {"kind": "dog", "dogName": "Rex"}}, {}),
    (texts, _TEXTS, {**_TEXTS, "exact": Decimal("0.10000000000000000000000001")}),
    (
        containers,
        {"by_key": {"a": _X}, "queue": [_X], "one": [1, _X], "some": [1], "by_number": {"7": "a"}},
        {},
    ),
]


def _validate(function: Any, sent: Any) -> Any:
    tools = ToolRegistry()
    tools.tool(function)
    pipeline = standard(tools)
    found: Any = pipeline.resolve(Call(function.__name__, sent))
    return pipeline.validate(found)


def _name(case: Any) -> str | None:
    return getattr(case, "__name__", "") or None


@pytest.mark.parametrize(("function", "sent", "accepted"), CASES, ids=_name)
def test_the_accepted_json(function: Any, sent: Any, accepted: Any) -> None:
    """Each value is there by its name in the schema, with the defaults, also where its own type refuses a default."""
    assert make_plain_arguments(_validate(function, sent)) == (accepted or sent)


@pytest.mark.parametrize(("function", "sent", "accepted"), CASES, ids=_name)
async def test_all_who_look_see_the_same(function: Any, sent: Any, accepted: Any) -> None:
    """A person, an audit and a plan; a rule that asks for exactly these values fits, and one for others does not."""
    seen: Any = make_plain_arguments(_validate(function, sent))
    shown = show_arguments(_validate(function, sent))
    tools, store = ToolRegistry(), Memory()
    tools.tool(function)
    pipeline = (
        standard(tools)
        .before("retry", Ledger(store))
        .after("validate", Approve(store, effects=("mutating",)))
        .after("validate", Audit(store, content=True))
    )
    await pipeline.call(function.__name__, sent)
    (waiting,) = await Approvals(store).pending()
    rows = [row async for row in AuditLog(store).read()]
    plan: Any = (await standard(tools).after("validate", DryRun()).call(function.__name__, sent)).failure()
    assert (dict(waiting.arguments), [row["sent"] for row in rows]) == (shown, [shown] * 2)
    assert plan.reason.endswith(json.dumps(shown, ensure_ascii=False)) or len(plan.reason) > 500

    # A number that no float equals is compared by `minimum` and `maximum`.
    exact = {name: each for name, each in seen.items() if isinstance(each, Decimal)}
    fits = {"properties": {name: {"const": each} for name, each in seen.items() if name not in exact}}
    bounds: Any = {name: {"exclusiveMinimum": float(each)} for name, each in exact.items()}
    schema = {"required": list(seen), "properties": {**fits["properties"], **bounds}}
    for rule in (schema, {"not": schema}):
        rules = RuleSet((PolicyRule("deny", arguments=rule),))
        decision = rules.decide(_validate(function, sent))
        assert (decision.action, decision.undecided) == ("deny" if rule is schema else "allow", False)


def clash(either: Renamed | dict[str, str]) -> None: ...
def decoded(text: Json[list[int]]) -> None: ...
def split(text: Annotated[str, AfterValidator(_split)]) -> None: ...
def blob(data: bytes) -> None: ...
def fraction(share: Fraction) -> None: ...


@dataclasses.dataclass
class Initial:
    seed: dataclasses.InitVar[str]

    def __post_init__(self, seed: str) -> None:
        del seed


def initial(value: Initial) -> None: ...


@pytest.mark.parametrize(
    ("function", "sent"),
    [
        (clash, {"either": _X}),
        (decoded, {"text": "[1]"}),
        (split, {"text": "rm -rf"}),
        (blob, {"data": "rm -rf"}),
        (fraction, {"share": "1/3"}),
        (initial, {"value": {"seed": "x"}}),
    ],
    ids=_name,
)
async def test_what_cannot_be_said_is_denied_and_shown(function: Any, sent: Any) -> None:
    """Two readings of one value, or a form that is not the schema's: no rule lets it pass, and a person sees it."""
    tools, ran = ToolRegistry(), list[str]()
    tools.tool(function)
    allow = standard(tools, policy=RuleSet((PolicyRule("allow", arguments={"type": "object"}),)))
    assert not isinstance(await allow.call(function.__name__, sent), Success)
    assert ran == []
    store = Memory()
    asks = RuleSet((PolicyRule("approve", arguments={"properties": {"x": {"type": "null"}}}),))
    pipeline = standard(tools, store=store, policy=asks).after("validate", Audit(store, content=True))
    assert (await pipeline.call(function.__name__, sent)).failure().kind == "awaiting_approval"
    (waiting,) = await Approvals(store).pending()
    assert waiting.arguments
    assert json.dumps(dict(waiting.arguments))


class Derived(Model):
    more: str = "hidden"


@attrs.define
class Further(Shape):
    more: str = "hidden"


@pytest.mark.parametrize(
    ("function", "given"),
    [(model, {"model": Derived.model_validate(_X)}), (shape, {"shape": Further("/x")})],
)
async def test_a_value_of_a_program_that_would_be_left_out_in_part(function: Any, given: Any) -> None:
    """A subclass may hold what the schema does not know, so no rule can say."""
    tools = ToolRegistry()
    tool = cast("Any", tools.tool(function))
    pipeline = standard(tools, policy=RuleSet((PolicyRule("allow", arguments={"type": "object"}),)))
    assert (await pipeline.run(tool, **given)).failure().kind == "permission"
    assert (await standard(tools).run(tool, **given)) == Success(None)


class Login(BaseModel):
    token: SecretStr = Field(alias="theToken")
    user: str = "ann"


def enter(login: Login, amount: int, code: Annotated[str, Secret, Field(alias="theCode")] = "hunter9") -> None: ...
def enter_blob(login: Login, data: bytes, code: Annotated[str, Secret, Field(alias="theCode")] = "x") -> None: ...
def enter_any(value: Any) -> None: ...


async def test_a_tool_with_secrets_is_judged_and_shown_without_them() -> None:
    """A rule about another argument says yes or no; a person, an audit and a plan never see the secret."""
    rules = RuleSet((PolicyRule("deny", arguments={"properties": {"amount": {"minimum": 9}}}),))
    for function, sent in ((enter, {"amount": 5}), (enter, {"amount": 9}), (enter_blob, {"data": "x"})):
        all_sent = {**sent, "login": {"theToken": "hunter22"}, "theCode": "hunter33"}
        call = _validate(function, all_sent)
        assert rules.decide(call).action == ("allow" if sent.get("amount") == 5 else "deny")
        assert rules.decide(call).undecided == (function is enter_blob)
        tools, store = ToolRegistry(), Memory()
        tools.tool(function)
        pipeline = standard(tools).before("retry", Ledger(store)).after("validate", Approve(store, tools=["*"]))
        await pipeline.after("validate", Audit(store, content=True)).call(function.__name__, all_sent)
        plan = await standard(tools).after("validate", DryRun()).call(function.__name__, all_sent)
        kept = repr([await Approvals(store).pending(), [row async for row in AuditLog(store).read()], plan])
        assert "hunter" not in kept


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        ("0.1", float), ("-2.50", float), ("1e-9", float), ("7", int), ("7.0", int), ("1e3", int), ("-0", int),
        ("0.10000000000000000000000001", Decimal), ("12345678901234567.89", Decimal), ("9" * 30, int),
    ],
)  # fmt: skip
def test_a_decimal_has_the_type_of_json_that_is_equal(sent: str, kind: type) -> None:
    """An integer or a float where one is exactly the number, for a rule of a policy counts with these."""

    def pay(amount: Decimal) -> None: ...

    found = make_plain_arguments(_validate(pay, {"amount": sent}))["amount"]
    assert type(found) is kind
    assert Decimal(repr(found)) == Decimal(sent) if kind is float else found == Decimal(sent)


def test_a_secret_where_none_is_declared_is_not_shown() -> None:
    """The value of a model in a parameter of any type: the schema marks nothing there."""
    call = attrs.evolve(_validate(enter_any, {"value": 1}), params={"value": Login(theToken=SecretStr("hunter22"))})
    assert "hunter" not in repr(show_arguments(call))
