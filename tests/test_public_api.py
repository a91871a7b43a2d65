"""The public names: listed, documented, quick to import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import attrs
import pytest

import toolcall_pipeline
from toolcall_pipeline import (
    builtin,
    dialogue,
    executors,
    hosts,
    mcp,
    messages,
    middlewares,
    parameters,
    privacy,
    telemetry,
    testing,
)

PACKAGES = [toolcall_pipeline, middlewares, messages, telemetry, testing]
LAZY_PACKAGES = [toolcall_pipeline, middlewares, executors, messages, telemetry]


@pytest.mark.parametrize("module", PACKAGES, ids=lambda module: module.__name__)
def test_all_is_sorted_and_complete(module: types.ModuleType) -> None:
    """`__all__` lists each public name once, and each can be imported."""
    assert len(module.__all__) == len(set(module.__all__))  # ruff keeps them in order
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public <= set(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)  # some are loaded at first use


PUBLIC = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in (toolcall_pipeline, middlewares, telemetry, testing)
    for name in module.__all__
    if isinstance(getattr(module, name), (type, types.FunctionType))
]


@pytest.mark.parametrize("value", PUBLIC)
def test_every_public_name_is_documented(value: Any) -> None:
    """Public classes and functions have docstrings, and so have their public methods."""
    assert value.__doc__
    if isinstance(value, type) and value.__module__.split(".")[0] == "toolcall_pipeline":
        for name, member in vars(value).items():
            if isinstance(member, (types.FunctionType, property)) and not name.startswith("_"):
                assert member.__doc__, name


ROOMS = [
    toolcall_pipeline,
    middlewares,
    executors,
    messages,
    telemetry,
    testing,
    dialogue,
    builtin,
    hosts,
    mcp,
    parameters,
    privacy,
]
CLASSES = {
    value: f"{module.__name__}.{name}"
    for module in ROOMS
    for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    if isinstance(value := getattr(module, name), type) and value.__module__.startswith("toolcall_pipeline")
}


@pytest.mark.parametrize("cls", [pytest.param(cls, id=name) for cls, name in CLASSES.items()])
def test_every_public_field_is_documented(cls: type) -> None:
    """A class of attrs or a named tuple describes each of its public fields under ``Args:`` or ``Attributes:``."""
    fields = [field.name for field in attrs.fields(cls)] if attrs.has(cls) else getattr(cls, "_fields", ())
    words = "\n".join(base.__doc__ or "" for base in cls.__mro__ if base.__module__.startswith("toolcall_pipeline"))
    named = set(re.findall(r"^\s+(\w+):", words, re.MULTILINE))
    assert {name for name in fields if not name.startswith("_")} <= named


@pytest.mark.parametrize("package", LAZY_PACKAGES, ids=lambda package: package.__name__)
def test_the_stub_of_a_lazy_package_is_its_list_of_names(package: types.ModuleType) -> None:
    """Each line of the stub is read at run time as type checkers read it: module, name, and nothing else."""
    assert package.__file__ is not None
    stub = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = [alias.asname for node in imports for alias in node.names]
    assert sorted(str(name) for name in names) == package.__all__
    assert set(package.__all__) <= set(dir(package))
    others = [node for node in stub.body if not isinstance(node, ast.ImportFrom)]
    assert [ast.unparse(node) for node in others] == (["__version__: str"] if package is toolcall_pipeline else [])


def test_a_name_is_imported_once_and_an_unknown_one_is_refused() -> None:
    """After its first use a name is an attribute of the package; an unknown one is an AttributeError."""
    code = """
import toolcall_pipeline, sys
assert not {"toolcall_pipeline.engine.call", "attrs", "anyio"} & set(sys.modules)
assert "Call" not in vars(toolcall_pipeline)
assert toolcall_pipeline.Call is toolcall_pipeline.engine.call.Call is vars(toolcall_pipeline)["Call"]
try:
    toolcall_pipeline.Cal
except AttributeError as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "module 'toolcall_pipeline' has no attribute 'Cal'"


def test_a_room_of_a_lazy_package_is_imported_at_its_first_use() -> None:
    """A name of the stub need not have been used before; a module beside the rooms of the stub is not found so."""
    code = """
import toolcall_pipeline, sys
rooms = ["engine", "tools", "messages", "approvals"]
assert not {f"toolcall_pipeline.{room}" for room in rooms} & set(sys.modules)
print([getattr(toolcall_pipeline, room).__name__.partition(".")[2] for room in rooms] == rooms)
print(hasattr(toolcall_pipeline, "cli"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


LAZY = ("pydantic", "pydantic_core", "jsonschema_rs", "rapidfuzz", "griffe", "opentelemetry.sdk", "click", "rich")


def test_what_is_heavy_is_imported_at_first_use() -> None:
    """Importing the package and making a thousand function tools imports no validator, SDK or terminal library."""
    code = f"""
import sys
import toolcall_pipeline.middlewares
tools = toolcall_pipeline.ToolRegistry()
for n in range(1000):
    def tool(a: int, b: str = "x") -> str:
        return b * a
    tools.tool(name=f"tool_{{n}}")(tool)
print([name for name in {LAZY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_room_around_a_lazy_package_is_not_a_part_of_it() -> None:
    """A name that a package takes from another room is found; the room itself is an AttributeError."""
    assert hasattr(executors, "Guards")
    assert not hasattr(executors, "guards")
