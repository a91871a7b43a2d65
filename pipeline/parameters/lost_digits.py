"""Fractions of a second that Python's times cannot hold. Pydantic cuts or rounds what is below the microsecond."""

from __future__ import annotations

import re
from typing import Final

_FRACTION: Final = re.compile(r"[.,](?P<digits>[0-9]*[1-9])0*(?P<unit>[YMWDHS]?)", re.IGNORECASE | re.ASCII)
# Of a unit of ISO 8601 the microseconds, with pydantic's month of 30 days and year of 365.
_DAY: Final = 86_400 * 10**6
_UNITS: Final = {"Y": 365 * _DAY, "M": 30 * _DAY, "W": 7 * _DAY, "D": _DAY, "H": 3_600 * 10**6, "S": 10**6, "": 10**6}
_MINUTE: Final = 60 * 10**6
_MOST: Final = 14  # digits: a fraction with more is whole in no unit, since 2**15 and 5**15 divide none of them


def loses_digits(text: str) -> bool:
    """Whether a datetime, a time or a duration in its JSON form is no whole number of microseconds."""
    return any(_is_cut(match, text) for match in _FRACTION.finditer(text))


def _is_cut(match: re.Match[str], text: str) -> bool:
    digits, unit = match["digits"], match["unit"].upper()
    if len(digits) > _MOST:
        return True
    minute = unit == "M" and "T" in text[: match.start()].upper()
    return bool(int(digits) * (_MINUTE if minute else _UNITS[unit]) % 10 ** len(digits))
