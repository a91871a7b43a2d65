"""RecordedPipeline: a pipeline that keeps what it was asked, and what it answered."""

from __future__ import annotations

from typing import Any

import attrs

from ..call import Call, Outcome
from ..compose import Pipeline
from ..compose.stage import Stage


@attrs.define
class RecordedCall:
    """A call, as it was made, and its outcome: None while it runs, or if it was cancelled."""

    call: Call
    outcome: Outcome[Any] | None = None


class RecordedPipeline(Pipeline):
    """A pipeline as any other, for code under test that is given one. Make it with `record_calls`.

    Calls that tools make through the pipeline that called them, as ``batch`` does, are not among its own.
    """

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        super().__init__(stages)
        self._run_unrecorded = self._run
        self.recorded: list[RecordedCall] = []  # in the order in which they were made
        self._run = self._record

    @property
    def calls(self) -> list[Call]:
        """The calls, as they were made."""
        return [each.call for each in self.recorded]

    @property
    def outcomes(self) -> list[Outcome[Any] | None]:
        """The outcomes, in the order of the calls."""
        return [each.outcome for each in self.recorded]

    @property
    def asked(self) -> list[tuple[str, object]]:
        """Name and arguments of each call, as they were made."""
        return [(each.call.name, each.call.arguments) for each in self.recorded]

    async def _record(self, call: Call, *options: Any) -> Outcome:
        recorded = RecordedCall(call)
        self.recorded.append(recorded)
        recorded.outcome = await self._run_unrecorded(call, *options)
        return recorded.outcome


def record_calls(pipeline: Pipeline) -> RecordedPipeline:
    """Make a pipeline of the same stages that keeps the calls that go through it."""
    return RecordedPipeline(pipeline.entries)
