"""CALLS for ``toolcall run`` with a known share of lines for each mistake, and the rows expected in RESULTS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import cast
from zlib import crc32

import attrs

from toolcall_pipeline import ToolFailed, ToolRegistry

tools = ToolRegistry()


@tools.tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tools.tool(effect="mutating")
async def send(to: str) -> str:
    """Send a mail; it may not have gone out."""
    raise ConnectionResetError(to)


@tools.tool(effect="read")
def look_up(entry: dict[str, int]) -> str:
    """Look something up, in a thread."""
    if "broken" in entry:
        raise KeyError
    if "missing" in entry:
        raise ToolFailed("There is no such entry.")
    return str(entry)


@attrs.frozen
class Case:
    """A kind of line.

    Args:
        percent: of the lines that are of this kind.
        name: of the tool as it is called; ``{}`` stands for the line's number.
        arguments: of the call, by the line's number.
        kind: of the error in the row; None: success.
        told: the text of the row, by the line's number, so that no row holds another call's answer; None: any text.
        spoil: changes the line as it is written.
    """

    percent: int
    name: str
    arguments: Callable[[int], object]
    kind: str | None = None
    told: Callable[[int], str] | None = None
    spoil: Callable[[str], str] = str


def _sum(n: int) -> dict[str, object]:
    return {"a": n, "b": 0}


CASES: dict[str, Case] = {
    "nothing wrong": Case(36, "add", _sum, None, str),
    "nothing wrong, in a thread": Case(10, "look_up", lambda n: {"entry": {"n": n}}, None, "{{'n': {}}}".format),
    "all arguments as JSON text": Case(7, "add", lambda n: json.dumps(_sum(n)), None, str),
    "JSON text for an object": Case(5, "look_up", lambda n: {"entry": f'{{"n": {n}}}'}, None, "{{'n': {}}}".format),
    "text for a number": Case(4, "add", lambda n: {"a": str(n), "b": 0}, None, str),
    "a control token in the name": Case(3, "add<|channel|>commentary", _sum, None, str),
    "a typo in the name": Case(4, "lookup", lambda n: {"entry": {"n": n}}, "unknown_tool"),
    "a name that is new each time": Case(3, "tool_{}", _sum, "unknown_tool"),
    "a missing field": Case(5, "add", lambda n: {"a": n}, "validation"),
    "an undeclared argument": Case(4, "add", lambda n: {**_sum(n), "colour": "red"}, "validation"),
    "another type": Case(3, "add", lambda n: {"a": f"t{n}", "b": []}, "validation"),
    "arguments cut off": Case(3, "add", lambda n: json.dumps(_sum(n))[:-3], "malformed_call"),
    "the tool crashes": Case(3, "look_up", lambda n: {"entry": {"broken": n}}, "internal"),
    "the tool says no": Case(3, "look_up", lambda n: {"entry": {"missing": n}}, "execution"),
    "the connection is lost": Case(2, "send", lambda n: {"to": f"ann{n}"}, "outcome_unknown"),
    "a line cut off": Case(2, "add", _sum, "malformed_line", None, lambda text: text[:-9]),
    "a line without a name": Case(1, "add", _sum, "malformed_line", None, lambda text: text.replace('"name"', '"to"')),
    "a line that is not an object": Case(2, "add", _sum, "malformed_line", None, lambda text: f"[{text}]"),
}
_OF_A_HUNDRED = [name for name, case in CASES.items() for _ in range(case.percent)]


def make_line(number: int) -> tuple[str, str, dict[str, object]]:
    """Return the line of that number, from 1, always the same: its case, its text, and what its row must hold."""
    name = _OF_A_HUNDRED[crc32(b"%d" % number) % 100]
    case = CASES[name]
    call = {"id": f"call_{number}", "name": case.name.format(number), "arguments": case.arguments(number)}
    text = case.spoil(json.dumps(call))
    known = _parse_object(text)  # also what a malformed line still says
    row = {"line": number, "id": known.get("id"), "name": known.get("name"), "ok": not case.kind, "kind": case.kind}
    return name, text, row if case.told is None else {**row, "told": case.told(number)}


def check_rows(rows: Iterable[bytes], calls: int) -> Iterator[tuple[str, str]]:
    """For each row, and each line without one: the line's case, and what is wrong, or an empty text."""
    seen = bytearray(calls + 1)
    for raw in rows:
        row = _parse_object(raw)
        number = row.get("line")
        if type(number) is not int or not 1 <= number <= calls:
            yield "no line of CALLS", "a row"
            continue
        case, _, expected = make_line(number)
        wrong = [key for key, value in expected.items() if (key, value) not in row.items()]
        yield case, "a second row" if seen[number] else f"another {' and '.join(wrong)}" if wrong else ""
        seen[number] = 1
    number = 0
    while (number := seen.find(0, number + 1)) > 0:
        yield make_line(number)[0], "no row"


def _parse_object(text: str | bytes) -> dict[str, object]:
    with suppress(ValueError):
        if isinstance(found := json.loads(text), dict):
            return cast("dict[str, object]", found)
    return {}
