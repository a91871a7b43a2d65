"""What has two meanings is refused, and what has one is read: arguments, wrappers, choices, numbers and escapes."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from returns.result import Failure

from toolcall_pipeline import Call, InvalidParams, MalformedCall, Tool, ToolContext, ValidCall, render, tool
from toolcall_pipeline.middlewares import Validate


@tool(effect="read")
async def status() -> str:
    return "fine"


@tool(effect="read", context=True)
async def whoami(context: ToolContext) -> str:
    return context.tool


@tool(effect="read")
async def browse(page: int = 1, tags: list[str] | None = None) -> str:
    return f"{page} {tags}"


@tool
async def pay(recipient: dict[str, Any]) -> str:
    return str(recipient)


@tool
async def decide(action: Literal["re-sign", "log-out", "home-delivery", "HomeOffice", "iPhone 15 Pro", "v-2"]) -> str:
    return action


@tool
async def mark(value: int | list[str], flags: str | list[int] = "", deep: list[int] | list[list[str]] = []) -> str:  # noqa: B006
    return f"{value} {flags} {deep}"


@tool
async def note(texts: list[str]) -> str:
    return "".join(texts)


def of_schema(properties: dict[str, Any], *required: str) -> Tool[..., Any]:
    async def handle(**params: object) -> object:
        return params

    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool.from_schema(name="raw", parameters=schema, handler=handle)


def validate(made: Any, arguments: object, **options: Any) -> Any:
    return Validate(**options)(Call(made.name, arguments).resolved(made))


@pytest.mark.parametrize("made", [status, whoami, browse, of_schema({}), of_schema({"page": {"type": "integer"}})])
@pytest.mark.parametrize("sent", ["null", "[]", '""', " null ", "[ ]", "{}", "```json\nnull\n```"])
def test_nothing_in_any_form_is_no_arguments(made: Any, sent: str) -> None:
    """Where nothing is required, text that holds nothing is a call without arguments, and told as a repair."""
    found = validate(made, sent)
    assert isinstance(found, ValidCall)
    assert found.params == {}
    assert [each.rule for each in found.repairs] == ([] if sent == "{}" else ["json_text"])


@pytest.mark.parametrize("sent", ["null", "[]", '""'])
def test_nothing_is_not_what_is_required(sent: str) -> None:
    """Where something is required the refusal stays, with the form of what to send; so it does without repairs."""
    text = render(validate(pay, sent).failure())
    assert '{"recipient": <object>}' in text
    assert "{}" in render(validate(status, sent, repair=()).failure())


@pytest.mark.parametrize("made", [status, browse, of_schema({"page": {"type": "integer"}})])
@pytest.mark.parametrize(
    "sent",
    [
        {"arguments": {}}, {"args": "{}"}, {"input": {}}, {"kwargs": None}, {"parameters": ""}, {"_": {}},
        {"name": "NAME", "arguments": {}}, {"function": {"name": "NAME", "arguments": {}}}, {"params": {"args": {}}},
    ],
    ids=str,
)  # fmt: skip
def test_an_empty_wrapper_is_opened(made: Any, sent: dict[str, Any]) -> None:
    """A wrapper with nothing in it is a call without arguments, where all of them are optional."""
    found = validate(made, json.loads(json.dumps(sent).replace("NAME", made.name)))
    assert isinstance(found, ValidCall)
    assert (found.params, found.repairs[0].rule) == ({}, "wrapped")


@pytest.mark.parametrize("key", ["_", "__", "arg0", "0", "positional_1"])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_wrapper_is_no_value(key: str, as_text: bool) -> None:
    """An object that holds the parameter by its name is never the value of that parameter under a positional name."""
    inner: Any = {"recipient": {"iban": "DE1"}}
    found = validate(pay, {key: json.dumps(inner) if as_text else inner})
    if isinstance(found, Failure):
        assert isinstance(found.failure(), InvalidParams)
    else:
        assert found.params == inner


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("resign", None), ("logout", None), ("LOGOUT", None), ("homedelivery", None),
        ("re_sign", "re-sign"), ("Re Sign", "re-sign"), ("ReSign", "re-sign"), ("LogOut", "log-out"),
        ("Home Delivery", "home-delivery"), ("HomeDelivery", "home-delivery"), ("HOME_DELIVERY", "home-delivery"),
        ("home office", "HomeOffice"), ("homeoffice", "HomeOffice"), ("iphone-15-pro", None),
        ("iphone 15 pro", "iPhone 15 Pro"), ("v2", None),
    ],
)  # fmt: skip
def test_a_choice_is_read_by_its_words(sent: str, read: str | None) -> None:
    """Two words are not one: a separator may be another one or a capital, and none is dropped inside of a word."""
    found = validate(decide, {"action": sent})
    if read is None:
        assert isinstance(found, Failure)
    else:
        assert found.params == {"action": read}


def test_a_joined_choice_is_suggested() -> None:
    """What is refused because two words are not one is told with the choice that is near."""
    assert "Did you mean: re-sign?" in render(validate(decide, {"action": "resign"}).failure())


@pytest.mark.parametrize(
    "sent", [{"value": [3]}, {"value": 1, "flags": ["3"]}, {"value": 1, "deep": [[3]]}, {"value": [3.0]}], ids=str
)
def test_one_item_may_be_the_value_alone(sent: dict[str, Any]) -> None:
    """Where the scalar itself is allowed in the place of the array, its item has two readings, and is not repaired."""
    assert isinstance(validate(mark, sent), Failure)


def test_two_items_are_no_single_value() -> None:
    """Of several items each can only be an item."""
    assert validate(mark, {"value": [3, 4]}).params == {"value": ["3", "4"]}


@pytest.mark.parametrize(
    "text",
    [
        r"['a\x41']", r"['it\'s']", r"['\a']", r"['\101']", r"['\N{DASH}']", r"['\U0001F600']", r"['a\/b']",
        r"['\v', True]", r"['\ud83d\ude00']",
    ],
)  # fmt: skip
def test_an_escape_that_json_refuses_refuses_the_text(text: str) -> None:
    """A text in Python's spelling is read only if every string in it means the same in both grammars."""
    assert isinstance(validate(note, {"texts": text}), Failure)
    assert isinstance(validate(note, f"{{'texts': {text}}}").failure(), MalformedCall)


def test_escapes_of_both_grammars_are_read() -> None:
    """An escape with one meaning in both is no doubt."""
    assert validate(note, {"texts": r"""['a\nb', "c\t", '\u00e9', '\\', 'say "x"']"""}).params == {
        "texts": ["a\nb", "c\t", "é", "\\", 'say "x"']
    }


NUMBERS = of_schema({"whole": {"type": "integer"}, "amount": {"type": "number"}})


@pytest.mark.parametrize("name", ["whole", "amount"])
@pytest.mark.parametrize(
    "number", ["4.99999999999999999999", "1e400", "-1e400", "12345678901234567.89", "1e-400", "123456789012345678901e1"]
)
def test_a_number_that_a_float_changes_is_refused(name: str, number: str) -> None:
    """No number of a schema tool is rounded to another one: to a whole one, to zero, to infinity, or by an amount."""
    found = validate(NUMBERS, f'{{"{name}": {number}}}')
    assert isinstance(found.failure(), MalformedCall)
    assert "rounding" in render(found.failure())


@pytest.mark.parametrize("number", ["5.0", "1e5", "0.30000000000000004", "3.14159265358979323846", "1e23", "1e-9"])
def test_a_number_that_a_float_holds_is_read(number: str) -> None:
    """Digits behind the seventeenth say nothing, and an exponent that is exact is none the less."""
    assert validate(NUMBERS, f'{{"amount": {number}}}').params == {"amount": float(number)}
    assert validate(NUMBERS, '{"whole": 12345678901234567890}').params == {"whole": 12345678901234567890}
