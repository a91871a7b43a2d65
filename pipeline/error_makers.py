"""Makers of the errors that are made most often: as their constructors make them, in half the time.

A constructor of attrs looks up each field of a frozen class before it sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .errors import Crashed, InvalidParams, Problem

_new: Any = object.__new__
_SETTERS: dict[type[Any], list[Any]] = {
    cls: [vars(cls)[field.name].__set__ for field in attrs.fields(cls)] for cls in (InvalidParams, Crashed)
}
_set_problems, _set_repairs, _set_sent, _set_details, _set_schema = _SETTERS[InvalidParams]
(_set_cause,) = _SETTERS[Crashed]
_NO_DETAILS: Any = attrs.fields(InvalidParams).details.default


def make_invalid_params(problems: tuple[Problem, ...], sent: object, schema: Mapping[str, Any] | None) -> InvalidParams:
    """As ``InvalidParams(problems, sent=sent, schema=schema)``."""
    made: InvalidParams = _new(InvalidParams)
    _set_problems(made, problems)
    _set_repairs(made, ())
    _set_sent(made, sent)
    _set_details(made, _NO_DETAILS)
    _set_schema(made, schema)
    return made


def make_crashed(cause: BaseException) -> Crashed:
    """As ``Crashed(cause)``."""
    made: Crashed = _new(Crashed)
    _set_cause(made, cause)
    return made
