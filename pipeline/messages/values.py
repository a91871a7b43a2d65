"""What a model is told of an outcome: an error's text, or the value as text or JSON."""

from __future__ import annotations

import json
from typing import Any, cast

import attrs
from returns.result import Failure

from ..call import Outcome
from .default import say

_NOTHING = "(no output)"  # an empty tool result is an error of its own with most providers
_UNTELLABLE = "(the result cannot be shown as text)"


def tell(outcome: Outcome[Any]) -> str:
    """The text for the model; never raises and is never empty, whatever the tool returned."""
    if type(outcome) is Failure:
        return say(outcome.failure())
    return _told(cast("Any", outcome).unwrap()) or _NOTHING


def _told(value: object) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, str):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        from pydantic_core import (
            to_json,
        )  # dataclasses, pydantic models, dates, UUIDs, enums, paths, bytes that are text

        return to_json(value, fallback=_plain, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  # a value may raise anything on being looked at
        return _UNTELLABLE


def _plain(value: Any) -> Any:
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return attrs.asdict(value, recurse=False)
    return _UNTELLABLE  # one such value in a large result is no reason to lose the rest
