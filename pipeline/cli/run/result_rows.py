"""One result, as the JSON object of a row of RESULTS. README.md in the folder above has its format."""

from __future__ import annotations

import json
from typing import Any

from ...call import is_failure
from ...errors import OutcomeUnknown, Repair
from ...messages import render
from ...report import CallReport
from ...tools.definition import Tool
from .calls_file import CallLine

MALFORMED = "malformed_line"  # the kind of a line that is not a call; not a ToolError, because nothing was called


def build_row(line: CallLine, report: CallReport) -> dict[str, Any]:
    """The result of a call that went through the pipeline."""
    outcome = report.outcome
    assert outcome is not None  # Pipeline.report returns complete reports only
    error = outcome.failure() if is_failure(outcome) else None
    return {
        "line": line.number,
        "id": line.id,
        "name": line.name,
        "tool": report.tool.name if report.tool is not None else None,
        "ok": error is None,
        "kind": error.kind if error is not None else None,
        "told": render(outcome, limit=None),
        "attempts": len(report.attempts),
        "ms": round(report.seconds * 1000, 3),
        "repairs": [_build_repair(each) for each in report.repairs],
    }


def build_row_without_report(
    line: CallLine, kind: str, told: str, attempts: int = 0, seconds: float = 0
) -> dict[str, Any]:
    """The result of a malformed line, or of a call that left the pipeline with a BaseException."""
    start = {"line": line.number, "id": line.id, "name": line.name, "tool": None, "ok": False}
    return start | {"kind": kind, "told": told, "attempts": attempts, "ms": round(seconds * 1000, 3), "repairs": []}


def build_unknown_row(line: CallLine, tool_name: str | None, tool: Tool[..., Any] | None) -> dict[str, Any]:
    """The result of a call that had begun when an earlier run ended, and that is not run again.

    Args:
        line: The line of the call.
        tool_name: What its name was resolved to in the earlier run.
        tool: The tool of that name, if there is one now.
    """
    error = OutcomeUnknown(None, None if tool is None else tool.verify_with)
    return build_row_without_report(line, error.kind, render(error), 1) | {"tool": tool_name}


def encode_row(row: dict[str, Any]) -> bytes:
    """The line of RESULTS."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can contain and UTF-8 cannot
        return json.dumps(row).encode() + b"\n"


def _build_repair(repair: Repair) -> dict[str, Any]:
    before, after = _to_json_value(repair.before), _to_json_value(repair.after)
    return {"path": repair.path, "rule": repair.rule, "before": before, "after": after}


def _to_json_value(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # a stage of the user's own may note any value
        return repr(value)
    return value
