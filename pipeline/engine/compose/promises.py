"""Promises: what a pipeline does with each record of a call, whichever observer stands outermost, and if none does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs
from opentelemetry.context import get_current

from ...base.semconv import SUPPRESS
from ...telemetry.listeners import FanOutRecorder, Sink
from ...tools.definition import Tool
from ..report import Recorder
from ..report.observer import Begin

if TYPE_CHECKING:
    from ...privacy import Redact


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

    def redact_with(self, own: Iterable[Redact | None]) -> Redact | None:
        """Redact as promised, then as the observers' own hooks say; None if nothing does."""
        every = tuple(dict.fromkeys(hook for hook in (self.redact, *own) if hook is not None))
        if len(every) < 2:  # noqa: PLR2004
            return every[0] if every else None

        def redact(path: str, value: object) -> object:
            for hook in every:
                value = hook(path, value)
            return value

        return redact

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
