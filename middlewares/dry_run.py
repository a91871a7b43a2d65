"""DryRun: plan mode. Every stage outside of it runs, the body does not, and the answer says what would run."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import attrs
from returns.result import Failure

from ..call import ValidCall
from ..compose import Placement
from ..errors import NotExecuted
from ..privacy import approved, find_guard

_SHOWN = 500  # characters of the arguments


@attrs.frozen
class DryRun:
    """A check that answers each call with the tool and the arguments that would run, after repairs.

    It stands after Validate. Secrets that the tool declares are masked.
    """

    placement: ClassVar[Placement] = Placement(
        kind="dry_run", reason="after validate: the plan has the arguments that would run"
    )

    def __call__(self, call: ValidCall) -> ValidCall | Failure[NotExecuted]:
        """NotExecuted, with what would run; never the call."""
        guard = find_guard(call.tool)
        shown: Any = dict(call.params)
        if guard is not None:
            shown = guard.redact(shown, None)
        text = json.dumps(shown, ensure_ascii=False, default=str)
        if len(text) > _SHOWN:
            text = text[:_SHOWN] + "…"
        # The arguments are the model's own words, and the name is the author's.
        return Failure(NotExecuted(approved(f"this is a plan; {call.tool.name} would run with {text}")))
