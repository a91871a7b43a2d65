"""A value whose parts are shared, as YAML's aliases of aliases make it, takes time for what it holds once."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from pydantic import SecretStr

from toolcall_pipeline import Call, Success, ToolRegistry, render
from toolcall_pipeline.messages.values import to_data
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.privacy.public_text import REDACTED
from toolcall_pipeline.privacy.redaction import Redaction


@attrs.define
class Pair:
    one: Any
    other: Any


def lists(levels: int) -> Any:
    made: Any = "ha"
    for _ in range(levels):
        made = [made] * 9
    return made


def dicts(levels: int) -> Any:
    made: Any = {"a": "ha"}
    for _ in range(levels):
        made = {str(n): made for n in range(9)}
    return made


def objects(levels: int) -> Any:
    made: Any = Pair(1, 2)
    for _ in range(3 * levels):
        made = Pair(made, made)
    return made


@pytest.mark.parametrize("make", [lists, dicts, objects])
def test_what_is_shared_is_bounded(make: Any) -> None:
    """Nine to the power of thirty parts are written as a few thousand, and the rest is named."""
    data, text = to_data(make(30))
    assert len(text) < 1_000_000
    assert "repeated too often" in text
    assert json.loads(text) == data
    assert len(render(Success(make(30)))) <= 100_100


@pytest.mark.parametrize("make", [lists, dicts, objects])
def test_what_is_shared_a_few_times_is_complete(make: Any) -> None:
    """A row that occurs twice is written twice."""
    row = make(1)
    _, text = to_data([row, row, {"again": row}])
    assert "repeated" not in text
    assert text.count(to_data(row)[1]) == 3


def test_refused_arguments_are_not_walked_to_their_end() -> None:
    """Redaction looks at 50,000 values of one call; the rest is withheld."""
    looked: list[object] = []

    def hook(path: str, value: object) -> object:
        looked.append(value)
        return value

    shown: Any = Redaction(None, hook).redact({"xs": [[n] for n in range(200_000)]})
    assert len(looked) <= 150_000
    assert shown["xs"][0] == [0]
    assert shown["xs"][-1] == REDACTED


@pytest.mark.long
async def test_a_call_of_too_many_values_is_refused_with_a_report() -> None:
    """The report of such a call holds no more of it than the redaction looked at."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def take(xs: list[int], key: SecretStr) -> int:
        return len(xs)

    report = await standard(tools).report(Call("take", {"xs": list(range(2_000_000)), "key": "k"}))
    assert report.error is not None
    assert report.error.kind == "validation"
