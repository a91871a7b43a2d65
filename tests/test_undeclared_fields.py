"""Fields that a class does not declare are refused at any depth, unless the class itself takes or ignores them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import attrs
import jsonschema_rs
import pydantic
import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict

from toolcall_pipeline import Call, InvalidParams, ValidCall, tool
from toolcall_pipeline.middlewares import Validate
from toolcall_pipeline.parameters.tool_parameters import Given


@dataclasses.dataclass
class Place:
    street: str
    number: int = 0


@pydantic.dataclasses.dataclass
class CheckedPlace:
    street: str
    number: int = 0


class PlaceDict(typing_extensions.TypedDict):
    street: str
    number: typing_extensions.NotRequired[int]


@attrs.frozen
class PlaceAttrs:
    street: str
    number: int = 0


class PlaceModel(BaseModel):
    street: str
    number: int = 0


class Checked(BaseModel):
    street: str
    number: int = 0

    @pydantic.model_validator(mode="before")
    @classmethod
    def check(cls, value: Any) -> Any:
        return value

    @pydantic.model_validator(mode="after")
    def check_all(self) -> Checked:
        return self


class OwnInit(BaseModel):
    street: str

    def __init__(self, **given: Any) -> None:
        super().__init__(street=f"{given['street']} {given.get('number', '')}".strip())


class Tree(BaseModel):
    street: str = ""
    number: int = 0
    below: list[Tree] = []


class Order(BaseModel):
    place: Place | None = None
    typed: PlaceDict | None = None
    model: PlaceModel | None = None


class OpenOrder(BaseModel):
    model_config = ConfigDict(extra="allow")
    place: Place | None = None
    typed: PlaceDict | None = None
    model: PlaceModel | None = None


class CarelessOrder(BaseModel):
    model_config = ConfigDict(extra="ignore")
    place: Place | None = None
    typed: PlaceDict | None = None
    model: PlaceModel | None = None


@dataclasses.dataclass
class Parcel:
    model: PlaceModel | None = None


class Closed(typing_extensions.TypedDict, closed=True):
    street: str


@tool
async def send(
    place: Place | None = None,
    checked: CheckedPlace | None = None,
    typed: PlaceDict | None = None,
    attrs_: PlaceAttrs | None = None,
    model: PlaceModel | None = None,
    validated: Checked | None = None,
    tree: Tree | None = None,
    order: Order | None = None,
    open_: OpenOrder | None = None,
    careless: CarelessOrder | None = None,
    parcel: Parcel | None = None,
    listed: list[PlaceModel] | None = None,
    named: dict[str, PlaceModel] | None = None,
    closed: Closed | None = None,
    own: OwnInit | None = None,
) -> None: ...


@tool
async def send_more(
    place: Place | None = None,
    checked: CheckedPlace | None = None,
    typed: PlaceDict | None = None,
    model: PlaceModel | None = None,
    order: Order | None = None,
    careless: CarelessOrder | None = None,
    **more: object,
) -> None: ...


WRONG = {"street": "Elm", "dry_run": True}
PLACES: list[tuple[str, Any]] = [
    *((name, WRONG) for name in ("place", "checked", "typed", "attrs_", "model", "validated", "tree", "closed")),
    ("tree", {"below": [{"below": [WRONG]}]}),
    *((outer, {inner: WRONG}) for outer in ("order", "open_", "careless") for inner in ("place", "typed", "model")),
    ("parcel", {"model": WRONG}),
    ("listed", [{"street": "Oak"}, WRONG]),
    ("named", {"home": WRONG}),
]


BESIDE_MORE = ("place", "checked", "typed", "model", "order", "careless")


@pytest.mark.parametrize("text", [False, True], ids=["mapping", "text"])
@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        *((send, name, value) for name, value in PLACES),
        *((send_more, name, value) for name, value in PLACES if name in BESIDE_MORE),
    ],
    ids=str,
)
def test_an_undeclared_field_is_refused(made: Any, name: str, value: Any, text: bool) -> None:
    """It is not left out without a word, and the schema that a model is shown says so."""
    arguments: Any = {name: value}
    error = made.parse(json.dumps(arguments) if text else arguments)
    assert isinstance(error, InvalidParams)
    assert error.problems[0].path.endswith("dry_run")
    assert not jsonschema_rs.is_valid(made.definition()["parameters"], arguments)


def test_a_class_may_take_or_ignore_others() -> None:
    """``extra="allow"`` and ``"ignore"`` in the configuration of the class itself, and an ``__init__`` of its own."""
    params: Any = send.parse({"open_": {"more": 1}, "careless": {"more": 1}})
    assert params["open_"].model_extra == {"more": 1}
    assert params["careless"] == CarelessOrder()
    arguments = {"own": {"street": "Elm", "number": 5}}
    assert send.parse(arguments) == {"own": OwnInit(street="Elm", number=5)}
    assert jsonschema_rs.is_valid(send.definition()["parameters"], arguments)


def test_a_misspelt_field_is_found() -> None:
    """What was left out before is read as the field that was meant, and told as a repair."""
    verdict = Validate()(Call("send", {"order": {"model": {"street": "Elm", "Number": 5}}}).resolved(send))
    assert isinstance(verdict, ValidCall)
    assert verdict.params == {"order": Order(model=PlaceModel(street="Elm", number=5))}
    assert [(each.path, each.rule) for each in verdict.repairs] == [("order.model.Number", "parameter_name")]


def test_an_instance_is_handed_on() -> None:
    """A program's own instance is taken as it is, whatever its class ignores."""
    place = PlaceModel.model_validate(WRONG)
    assert send.parse(Given(model=place)) == {"model": place}
