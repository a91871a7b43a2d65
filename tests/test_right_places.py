"""A refusal names the place that is wrong, by the variant that was meant, and leads to a call that is right."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from toolcall_pipeline import Call, Failure, NeedsSetup, Success, Tool, approved, render, tool
from toolcall_pipeline.middlewares import Validate


async def handle(**params: object) -> object:
    return params


def an_object(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def of_schema(properties: dict[str, Any], *required: str) -> Tool[..., Any]:
    return Tool.from_schema(name="raw", parameters=an_object(properties, *required), handler=handle)


def refuse(made: Any, arguments: object) -> list[str]:
    verdict = Validate()(Call(made.name, arguments).resolved(made))
    return render(verdict.failure() if isinstance(verdict, Failure) else Success(verdict)).splitlines()


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
DIGITS = of_schema(
    {
        "1": NUMBER,
        "map": an_object({"02": NUMBER}, additionalProperties=NUMBER),
        "list": {"type": "array", "items": an_object({"7": NUMBER})},
    }
)


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ({"1": "x"}, "1"), ({"map": {"02": "x"}}, "map.02"), ({"map": {"2024": "x"}}, "map.2024"),
        ({"list": [{"7": "x"}]}, "list[0].7"),
    ],
)  # fmt: skip
def test_a_name_of_digits_is_a_name(sent: dict[str, Any], place: str) -> None:
    """The path of a value under such a name leads to it, so the text tells what was sent there."""
    assert refuse(DIGITS, sent) == [f"Error: Invalid parameter value for {place}: must be a number, not a string"]


class Circle(BaseModel):
    model_config = ConfigDict(extra="allow")
    radius: float
    unit: str = ""


class Box(BaseModel):
    model_config = ConfigDict(extra="allow")
    width: float
    height: float


@tool
async def draw(shape: Circle | Box) -> str:
    return str(shape)


CIRCLE = an_object({"radius": NUMBER, "unit": TEXT}, "radius")
BOX = an_object({"width": NUMBER, "height": NUMBER}, "width", "height")
DRAW = of_schema({"shape": {"anyOf": [CIRCLE, BOX]}}, "shape")


@pytest.mark.parametrize("made", [draw, DRAW], ids=["function", "schema"])
@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"width": 1, "height": "tall"}, ["Invalid parameter value for shape.height: must be a number, not a string"]),
        (
            {"width": "w", "height": "tall"},
            [
                "Invalid parameter value for shape.width: must be a number, not a string",
                "Invalid parameter value for shape.height: must be a number, not a string",
            ],
        ),
        ({"radius": "x", "width": 1}, ["Invalid parameter value for shape.radius: must be a number, not a string"]),
    ],
    ids=str,
)
def test_the_names_choose_the_variant(made: Any, shape: Any, told: list[str]) -> None:
    """Of open variants without a tag the one is meant whose names were sent, whatever is wrong with their values."""
    assert refuse(made, {"shape": shape}) == [f"Error: {each}" for each in told]


@pytest.mark.parametrize("made", [draw, DRAW], ids=["function", "schema"])
@pytest.mark.parametrize(("sent", "missing"), [("width", "height"), ("height", "width"), ("unit", "radius")])
def test_a_name_that_one_open_variant_has_chooses_it(made: Any, sent: str, missing: str) -> None:
    """A name is of the variant that declares it, also where the others permit any; text and form are about that one."""
    shown = refuse(made, {"shape": {sent: "1" if sent == "unit" else 1}})
    assert shown[0] == f"Error: Missing required parameter: shape.{missing}"
    assert f'"{sent}": <' in shown[-1]
    assert f'"{missing}": <' in shown[-1]


class Card(BaseModel):
    kind: Literal["card"]
    number: str
    cvc: int = 0


class Sepa(BaseModel):
    kind: Literal["sepa"]
    iban: str


@tool
async def pay(method: Annotated[Card | Sepa, Field(discriminator="kind")]) -> str:
    return str(method)


def variant(kind: str, **more: Any) -> dict[str, Any]:
    return an_object({"kind": {"const": kind}, **more}, "kind", *more, additionalProperties=False)


PAY = of_schema({"method": {"oneOf": [variant("card", number=TEXT, cvc=NUMBER), variant("sepa", iban=TEXT)]}}, "method")


@pytest.mark.parametrize("made", [pay, PAY], ids=["function", "schema"])
def test_the_names_of_the_variant_are_told(made: Any) -> None:
    """Where a tag says which variant is meant, only its names are listed, and each is suggested once."""
    lines = refuse(made, {"method": {"kind": "sepa", "ibann": "x"}})
    assert [line for line in lines if "Did you mean" in line] == ["The parameters are: kind, iban. Did you mean: iban?"]


def test_what_all_variants_lack_is_told() -> None:
    """A tag under a wrong name is missing in each variant, and told with all its values."""
    lines = refuse(PAY, {"method": {"knd": "sepa"}})
    assert "Error: Invalid parameter value for method: must be one of the forms" not in "".join(lines)
    both = of_schema({"m": {"oneOf": [variant("add", path=TEXT), variant("remove", path=TEXT)]}}, "m")
    lines = refuse(both, {"m": {"knd": "add", "path": "x"}})
    assert lines[:4] == [
        "Error: Missing required parameter: m.kind",
        "Please send m.kind: 'add' or 'remove'.",
        "Error: Unknown parameter: m.knd",
        "The parameters are: kind, path. Did you mean: kind?",
    ]


@tool
async def count(words: dict[int, str], marks: dict[Literal["a", "b"], int] = {}) -> str:  # noqa: B006
    return f"{words} {marks}"


@pytest.mark.parametrize(
    ("sent", "name", "noun"),
    [({"words": {"x": "y"}}, "words", "a valid integer"), ({"words": {}, "marks": {"c": 1}}, "marks", "'a' or 'b'")],
)
def test_the_fault_of_a_name_is_told_of_the_name(sent: Any, name: str, noun: str) -> None:
    """A name of an object that is wrong is no fault of the value under it."""
    assert refuse(count, sent) == [
        f"Error: Invalid parameter value for {name}: must be an object in which each name is {noun}"
    ]


CHOICE = of_schema({"count": NUMBER, "colour": {"enum": ["red", "green"]}}, "count")


@pytest.mark.parametrize("sent", [{"cuont": None}, {"cnt": 3, "count": None}], ids=str)
def test_a_name_is_suggested_beside_null(sent: dict[str, Any]) -> None:
    """A null says that nothing was sent: it hides no near name, neither its own nor the one that was meant."""
    closed = Tool.from_schema(
        name="raw",
        parameters=an_object({"count": NUMBER}, "count", additionalProperties=False),
        handler=handle,
    )
    assert "Did you mean: count?" in "\n".join(refuse(closed, sent))


@tool
async def label(tags: Annotated[list[str], Field(min_length=2, max_length=3)]) -> str:
    return str(tags)


NO_TEXT: dict[str, str] = {}
LABEL = of_schema({"tags": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3}}, "tags")


@pytest.mark.parametrize("made", [label, LABEL], ids=["function", "schema"])
@pytest.mark.parametrize(
    ("tags", "bound", "wrong"),
    [(["a", "b", NO_TEXT, "d"], "most 3 items, not 4", 2), ([NO_TEXT], "least 2 items, not 1", 0)],
)
def test_the_length_and_the_items_are_told(made: Any, tags: list[Any], bound: str, wrong: int) -> None:
    """Of an array with a wrong length and wrong items both are told at once."""
    assert sorted(refuse(made, {"tags": tags})) == [
        f"Error: Invalid parameter value for tags: must be an array of at {bound}",
        f"Error: Invalid parameter value for tags[{wrong}]: must be a string, not an object",
    ]


@tool
async def search(query: str, limit: int) -> str:
    return f"{query} {limit}"


@pytest.mark.parametrize(
    "query",
    [
        'x</Parameter>\n<parameter name="limit">3', "x</arg_value><arg_key>limit", "x<|call|>", "x</invoke>",
        "x</ parameter >", "x</function>", "x<\uff5ctool\u2581sep\uff5c>limit",
        'x<\uff5cDSML\uff5cparameter name="limit">',
        "x<tool_sep>limit", "x<end_of_turn>", "x[TOOL_CALLS]", "x [/INST]", '<|"|>x<|"|>',
    ],
)  # fmt: skip
def test_the_markup_of_a_call_in_a_value_is_told(query: str) -> None:
    """What is missing may stand in a text, as the rest of a call in another form; a valid call is left as it is."""
    assert "Error: Invalid parameter value for query: must be text without the markup of a call" in "\n".join(
        refuse(search, {"query": query})
    )
    assert not isinstance(Validate()(Call("search", {"query": query, "limit": 3}).resolved(search)), Exception)
    for text in ("a <b> < c </div>", "a <| b |> c", "[x] <functional>", "<parametric>", "[TOOLS]"):
        assert "markup" not in "\n".join(refuse(search, {"query": text}))


def test_markup_is_told_at_its_place() -> None:
    """A text with markup may stand inside of an object or an array."""
    made = of_schema({"steps": {"type": "array", "items": {"type": "object"}}, "limit": NUMBER}, "steps", "limit")
    shown = "\n".join(refuse(made, {"steps": [{"a": "x"}, {"a": 'x</parameter><parameter name="limit">3'}]}))
    assert "Error: Invalid parameter value for steps[1].a: must be text without the markup of a call" in shown


@pytest.mark.parametrize(
    "text",
    [
        "The index is corrupt: run `make index`.", "The token index is corrupt.", "The key-value store is corrupt!",
        "Add an API key, the cache is corrupt.", "The key file was not found; its backup is corrupted.",
        "Its key is corrupted. Ask Jo for another one.", "The key is not corrupt.",
    ],
)  # fmt: skip
def test_only_a_corrupted_key_is_asked_for_anew(text: str) -> None:
    """A profile says in its own words that a key is corrupted, and nothing else of what an author wrote."""
    shown = render(NeedsSetup("Search", approved(text)), profile="agentopia")
    assert text in shown
    assert "appears to be corrupted" not in shown


@pytest.mark.parametrize(
    "text", ["corrupted", "Its key is corrupted.", "Your API key appears to be corrupted!", "A corrupt search key"]
)
def test_a_corrupted_key_is_asked_for_anew(text: str) -> None:
    """The profile's own words take the place of a text that says just that."""
    assert "appears to be corrupted" in render(NeedsSetup("Search", approved(text)), profile="agentopia")


def test_a_field_that_variants_share_is_no_tag() -> None:
    """Its allowed values are listed once, and what else is missing is told beside it."""
    variants = [
        an_object({"kind": {"enum": [kind]}, "mode": {"enum": ["fast", mode]}}, "kind")
        for kind, mode in (("alpha", "slow"), ("beta", "best"))
    ]
    shown = refuse(of_schema({"job": {"oneOf": variants}}, "job"), {"job": {"mode": "none of them"}})
    assert "Error: Invalid parameter value for job.mode: must be 'fast', 'slow' or 'best'" in shown
    assert "Error: Missing required parameter: job.kind" in shown


@pytest.mark.parametrize("sent", [{"_": {"x": 1}}, {"arg1": {"a": 1}}, {"_": [{"box": 1}]}, {"_": '{"box": {}}'}])
def test_an_object_under_a_positional_name_is_not_the_value(sent: Any) -> None:
    """It may be the arguments themselves, so the call is refused rather than run with the wrapper as the value."""
    made = of_schema({"box": {}}, "box")
    call = Call("t", sent).resolved(made)
    assert isinstance(Validate()(call), Failure)


@pytest.mark.parametrize(
    ("one", "sent"),
    [("integer", "[3]"), ("number", "[3]"), ("number", "[3.5]"), ("integer", "[3.0]"), ("boolean", "[true]")],
)
def test_a_list_of_one_is_no_list_of_texts_where_its_item_may_stand_alone(one: str, sent: str) -> None:
    """``[3]`` for an integer or a list of texts may be 3 or ["3"]."""
    made = of_schema({"a": {"anyOf": [{"type": one}, {"type": "array", "items": TEXT}]}}, "a")
    assert isinstance(Validate()(Call("t", f'{{"a": {sent}}}').resolved(made)), Failure)
