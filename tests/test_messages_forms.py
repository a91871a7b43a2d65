"""Forms: values of each type are shown in their usual form, and what has none is named by its type."""

from __future__ import annotations

import array
import datetime as dt
import enum
import ipaddress
import json
import logging
import math
import sqlite3
import types
from collections import ChainMap, Counter, OrderedDict, UserList, deque
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from unittest.mock import MagicMock
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr

import foreign_values as foreign
from toolcall_pipeline import Success, render
from toolcall_pipeline.messages import Audio, File, Image, Link


class Pair(NamedTuple):
    x: int
    y: object


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.Enum):
    RED = ("r", 1)


class Shot(BaseModel):
    name: str
    png: bytes
    key: SecretStr = SecretStr("hunter2")


def sqlite_rows() -> list[sqlite3.Row]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute("SELECT 7 AS id, 'lamp' AS name").fetchall()


DAY = dt.date(2026, 11, 22)
FORMS: dict[str, tuple[object, object]] = {
    "named tuple": (Pair(1, Pair(2, None)), {"x": 1, "y": {"x": 2, "y": None}}),
    "named tuples in a list": ([Pair(1, 2)], [{"x": 1, "y": 2}]),
    "set, in order": ({"b", "a", "c"}, ["a", "b", "c"]),
    "set of several types": ({1, "a"}, [1, "a"]),
    "frozen set in a dict": ({"tags": frozenset((3, 1))}, {"tags": [1, 3]}),
    "deque": (deque([1, DAY]), [1, "2026-11-22"]),
    "user list": (UserList([1]), [1]),
    "range": (range(3), [0, 1, 2]),
    "keys": ({"a": 1}.keys(), ["a"]),
    "values": ({"a": 1}.values(), [1]),
    "counter": (Counter("aab"), {"a": 2, "b": 1}),
    "chain map": (ChainMap({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
    "ordered": (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "read-only": (types.MappingProxyType({"a": 1}), {"a": 1}),
    "namespace": (types.SimpleNamespace(a=DAY), {"a": "2026-11-22"}),
    "integer enum": ({"level": Level.HIGH}, {"level": 3}),
    "enum of a tuple": (Colour.RED, ["r", 1]),
    "enum as key": ({Level.HIGH: 1, Colour.RED: 2}, {"3": 1, '["r", 1]': 2}),
    "keys that JSON takes for one": ({1: "a", "1": "b"}, {"1": "a", "1 (str)": "b"}),
    "date": ([DAY], ["2026-11-22"]),
    "time": ([dt.time(9, 5)], ["09:05:00"]),
    "duration": ([dt.timedelta(hours=1, minutes=30)], ["PT1H30M"]),
    "decimal": ([Decimal("1.10")], ["1.10"]),
    "uuid": ([UUID(int=1)], ["00000000-0000-0000-0000-000000000001"]),
    "path": ([PurePosixPath("a/b")], ["a/b"]),
    "address": ([ipaddress.ip_address("10.0.0.1")], ["10.0.0.1"]),
    "bytes of text": ([b"a"], ["a"]),
    "view of memory": ([memoryview(b"\xff\xfe")], ["(2 bytes of binary data)"]),
    "model with bytes": (
        [Shot(name="a", png=b"\xff")],
        [{"name": "a", "png": "(1 bytes of binary data)", "key": "**********"}],
    ),
    "frame": (
        foreign.DataFrame([{"a": 1, "b": math.nan}, {"a": foreign.NAType(), "b": DAY}]),
        [{"a": 1, "b": None}, {"a": None, "b": "2026-11-22"}],
    ),
    "fraction": ([Fraction(1, 3)], ["1/3"]),
    "frame with an index": (foreign.DataFrame([{"a": 1}], index=["x"]), [{"index": "x", "a": 1}]),
    "missing": ([foreign.NAType()], [None]),
    "frame that counts from 1": (foreign.counted_from_1(), [{"index": 1, "a": 1}]),
    "frame with columns of one name": (
        foreign.DataFrame([{"a": 1, "b": 2}], columns=["a", "a"]),
        {"index": [0], "columns": ["a", "a"], "data": [[1, 2]]},
    ),
    "frame in a dict": ({"rows": foreign.DataFrame([{"a": 1}])}, {"rows": [{"a": 1}]}),
    "series": (foreign.Series([1, math.nan]), [1, None]),
    "series with an index": (foreign.Series([1, 2], index=["x", "y"]), {"x": 1, "y": 2}),
    "series with an index of equal keys": (
        foreign.Series([1, 2], index=["x", "x"]),
        [{"index": "x", "0": 1}, {"index": "x", "0": 2}],
    ),
    "frame of polars": (foreign.PolarsFrame(), [{"a": 1}, {"a": None}, {"a": None}]),
    "table of Arrow": (foreign.Table(), [{"a": 1}]),
    "array": ({"v": foreign.Array([[1, 2], [3, 4]])}, {"v": [[1, 2], [3, 4]]}),
    "number of numpy": ([foreign.Array(1.5)], [1.5]),
    "times of numpy": (foreign.Array([22], "M"), ["2026-11-22"]),
    "array of the standard library": (array.array("i", [1, 2]), [1, 2]),
    "row of a database": ([foreign.Row()], [{"id": 7, "name": "lamp"}]),
    "rows of sqlite3": (sqlite_rows(), [{"id": 7, "name": "lamp"}]),
    "image in a dict": ({"shot": Image("image/png", b"abc")}, {"shot": "(an image, image/png, 3 bytes)"}),
    "sound in a dict": ({"a": Audio("audio/wav", b"")}, {"a": "(audio, audio/wav, 0 bytes)"}),
    "file in a dict": ({"f": File("text/csv", b"1", "a.csv")}, {"f": "(a file, a.csv, text/csv, 1 bytes)"}),
    "link in a dict": ({"l": Link("https://a.b/c")}, {"l": "(a link: https://a.b/c)"}),
}


@pytest.mark.parametrize(("value", "data"), [pytest.param(*row, id=name) for name, row in FORMS.items()])
def test_each_type_has_its_usual_form(value: object, data: object) -> None:
    """A value is rendered as the JSON that its type is usually written as, alone and inside of another value."""
    assert json.loads(render(Success(value))) == data
    assert json.loads(render(Success({"in": [value]}))) == {"in": [data]}
    assert json.loads(render(Success(value), profile="structured")) == {"ok": True, "data": data}


def _generator() -> Any:
    yield 1


NOT_SHOWABLE: dict[str, tuple[object, str]] = {
    "object": (object(), "object"),
    "generator": (_generator(), "generator"),
    "function": (_generator, "function"),
    "class": (Pair, "type"),
    "module": (json, "module"),
    "exception": (OSError("/home/ann/diary"), "OSError"),
    "mock": (MagicMock(), "MagicMock"),
    "proxy": (foreign.Proxy(), "Proxy"),
    "logger": (logging.getLogger("x"), "Logger"),
}


@pytest.mark.parametrize(("value", "kind"), [pytest.param(*row, id=name) for name, row in NOT_SHOWABLE.items()])
def test_what_cannot_be_shown_is_named_by_its_type(value: object, kind: str, caplog: Any) -> None:
    """A value without a usual form is told with its type, and logged once as a warning; its ``repr`` is never shown."""
    text = f"(a value of type {kind}, which cannot be shown as text)"
    assert render(Success(value)) == text
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "toolcall_pipeline")
    assert kind in record.getMessage()
    assert json.loads(render(Success([1, {"a": value}]))) == [1, {"a": text}]
    assert "0x" not in caplog.text
    assert "diary" not in caplog.text


def test_what_can_be_shown_is_not_logged(caplog: Any) -> None:
    """No warning is logged for a value that is shown."""
    for value, _ in FORMS.values():
        render(Success(value))
    assert caplog.records == []


def test_a_long_range_is_not_written_out() -> None:
    """A range is a list if it is short, else its two ends."""
    assert render(Success(range(10**12))) == '"range(0, 1000000000000)"'


def test_numbers_of_very_many_digits() -> None:
    """A number with more digits than `json` writes is text inside of JSON, and far too many are only counted."""
    assert json.loads(render(Success([10**5000]))) == ["1" + "0" * 5000]
    assert render(Success([1 << 10**6])) == '["(an integer of about 301,030 digits)"]'
