"""Keep or refuse digits that pydantic would lose: of a Decimal, and of a time below the microsecond.

Pydantic reads each number of JSON as a float first: 12345678901234567.89 would become the Decimal 12345678901234568.
It also cuts or rounds the digits of a time below the microsecond.
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
_AMBIGUOUS: Final = float("nan")  # later refused as a Decimal
# The spelling of each number, by the float that pydantic makes of it. Set only while arguments are read that hold a
# number that a float rounds.
_tokens: ContextVar[Mapping[float, str | float] | None] = ContextVar("rounded", default=None)
_FRACTION: Final = re.compile(r"[.,](?P<digits>[0-9]*[1-9])0*(?P<unit>[YMWDHS]?)", re.IGNORECASE | re.ASCII)
# Microseconds in each unit of ISO 8601; pydantic's month has 30 days and its year 365.
_DAY: Final = 86_400 * 10**6
_UNITS: Final = {"Y": 365 * _DAY, "M": 30 * _DAY, "W": 7 * _DAY, "D": _DAY, "H": 3_600 * 10**6, "S": 10**6, "": 10**6}
_MINUTE: Final = 60 * 10**6
_MOST: Final = 14  # digits; a longer fraction is never whole: neither 2**15 nor 5**15 divides a unit


def read_exactly(text: str, read: Callable[[str], Any]) -> Any:
    """Call a function that reads JSON; during the call `find_token` knows how this text writes its numbers.

    Args:
        text: The JSON.
        read: Called with the text; its result or exception is passed on.
    """
    if _MAY_BE_ROUNDED.search(text) is None and _tokens.get() is None:
        return read(text)
    token = _tokens.set(_collect(text))
    try:
        return read(text)
    finally:
        _tokens.reset(token)


def find_token(value: float) -> str | float:
    """Return the text that was written for a float.

    Returns:
        The float itself if the text has the same value; NaN if two different numbers in the text are this float.
    """
    tokens = _tokens.get()
    return tokens.get(value, value) if tokens else value


def _collect(text: str) -> Mapping[float, str | float]:
    tokens: dict[float, set[str]] = {}
    is_rounded = False

    def read_float(token: str) -> float:
        nonlocal is_rounded
        is_rounded = is_rounded or not is_exact(token)
        value = float(token)
        if math.isfinite(value):  # an infinity is refused later
            tokens.setdefault(value, set()).add(token)
        return value

    try:
        json.loads(text, parse_float=read_float, parse_int=str)
    except (ValueError, RecursionError):  # `read` reports why
        return {}
    return {value: _choose(written) for value, written in tokens.items()} if is_rounded else {}


def _choose(written: set[str]) -> str | float:
    from decimal import Decimal

    first, *others = written
    return first if all(Decimal(each) == Decimal(first) for each in others) else _AMBIGUOUS


def loses_digits(text: str) -> bool:
    """Whether a datetime, time or duration in its JSON form has a fraction of a microsecond."""
    return any(_is_cut(match, text) for match in _FRACTION.finditer(text))


def _is_cut(match: re.Match[str], text: str) -> bool:
    digits, unit = match["digits"], match["unit"].upper()
    if len(digits) > _MOST:
        return True
    minute = unit == "M" and "T" in text[: match.start()].upper()
    return bool(int(digits) * (_MINUTE if minute else _UNITS[unit]) % 10 ** len(digits))
