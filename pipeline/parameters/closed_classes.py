"""Classes of fields take no other names, as functions do, unless the class itself says otherwise.

Pydantic leaves other names out without a word: of a model, and of all that is in a model or beside ``**kwargs``.
"""

from __future__ import annotations

from typing import Any, Final

_CLASSES: Final = ("model", "dataclass", "typed-dict")  # of pydantic's core schema


def is_undecided(node: Any) -> bool:
    """Whether a node of a core schema is a class of fields whose own configuration has no ``extra``.

    The configuration in the node itself may be that of the class around it.
    """
    if node.get("type") not in _CLASSES or "extras_schema" in node:
        return False
    if node.get("root_model") or node.get("custom_init"):  # what an `__init__` of its own takes, only it knows
        return False
    cls = node.get("cls")
    own: Any = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    return own.get("extra") is None


def close(node: Any) -> Any:
    """Return the core schema of such a class, made to refuse other names."""
    if node["type"] == "typed-dict":
        return {**node, "extra_behavior": "forbid"}
    return {**node, "config": {**node.get("config", {}), "extra_fields_behavior": "forbid"}}
