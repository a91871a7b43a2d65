"""The decisions on one call: stages that decide note them on the call, for the stage `Audit` around them."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

from ..engine.call import Call
from ..engine.call_state import StateKey

C = TypeVar("C", bound=Call)
Decisions: TypeAlias = list[dict[str, Any]]
_DECISIONS: StateKey[Decisions] = StateKey("toolcall-pipeline.decisions")
_NONE: Decisions = []


def with_decisions(call: C) -> tuple[C, Decisions]:
    """A copy of the call on which decisions are noted, and their list."""
    decisions: Decisions = []
    return call.with_state(_DECISIONS, decisions), decisions


def note_decision(call: Call, by: str, **facts: Any) -> None:
    """Note a decision on a call. Without an audit around it, nothing is kept.

    Args:
        call: The call.
        by: ``rule``, ``person`` or ``limit``.
        **facts: JSON values: ``name``, ``action``, ``version``, …
    """
    if call.state is not None and (decisions := call.get_state(_DECISIONS, _NONE)) is not _NONE:
        decisions.append({"by": by, **facts})
