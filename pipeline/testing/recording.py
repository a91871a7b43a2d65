"""recorded_spans keeps the spans of calls; RecordedPipeline keeps the calls and their outcomes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
from opentelemetry.trace import TracerProvider

from ..base.setup_error import SetupError
from ..engine.call import Call, Outcome
from ..engine.compose import Pipeline
from ..engine.compose.stage import Stage
from ..messages import Wording
from ..telemetry.queues import flush_queues
from ..telemetry.setup import explain_missing_sdk, is_disabled
from ..telemetry.span_tree import draw_tree
from .span_rules import NONE_RECORDED

if TYPE_CHECKING:
    from ..telemetry.sdk import InMemorySpanExporter, ReadableSpan


@attrs.frozen(eq=False)
class RecordedSpans:
    """A provider for ``Trace(tracer_provider=…)``, and the spans that were recorded through it.

    Attributes:
        tracer_provider: For ``Trace(tracer_provider=…)``.
    """

    tracer_provider: TracerProvider
    _kept: InMemorySpanExporter = attrs.field(repr=False)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in that order. Spans of ``Trace(defer=True)`` are made first."""
        flush_queues()
        return self._kept.get_finished_spans()

    @property
    def tree(self) -> str:
        """The same spans as text: an indented line for each, with its duration and why it failed.

        Without any it says how a pipeline records.
        """
        return draw_tree(self.spans) or NONE_RECORDED

    def clear(self) -> None:
        """Forget all spans recorded so far."""
        flush_queues()
        self._kept.clear()


@contextmanager
def recorded_spans() -> Generator[RecordedSpans]:
    """Record spans inside the block, whatever the environment says about sampling. The global provider is not used.

    The fixture of the same name in `toolcall_pipeline.testing.fixtures` does so for a test::

        async def test_a_flaky_backend_is_asked_twice(recorded_spans):
            run = standard(tools, trace=Trace(tracer_provider=recorded_spans.tracer_provider))
            report = await run.report(Call("fetch", {"id": 7}))
            assert_trace(recorded_spans.spans, reports=[report])

    Raises:
        SetupError: The SDK is not installed (``pip install "toolcall-pipeline[otel]"``), or ``OTEL_SDK_DISABLED`` is
            ``true``, under which no test would see a span.
    """
    if is_disabled():
        raise SetupError("recorded_spans() records nothing under OTEL_SDK_DISABLED=true: unset that variable")
    try:
        from ..telemetry.sdk import make_recording_provider
    except ModuleNotFoundError as exc:
        raise explain_missing_sdk("recorded_spans()", exc) from exc
    provider, kept = make_recording_provider()
    try:
        yield RecordedSpans(provider, kept)
    finally:
        provider.shutdown()


@attrs.define
class RecordedCall:
    """A call, as it was made, and its outcome.

    Attributes:
        call: The call.
        outcome: Its outcome; None while it runs, or if it was cancelled.
    """

    call: Call
    outcome: Outcome[Any] | None = None


class RecordedPipeline(Pipeline):
    """A pipeline as any other, for code under test that is given one. Make it with `record_calls`.

    Calls that tools make through the pipeline that called them, as ``batch`` does, are not among its own.
    """

    def __init__(self, stages: tuple[Stage, ...], wording: Wording | None = None, *promises: Any) -> None:
        super().__init__(stages, wording, *promises)
        self._run_unrecorded = self._run
        self.recorded: list[RecordedCall] = []  # in the order of their calls
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
    return pipeline.bind_alike(RecordedPipeline(pipeline.entries, pipeline.wording, pipeline.promises))
