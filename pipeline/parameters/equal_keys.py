"""Names of an object that are one key once they are read, as "1" and "01" for an integer: a value would be lost."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError, core_schema

_DICTS = ("dict", "ordered-dict", "frozendict", "counter")
_CHANGING = ("strip_whitespace", "to_lower", "to_upper")  # options by which text is not handed on as it was sent
EQUAL_KEYS = "equal_keys"  # the type of the error


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
