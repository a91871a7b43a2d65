"""Limits on the arguments of a call, so that no call can block the event loop; `schema_limits` has those on schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, cast

import attrs

from ..base.nesting import empty_strings, is_shallow
from ..base.options import check_count
from ..engine.errors import InvalidParams, MalformedCall, Problem
from ..privacy import PublicText
from .schema import class_of

MAX_FOUND: Final = 200  # problems of one call that a parser lists and that repairs are tried for
MAX_FLAT: Final = 32  # parameters of a flat tool
_TOO_MANY: Final = "too much is wrong with them: "  # begins the entry for problems that are not listed
_FEW_VALUES = 32  # a flat object with at most so many values is measured by its texts alone
_SHORT = 1_000  # characters of each of these texts
_UTF8 = 4  # bytes that a character takes at most
SCALARS = frozenset((int, float, bool, type(None)))
_PLAIN = SCALARS | {str, dict, list}
_FEW = 16  # values that are measured as fast one by one
_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`
_values: Callable[[dict[Any, Any]], Iterable[Any]] = _DICT.values


class Size(NamedTuple):
    """The size of a value.

    Attributes:
        bytes: Bytes of all texts and names, in UTF-8.
        depth: Levels of objects and arrays.
        keys: Names in objects and items in arrays, together.
    """

    bytes: int
    depth: int
    keys: int


@attrs.frozen
class Limits:
    """The limits on the arguments of a call. Larger arguments are refused before they are read.

    The defaults are far above what models send: README.md in this folder has the figures.

    Args:
        bytes: Bytes of the arguments in UTF-8: of the text, or of all texts and names of a mapping. None: no limit.
            Default 1,000,000.
        depth: Levels of objects and arrays, the arguments themselves included. None: no limit of this kind; text is
            refused above 200 levels in any case. Default 64.
        keys: Names in objects and items in arrays, all together. None: no limit. Default 5,000.
        problems: Problems of one call that are listed; one more entry gives their total number. At least 1. Default 50.

    Attributes:
        most: Bytes, depth and keys; 2**62 where there is no limit.
        flat_text: For a tool with flat parameters: characters of the arguments as text that break no limit; -1: every
            length may.
        flat_value: The same of one value; -1: small limits, which each call is measured for.
    """

    bytes: int | None = 1_000_000
    depth: int | None = 64
    keys: int | None = 5_000
    problems: int = 50
    most: tuple[int, int, int] = attrs.field(init=False, repr=False, eq=False)
    _short: int = attrs.field(init=False, repr=False, eq=False)  # characters of a text that breaks no limit
    _flat: bool = attrs.field(init=False, repr=False, eq=False)  # whether a small flat object breaks no limit
    flat_text: int = attrs.field(init=False, repr=False, eq=False)
    flat_value: int = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        for name in ("bytes", "depth", "keys", "problems"):
            if (given := getattr(self, name)) is not None or name == "problems":
                check_count("Limits", name, given)
        size, depth, keys = (2**62 if each is None else each for each in (self.bytes, self.depth, self.keys))
        object.__setattr__(self, "most", (size, depth, keys))
        object.__setattr__(self, "_short", min(size // _UTF8, depth, keys))
        object.__setattr__(self, "_flat", size >= _FEW_VALUES * _SHORT * _UTF8 and keys >= _FEW_VALUES)
        object.__setattr__(self, "flat_text", size // _UTF8 if keys >= MAX_FLAT else -1)
        object.__setattr__(self, "flat_value", size // _UTF8 // MAX_FLAT // 2 if self._flat else -1)

    def check(self, arguments: Any) -> MalformedCall | InvalidParams | None:
        """Measure arguments as they were sent. Returns the refusal; None if they are within the limits."""
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
        """Measure a value of JSON's types completely, without the shortcuts of `check`."""
        size = measure(value, self)
        if self.depth is not None and size.depth > self.depth:
            return self._refuse_depth(self.depth)
        if self.keys is not None and size.keys > self.keys:
            return _refuse_keys(self.keys, value)
        if self.bytes is not None and size.bytes > self.bytes:
            return self._refuse_bytes(self.bytes)
        return None

    def tell(self, error: InvalidParams) -> InvalidParams:
        """Truncate to `self.problems` entries, after one that gives the total."""
        problems, most = error.problems, self.problems
        if len(problems) <= most:
            return error
        first, rest = (problems[0], problems[1:]) if is_incomplete(error) else (count_problems(len(problems)), problems)
        if len(rest) > most:
            words = PublicText(f"{first.expected}, of which {most} are listed, which is the limit")
            first = attrs.evolve(first, expected=words)
        return InvalidParams((first, *rest[:most]), error.repairs, sent=error.sent, schema=error.schema)

    def holds_opened(self, text: str) -> bool:
        """Whether a quick look shows that arguments as text keep the limits, also once the texts in them are opened."""
        if len(text) <= self._short:
            return True
        size, depth, keys = self.most
        if "\\u" in text or "\\x" in text:  # a bracket may be written as an escape
            return False
        return len(text) <= min(size // _UTF8, 2 * keys) and text.count("{") + text.count("[") <= depth

    def _check_text(self, sent: str) -> MalformedCall | InvalidParams | None:
        text, size = sent, len(sent)
        if self.bytes is not None and size * _UTF8 > self.bytes:
            size = size if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > self.bytes:
                return self._refuse_bytes(self.bytes)
        # "[1,1]": an item takes two characters, and a comma or a bracket.
        if self.keys is not None and len(text) > 2 * self.keys and _count_marks(text) > self.keys:
            text = empty_strings(text)  # not decoded: 300,000 empty lists take half a second
            if _count_marks(text) - text.count("{}") - text.count("[]") > self.keys:
                return _refuse_keys(self.keys, sent)
        if self.depth is not None and not is_shallow(text, self.depth):
            return self._refuse_depth(self.depth)
        return None

    @staticmethod
    def _refuse_depth(limit: int) -> MalformedCall:
        return MalformedCall(PublicText(f"they are nested in more than {limit} levels, which is the limit"))

    @staticmethod
    def _refuse_bytes(limit: int) -> MalformedCall:
        return MalformedCall(PublicText(f"they are longer than {limit} bytes, which is the limit"))


def _count_marks(text: str) -> int:
    return text.count(",") + text.count("{") + text.count("[")


def measure(value: object, limits: Limits) -> Size:
    """Measure a value, without recursion. Stop at the first limit that it breaks."""
    most = limits.most
    size = depth = keys = 0
    level: list[Any] = [value]
    while level:
        many = _measure_many(level, most[0] - size, most[2] - keys) if len(level) > _FEW else None
        below: list[Any] = []
        nested = False
        if many is not None:
            found, below = many
            size, nested, keys = size + found.bytes, found.depth > 0, keys + found.keys
            level = []
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
            nested = nested or not isinstance(each, str)
            if size > most[0] or keys > most[2]:
                return Size(size, depth, keys)
        depth += nested
        if depth > most[1]:
            break
        level = below
    return Size(size, depth, keys)


def _measure_many(level: list[Any], most_bytes: int, most_keys: int) -> tuple[Size, list[Any]] | None:
    """Measure one level in C, and list the next; None if a value is not of JSON's own types, or they break a limit."""
    kinds = set(map(class_of, level))
    if not _PLAIN.issuperset(kinds):
        return None
    texts, objects, arrays = (
        [each for each in level if class_of(each) is kind] if kind in kinds else [] for kind in (str, dict, list)
    )
    size, keys = sum(map(len, texts)), sum(map(len, chain(objects, arrays)))
    if size <= most_bytes and not all(map(str.isascii, texts)):
        size = sum(len(each.encode("utf-8", "surrogatepass")) for each in texts)
    if size > most_bytes or keys > most_keys:
        return None
    below = list(chain.from_iterable(chain(objects, arrays, map(_values, objects))))
    return Size(size, bool(objects or arrays), keys), below


def limit_found(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Truncate to `MAX_FOUND` problems, after an entry that gives the total."""
    if len(problems) <= MAX_FOUND:
        return problems
    return (count_problems(len(problems)), *problems[:MAX_FOUND])


def count_problems(found: int | None) -> Problem:
    """Make the entry for problems that are not listed. `found` is the total; None: unknown."""
    words = "there may be more problems than the first" if found is None else f"there are {found} problems"
    return Problem("", "validator", PublicText(f"{_TOO_MANY}{words}"))


def is_incomplete(error: InvalidParams) -> bool:
    """Whether the error does not list all problems."""
    return error.problems[0].expected.startswith(_TOO_MANY)


def _refuse_keys(limit: int, value: object) -> InvalidParams:
    words = PublicText(f"smaller: {limit} names and items in all are the limit")
    return InvalidParams((Problem("", "maxProperties", words),), sent=value)
