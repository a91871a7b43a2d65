"""The party at fault for a failure: model, tool, backend, policy or person. One table by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from ..engine.report.json_form import Form

Fault: TypeAlias = Literal["model", "tool", "backend", "policy", "person"]
_BY_KIND: Final[Mapping[str, Fault]] = {
    "unknown_tool": "model",
    "malformed_call": "model",
    "validation": "model",
    "not_found": "model",  # it asked for something that is not there
    "unavailable": "policy",
    "not_executed": "policy",
    "permission": "policy",
    "configuration": "tool",  # its set-up
    "execution": "tool",
    "internal": "tool",
    "timeout": "backend",
    "transient": "backend",
    "outcome_unknown": "backend",
    "needs_input": "person",
    "awaiting_approval": "person",
}
_AWAY: Final = ("breaker_open", "disconnected", "changed", "unlisted")  # reasons of `Unavailable`
_IN_THE_BODY: Final = ("execute", "classify")  # the stages that decide what the body itself answered


def find_fault(form: Form) -> Fault | None:
    """The party at fault for the failure of a call; None: it did not fail."""
    if form["outcome"] != "failure":
        return None
    kind, stage, fields = form["kind"], form["decided_by"], read_fields(form)
    if kind == "unavailable" and str(fields.get("reason", "")) in _AWAY:
        return "backend"
    if kind == "permission" and stage in _IN_THE_BODY:
        return "backend"
    if kind == "permission" and fields.get("by") not in (None, "policy") and stage == "approve":
        return "person"
    return _BY_KIND.get(kind, "tool")


def read_fields(form: Form) -> Mapping[str, Any]:
    """The fields of the error of a call; none where they were not kept."""
    error: Mapping[str, Any] = form.get("error", {})
    fields: Mapping[str, Any] = error.get("fields", {})
    return fields
