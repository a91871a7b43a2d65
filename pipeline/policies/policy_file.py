"""The file that a policy is read from, in TOML: for `standard`, and for the relay. Each mistake has its line."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import attrs

from ..base.setup_error import SetupError
from ..base.toml_file import TomlFile
from .relay_policy import Budget, RelayLimits, RelayPolicy, TelemetryPolicy, ToolPolicy
from .rules import PolicyRule, RuleSet

_RULE_OPTIONS = ("tool", "effect", "principal", "arguments", "action", "message")
_RULES = ("default", "rules", "budgets")


def read_rules(path: str | PathLike[str]) -> RuleSet:
    """Read the rules of a policy: ``default``, and each ``[[rules]]`` as a `PolicyRule`.

    Raises:
        SetupError: As `read_policy`.
    """
    made = read_policy(path)
    return RuleSet(version=made.version) if made.rules is None else made.rules


def read_policy(path: str | PathLike[str]) -> RelayPolicy:
    """Read a policy with all its options.

    Raises:
        SetupError: The file cannot be read, or something in it is wrong. The text begins with the file and the line.
    """
    file = TomlFile.read(Path(path))
    given = dict(file.found)
    if not given or given == {"rules": []}:  # as a file is while an editor or a deployment writes it anew
        raise SetupError(f'{path}: the policy is empty and would guard nothing; for no rules write: default = "allow"')
    known = list(dict.fromkeys((*_RULES, *(each.name for each in attrs.fields(RelayPolicy) if not each.metadata))))
    for name in given:
        if name not in known:
            raise file.mistake(f"unknown option `{name}`; known: {', '.join(known)}", name)
    rules = _make_rules(file) if "rules" in given or "default" in given else None
    budgets: list[Budget] = []
    for number, table in enumerate(file.tables(given["budgets"], "budgets") if "budgets" in given else []):
        if "calls" not in table:
            raise file.mistake("the budget has no `calls`", "budgets", number)
        budgets.append(file.make(Budget, table, "budgets", number))
    for name in _RULES:
        given.pop(name, None)
    tools = {
        name: file.make(ToolPolicy, file.table(each, "tools", name), "tools", name)
        for name, each in file.table(given.pop("tools", {}), "tools").items()
    }
    limits = file.make(RelayLimits, file.table(given.pop("limits", {}), "limits"), "limits")
    telemetry = None
    if "telemetry" in given:
        telemetry = file.make(TelemetryPolicy, file.table(given.pop("telemetry"), "telemetry"), "telemetry")
    renames = _read_renames(file, file.table(given.pop("renames", {}), "renames"))
    redact = given.get("redact", [])
    if not isinstance(redact, list):
        raise file.mistake(f"`redact` must be an array of names, not {redact!r}", "redact")
    given["redact"] = tuple(cast("list[Any]", redact))
    parts: dict[str, Any] = {
        "tools": tools,
        "renames": renames,
        "limits": limits,
        "telemetry": telemetry,
        "rules": rules,
    }
    made = file.make(RelayPolicy, given, **parts, budgets=tuple(budgets))
    return attrs.evolve(made, locate=file.locate, given=frozenset(file.found), version=file.version)


def _read_renames(file: TomlFile, table: Mapping[str, Any]) -> dict[str, str]:
    """Further names, and the tools that they mean."""
    for name, own in table.items():
        if not isinstance(own, str) or not own:
            raise file.mistake(f"`{name}` must be the name of a tool, not {own!r}", "renames", name)
        if not name or own in table:
            told = "an empty name means no tool" if not name else f"{own!r} is no tool: it has another name here itself"
            raise file.mistake(told, "renames", name)
    return dict(table)


def _make_rules(file: TomlFile) -> RuleSet:
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
