"""JSON in a text of the arguments, for pydantic's `Json`: it is judged as the arguments themselves are.

Pydantic takes the last value of a name that stands there twice, NaN, and for a Decimal what a float leaves of a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pydantic_core import PydanticCustomError, SchemaValidator, to_json

from .rounded import read_exactly
from .twins import build_object
from .written import refuse_constant

_EXPECTED: Final = "JSON in which no object has one name twice"


def make_json_reader(node: Any) -> Callable[[object], object]:
    """Make a validator of a text that holds JSON.

    Args:
        node: The core schema: ``json``, with what the text holds.
    """
    read_text = partial(SchemaValidator(node).validate_json, strict=True)

    def read(value: object) -> object:
        if not isinstance(value, str):
            raise PydanticCustomError("json_type", "Input should be {expected}", {"expected": "a string"})
        try:
            _DECODER.decode(value)
        except (ValueError, RecursionError) as exc:
            raise PydanticCustomError("json_text", "Input should be {expected}", {"expected": _EXPECTED}) from exc
        return read_exactly(value, lambda _: read_text(to_json(value)))

    return read


def _read_float(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        raise ValueError(token)
    return number


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=build_object, parse_int=len, parse_float=_read_float, parse_constant=refuse_constant
)
