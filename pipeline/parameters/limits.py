"""Limits: how large the arguments of a call may be, so that no call can hold the event loop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import attrs

from ..errors import InvalidParams, MalformedCall, Problem, SetupError
from ..privacy import PublicText
from .schema import class_of

MAX_FOUND: Final = 200  # problems of one call that a parser lists and that repairs are tried for
MAX_FLAT: Final = 32  # parameters of a tool that is flat
_TOO_MANY: Final = "too much is wrong with them: "  # begins the entry that says that there are more problems
_FEW_VALUES = 32  # a flat object of no more is measured by its texts alone
_SHORT = 1_000  # characters of one of its texts
_UTF8 = 4  # bytes that a character takes at most
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # in JSON text; possessive, so in linear time
_BRACKET = re.compile(r"[\[\]{}]")
SCALARS = frozenset((int, float, bool, type(None)))
_DICT: Any = dict  # by this name a type checker does not narrow a value to a dict of unknown things


class Size(NamedTuple):
    """How large a value is."""

    bytes: int  # of its texts and names, in UTF-8
    depth: int  # levels of objects and arrays
    keys: int  # names in its objects and items in its arrays, together


@attrs.frozen
class Limits:
    """How large the arguments of a call may be. A larger call is refused before anybody reads it.

    The defaults are far above what models send: README.md in this folder has the figures.

    Args:
        bytes: Bytes of the arguments in UTF-8: of the text, or of all texts and names of a mapping. None: no limit.
        depth: Levels of objects and arrays, the arguments themselves included. None: no limit of this kind; text is
            refused above 200 levels in any case.
        keys: Names in objects and items in arrays, all together. None: no limit.
        problems: Problems of one call that are told; one more entry says how many others there are. At least 1.
    """

    bytes: int | None = 1_000_000
    depth: int | None = 64
    keys: int | None = 5_000
    problems: int = 50
    _short: int = attrs.field(init=False, repr=False, eq=False)  # characters of a text that breaks no limit
    _flat: bool = attrs.field(init=False, repr=False, eq=False)  # whether a small flat object breaks no limit
    # Characters of a text of arguments, and of one of their values, that break no limit for a tool whose parameters are
    # `Parameters.flat`; -1: they may.
    flat_text: int = attrs.field(init=False, repr=False, eq=False)
    flat_value: int = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        for name in ("bytes", "depth", "keys", "problems"):
            given: Any = getattr(self, name)
            if given is None and name != "problems":
                continue
            if type(given) is not int or given < 1:
                raise SetupError(f"Limits: `{name}` must be an integer ≥ 1, not {given!r}")
        size, depth, keys = (2**62 if each is None else each for each in (self.bytes, self.depth, self.keys))
        object.__setattr__(self, "_short", min(size // _UTF8, depth, keys))
        object.__setattr__(self, "_flat", size >= _FEW_VALUES * _SHORT * _UTF8 and keys >= _FEW_VALUES)
        object.__setattr__(self, "flat_text", size // _UTF8 if keys >= MAX_FLAT else -1)
        object.__setattr__(self, "flat_value", size // _UTF8 // MAX_FLAT // 2 if keys >= MAX_FLAT else -1)

    def check(self, arguments: Any) -> MalformedCall | InvalidParams | None:
        """Measure arguments as they were sent. Returns the refusal; None where they are within the limits."""
        if type(arguments) is _DICT:
            if self._flat and len(arguments) <= _FEW_VALUES:
                for value in arguments.values():
                    kind = class_of(value)
                    if (len(value) > _SHORT) if kind is str else kind not in SCALARS:
                        break
                else:
                    return None
            return self.check_value(arguments)
        if isinstance(arguments, str):
            return None if len(arguments) <= self._short else self._check_text(arguments)
        return self.check_value(dict(cast("Mapping[Any, Any]", arguments))) if isinstance(arguments, Mapping) else None

    def check_value(self, value: object) -> MalformedCall | InvalidParams | None:
        """Measure a value of JSON's types, whatever its size; see `check`."""
        size = measure(value, self)
        if self.depth is not None and size.depth > self.depth:
            return self._refuse_depth(self.depth)
        if self.keys is not None and size.keys > self.keys:
            return _refuse_keys(self.keys, value)
        if self.bytes is not None and size.bytes > self.bytes:
            return self._refuse_bytes(self.bytes)
        return None

    def tell(self, error: InvalidParams) -> InvalidParams:
        """Keep as many problems as are told, and say that there are more."""
        problems, most = error.problems, self.problems
        if len(problems) <= most:
            return error
        first, rest = (problems[0], problems[1:]) if is_incomplete(error) else (count_problems(len(problems)), problems)
        if len(rest) > most:
            words = PublicText(f"{first.expected}, of which {most} are listed, which is the limit")
            first = attrs.evolve(first, expected=words)
        return InvalidParams((first, *rest[:most]), error.repairs, sent=error.sent, schema=error.schema)

    def _check_text(self, text: str) -> MalformedCall | InvalidParams | None:
        size = len(text)
        if self.bytes is not None and size * _UTF8 > self.bytes:
            size = size if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > self.bytes:
                return self._refuse_bytes(self.bytes)
        shallow = self.depth is None or text.count("{") + text.count("[") <= self.depth
        if shallow and (self.keys is None or len(text) <= 2 * self.keys):  # "[1,1]": an item takes two characters
            return None
        outline = _STRING.sub('"', text)  # not decoded: to make 300,000 empty lists takes half a second
        opened = outline.count("{") + outline.count("[")
        held = outline.count(",") + opened - outline.count("{}") - outline.count("[]")
        if self.keys is not None and held > self.keys:
            return _refuse_keys(self.keys, text)
        if self.depth is not None and opened > self.depth and _measure_depth(outline) > self.depth:
            return self._refuse_depth(self.depth)
        return None

    @staticmethod
    def _refuse_depth(limit: int) -> MalformedCall:
        return MalformedCall(PublicText(f"they are nested in more than {limit} levels, which is the limit"))

    @staticmethod
    def _refuse_bytes(limit: int) -> MalformedCall:
        return MalformedCall(PublicText(f"they are longer than {limit} bytes, which is the limit"))


def _measure_depth(outline: str) -> int:
    depth = deepest = 0
    for each in _BRACKET.findall(outline):
        depth += 1 if each in "{[" else -1
        deepest = max(deepest, depth)
    return deepest


def measure(value: object, limits: Limits) -> Size:
    """Measure a value, without recursion and no further than the first limit that it breaks."""
    most = tuple(2**62 if each is None else each for each in (limits.bytes, limits.depth, limits.keys))
    size = depth = keys = 0
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, str):
                size += len(each) if each.isascii() else len(each.encode("utf-8", "surrogatepass"))
            elif isinstance(each, dict):
                held = cast("dict[Any, Any]", each)
                keys += len(held)
                below += held
                below += held.values()
            elif isinstance(each, (list, tuple)):
                items = cast("list[Any]", each)
                keys += len(items)
                below += items
            else:
                continue
            if size > most[0] or keys > most[2]:
                return Size(size, depth, keys)
        depth += any(isinstance(each, (dict, list, tuple)) for each in level)
        if depth > most[1]:
            break
        level = below
    return Size(size, depth, keys)


def limit_found(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Keep as many problems as a parser lists, after an entry that says how many there are."""
    if len(problems) <= MAX_FOUND:
        return problems
    return (count_problems(len(problems)), *problems[:MAX_FOUND])


def count_problems(found: int | None) -> Problem:
    """The entry that says that there are more problems than are listed; None: nobody counted them."""
    words = "there may be more problems than the first" if found is None else f"there are {found} problems"
    return Problem("", "validator", PublicText(f"{_TOO_MANY}{words}"))


def is_incomplete(error: InvalidParams) -> bool:
    """Whether there are more problems than the error lists."""
    return error.problems[0].expected.startswith(_TOO_MANY)


def _refuse_keys(limit: int, value: object) -> InvalidParams:
    words = PublicText(f"smaller: {limit} names and items in all are the limit")
    return InvalidParams((Problem("", "maxProperties", words),), sent=value)
