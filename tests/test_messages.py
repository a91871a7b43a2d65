"""Messages: what a model is told, byte for byte; total over errors and values; and raising for whoever wants that."""

from __future__ import annotations

import enum
import itertools
import json
import math
import pickle
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer
from returns.result import Failure, Success
from test_messages_cases import ERRORS, SECRET

from pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    OutcomeUnknown,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolCallError,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
    raise_for_error,
    render,
)
from pipeline.privacy import approved

TEXTS: dict[str, tuple[ToolError, str]] = {
    "unknown tool": (
        UnknownTool("raed"),
        "Error: Tool 'raed' not found.\nPlease try again with one of the available tools.",
    ),
    "unknown tool, suggestions": (
        UnknownTool("raed", ("read", "read_all")),
        (
            "Error: Tool 'raed' not found.\n"
            "Did you mean: read, read_all?\n"
            "Please try again with one of the available tools."
        ),
    ),
    "unknown tool, list": (
        UnknownTool("raed", (), ("read", "write")),
        (
            "Error: Tool 'raed' not found.\n"
            "Available tools: read, write\n"
            "Please try again with one of the available tools."
        ),
    ),
    "unknown tool, both": (
        UnknownTool("raed", ("read",), ("read", "write")),
        (
            "Error: Tool 'raed' not found.\n"
            "Did you mean: read?\n"
            "Available tools: read, write\n"
            "Please try again with one of the available tools."
        ),
    ),
    "unknown tool, no name": (
        UnknownTool(""),
        "Error: Tool '' not found.\nPlease try again with one of the available tools.",
    ),
    "unknown tool, long name": (
        UnknownTool("x" * 101),
        f"Error: Tool '{'x' * 100}…' not found.\nPlease try again with one of the available tools.",
    ),
    "unavailable": (Unavailable("read", "disabled"), "This tool is not available"),
    "unavailable for a while": (Unavailable("read", "paused", 3.0), "This tool is not available"),
    "not executed": (NotExecuted("the batch stopped"), "Error: Not executed: the batch stopped."),
    "not executed, a sentence": (NotExecuted("Plan mode."), "Error: Not executed: Plan mode."),
    "malformed": (
        MalformedCall("trailing comma", (1, 8)),
        "Error: The arguments are not a JSON object: trailing comma at line 1 column 8.",
    ),
    "malformed, no place": (
        MalformedCall("they are an array"),
        "Error: The arguments are not a JSON object: they are an array.",
    ),
    "cut off": (
        MalformedCall("EOF while parsing a string", (1, 80), truncated=True),
        "Error: The arguments were cut off. Send a smaller payload, or split it over several calls.",
    ),
    "missing parameter": (
        InvalidParams((Problem("path", "required", "a string (Where it is)"),)),
        "Error: Missing required parameter: path\nPlease send path: a string (Where it is).",
    ),
    "missing parameter, nothing known": (
        InvalidParams((Problem("path", "required", ""),)),
        "Error: Missing required parameter: path\nPlease send path: a value.",
    ),
    "unknown parameter": (
        InvalidParams((Problem("pth", "additionalProperties", "path, limit", "1"),)),
        "Error: Unknown parameter: pth\nThe parameters are: path, limit.",
    ),
    "unknown parameter, none known": (
        InvalidParams((Problem("pth", "additionalProperties", ""),)),
        "Error: Unknown parameter: pth",
    ),
    "unknown parameter, long": (
        InvalidParams((Problem("x" * 200, "additionalProperties", ""),)),
        f"Error: Unknown parameter: {'x' * 100}…",
    ),
    "author's words": (
        InvalidParams((Problem("count", "validator", "must be a positive number", "-1"),)),
        "Error: Invalid parameter value for count: must be a positive number",
    ),
    "author's words on all": (
        InvalidParams((Problem("", "validator", "too many at once"),)),
        "Error: Invalid parameters: too many at once",
    ),
    "wrong type": (
        InvalidParams((Problem("a.b[1]", "type", "an integer", "a string"),)),
        "Error: Invalid parameter value for a.b[1]: must be an integer, not a string",
    ),
    "limit": (
        InvalidParams((Problem("n", "minimum", "at least 1", "0"),)),
        "Error: Invalid parameter value for n: must be at least 1, not 0",
    ),
    "enum": (
        InvalidParams((Problem("mode", "enum", "'r' or 'w'", "a string"),)),
        "Error: Invalid parameter value for mode: must be 'r' or 'w'",
    ),
    "enum of another type": (
        InvalidParams((Problem("mode", "enum", "'r' or 'w'", "an array"),)),
        "Error: Invalid parameter value for mode: must be 'r' or 'w', not an array",
    ),
    "no repeats": (
        InvalidParams((Problem("ids", "uniqueItems", "an array without repeats", "an array"),)),
        "Error: Invalid parameter value for ids: must be an array without repeats",
    ),
    "several problems": (
        InvalidParams((Problem("a", "required", "a string"), Problem("b", "type", "a number", "true"))),
        (
            "Error: Missing required parameter: a\n"
            "Please send a: a string.\n"
            "Error: Invalid parameter value for b: must be a number, not true"
        ),
    ),
    "more problems than one reads": (
        InvalidParams(tuple(Problem(f"a[{place}]", "type", "a number", "null") for place in range(1_000))),
        "\n".join(f"Error: Invalid parameter value for a[{place}]: must be a number, not null" for place in range(20))
        + "\nError: And 980 more of these.",
    ),
    "no problem": (InvalidParams(()), "Error: Invalid parameters."),
    "unknown parameter, suggestion": (
        InvalidParams((Problem("pth", "additionalProperties", "path, limit", "1", "path"),)),
        "Error: Unknown parameter: pth\nThe parameters are: path, limit. Did you mean: path?",
    ),
    "unknown parameter, suggestion only": (
        InvalidParams((Problem("pth", "additionalProperties", "", "1", "path"),)),
        "Error: Unknown parameter: pth\nDid you mean: path?",
    ),
    "enum, suggestion": (
        InvalidParams((Problem("mode", "enum", "'read' or 'write'", "a string", "read"),)),
        "Error: Invalid parameter value for mode: must be 'read' or 'write'\nDid you mean: read?",
    ),
    "a name of several lines": (
        InvalidParams((Problem("a\nError: b", "additionalProperties", ""),)),
        "Error: Unknown parameter: a Error: b",
    ),
    "a description of several lines": (
        InvalidParams((Problem("path", "required", approved("a string (Where\n  it is)")),)),
        "Error: Missing required parameter: path\nPlease send path: a string (Where it is).",
    ),
    "a description without end": (
        InvalidParams((Problem("path", "required", approved("x" * 3_000)),)),
        f"Error: Missing required parameter: path\nPlease send path: {'x' * 999}….",
    ),
    "question": (NeedsUserInput("To whom should I send it?", "to"), "Question: To whom should I send it?"),
    "question, marked": (NeedsUserInput("Question: To whom?"), "Question: To whom?"),
    "not found": (ResourceNotFound(), "Error: Not found."),
    "not found, approved": (ResourceNotFound("No such file: a.txt"), "Error: No such file: a.txt"),
    "not found, suggestion": (
        ResourceNotFound("No such file: a.txt", FailureDetails(suggestion="Use ls to find it.")),
        "Error: No such file: a.txt. Use ls to find it.",
    ),
    "not found, suggestion only": (
        ResourceNotFound(details=FailureDetails(suggestion="Use ls to find it.")),
        "Error: Not found. Use ls to find it.",
    ),
    "denied": (Denied("policy"), "Error: Permission denied."),
    "denied, approved": (Denied("policy", "Only admins may do that."), "Error: Only admins may do that."),
    "set-up": (NeedsSetup("mail"), "Error: mail is not set up. Tell the user; trying again will not help."),
    "set-up, approved": (NeedsSetup("mail", "No account is connected."), "Error: No account is connected."),
    "time-out": (TimedOut(30.0), "Error: The tool did not finish within 30 seconds."),
    "time-out, short": (TimedOut(0.5), "Error: The tool did not finish within 0.5 seconds."),
    "time-out, of unknown length": (TimedOut(), "Error: The tool did not finish in time."),
    "time-out, in fractions": (TimedOut(1 / 3), "Error: The tool did not finish within 0.333333 seconds."),
    "time-out, of days": (TimedOut(604_800), "Error: The tool did not finish within 604800 seconds."),
    "time-out, without end": (TimedOut(math.inf), "Error: The tool did not finish in time."),
    "transient": (Transient(), "Error: The service is temporarily unavailable."),
    "transient, soon": (
        Transient(retry_after=0.2),
        "Error: The service is temporarily unavailable. Try again in 1 second.",
    ),
    "transient, later": (
        Transient(retry_after=30),
        "Error: The service is temporarily unavailable. Try again in 30 seconds.",
    ),
    "transient, never": (Transient(retry_after=math.inf), "Error: The service is temporarily unavailable."),
    "transient, nonsense": (Transient(retry_after=math.nan), "Error: The service is temporarily unavailable."),
    "execution": (ExecutionFailed(), "Error: The tool failed."),
    "execution, a message without end": (ExecutionFailed(approved("x" * 9_000)), f"Error: {'x' * 7_992}…"),
    "unknown tool, more suggestions than one reads": (
        UnknownTool("raed", ("a", "b", "c", "d")),
        "Error: Tool 'raed' not found.\nDid you mean: a, b, c?\nPlease try again with one of the available tools.",
    ),
    "malformed, in a place that nobody finds": (
        MalformedCall("trailing comma", (1, 10**10)),
        "Error: The arguments are not a JSON object: trailing comma.",
    ),
    "execution, approved": (ExecutionFailed("Branch exists"), "Error: Branch exists"),
    "execution, suggestion": (
        ExecutionFailed("Branch exists!", FailureDetails("name", "Choose another name.")),
        "Error: Branch exists! Choose another name.",
    ),
    "outcome unknown": (
        OutcomeUnknown(Transient(SECRET), "list_orders"),
        "Error: The call may have taken effect, but its result was lost. Check with list_orders before repeating it.",
    ),
    "outcome unknown, no way to check": (
        OutcomeUnknown(),
        "Error: The call may have taken effect, but its result was lost. Check before repeating it.",
    ),
    "internal": (Crashed(SECRET), "An unexpected error occurred while executing this tool"),
}


@pytest.mark.parametrize(("error", "text"), [pytest.param(*row, id=name) for name, row in TEXTS.items()])
def test_each_error_has_its_text(error: ToolError, text: str) -> None:
    """What a model reads of a failure is fixed to the byte; `tell` says the same as `say`."""
    assert render(error) == text
    assert render(Failure(error)) == text


def test_every_kind_has_a_text() -> None:
    """None of the fourteen kinds is left out above."""
    assert len({type(error) for error, _ in TEXTS.values()}) == 14


@given(ERRORS)
def test_there_is_a_text_for_every_error(error: ToolError) -> None:
    """It is never empty, holds nothing of a cause, and can be sent; the error can be sent as well."""
    text = render(error)
    assert text.strip()
    assert "hunter2" not in text
    assert text.encode().decode() == text
    assert render(pickle.loads(pickle.dumps(error))) == text


# --- values -----------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Shade(str, enum.Enum):  # noqa: UP042  # as many still write it
    DARK = "dark"


@dataclass
class Point:
    x: int
    y: object = None


@attrs.define
class Span:
    start: int
    _end: object = None


class Model(BaseModel):
    title: str


class Unserialisable(BaseModel):
    title: str

    @field_serializer("title")
    def refuse(self, value: str) -> str:
        raise RuntimeError("hunter2")


class Hostile:
    """Raises on being shown."""

    def __repr__(self) -> str:
        raise RuntimeError("hunter2")

    def __str__(self) -> str:
        raise RuntimeError("hunter2")


class HostileText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("hunter2")


class HostileDict(dict[str, int]):
    def __iter__(self) -> Any:
        raise RuntimeError("hunter2")

    def items(self) -> Any:
        raise RuntimeError("hunter2")


def cyclic() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def nested(levels: int = 100_000) -> list[Any]:
    ring: list[Any] = []
    for _ in range(levels):
        ring = [ring]
    return ring


UNTELLABLE = "(the result cannot be shown as text)"
VALUES: dict[str, tuple[object, str]] = {
    "None": (None, "(no output)"),
    "empty text": ("", "(no output)"),
    "text": ("as it is\n", "as it is\n"),
    "text that looks like JSON": ('{"a": 1}', '{"a": 1}'),
    "text of another kind": (Shade.DARK, "dark"),
    "text that will not be shown": (HostileText("plain"), "plain"),
    "text with a lone surrogate": ("a\ud800b", "a?b"),
    "umlaut": ({"ä": "ö"}, '{"ä": "ö"}'),
    "zero": (0, "0"),
    "false": (False, "false"),
    "float": (1.5, "1.5"),
    "empty list": ([], "[]"),
    "tuple": ((1, 2), "[1, 2]"),
    "object": ({"a": [1, None, True]}, '{"a": [1, null, true]}'),
    "keys that are numbers": ({1: 2}, '{"1": 2}'),
    "keys that are tuples": ({(1, 2): 3}, '{"1,2":3}'),
    "bytes of text": (b"abc", '"abc"'),
    "other bytes": (b"\xff", "(1 bytes of binary data)"),
    "dataclass": (Point(1), '{"x":1,"y":null}'),
    "attrs": (Span(1, Point(2)), '{"start":1,"_end":{"x":2,"y":null}}'),
    "model": (Model(title="a"), '{"title":"a"}'),
    "many in one": ([Point(1), Span(2), Model(title="a")], '[{"x":1,"y":null},{"start":2,"_end":null},{"title":"a"}]'),
    "datetime": (datetime(2026, 11, 21, tzinfo=timezone.utc), '"2026-11-21T00:00:00Z"'),  # noqa: UP017
    "UUID": (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
    "path": (Path("a/b"), '"a/b"'),
    "decimal": (Decimal("1.50"), '"1.50"'),
    "enum": (Color.RED, '"red"'),
    "set": ({1}, "[1]"),
    "NaN": (math.nan, '"NaN"'),
    "NaN inside": ({"a": [math.inf]}, '{"a":["Infinity"]}'),
    "surrogate inside": (["\ud800"], '["?"]'),
    "large number": (10**5_000, "1" + "0" * 5_000),
    "object of no kind": (object(), UNTELLABLE),
    "function": (nested, UNTELLABLE),
    "exception": (ValueError("hunter2"), UNTELLABLE),
    "ring": (cyclic(), UNTELLABLE),
    "nested without end": (nested(), UNTELLABLE),
    "hostile": (Hostile(), UNTELLABLE),
    "hostile inside": ([1, Hostile()], f'[1,"{UNTELLABLE}"]'),
    "hostile in a dataclass": (Point(1, Hostile()), f'{{"x":1,"y":"{UNTELLABLE}"}}'),
    "hostile dict": (HostileDict(a=1), '{"a":1}'),
    "model with a serialiser that fails": (Unserialisable(title="a"), UNTELLABLE),
}


@pytest.mark.parametrize(("value", "text"), [pytest.param(*row, id=name) for name, row in VALUES.items()])
def test_each_value_has_its_text(value: object, text: str) -> None:
    """Text is told as it is and all else as JSON; what cannot be shown is no reason to raise, or to say nothing."""
    assert render(Success(value)) == text


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(JSON))
def test_json_is_told_as_json(value: list[Any]) -> None:
    """What a tool returns as plain values, a model can read back."""
    assert json.loads(render(Success(value))) == value


ODD: Any = st.recursive(
    st.none()
    | st.floats()
    | st.binary()
    | st.text(st.characters(codec=None))
    | st.complex_numbers()
    | st.dates()
    | st.timedeltas()
    | st.builds(Hostile)
    | st.builds(object)
    | st.builds(Point, st.integers(), st.builds(Hostile)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.builds(Span, st.integers(), inner)
        | st.dictionaries(st.none() | st.text() | st.binary() | st.floats(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(ODD)
def test_there_is_a_text_for_every_value(value: object) -> None:
    """Whatever a tool returns: a text that can be sent, and that is not empty."""
    text = render(Success(value))
    assert text
    assert len(text) <= 100_000
    assert text.encode().decode() == text
    assert json.loads(render(Success(value), profile="structured")).keys() == {"ok", "data"}


# --- for whoever wants exceptions -------------------------------------------------------------------------------------


def test_a_success_is_its_value() -> None:
    """`raise_for_error` gives back what the tool returned, as it is."""
    value = object()
    assert raise_for_error(Success(value)) is value
    assert raise_for_error(Success(None)) is None


@pytest.mark.parametrize(("error", "text"), [pytest.param(*row, id=name) for name, row in TEXTS.items()])
def test_a_failure_is_raised(error: ToolError, text: str) -> None:
    """The exception holds the error, and reads as the model would read it."""
    with pytest.raises(ToolCallError) as raised:
        raise_for_error(Failure(error))
    assert raised.value.error is error
    assert str(raised.value) == text
    assert "hunter2" not in repr(raised.value)


CHAINED: list[tuple[ToolError, BaseException | None]] = [
    (Crashed(SECRET), SECRET),
    (Denied("policy", cause=SECRET), SECRET),
    (Crashed(), None),
    (UnknownTool("raed"), None),
    (OutcomeUnknown(Transient(SECRET)), None),
]


@pytest.mark.parametrize(("error", "cause"), CHAINED, ids=["crash", "denial", "no cause", "no such field", "an error"])
def test_a_private_cause_is_the_exceptions_cause(error: ToolError, cause: BaseException | None) -> None:
    """Whoever raises wants the stack: the cause stands behind the exception, where there is one."""
    with pytest.raises(ToolCallError) as raised:
        raise_for_error(Failure(error))
    assert raised.value.__cause__ is cause


def test_the_exception_pickles() -> None:
    """It can leave a worker process, without the secrets of its cause."""
    raised = pickle.loads(pickle.dumps(ToolCallError(Crashed(SECRET))))
    assert raised.error == Crashed()
    assert str(raised) == "An unexpected error occurred while executing this tool"


@attrs.frozen
class Shot:
    name: str
    png: bytes


@dataclass
class Page:
    title: str
    png: bytes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"n": 1, "png": b"\xff\x00"}, '{"n": 1, "png": "(2 bytes of binary data)"}', id="in a dict"),
        pytest.param([1, b"\xff"], '[1, "(1 bytes of binary data)"]', id="in a list"),
        pytest.param(
            [Shot("a", b"\xff")], '[{"name": "a", "png": "(1 bytes of binary data)"}]', id="in an attrs class"
        ),
        pytest.param(Page("a", b"\xff"), '{"title": "a", "png": "(1 bytes of binary data)"}', id="in a dataclass"),
    ],
)
def test_bytes_inside_of_a_value_lose_nothing_else(value: object, text: str) -> None:
    """Bytes that are no text are counted where they stand, and all around them is told."""
    assert render(Success(value)) == text


def test_an_iterator_is_not_run_by_looking_at_it() -> None:
    """What would run, perhaps for ever, on being looked at is not looked at."""
    endless = itertools.count()
    assert render(Success(endless)) == "(the result cannot be shown as text)"
    assert next(endless) == 0
