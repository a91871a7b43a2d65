"""Read JSON text without loss: no object that has one name twice, and numbers as they are written.

Parsers disagree on the value of an object that has one name twice (RFC 8259, section 4: "unpredictable"), so its
meaning is unknown; pydantic and json take the last value.

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

from ..base.nesting import refuse_deep
from ..engine.errors import MalformedCall
from .schema import JsonObject, is_object

# RFC 8259, section 6, with a bounded length; ASCII digits only.
NUMBER: Final[re.Pattern[str]] = re.compile(r"-?(?:0|[1-9][0-9]{0,40})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")
_MAX_DIGITS = 16  # of a number such as 1e5 that is read as an integer: a float holds no more exactly
_NEGATIVE_ZERO = re.compile(r"-0(?![.\deE])")
# A float keeps 15 digits, and not every exponent. A number of JSON begins with a digit. `_ALIKE` writes all digits and
# points as 0: bytes are searched six times as fast for these as text is by a regular expression.
_ALIKE: Final = bytes.maketrans(b"123456789.E", b"0000000000e")
_LONG: Final = b"0" * 17
_IS_SPELT: Final = re.compile(r"[0-9](?:[.eE]|[0-9]{16})")  # text without it holds integers that have one spelling
_FEW: Final = 16  # objects that are compared as fast while they are read
_LEAST: Final = 1e-6  # what a float changes of a number; less is behind its seventeenth digit, or no amount of anything
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


class TwinError(ValueError):
    """An object has one name twice. The name is not repeated: it may be private."""

    def __init__(self) -> None:
        super().__init__("an object has one name twice")


def build_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Build an object, as the ``object_pairs_hook`` of a JSON decoder. Raises TwinError if a name comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TwinError
    return found


def refuse_twins(text: str, read: object = None) -> MalformedCall | None:
    """Refuse JSON text with one name twice in an object, at any depth. Returns None for other text, JSON or not.

    Args:
        text: The text.
        read: The object that a parser read from it; one with a name for each colon has none twice. None: not known.
    """
    if is_object(read) and (text.count(":") <= len(read) or count_names(text) <= len(read)):
        return None
    try:
        if is_object(read) and text.count("{") > _FEW and _has_each_name_once(text):
            return None
        _DECODER.decode(refuse_deep(text))
    except TwinError:
        return MalformedCall("an object has one name twice")
    except ValueError:  # the parser that reads the text next reports why
        pass
    return None


def count_names(text: str) -> int:
    """Count the names in JSON text, or more than there are: a colon may also stand in a string."""
    # Where no backslash stands for itself, a quote after one is part of a string, and so is a colon after that.
    return text.count(":") - (text.count('\\":') if "\\\\" not in text else 0)


def _has_each_name_once(text: str) -> bool:
    """Whether certainly no object in JSON text has a name twice. Many objects are compared in C; False: not known."""
    objects: list[JsonObject] = []  # without those in them, in whose place the hook puts None
    json.JSONDecoder(object_hook=objects.append, parse_int=len, parse_float=len, parse_constant=len).decode(text)
    joined = text.encode("utf-8", "surrogatepass").translate(None, b" \t\r\n")  # a name ends with '":'
    escaped = joined.count(b'\\":') if b"\\" in joined and b"\\\\" not in joined else 0  # see `count_names`
    return joined.count(b'":') - escaped <= sum(map(len, objects))


def read_exactly(text: str, read: Callable[[str], Any]) -> Any:
    """Call a function that reads JSON; during the call `find_token` knows how this text writes its numbers.

    Args:
        text: The JSON.
        read: Called with the text; its result or exception is passed on.
    """
    if not _may_be_rounded(text) and _tokens.get() is None:
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


def _may_be_rounded(text: str) -> bool:
    """Whether a number in the text may have an exponent or 17 characters, without a regular expression."""
    alike = text.encode("utf-8", "surrogatepass").translate(_ALIKE)
    return b"0e" in alike or _LONG in alike


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
        json.loads(refuse_deep(text), parse_float=read_float, parse_int=str)
    except ValueError:  # `read` reports why
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
            ValueError: The text is not JSON, has a number that a float would round, an object with one name twice, or
                more than 200 levels.
        """
        refuse_deep(text)
        if "-0" in text and _NEGATIVE_ZERO.search(text) is not None:
            self.negative_zero = True
        if strict and _IS_SPELT.search(text) is None:
            return _read_integers(text)
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


def may_be_read_twice(text: str) -> bool:
    """Whether every parser reads the same numbers from JSON text, and none of them has another spelling."""
    return "-0" not in text and _IS_SPELT.search(text) is None


def is_exact(token: str) -> bool:
    """Whether a float holds a number in JSON's spelling without rounding it."""
    from decimal import Decimal  # 2 ms, and only repairs need it

    if not NUMBER.fullmatch(token):
        return False
    value = float(token)
    return math.isfinite(value) and Decimal(repr(value)) == Decimal(token)


def is_changed(text: str) -> bool:
    """Whether JSON text has a number that a float changes: to a whole one, to infinity, or by a millionth or more."""
    if not _may_be_rounded(text):
        return False
    from decimal import Decimal

    changed = False

    def read_float(token: str) -> float:
        nonlocal changed
        value = float(token)
        if not (math.isfinite(value) and NUMBER.fullmatch(token)):
            changed = True
        elif (read := Decimal(repr(value))) != (written := Decimal(token)):
            changed = changed or value.is_integer() or abs(read - written) >= _LEAST
        return value

    try:
        json.loads(text, parse_float=read_float, parse_int=len)
    except (ValueError, RecursionError):  # who reads it says why
        return False
    return changed


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


def _read_integers(text: str) -> Any:
    """Read JSON text without a fraction or an exponent, in which there is nothing to note."""
    from pydantic_core import from_json  # takes 5 ms to import, and only repairs need it

    try:
        found: Any = from_json(text, allow_inf_nan=False)
    except (TypeError, ValueError):  # it reads less than `json` does: no lone surrogate, for one
        return _decode_integers(text)
    whole = text.count(":") <= (len(found) if is_object(found) else 0)  # then no object has one name twice
    return found if whole else _decode_integers(text)


_decode_integers: Final = json.JSONDecoder(parse_constant=refuse_constant, object_pairs_hook=build_object).decode
_DECODER = json.JSONDecoder(object_pairs_hook=build_object, parse_int=len, parse_float=len, parse_constant=len)
