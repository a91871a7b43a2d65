"""What a class takes and shows: what its docstring says under ``Args:``, and nothing that it keeps for itself."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from inspect import getdoc, signature
from pkgutil import walk_packages
from typing import Any

import attrs

import toolcall_pipeline


def _find_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in walk_packages(toolcall_pipeline.__path__, "toolcall_pipeline."):
        with suppress(ImportError):  # of a framework that is not installed
            names: dict[str, Any] = vars(import_module(module.name))
            found |= {
                name: each for name, each in names.items() if isinstance(each, type) and each.__module__ == module.name
            }
    return {name: each for name, each in found.items() if not name.startswith("_") and "Args:" in str(each.__doc__)}


EACH = _find_classes()
CLASSES = {name: each for name, each in EACH.items() if "__attrs_attrs__" in vars(each)}
# Only the library makes these, so they say what they hold and not what they take.
MADE_HERE = {"LintReport", "Telemetry", "ToolContext", "ToolDecorator", "TurnGuard"}
# These show how they stand, to whoever reads a failing test of ours.
SHOW_MORE = {"Invocation", "Policy", "ProblemFinder", "PydanticErrors", "SharedValues", "Stack"}


def test_a_constructor_takes_what_is_described() -> None:
    """What a class counts or remembers for itself is no argument."""
    undescribed = {
        name: left
        for name, each in CLASSES.items()
        if (left := set(signature(each).parameters) - _list_described(each)) and name not in MADE_HERE
    }
    assert undescribed == {}
    assert len(CLASSES) > 70


def test_a_repr_shows_what_was_given() -> None:
    """What a class keeps for itself may be large, and may be a secret."""
    shown = {
        name: private
        for name, each in CLASSES.items()
        if "attrs generated" in getattr(getattr(each.__repr__, "__code__", None), "co_filename", "")
        and (private := [field.name for field in attrs.fields(each) if field.repr and field.name.startswith("_")])
        and name not in MADE_HERE | SHOW_MORE
    }
    assert shown == {}


UNITS = {"": 1, "MiB": 1024 * 1024, "day": 86_400, "days": 86_400}


def test_a_default_is_the_one_that_is_described() -> None:
    """A number or a truth value, with the unit that stands behind it."""
    wrong: dict[str, tuple[object, object]] = {}
    compared = 0
    for name, each in EACH.items():
        described = _list_defaults(str(getdoc(each)))
        for parameter in signature(each).parameters.values():
            if type(parameter.default) in (bool, int, float) and parameter.name in described:
                compared += 1
                if described[parameter.name] != parameter.default:
                    wrong[f"{name}.{parameter.name}"] = (described[parameter.name], parameter.default)
    assert wrong == {}
    assert compared > 80


def _list_defaults(text: str) -> dict[str, object]:
    """The defaults by the names of arguments."""
    found: dict[str, object] = {}
    for name, words in re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", text, re.MULTILINE):
        if default := re.search(r"Default:?\s+(?:(True|False)|(\d[\d,]*(?:\.\d+)?)(?:\s+(MiB|days?))?)\b", words):
            truth, number, unit = default.groups("")
            found[name] = truth == "True" if truth else float(number.replace(",", "")) * UNITS[unit]
    return found


def _list_described(cls: type) -> set[str]:
    texts = [str(base.__doc__) for base in cls.__mro__ if base.__module__.startswith("toolcall_pipeline")]
    return set(re.findall(r"^\s+(\w+):", "\n".join(texts), re.MULTILINE))
