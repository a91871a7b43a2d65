"""The form of valid arguments, with a typed hole in place of each value: what a model copies has to fail."""

from __future__ import annotations

import json
from typing import Any, cast

_HOLES: dict[type, str] = {bool: "<boolean>", int: "<number>", float: "<number>", str: "<string>"}


def punch_holes(example: str) -> str:
    """Valid arguments without their values: ``{"city": "text"}`` becomes ``{"city": <string>}``.

    A small model sent the values of an example as they were in 17 of 46 cases, and the tool ran with them.

    Args:
        example: Arguments as JSON; "" for none.

    Returns:
        "" if there is no hole in it, as in ``{}``: it would be valid, and a copy of it would run.
    """
    value: object = json.loads(example or "{}")
    form = _write(value) if value else ""
    return form if "<" in form else ""


def _write(value: object) -> str:
    if value in ({}, [], None):
        return "<object>" if value == {} else "<array>" if value == [] else "<null>"
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_write(each)}" for key, each in items) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write, cast('list[Any]', value)))}]"
    return _HOLES[type(value)]
