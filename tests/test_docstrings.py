"""Docstrings in three styles: the descriptions of a tool and of its parameters, the same in every process."""

# A tool made of a function of any type has no type either.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import inspect
import json
import logging
import os
import subprocess
import sys
import time
from typing import Any, TypedDict, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Unpack

from docstring_cases import CASES
from toolcall_pipeline import tool
from toolcall_pipeline.parameters.docstrings import read_description, read_parameters


@pytest.fixture
def silent(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Any:
    caplog.set_level(logging.DEBUG)
    yield
    assert (caplog.records, *capfd.readouterr()) == ([], "", "")


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("text", "description", "parameters"), [pytest.param(*row, id=name) for name, row in CASES.items()]
)
def test_a_docstring_describes_a_tool_and_its_parameters(
    text: str, description: str, parameters: dict[str, str]
) -> None:
    """The description is the text before the sections; a parameter's is one line; nothing is logged."""
    assert read_description(text) == description
    assert read_parameters(text) == parameters


STYLES = {
    "google": "Add.\n\n    Args:\n        x: One.\n        more: Others.\n    ",
    "numpy": "Add.\n\n    Parameters\n    ----------\n    x : int\n        One.\n    **more\n        Others.\n    ",
    "sphinx": "Add.\n\n    :param int x: One.\n    :param \\**more: Others.\n    ",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=style) for style, text in STYLES.items()])
def test_a_definition_is_the_same_in_each_style(text: str) -> None:
    """The definition does not depend on the style of the docstring, nor on its indentation."""

    def add(x: int, y: int = 2, **more: int) -> None: ...

    add.__doc__ = text
    shown = tool(add).definition()
    assert shown["description"] == "Add."
    assert shown["parameters"]["properties"] == {
        "x": {"type": "integer", "description": "One."},
        "y": {"type": "integer", "default": 2},
    }


class Options(TypedDict, total=False):
    more: int


@pytest.mark.parametrize("text", [pytest.param(text, id=style) for style, text in STYLES.items()])
def test_what_is_said_of_further_arguments_is_shown_where_there_may_be_some(text: str) -> None:
    """With their type, if they have one; where a TypedDict names them all, no others are allowed."""

    def typed(x: int, **more: int) -> None: ...
    def untyped(x: int, **more: Any) -> None: ...
    def named(x: int, **more: Unpack[Options]) -> None: ...

    for function, expected in (
        (typed, {"type": "integer", "description": "Others."}),
        (untyped, {"description": "Others."}),
        (named, False),
    ):
        function.__doc__ = text
        assert tool(cast("Any", function)).definition()["parameters"]["additionalProperties"] == expected


PIECES = [each for text, _, _ in CASES.values() for each in text.splitlines()]
ODD = [
    "    x (\\d): y",
    "    x (f'{y'): z",
    ":param",
    ":param (: x",
    "x : {",
    ":type x y: z",
    "```",
    ">>> x",
    "\x00",
    "Deprecated:",
]


@given(st.lists(st.sampled_from([*PIECES, *ODD]) | st.text(max_size=8), max_size=12))
def test_no_docstring_is_too_odd(lines: list[str]) -> None:
    """For any text, the description is its beginning, and that of a parameter is one line that is not empty."""
    text = inspect.cleandoc("\n".join(lines))
    assert text.lstrip().startswith(read_description(text))
    assert all(each and each == " ".join(each.split()) for each in read_parameters(text).values())


def test_a_long_docstring_is_read_quickly() -> None:
    """Looking for sections takes time in proportion to the length of the text."""
    for piece in ("\n", " ", "Args:\n", "    \n", "Parameters\n", ":param ", "Args:\n\n", "-\n"):
        began = time.process_time()
        read_description(piece * 20_000)
        assert time.process_time() - began < 1, repr(piece)


SCRIPT = """
import json, sys
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any
from pydantic import BaseModel, Field
from toolcall_pipeline import ToolRegistry
class Color(Enum):
    RED = "red"; GREEN = "green"; BLUE = "blue"; BLACK = "black"
class Model(BaseModel):
    words: set[str] = {"one", "two", "three", "four"}
    colors: frozenset[Color] | None = frozenset(Color)
@dataclass
class Data:
    words: frozenset[str] = frozenset(("one", "two", "three", "four"))
tools = ToolRegistry()
@tools.tool
def paint(
    words: set[str] = {"one", "two", "three", "four"},
    colors: frozenset[Color] | None = frozenset(Color),
    nested: dict[str, list[set[str]]] = {"a": [{"one", "two", "three", "four"}]},
    pair: tuple[set[str], int] = ({"one", "two", "three", "four"}, 1),
    field: Annotated[set[str], Field(examples=[{"one", "two", "three"}])] = Field(default={"one", "two", "three"}),
    model: Model = Model(),
    data: Data = Data(),
    anything: Any = frozenset(("one", "two", "three", "four")),
    order: list[str] = ["two", "one"],
) -> None:
    '''Paint.

    Args:
        words: To be painted.
    '''
first = json.dumps(tools.definitions())
assert first == json.dumps(tools.definitions())
print(first)
"""


@pytest.mark.long
def test_definitions_are_the_same_in_every_process() -> None:
    """Sets and enums are shown in one order: a prompt that changes from run to run cannot be cached."""
    shown = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(shown) == 1
    (only,) = shown
    properties = json.loads(only)[0]["parameters"]["properties"]
    assert properties["words"]["default"] == ["four", "one", "three", "two"]
    assert properties["order"]["default"] == ["two", "one"]
    assert properties["model"]["default"]["colors"] == ["black", "blue", "green", "red"]


def test_griffe_is_imported_for_a_docstring_with_parameters() -> None:
    """Neither registering a thousand tools nor a docstring without parameters imports griffe."""
    code = """
import sys
from toolcall_pipeline import ToolRegistry
tools = ToolRegistry()
def plain(x: int) -> None:
    'Do.\\n\\nReturns:\\n    Nothing.'
def described(x: int) -> None:
    'Do.\\n\\nArgs:\\n    x: It.'
for number in range(1000):
    tools.tool(name=f"tool_{number}")(described)
tools.tool(plain)
tools.tools["plain"].definition()
before = "griffe" in sys.modules
tools.tools["tool_7"].definition()
print(before, "griffe" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
