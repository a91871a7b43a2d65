"""Promises: what a pipeline does with each record of a call, whichever observer stands outermost, and if none does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from opentelemetry.context import get_current

from ...base.semconv import SUPPRESS
from ...telemetry.listeners import FanOutRecorder, Sink
from ...tools.definition import Tool
from ..report import Recorder

if TYPE_CHECKING:
    from ...privacy import Redact

Begin: TypeAlias = Callable[[Tool[..., Any] | None, int], Recorder | None]


@attrs.frozen
class Promises:
    """They belong to the pipeline and not to a stage, so no edit of a stage takes them away.

    Attributes:
        redact: Changes each value that is to be recorded, before the observer's own ``redact`` does. None: none.
        sinks: Functions that get the report of every call, such as a `Journal`, beside those of the observer.
    """

    redact: Redact | None = None
    sinks: tuple[Sink, ...] = ()

    @property
    def resources(self) -> tuple[Any, ...]:
        """The sinks that are opened and closed with the pipeline."""
        return tuple(sink for sink in self.sinks if hasattr(type(sink), "__aenter__"))

    def redact_with(self, own: Redact | None) -> Redact | None:
        """Redact as promised, then as an observer's own hook says; None if neither does."""
        first = self.redact
        if first is None or own is None or own is first:
            return first or own
        return lambda path, value: own(path, first(path, value))

    def observe_with(self, begin: Begin) -> Begin:
        """The ``begin`` of an observer, whose recorder gives the report to the promised sinks too."""
        sinks = self.sinks
        if not sinks:
            return begin

        def begin_for_all(tool: Tool[..., Any] | None, started: int) -> Recorder | None:
            recorder = begin(tool, started)
            if recorder is None and get_current().get(SUPPRESS):
                return None
            return FanOutRecorder(recorder, tool, None, sinks, getattr(recorder, "live_sinks", ()))

        return begin_for_all
