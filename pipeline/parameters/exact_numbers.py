"""Numbers that lose digits: a float of JSON on its way to a Decimal, and a fraction below the microsecond.

Pydantic reads each number of JSON as a float first: 12345678901234567.89 would become the Decimal 12345678901234568.
It also cuts or rounds digits of a time below the microsecond.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from .number_tokens import is_exact

_MAY_BE_ROUNDED: Final = re.compile(r"[0-9.]{17}|[0-9][eE]")  # a float keeps 15 digits, and not every exponent
_AMBIGUOUS: Final = float("nan")  # no Decimal is made of it
# By the float that pydantic makes of it, the text of each number while arguments with a rounded one are read.
_tokens: ContextVar[Mapping[float, str | float] | None] = ContextVar("rounded", default=None)
_FRACTION: Final = re.compile(r"[.,](?P<digits>[0-9]*[1-9])0*(?P<unit>[YMWDHS]?)", re.IGNORECASE | re.ASCII)
# Of a unit of ISO 8601 the microseconds, with pydantic's month of 30 days and year of 365.
_DAY: Final = 86_400 * 10**6
_UNITS: Final = {"Y": 365 * _DAY, "M": 30 * _DAY, "W": 7 * _DAY, "D": _DAY, "H": 3_600 * 10**6, "S": 10**6, "": 10**6}
_MINUTE: Final = 60 * 10**6
_MOST: Final = 14  # digits: a fraction with more is whole in no unit, since 2**15 and 5**15 divide none of them


def read_exactly(text: str, read: Callable[[str], Any]) -> Any:
    """Call a function that reads JSON; inside it `find_token` knows exactly the numbers that are rounded.

    Args:
        text: The JSON.
        read: Called with it; what it returns or raises is passed on.
    """
    if _MAY_BE_ROUNDED.search(text) is None and _tokens.get() is None:
        return read(text)
    token = _tokens.set(_collect(text))
    try:
        return read(text)
    finally:
        _tokens.reset(token)


def find_token(value: float) -> str | float:
    """Return the number as it was written: the float itself if equal, NaN if two numbers are the same float."""
    tokens = _tokens.get()
    return tokens.get(value, value) if tokens else value


def _collect(text: str) -> Mapping[float, str | float]:
    tokens: dict[float, set[str]] = {}
    is_rounded = False

    def read_float(token: str) -> float:
        nonlocal is_rounded
        is_rounded = is_rounded or not is_exact(token)
        value = float(token)
        if math.isfinite(value):  # an infinity stays one, and is refused
            tokens.setdefault(value, set()).add(token)
        return value

    try:
        json.loads(text, parse_float=read_float, parse_int=str)
    except (ValueError, RecursionError):  # the reader of the text says why
        return {}
    return {value: _choose(written) for value, written in tokens.items()} if is_rounded else {}


def _choose(written: set[str]) -> str | float:
    from decimal import Decimal

    first, *others = written
    return first if all(Decimal(each) == Decimal(first) for each in others) else _AMBIGUOUS


def loses_digits(text: str) -> bool:
    """Whether a datetime, a time or a duration in its JSON form has digits below the microsecond."""
    return any(_is_cut(match, text) for match in _FRACTION.finditer(text))


def _is_cut(match: re.Match[str], text: str) -> bool:
    digits, unit = match["digits"], match["unit"].upper()
    if len(digits) > _MOST:
        return True
    minute = unit == "M" and "T" in text[: match.start()].upper()
    return bool(int(digits) * (_MINUTE if minute else _UNITS[unit]) % 10 ** len(digits))
