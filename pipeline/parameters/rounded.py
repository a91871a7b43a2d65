"""Numbers of a JSON text that a float rounds, as a Decimal needs them: as they were written.

Pydantic reads each number of JSON as a float first: 12345678901234567.89 would become the Decimal 12345678901234568.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from .written import is_exact

_MAY_BE_ROUNDED: Final = re.compile(r"[0-9.]{17}|[0-9][eE]")  # a float keeps 15 digits, and not every exponent
_AMBIGUOUS: Final = float("nan")  # no Decimal is made of it
# By the float that pydantic makes of it, the text of each number while arguments with a rounded one are read.
_tokens: ContextVar[Mapping[float, str | float] | None] = ContextVar("rounded", default=None)


def read_exactly(text: str, read: Callable[[str], Any]) -> Any:
    """Call a function that reads JSON, in which `find_token` knows the numbers that are rounded, and no others.

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
    """What was written for a float; the float itself if that is the same, and NaN if two numbers are the same float."""
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
    except (ValueError, RecursionError):  # whoever reads it says why
        return {}
    return {value: _choose(written) for value, written in tokens.items()} if is_rounded else {}


def _choose(written: set[str]) -> str | float:
    from decimal import Decimal

    first, *others = written
    return first if all(Decimal(each) == Decimal(first) for each in others) else _AMBIGUOUS
