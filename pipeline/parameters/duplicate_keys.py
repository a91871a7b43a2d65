"""Objects that hold one name twice, in JSON text or once their keys are read ("1" and "01" for integer keys).

Parsers disagree on the value of such an object, so its meaning cannot be known, and it is refused. Source: RFC 8259,
section 4 (the behaviour is unpredictable). pydantic and json take the last value.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticCustomError, core_schema

from ..errors import MalformedCall
from .schema import JsonObject

_DICTS = ("dict", "ordered-dict", "frozendict", "counter")
_CHANGING = ("strip_whitespace", "to_lower", "to_upper")  # options by which text is not handed on as it was sent
EQUAL_KEYS = "equal_keys"  # the type of the error


class TwinError(ValueError):
    """An object has one name twice. The name is not repeated: it may be private."""

    def __init__(self) -> None:
        super().__init__("an object has one name twice")


def build_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    """An object for the ``object_pairs_hook`` of a JSON decoder. Raises TwinError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TwinError
    return found


def refuse_twins(text: str) -> MalformedCall | None:
    """Refuse JSON text in which an object, at any depth, has twins; None: there are none, or the text is no JSON."""
    try:
        _DECODER.decode(text)
    except TwinError:
        return MalformedCall("an object has one name twice")
    except (ValueError, RecursionError):  # whoever reads it says why
        pass
    return None


_DECODER = json.JSONDecoder(object_pairs_hook=build_object, parse_int=len, parse_float=len, parse_constant=len)


class _Key:
    """A key that equals no other one, so that a dict keeps the values of all of them."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def may_merge(node: Any) -> bool:
    """Whether a node of a core schema is a dict in which two names may be one key. Plain text is what was sent."""
    if node.get("type") not in _DICTS or "keys_schema" not in node:
        return False
    keys = node["keys_schema"]
    return keys["type"] not in ("str", "any") or any(keys.get(option) for option in _CHANGING)


def refuse_equal_keys(node: Any) -> Any:
    """Return the core schema of such a dict with a check that each name is a key of its own."""
    inner = {name: value for name, value in node.items() if name != "ref"}
    inner["keys_schema"] = core_schema.no_info_after_validator_function(_Key, node["keys_schema"])
    checked: Any = core_schema.no_info_after_validator_function(_take_out, inner)  # pyright: ignore[reportArgumentType]
    return {**checked, "ref": node["ref"]} if "ref" in node else checked


def _take_out(found: Any) -> Any:
    made: dict[Any, Any] = {key.value: value for key, value in found.items()}
    if len(made) != len(found):
        raise PydanticCustomError(EQUAL_KEYS, "Input should be an object with one name for each key")
    return type(found)(made)
