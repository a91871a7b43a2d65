"""A pipeline in words: a line for each stage, outermost first, with the reason why it stands there."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from .stage import Role, Stage

_FORMS: dict[Role, str] = {"observe": "observer", "check": "check", "wrap": "middleware", "end": "end"}


def describe(stages: Sequence[Stage]) -> str:
    """The text. A reason comes from the stage's `Placement`, else the first line of its docstring, else empty."""
    width = max(len(stage.name) for stage in stages)
    lines = (f"{stage.name:{width}}  {_FORMS[stage.role]:10}  {_reason(stage)}".rstrip() for stage in stages)
    return "\n".join(lines)


def _reason(stage: Stage) -> str:
    reason = stage.placement.reason or inspect.getdoc(stage.obj) or ""
    return reason.partition("\n")[0]
