"""Read numbers in JSON without loss: keep how they were written, and find those that a float would round."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from .duplicate_keys import build_object

# RFC 8259, section 6, with a bounded length; ASCII digits only.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")
_MAX_DIGITS = 16  # of a number such as 1e5 that is read as an integer: a float holds no more exactly
_NEGATIVE_ZERO = re.compile(r"-0(?![.\deE])")


class Written:
    """The spelling of numbers in one call's arguments where the parsed number has lost it: 3.10, 1e5, -0."""

    __slots__ = ("_decoders", "_tokens", "negative_zero")

    def __init__(self) -> None:
        self._decoders: dict[bool, json.JSONDecoder] = {}  # by strictness: to make one takes as long as to read a value
        self._tokens: dict[int, tuple[float, str]] = {}  # by id; the value keeps the float alive, so ids stay unique
        self.negative_zero = False  # whether a 0 may have been written as -0

    def find(self, value: float) -> str | None:
        """Return the spelling of a float object that `read` made; None for any other."""
        found = self._tokens.get(id(value))
        return None if found is None else found[1]

    def read(self, text: str, *, strict: bool = True) -> Any:
        """Read JSON text without loss.

        Args:
            text: JSON text.
            strict: Whether a control character in a string, such as a line end, is refused.

        Raises:
            ValueError: The text is not JSON, has a number that a float would round, or an object with one name twice.
            RecursionError: It is nested too deeply.
        """
        self.negative_zero = self.negative_zero or _NEGATIVE_ZERO.search(text) is not None
        decoder = self._decoders.get(strict)
        if decoder is None:
            decoder = self._decoders[strict] = _make_decoder(self._tokens, strict=strict)
        return decoder.decode(text)


def _make_decoder(tokens: dict[int, tuple[float, str]], *, strict: bool) -> json.JSONDecoder:
    """Make a decoder that notes how each float was written."""

    def read_float(token: str) -> float:
        if not is_exact(token):
            raise ValueError(token)
        value = float(token)
        tokens[id(value)] = (value, token)
        return value

    return json.JSONDecoder(
        parse_float=read_float, parse_constant=refuse_constant, object_pairs_hook=build_object, strict=strict
    )


def is_exact(token: str) -> bool:
    """Whether a float holds a number in JSON's spelling without rounding it."""
    from decimal import Decimal  # 2 ms, and only repairs need it

    if not NUMBER.fullmatch(token):
        return False
    value = float(token)
    return math.isfinite(value) and Decimal(repr(value)) == Decimal(token)


def read_whole(token: str) -> int | None:
    """Read a number in JSON's spelling as an integer; None if it has a fraction or too many digits."""
    from decimal import Decimal

    if not NUMBER.fullmatch(token):
        return None
    number = Decimal(token)
    if number.adjusted() >= _MAX_DIGITS and not token.lstrip("-").isdigit():
        return None
    return int(number) if number == int(number) else None


def refuse_constant(constant: str) -> None:
    """Refuse NaN and the infinities, which Python's parser accepts and JSON does not have. Raises ValueError."""
    raise ValueError(constant)
