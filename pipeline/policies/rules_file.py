"""The file that a `RuleSet` is read from, in TOML. Each mistake in it is reported with its line."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..toml_file import TomlFile
from .rules import PolicyRule, RuleSet

_RULE_OPTIONS = ("tool", "effect", "principal", "arguments", "action", "message")
OPTIONS = ("default", "rules")


def read_rules(path: str | PathLike[str]) -> RuleSet:
    """Read the rules of a policy.

    ``default`` is the action for a call that no rule fits, and each ``[[rules]]`` is a `PolicyRule`.

    Raises:
        SetupError: The file cannot be read, or something in it is wrong. The text begins with the file and the line.
    """
    file = TomlFile.read(Path(path))
    for name in file.found:
        if name not in OPTIONS:
            raise file.mistake(f"unknown option `{name}`; known: {', '.join(OPTIONS)}", name)
    return make_rules(file)


def make_rules(file: TomlFile) -> RuleSet:
    """The rules among the options of a file that may have others as well.

    Raises:
        SetupError: As `read_rules`.
    """
    tables = file.tables(file.found.get("rules", []), "rules") if "rules" in file.found else []
    rules = tuple(_make_rule(file, number, table) for number, table in enumerate(tables))
    given = {"default": file.found["default"]} if "default" in file.found else {}
    return file.make(RuleSet, given, rules=rules, version=file.version)


def _make_rule(file: TomlFile, number: int, table: Mapping[str, Any]) -> PolicyRule:
    for name in table:
        if name not in _RULE_OPTIONS:
            known = ", ".join(_RULE_OPTIONS)
            raise file.mistake(f"unknown option `{name}`; known: {known}", "rules", number, name)
    if "action" not in table:
        raise file.mistake("the rule has no `action`", "rules", number)
    place = file.locate("rules", number).removesuffix(": ")
    return file.make(PolicyRule, table, "rules", number, place=f"{file.path.name}:{place.rpartition(':')[2]}")
