"""Cases: a question, the tools that were offered, a first call that failed, and the right answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs

from toolcall_pipeline import SetupError

KINDS = ("wrong value", "missing", "near", "other name", "nothing near")  # the last three are unknown names
OURS = Path(__file__).parent / "cases.jsonl"
_IGNORED = re.compile(r"[ ,./\-_*^]")  # in texts, as BFCL's own checker compares them
_CLOSE = 1e-9


@attrs.frozen(eq=False)
class Case:
    """One failed call.

    Args:
        id: Its name.
        kind: One of `KINDS`.
        half: ``a`` or ``b``: choose a text on one half, and look at the other.
        messages: The question.
        tools: Name, description and parameters of each tool that was offered.
        called: The name in the first call.
        arguments: Its arguments.
        right: Each tool that would be right, with the values that are right for each parameter. Empty: no tool fits.
        peers: The answers of other libraries to the first call, by library.
    """

    id: str
    kind: str
    half: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    called: str
    arguments: Mapping[str, Any]
    right: Sequence[Mapping[str, Any]]
    peers: Mapping[str, str]

    def schema_of(self, tool: str) -> Mapping[str, Any] | None:
        """The parameters of a tool; None: it was not offered."""
        return next((each["parameters"] for each in self.tools if each["name"] == tool), None)

    def is_right(self, tool: str, arguments: object) -> bool:
        """Whether a call is a right answer."""
        return any(each["tool"] == tool and _fits(arguments, each["params"]) for each in self.right)


def read_cases(path: Path) -> list[Case]:
    """Read cases, one JSON object a line.

    Raises:
        SetupError: The file cannot be read, or a line is not a case.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        found = [Case(**{"kind": row.pop("class"), "messages": row.pop("question"), **row}) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise SetupError(f"{path} does not hold cases: {exc!r}") from exc
    if unknown := {case.kind for case in found} - set(KINDS):
        raise SetupError(f"{path}: `class` must be one of {', '.join(KINDS)}, not {', '.join(sorted(unknown))}")
    return found


def with_safe_names(case: Case) -> Case:
    """The case with names that each provider takes: OpenAI's own API refuses a dot."""
    names = {name: re.sub(r"[^a-zA-Z0-9_-]", "_", name) for name in (case.called, *(t["name"] for t in case.tools))}

    def replace(text: str) -> str:
        return re.sub("|".join(map(re.escape, sorted(names, key=len, reverse=True))), lambda m: names[m[0]], text)

    return attrs.evolve(
        case,
        tools=[{**each, "name": names[each["name"]]} for each in case.tools],
        called=names[case.called],
        right=[{**each, "tool": names[each["tool"]]} for each in case.right],
        peers={peer: replace(text) for peer, text in case.peers.items()},
    )


def _fits(arguments: object, right: Mapping[str, Any]) -> bool:
    """Whether each argument has a right value; a parameter may be left out if ``""`` is one of its right values."""
    if not isinstance(arguments, Mapping):
        return False
    sent = cast("Mapping[str, Any]", arguments)
    return all(name in right and _is_one_of(value, right[name]) for name, value in sent.items()) and all(
        name in sent or (isinstance(values, list) and "" in values) for name, values in right.items()
    )


def _is_one_of(value: object, allowed: object) -> bool:
    each = cast("list[Any]", allowed) if isinstance(allowed, list) else [allowed]
    for one in each:
        if isinstance(value, list) and isinstance(one, list):
            items, parts = cast("list[Any]", value), cast("list[Any]", one)
            nested = zip(items, parts, strict=False)
            if len(items) == len(parts) and all(_is_same(v, p) for v, p in nested):
                return True
        elif _is_same(value, one):
            return True
    return False


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) < _CLOSE
    if isinstance(one, str) and isinstance(other, str):
        return _IGNORED.sub("", one).lower() == _IGNORED.sub("", other).lower()
    if isinstance(one, list) and isinstance(other, list):
        items, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(others) and all(map(_is_same, items, others))
    if isinstance(one, dict) and isinstance(other, dict):
        return _fits(cast("dict[str, Any]", one), cast("dict[str, Any]", other))
    return bool(one == other)
