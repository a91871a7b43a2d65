"""A Python value without parts as one of JSON: texts as they are, and numbers with all their digits."""

from __future__ import annotations

import math
import re
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from .tool_parameters import CannotSay

NO_SCALAR: Any = object()
_DIGITS: Final = 4_000  # of a number; Python itself refuses to write one of 4,301
_IPS: Final = (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)
_TEXTS: Final = (*_IPS, PurePath, UUID, ZoneInfo)
_TIMES: Final = (date, time, timedelta)
_URLS: Final = ("pydantic.networks", "pydantic_core._pydantic_core")


def write_scalar(value: Any) -> Any:
    """The value as None, a boolean, a text or a number; `NO_SCALAR` for any other.

    Raises:
        CannotSay: JSON has no such value: NaN, an infinity, half of a surrogate pair, or too many digits.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return write_scalar(value.value)
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, (int, float, Decimal)):
        return _write_number(value)
    if isinstance(value, _TEXTS) or any(base.__module__ in _URLS for base in cast("type[Any]", type(value)).__mro__):
        return str(value)
    if isinstance(value, re.Pattern):
        return write_scalar(cast("Any", value).pattern)
    if isinstance(value, _TIMES):
        from pydantic_core import to_jsonable_python

        return to_jsonable_python(value)
    return NO_SCALAR


def _write_text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise CannotSay("half of a surrogate pair") from exc
    return str.__str__(value)


def _write_number(value: Any) -> int | float | Decimal:
    """An integer or a float where one is equal, else a Decimal."""
    if isinstance(value, int):
        if value.bit_length() > 3 * _DIGITS:
            raise CannotSay(f"an integer of more than {_DIGITS} digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CannotSay("a number that JSON does not have")
        return float(value)
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS or len(value.as_tuple().digits) > _DIGITS:
        raise CannotSay("a decimal that is not finite, or of too many digits")
    if value == value.to_integral_value():
        return int(value)
    return exact if Decimal(repr(exact := float(value))) == value else value
