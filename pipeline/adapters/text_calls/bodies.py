"""The bodies of calls in a text: JSON, Python's spelling, and parameters in tags. None of these readers raises."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, cast
from uuid import uuid4

from ...base.nesting import refuse_deep
from ...engine.call import Call

_LONGEST_PYTHON = 10_000  # characters
_LONGEST_INTEGER = 100  # digits; to read one takes time that grows with the square of them
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_KEYS = frozenset(("name", "id", "type", "function", *_ARGUMENTS))
_BETWEEN = re.compile(r"[\s;,]*")
_BROKEN = re.compile(
    r"""\s*\{+\s*["']name["']\s*:\s*["']([^"'\\]{1,200})["']\s*,\s*["'](?:arguments|parameters)["']\s*:\s*(\{.*)""",
    re.DOTALL,
)
_MARK = f"number-{uuid4().hex[:8]}:"  # no text begins with it
_NUMBER = re.compile(f'"{_MARK}([^"]*)"')


def read_json(text: str, *, tagged: bool = False) -> list[Call]:
    """The calls in JSON: one object, a list of them, or several one after the other. None if anything else is there.

    Args:
        text: The text. Numbers in arguments stay as they were written.
        tagged: Whether tags around it say that it is a call, so that the arguments may be left out.
    """
    calls: list[Call] = []
    place = 0
    text = text.strip()
    while place < len(text):
        found = read_json_at(text, place)
        if found is None:
            return []
        data, end = found
        each = [_read_object(item, tagged=tagged) for item in _list_items(data)]
        if not each or None in each:
            return []
        calls += [call for call in each if call is not None]
        between = _BETWEEN.match(text, end)
        place = end if between is None else between.end()
    return calls


def read_json_at(text: str, place: int) -> tuple[Any, int] | None:
    """The JSON that begins at a place, to be written with `write_arguments`, and where it ends; None if none does."""
    try:
        return _DECODER.raw_decode(refuse_deep(text, place), place)
    except (ValueError, RecursionError):
        return None


def read_broken(text: str) -> list[Call]:
    """The call in tags whose JSON is broken: its arguments are what stands there, up to the brace that ends the call.

    It is a call, so that the model is told what is wrong with them.
    """
    found = _BROKEN.match(text)
    if found is None:
        return []
    arguments = found[2].rstrip()
    if arguments.endswith("}") and arguments.count("}") > arguments.count("{"):
        arguments = arguments[:-1].rstrip()
    return [Call(found[1], arguments)]


def write_arguments(arguments: Any) -> str:
    """JSON that `read_json_at` has read, with its numbers as they were written: 3.10 is another one after a float."""
    return _NUMBER.sub(r"\1", json.dumps(arguments, ensure_ascii=False))


def read_python(text: str) -> list[Call]:
    """The calls in a list in Python's spelling, with nothing but literals as keyword arguments."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith(")]") and len(text) <= _LONGEST_PYTHON):
        return []
    try:
        tree = ast.parse(text, mode="eval").body
        each = tree.elts if isinstance(tree, ast.List) else []
        return [_read_python_call(node) for node in each]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []


def read_pairs(
    text: str, place: int, name: re.Pattern[str], between: str, end: str
) -> tuple[dict[str, str], int] | None:
    """Parameters in tags, and where they end. The schema says which of the values are numbers.

    Args:
        text: The text.
        place: Where the first begins; blanks stand between them.
        name: The tag in front of a value, with the parameter's name as its first group.
        between: What follows on that tag. "": nothing.
        end: What ends a value: the first of these, whatever is in the value.
    """
    values: dict[str, str] = {}
    while (begin := name.match(text, place)) is not None:
        start = begin.end()
        if between:
            start = text.find(between, begin.end())
            if start < 0 or text[begin.end() : start].strip():
                return None
            start += len(between)
        stop = text.find(end, start)
        if stop < 0:
            return None
        values[begin[1].strip()] = text[start:stop].removeprefix("\n").removesuffix("\n")
        place = stop + len(end)
    return values, place


def _list_items(data: Any) -> list[Any]:
    items: list[Any] = cast("list[Any]", data) if isinstance(data, list) else [data]
    if len(items) == 1 and isinstance(items[0], dict):
        held: Any = cast("dict[str, Any]", items[0]).get("tool_calls")
        if isinstance(held, list) and len(cast("dict[str, Any]", items[0])) == 1:
            return cast("list[Any]", held)
    return items


def _read_object(data: Any, *, tagged: bool) -> Call | None:
    """The call that an object is: it has a name and arguments, and nothing that a call does not have."""
    if not isinstance(data, dict):
        return None
    found = cast("dict[str, Any]", data)
    if isinstance(found.get("function"), dict):
        found = cast("dict[str, Any]", found["function"])
    name = found.get("name", found.get("function"))
    key = next((key for key in _ARGUMENTS if key in found), None)
    if (
        not isinstance(name, str)
        or not name
        or name.startswith(_MARK)
        or not set(found) <= _KEYS
        or (key is None and not tagged)
    ):
        return None
    arguments: Any = {} if key is None or found[key] is None else found[key]
    if isinstance(arguments, str):
        return Call(name, arguments)
    return Call(name, write_arguments(arguments)) if isinstance(arguments, dict) else None


def _keep(token: str) -> str:
    """A number as it was written: 3.10 and 1e400 would be others after a float."""
    return _MARK + token


def _keep_long(digits: str) -> int | str:
    """An integer; one of many digits, and "-0", as they were written."""
    return _keep(digits) if len(digits) > _LONGEST_INTEGER or digits == "-0" else int(digits)


_DECODER = json.JSONDecoder(parse_float=_keep, parse_int=_keep_long, parse_constant=_keep)


def _read_python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, (ast.Name, ast.Attribute)):
        raise ValueError("not a call with keyword arguments")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("** has no names")
    arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return Call(ast.unparse(node.func), json.dumps(arguments, ensure_ascii=False, allow_nan=False))
