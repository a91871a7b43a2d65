"""BeginGuard: marks the call of a line right before its tool may change something."""

from __future__ import annotations

from typing import Any

import attrs
from returns.result import Failure

from ...call import Call, Outcome, ResolvedCall
from ...compose.pipeline import Pipeline
from ...errors import NotExecuted
from ...guards import Guard, tool_of
from ...tools.definition import Tool
from ..command_error import CommandError
from .calls_file import CallLine
from .marks_file import MarksFile

# Not "keyed": its key is another one in another run, and the service may have forgotten the key when a run is resumed.
_REPEATABLE = ("read", "idempotent")


@attrs.define(eq=False)
class BeginGuard(Guard):
    """Writes the mark of a line before its first body that is neither ``read`` nor ``idempotent``.

    Attributes:
        refusal: Why the mark could not be written, so that the body did not begin.
    """

    marks: MarksFile
    line: CallLine
    refusal: CommandError | None = None
    _marked: bool = False

    def refuse(self, call: Call) -> Outcome | None:
        """NotExecuted if the mark cannot be written. A body that another guard refuses after this one is marked too."""
        self.mark(tool_of(call))
        return None if self.refusal is None else Failure(NotExecuted("the run has to stop"))

    def mark(self, tool: Tool[..., Any] | None) -> None:
        """Write the mark if the line has none and the tool may need one; an end may run calls without a tool."""
        if self._marked or (tool is not None and tool.effect in _REPEATABLE):
            return
        try:
            self.marks.write(self.line, None if tool is None else tool.name)
            self._marked = True
        except CommandError as exc:
            self.refusal = exc


def works_unmarked(pipeline: Pipeline) -> bool:
    """Whether a middleware does not say when a body begins: it may do the work itself, and no guard is asked."""
    return any(stage.role == "wrap" and not stage.placement.announces_body for stage in pipeline.entries)


def find_tool(pipeline: Pipeline, call: Call) -> Tool[..., Any] | None:
    """The tool of a call that has not gone through the pipeline yet, or None."""
    try:
        found = pipeline.resolve(call)
    except Exception:  # noqa: BLE001  # a check of the user's own; the pipeline will say what it raises
        return None
    return found.tool if isinstance(found, ResolvedCall) else None
