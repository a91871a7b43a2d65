"""Judging: what a second attempt is worth, by the right answer and by the schema, whatever our pipeline would say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import jsonschema_rs

from benchmarks.texts.cases import Case
from benchmarks.texts.endpoint import Reply

MEASURES = {
    "right": "a right answer: a right call, or no call where no tool fits",
    "valid": "a right tool with arguments that fit its schema",
    "again": "the same call again",
}


def judge(case: Case, reply: Reply) -> dict[str, bool]:
    """Whether each of `MEASURES` holds for a reply."""
    if not case.right:
        return {"right": not reply.begun, "valid": not reply.begun, "again": _is_again(case, reply)}
    valid = _is_valid(case, reply)
    right = valid and reply.call is not None and case.is_right(reply.call.name, _arguments_of(reply))
    return {"right": right, "valid": valid, "again": _is_again(case, reply)}


def _is_valid(case: Case, reply: Reply) -> bool:
    if reply.call is None or reply.call.name not in {each["tool"] for each in case.right}:
        return False
    schema = case.schema_of(reply.call.name)
    return schema is not None and jsonschema_rs.validator_for(dict(schema)).is_valid(_arguments_of(reply))


def _is_again(case: Case, reply: Reply) -> bool:
    return reply.call is not None and (reply.call.name, _arguments_of(reply)) == (case.called, case.arguments)


def _arguments_of(reply: Reply) -> Any:
    """The arguments as JSON values; None where they are not JSON."""
    sent: object = None if reply.call is None else reply.call.arguments
    if isinstance(sent, Mapping):
        return dict(cast("Mapping[str, Any]", sent))
    try:
        return json.loads(sent) if isinstance(sent, str) else None
    except (ValueError, RecursionError):
        return None
