"""The results and failures of `benchmarks.scale.worst`: what a tool gives back that is slow to show, cut or mask."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import attrs

from toolcall_pipeline import Secret, Tool, ToolFailed, returned_error, tool

_Family: TypeAlias = tuple[str, str, Callable[[], object], Callable[[], object]]  # name, tool, arguments, answer
_LENGTH = 250_000
ANSWER: list[Any] = [None]  # what the next call of one of the tools returns or raises


def _answer() -> Any:
    if isinstance(ANSWER[0], BaseException):
        raise ANSWER[0]
    return ANSWER[0]


@tool(effect="read")
async def give() -> object:
    """Return or raise what the case holds."""
    return _answer()


@tool(effect="read")
async def give_shaped() -> object:
    """The same, through Shape."""
    return _answer()


@tool(effect="read", detect=returned_error)
async def give_detected() -> object:
    """The same, with a failure read in what is returned."""
    return _answer()


@tool(effect="read")
async def give_secret(token: Annotated[str, Secret], more: Annotated[list[str] | None, Secret] = None) -> object:
    """The same, with secrets that are masked in it."""
    return _answer()


@attrs.frozen
class Node:
    """A value of a class."""

    name: str
    inner: object = None


def _laughs(levels: int, width: int) -> object:
    """A value whose parts occur again, as the aliases of a YAML file do."""
    value: object = "ha"
    for _ in range(levels):
        value = [value] * width
    return value


def _nest(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def _chain(length: int) -> Exception:
    first = error = ValueError("x" * 1_000)
    for _ in range(length):
        error.__cause__ = ValueError("x" * 1_000)
        error = error.__cause__
    return first


def _seed() -> dict[str, object]:
    return {"token": " ".join(f"word{n}" for n in range(400))}


def _lines() -> str:
    return "\n".join(base64.b64encode(n.to_bytes(48, "big")).decode() for n in range(5_000))


def _no_arguments() -> object:
    return {}


_VALUES: dict[str, Callable[[], object]] = {
    "100,000 rows": lambda: [{"id": n, "name": f"row {n}"} for n in range(100_000)],
    "many numbers": lambda: list(range(_LENGTH)),
    "an object of 50,000 keys": lambda: {f"key {n}": n for n in range(50_000)},
    "lists in 90 levels": lambda: _nest(90),
    "lists in 5,000 levels": lambda: _nest(5_000),
    "eight levels of nine equal parts": lambda: _laughs(8, 9),
    "thirty levels of two equal parts": lambda: _laughs(30, 2),
    "objects of a class": lambda: [Node(f"node {n}", Node("inner")) for n in range(15_000)],
    "sets": lambda: [{n, n + 1} for n in range(15_000)],
    "terminal codes": lambda: "\x1b[31m\u202e\u200b" * 100_000,
    "control characters": lambda: "\x07" * (5 * _LENGTH),
    "lines": lambda: "a line\n" * _LENGTH,
    "surrogates": lambda: "\udc80" * _LENGTH,
    "JSON text": lambda: json.dumps([{"id": n, "name": "x" * 20} for n in range(30_000)]),
    "JSON text of floats": lambda: json.dumps([n + 0.5 for n in range(80_000)]),
    "bytes": lambda: b"\xff\x00" * (2 * _LENGTH),
    "many blocks of text": lambda: {"content": [{"type": "text", "text": f"block {n}"} for n in range(15_000)]},
    "a long exception": lambda: ValueError("/srv/app/x.py HTTP 500 " * 50_000),
    "a chain of exceptions": lambda: _chain(500),
    "a group of exceptions": lambda: ExceptionGroup("many", [ValueError("x" * 100) for _ in range(10_000)]),
    "a long approved text": lambda: ToolFailed("\x1b[31mno " * 100_000),
}
_RETURNED: dict[str, Callable[[], object]] = {
    "an envelope with a long text": lambda: {
        "ok": False,
        "error": "at https://h.example/a/b?c=d 10.0.0.3:80 " * 50_000,
    },
    "an envelope with many keys": lambda: {"ok": False, "error": {f"k{n}": "x" * 20 for n in range(30_000)}},
    "an envelope in a text": lambda: json.dumps(
        {"isError": True, "content": [{"type": "text", "text": "a@" * _LENGTH}]}
    ),
}
_SECRETS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "a seed phrase in a long text": (_seed, lambda: "the quick brown fox " * 100_000),
    "a seed phrase and JSON escapes": (_seed, lambda: json.dumps("line\n" * 80_000)),
    "a seed phrase and its beginning, cut": (_seed, lambda: "word0 word1... " * 100_000),
    "one letter, very often": (lambda: {"token": "a" * 50_000}, lambda: "a" * _LENGTH),
    "one letter, cut": (lambda: {"token": "a" * 50_000}, lambda: ("a" * 50 + "...") * 5_000),
    "a long key": (lambda: {"token": _lines()}, lambda: ValueError(_lines())),
    "a hundred secrets": (
        lambda: {"token": "x", "more": [f"secret number {n}" for n in range(98)]},
        lambda: "no secret number at all " * 50_000,
    ),
    "base64": (lambda: {"token": "hunter2-hunter2"}, lambda: base64.b64encode(bytes(range(256)) * 1_000).decode()),
    "an exception in HTML": (_seed, lambda: ValueError("&lt;b&gt;&#x27;word&#x27; " * 50_000)),
    "an approved text with escapes": (_seed, lambda: ToolFailed("\\u00e9 %20 &amp; " * 100_000)),
}

RESULT_TOOLS: tuple[Tool[..., Any], ...] = (give, give_shaped, give_detected, give_secret)
RESULT_FAMILIES: list[_Family] = [
    *((name, "give", _no_arguments, make) for name, make in _VALUES.items()),
    *((name, "give_shaped", _no_arguments, make) for name, make in _VALUES.items()),
    *((name, "give_detected", _no_arguments, make) for name, make in (_RETURNED | _VALUES).items()),
    *((name, "give_secret", sent, make) for name, (sent, make) in _SECRETS.items()),
    *((name, "give_secret", _seed, make) for name, make in _VALUES.items()),
]
