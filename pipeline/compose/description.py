"""A pipeline in words: its stages, outermost first, a line each, and why each stands where it does."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from .stage import Role, Stage

_FORMS: dict[Role, str] = {"observe": "observer", "check": "check", "wrap": "middleware", "end": "end"}


def describe(stages: Sequence[Stage]) -> str:
    """The text. The reason is the stage's own ``why``, else the first line of its documentation, else none."""
    wide = max(len(stage.name) for stage in stages)
    lines = (f"{stage.name:{wide}}  {_FORMS[stage.role]:10}  {_why(stage)}".rstrip() for stage in stages)
    return "\n".join(lines)


def _why(stage: Stage) -> str:
    told = stage.placement.reason or inspect.getdoc(stage.it) or ""
    return str(told).partition("\n")[0]
