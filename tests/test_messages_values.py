"""Values: any value that a tool returns has a text for the model."""

from __future__ import annotations

import enum
import itertools
import json
import math
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
from returns.result import Success

from toolcall_pipeline import render
from toolcall_pipeline.messages.plain_values import as_table


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
    """Raises when it is shown."""

    def __repr__(self) -> str:
        raise RuntimeError("hunter2")

    def __str__(self) -> str:
        raise RuntimeError("hunter2")


class HostileClass:
    """Raises when it is asked for its class."""

    @property  # type: ignore[misc]  # mypy knows that a class is no property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # as mypy
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


def not_showable(kind: str) -> str:
    return f"(a value of type {kind}, which cannot be shown as text)"


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
    "keys that are tuples": ({(1, 2): 3}, '{"1,2": 3}'),
    "bytes of text": (b"abc", '"abc"'),
    "other bytes": (b"\xff", "(1 bytes of binary data)"),
    "dataclass": (Point(1), '{"x": 1, "y": null}'),
    "attrs": (Span(1, Point(2)), '{"start": 1, "_end": {"x": 2, "y": null}}'),
    "model": (Model(title="a"), '{"title": "a"}'),
    "many in one": (
        [Point(1), Span(2), Model(title="a")],
        '[{"x": 1, "y": null}, {"start": 2, "_end": null}, {"title": "a"}]',
    ),
    "datetime": (datetime(2026, 11, 21, tzinfo=timezone.utc), '"2026-11-21T00:00:00Z"'),  # noqa: UP017
    "UUID": (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
    "path": (Path("a/b"), '"a/b"'),
    "decimal": (Decimal("1.50"), '"1.50"'),
    "enum": (Color.RED, '"red"'),
    "set": ({1}, "[1]"),
    "NaN": (math.nan, '"NaN"'),
    "NaN inside": ({"a": [math.inf]}, '{"a": ["Infinity"]}'),
    "surrogate inside": (["\ud800"], '["?"]'),
    "large number": (10**5_000, "1" + "0" * 5_000),
    "object of no kind": (object(), not_showable("object")),
    "function": (nested, not_showable("function")),
    "exception": (ValueError("hunter2"), not_showable("ValueError")),
    "ring": (cyclic(), '["(nested too deeply)"]'),
    "nested without end": (nested(), "[" * 100 + '"(nested too deeply)"' + "]" * 100),
    "hostile": (Hostile(), not_showable("Hostile")),
    "hostile in its class": (HostileClass(), not_showable("HostileClass")),
    "hostile inside": ([1, Hostile()], f'[1, "{not_showable("Hostile")}"]'),
    "hostile in a dataclass": (Point(1, Hostile()), f'{{"x": 1, "y": "{not_showable("Hostile")}"}}'),
    "hostile dict": (HostileDict(a=1), '{"a": 1}'),
    "model with a serialiser that fails": (Unserialisable(title="a"), not_showable("Unserialisable")),
}


@pytest.mark.parametrize(("value", "text"), [pytest.param(*row, id=name) for name, row in VALUES.items()])
def test_each_value_has_its_text(value: object, text: str) -> None:
    """Text is rendered as it is and any other value as JSON; a value that cannot be shown has a fixed text."""
    assert render(Success(value)) == text


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(JSON))
def test_plain_values_are_rendered_as_json(value: list[Any]) -> None:
    """The text for plain values is JSON of an equal value."""
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
    """The text for any value is not empty, within the limit, and can be encoded."""
    text = render(Success(value))
    assert text
    assert len(text) <= 100_000
    assert text.encode().decode() == text
    assert json.loads(render(Success(value), profile="structured")).keys() == {"ok", "data"}


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
def test_binary_data_inside_a_value_hides_nothing_else(value: object, text: str) -> None:
    """Bytes that are not text are replaced by their number, and everything around them is rendered."""
    assert render(Success(value)) == text


def test_an_iterator_is_not_consumed() -> None:
    """An iterator is not read: it may be endless, and its items would be lost."""
    endless = itertools.count()
    assert render(Success(endless)) == not_showable("count")
    assert next(endless) == 0


@pytest.mark.parametrize("written", ['{"a": [1, null]}', {"a": [1, None]}], ids=["text", "value"])
def test_what_a_foreign_value_says_in_json_is_its_data(written: object) -> None:
    """A value without any other form of a table may give its JSON, as text or as plain data."""

    class Report:
        def to_json(self) -> object:
            return written

    assert as_table(Report()) == {"a": [1, None]}
    assert as_table(object()) is None


def test_a_long_range_is_told_as_it_was_made() -> None:
    """A short one is the list of its numbers."""
    assert render(Success(range(10_000))) == json.dumps(list(range(10_000)))
    assert render(Success(range(10_001))) == json.dumps("range(0, 10001)")
