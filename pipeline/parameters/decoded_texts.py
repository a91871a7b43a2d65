"""Texts that pydantic decodes by leaving out what it cannot read, or fails to decode: here they are refused.

To pydantic "2026-11-21" is a `ByteSize` of 2,026 bytes, and base64 of the letters and digits in it. A regular
expression of 1,500 brackets ends in a RecursionError, which is no refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeAlias

from pydantic import Base64Encoder, ByteSize, EncodedBytes, EncodedStr
from pydantic.types import Base64UrlEncoder
from pydantic_core import PydanticCustomError

_Decode: TypeAlias = Callable[[Any, Any], Any]  # the value and pydantic's facts -> what it is decoded to

_PATTERNS: Final = ("pattern_str_validator", "pattern_bytes_validator", "pattern_either_validator")
_BASE64: Final = (Base64Encoder, Base64UrlEncoder)
# As of `ByteSize`, to its end, in ASCII, and with no more digits than anybody counts bytes with.
_SIZE: Final = re.compile(r"\s*(?P<number>[0-9]{0,40}\.?[0-9]{1,40})\s*(?P<unit>[a-z]*)\s*", re.ASCII | re.IGNORECASE)
_MAX_PATTERN: Final = 2_000  # characters of a regular expression: to compile 300,000 takes a second
_SIZES: Final = "a number of bytes with or without a unit such as KiB or MB"


def decode_exactly(node: Any) -> Any:
    """Return the core schema of a type with a stricter decoder; the same object if it needs none.

    Args:
        node: A function alone, or after its inner schema, which is how pydantic builds these types.
    """
    function = node["function"]["function"]
    if getattr(function, "__name__", "") in _PATTERNS and function.__module__.startswith("pydantic."):
        return {**node, "function": {**node["function"], "function": _make_pattern_reader(function)}}
    owner = getattr(function, "__self__", None)
    decode: _Decode
    if isinstance(owner, (EncodedBytes, EncodedStr)) and owner.encoder in _BASE64:
        decode = _make_base64_decoder(owner.encoder, function)
    elif isinstance(owner, type) and issubclass(owner, ByteSize):
        decode = _make_size_reader(owner, function)
    else:
        return node
    return {**node, "function": {**node["function"], "function": decode}}


def _make_base64_decoder(encoder: type[Any], decode: _Decode) -> _Decode:
    """Nothing but the alphabet, blanks and line ends, and padding at the end (RFC 4648, sections 3.3 and 3.5)."""

    def read(sent: Any, info: Any) -> Any:
        try:
            decoded = decode(sent, info)
        except (ValueError, PydanticCustomError) as exc:
            raise _refuse("base64_decode", "text in base64") from exc
        written = sent.encode() if isinstance(sent, str) else sent
        held = decoded.encode() if isinstance(decoded, str) else decoded
        if encoder.encode(held) != b"".join(written.split()):
            raise _refuse("base64_decode", "text in base64")
        return decoded

    return read


def _make_size_reader(cls: type[ByteSize], make: _Decode) -> _Decode:
    def read(sent: Any, info: Any) -> Any:
        if not isinstance(sent, str):
            return make(sent, info)
        match = _SIZE.fullmatch(sent)
        unit = cls.byte_sizes.get(match["unit"].lower() or "b") if match else None
        if match is None or unit is None:
            raise _refuse("byte_size", _SIZES)
        size = Fraction(match["number"]) * Fraction(unit)  # a unit of bits is a whole number of eighths
        if size.denominator != 1:
            raise _refuse("byte_size", "a whole number of bytes")
        return make(int(size), info)

    return read


def _make_pattern_reader(compile_pattern: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(sent: Any) -> Any:
        if isinstance(sent, str) and len(sent) > _MAX_PATTERN:
            raise _refuse("pattern_regex", f"a regular expression of at most {_MAX_PATTERN} characters")
        try:
            return compile_pattern(sent)
        except (RecursionError, OverflowError) as exc:
            raise _refuse("pattern_regex", "a valid regular expression") from exc

    return read


def _refuse(kind: Any, expected: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "Input should be {expected}", {"expected": expected})
