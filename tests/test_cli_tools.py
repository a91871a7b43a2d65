"""``toolcall tools``: prints a registry as a model sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.cli.list_tools import describe_type, list_parameters

MODULE = '''
from dataclasses import dataclass
from enum import Enum
from typing import Literal
from toolcall_pipeline.middlewares import Execute, standard
from toolcall_pipeline import Call, Failure, Success, Tool, ToolRegistry, Stack
from toolcall_pipeline.engine.errors import Unavailable

class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"

@dataclass
class Filter:
    text: str
    tags: list[str] | None = None

tools = ToolRegistry()

@tools.tool(effect="read")
async def weather(city: str, unit: Unit = Unit.CELSIUS, days: int = 3) -> str:
    """Tell the weather.

    Args:
        city: where: Zürich, 東京
        days: how many of them
    """
    return city

@tools.tool
def search(filters: list[Filter], mode: Literal["all", "any"] = "all") -> list[str]:
    """Find what matches."""
    return []

@tools.tool(effect="idempotent")
def delete(path: str) -> None:
    """Delete a file."""

tools.register(Tool.from_schema(name="foreign", parameters=None, handler=print, description="\\x1b[31mred [bold]"))
tools.disable("delete")
empty = ToolRegistry()
pipeline = standard(tools)

async def answer(call: Call) -> Success[object]:
    return Success(1)

without = Stack().end(answer)
'''
NUMBERS = count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"shelf_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield name
    sys.modules.pop(name, None)


def run(*arguments: str, columns: int = 100) -> Result:
    plain = dict.fromkeys(("FORCE_COLOR", "TTY_COMPATIBLE"))  # a developer's own may be set
    return CliRunner().invoke(toolcall, ["tools", *arguments], env={**plain, "COLUMNS": str(columns)})


LISTED = """\
weather  read
  Tell the weather.
    city  string                    required     where: Zürich, 東京
    unit  "celsius" | "fahrenheit"  = "celsius"
    days  integer                   = 3          how many of them

search  mutating
  Find what matches.
    filters         array of object          required
    filters[].text  string                   required
    filters[].tags  array of string or null  = null
    mode            "all" | "any"            = "all"

delete  idempotent  closed: disabled
  Delete a file.
    path  string  required

foreign  mutating
  \\x1b[31mred [bold]

4 tools, 3 offered to a model now
"""


@pytest.mark.parametrize("target", ["tools", "pipeline"])
def test_the_list(module: str, target: str) -> None:
    """Each tool is printed with effect, description and parameters, a closed one with the reason; no control codes."""
    result = run(f"{module}:{target}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n" == LISTED


def test_it_keeps_to_the_width(module: str) -> None:
    """In a narrow terminal cells are folded, and no character is lost."""
    output = run(f"{module}:tools", columns=40).stdout
    assert max(len(line) for line in output.splitlines()) <= 40
    assert Counter("".join(output.split())) == Counter("".join(LISTED.split()))


def test_no_tools(module: str) -> None:
    """An empty registry is not an error, and the output says that it is empty."""
    result = run(f"{module}:empty")
    assert (result.exit_code, result.stdout) == (0, f"{module}:empty has no tools\n")


def test_json(module: str) -> None:
    """--json prints what `definitions()` returns: the open tools, as a model is offered them."""
    result = run(f"{module}:tools", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == sys.modules[module].tools.definitions()
    assert [tool["name"] for tool in json.loads(result.stdout)] == ["weather", "search", "foreign"]
    assert "Zürich, 東京" in result.stdout


def test_json_of_a_module_that_prints(module: str, tmp_path: Path) -> None:
    """What a module or its factory prints goes to stderr, and --json stays JSON."""
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("\nprint('NOISE')\ndef make():\n    print('NOISE')\n    return tools\n")
    result = run(f"{module}:make", "--json")
    assert (len(json.loads(result.stdout)), result.stderr) == (3, "NOISE\nNOISE\n")


@pytest.mark.long
def test_json_is_stable(module: str) -> None:
    """--json prints the same bytes in every process."""
    command = [sys.executable, "-m", "toolcall_pipeline", "tools", f"{module}:tools", "--json"]
    printed = {
        subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_a_pipeline_without_a_registry(module: str) -> None:
    """A pipeline in which no stage has a registry is an error."""
    result = run(f"{module}:without")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is a Pipeline in which no stage has a ToolRegistry" in result.stderr


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "any"),
        (True, "any"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": ["integer", "null"]}, "integer or null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": "a"}, '"a"'),
        ({"type": "array"}, "array"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, "array of array of number"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({"properties": {"a": {}}}, "object"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "string or null"),
        ({"oneOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}, "integer or null"),
        ({"allOf": [{"$ref": "#/$defs/N"}]}, "integer"),
        ({"$ref": "#/$defs/Loop"}, "array of Loop"),
        ({"$ref": "#/$defs/Nowhere"}, "any"),
        ({"$ref": "https://example.org/thing"}, "any"),
    ],
)
def test_types_in_words(schema: Any, words: str) -> None:
    """A type is described in a few words: a reference by its target, a type that contains itself by its name."""
    root = {"$defs": {"N": {"type": "integer"}, "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}}}}
    assert words == describe_type(schema, root)


PATHS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"properties": {"a": True, "b": {"type": "object", "properties": {"c": {}}}}}, ["a", "b", "b.c"]),
    ({"properties": {"a": {"anyOf": [{"properties": {"b": {}}}, {"type": "null"}]}}}, ["a", "a.b"]),
    (
        {"$defs": {"T": {"properties": {"t": {"$ref": "#/$defs/T"}}}}, "properties": {"a": {"$ref": "#/$defs/T"}}},
        ["a", "a.t"],
    ),
    ({"properties": None, "required": "a"}, []),
]


@pytest.mark.parametrize(("schema", "paths"), PATHS)
def test_paths_of_parameters(schema: dict[str, Any], paths: list[str]) -> None:
    """Fields of objects are listed with their paths; those of a type that contains itself, once."""
    assert paths == [each.path for each in list_parameters(schema)]


def test_types_that_hold_each_other() -> None:
    """Types that all contain each other are listed once each, not once for every path through them."""
    names = [f"T{number}" for number in range(12)]
    fields = {name.lower(): {"$ref": f"#/$defs/{name}"} for name in names}
    objects = {name: {"type": "object", "properties": fields} for name in names}
    assert len(list_parameters({"$defs": objects, "properties": fields})) == 12 * 13


def test_words_for_types_that_hold_each_other() -> None:
    """The description of a union of types that all contain each other stays short."""
    references = [{"$ref": f"#/$defs/T{number}"} for number in range(12)]
    root = {"$defs": {f"T{number}": {"anyOf": references} for number in range(12)}}
    assert set(describe_type(references[0], root).split(" or ")) == {f"T{number}" for number in range(12)}
