"""One result, as the JSON object of a row of RESULTS. README.md in the folder above has its format."""

from __future__ import annotations

import json
from typing import Any, cast

import attrs

from ...engine.call import is_failure
from ...engine.errors import InvalidParams, Repair
from ...engine.report import Attempt, CallReport
from ...engine.report.content import render_outcome
from ...privacy import dump_neutral_json
from .calls_file import CallLine

MALFORMED = "malformed_line"  # the kind of a line that is not a call; not a ToolError, because nothing was called


def build_row(line: CallLine, report: CallReport) -> dict[str, Any]:
    """The result of a call that went through the pipeline."""
    return {"line": line.number, "call": line.digest, "id": line.id, "name": line.name, **build_result(report)}


def build_result(report: CallReport) -> dict[str, Any]:
    """Return a row without the fields of the line: the one place where a report becomes JSON."""
    outcome = report.outcome
    assert outcome is not None  # Pipeline.report returns complete reports only
    error = outcome.failure() if is_failure(outcome) else None
    told = render_outcome(report)
    return {
        "tool": report.tool.name if report.tool is not None else None,
        "ok": error is None,
        "kind": error.kind if error is not None else None,
        "told": told,
        "value": None if is_failure(outcome) else _build_value(outcome.unwrap(), told),
        "problems": [attrs.asdict(each) for each in error.problems] if isinstance(error, InvalidParams) else [],
        "attempts": len(report.attempts),
        "tries": [_build_try(each) for each in report.attempts],
        "ms": round(report.seconds * 1000, 3),
        "repairs": [_build_repair(each) for each in report.repairs],
    }


def build_row_without_report(
    line: CallLine, kind: str, told: str, attempts: int = 0, seconds: float = 0
) -> dict[str, Any]:
    """The result of a malformed line, or of a call that left the pipeline with a BaseException."""
    row: dict[str, Any] = {
        "line": line.number,
        "call": line.digest,
        "id": line.id,
        "name": line.name,
        "tool": None,
        "ok": False,
        "kind": kind,
        "told": told,
    }
    row |= {"value": None, "problems": [], "attempts": attempts, "tries": []}
    return row | {"ms": round(seconds * 1000, 3), "repairs": []}


def encode_row(row: dict[str, Any]) -> bytes:
    """The line of RESULTS. Control characters are escaped, by JSON's own escapes: a reader gets it as it was."""
    return dump_neutral_json(row).encode() + b"\n"


def _build_value(value: object, told: str) -> object:
    """The value, made of what the model reads, so that it holds nothing that the text does not hold.

    It is a JSON value, the text of a tool that returns text, or else the text that the model reads.
    """
    if value is None or value == "":
        return value
    if isinstance(value, str):
        return told
    try:
        return cast("object", json.loads(told))
    except ValueError:  # such as an image
        return told


def _build_try(attempt: Attempt) -> dict[str, Any]:
    times = {"wait": round(attempt.wait, 6), "ms": round(attempt.seconds * 1e3, 3)}
    return {"kind": attempt.verdict, "executor": attempt.executor, "landed": attempt.landed, **times}


def _build_repair(repair: Repair) -> dict[str, Any]:
    before, after = _to_json_value(repair.before), _to_json_value(repair.after)
    return {"path": repair.path, "rule": repair.rule, "before": before, "after": after}


def _to_json_value(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # a stage of the user's own may note any value
        return repr(value)
    return value
