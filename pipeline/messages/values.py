"""What a model is told of an outcome: an error's text, or the value as text or JSON."""

from __future__ import annotations

import json
from typing import Any, cast

import attrs
from returns.result import Failure

from ..call import Outcome
from .default import say, sendable

_NOTHING = "(no output)"  # an empty tool result is an error of its own with most providers
_UNTELLABLE = "(the result cannot be shown as text)"


def tell(outcome: Outcome[Any]) -> str:
    """The text for the model; never raises and is never empty, whatever the tool returned."""
    if type(outcome) is Failure:
        return say(outcome.failure())
    return sendable(_told(cast("Any", outcome).unwrap())) or _NOTHING


def _told(value: object) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, str):
        return str.__str__(value)  # a text of the author's own type: an Enum's is its value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except Exception:  # noqa: BLE001, S110  # a value may raise anything on being looked at
        pass
    try:
        from pydantic_core import to_json  # it knows dataclasses, models, dates, UUIDs, enums, paths, bytes of text

        text = to_json(value, fallback=_plain, inf_nan_mode="strings").decode()
    except Exception:  # noqa: BLE001  # as above
        return _UNTELLABLE
    return _UNTELLABLE if text == f'"{_UNTELLABLE}"' else text


def _plain(value: Any) -> Any:
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return attrs.asdict(value, recurse=False)
    return _UNTELLABLE  # one such value in a large result is no reason to lose the rest
