"""For tests, ours and yours: an inside that plays a part, the spans that were recorded, and whether they are whole."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
from opentelemetry.trace import TracerProvider

from ..call import Call, Outcome
from ..errors import SetupError
from ..telemetry.queues import drain_all
from ..telemetry.setup import disabled, not_installed
from ..telemetry.span_tree import tree
from .conformance import assert_trace

if TYPE_CHECKING:
    from ..telemetry.sdk import InMemorySpanExporter, ReadableSpan

__all__ = ["RecordedSpans", "Script", "assert_trace", "recorded_spans", "script"]


class Script:
    """The inside of a middleware under test: answers as it was told to, and remembers what it was asked."""

    def __init__(self, parts: tuple[Outcome | BaseException, ...]) -> None:
        self._parts = list(parts)
        self.calls: list[Any] = []  # what it was asked, in order

    async def __call__(self, call: Call) -> Outcome:
        """The next outcome; an exception is raised. Asked more often than it has parts, it fails the test."""
        self.calls.append(call)
        if not self._parts:
            raise AssertionError(f"the script has no part for call {len(self.calls)}")
        part = self._parts.pop(0)
        if isinstance(part, BaseException):
            raise part
        return part


def script(*parts: Outcome | BaseException) -> Script:
    """A `Script`: ``script(Failure(Transient()), Success(1))`` fails once, then succeeds."""
    return Script(parts)


@attrs.frozen(eq=False)
class RecordedSpans:
    """A provider of its own, for ``Trace(tracer_provider=…)``, and what was recorded through it."""

    tracer_provider: TracerProvider
    _kept: InMemorySpanExporter = attrs.field(repr=False)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in that order, those of ``Trace(defer=True)`` among them."""
        drain_all()
        return self._kept.get_finished_spans()

    @property
    def tree(self) -> str:
        """The same as text, an indented line each, with times and what tells why."""
        return tree(self.spans)

    def clear(self) -> None:
        """Forget them."""
        drain_all()
        self._kept.clear()


@contextmanager
def recorded_spans() -> Generator[RecordedSpans]:
    """Spans as they are recorded, whatever the environment says of sampling; the global provider is left alone.

    As a fixture of pytest::

        @pytest.fixture
        def recorded():
            with recorded_spans() as recorded:
                yield recorded

        async def test_a_flaky_backend_is_asked_twice(recorded):
            run = standard(tools).replace("trace", Trace(tracer_provider=recorded.tracer_provider))
            report = await run.report(Call("fetch", {"id": 7}))
            assert_trace(recorded.spans, reports=[report])

    Raises SetupError where the SDK is not installed (``pip install "toolcall-pipeline[otel]"``), and under
    ``OTEL_SDK_DISABLED=true``, which would leave every test without spans.
    """
    if disabled():
        raise SetupError(
            "recorded_spans() records nothing under OTEL_SDK_DISABLED=true: take it out of the environment"
        )
    try:
        from ..telemetry.sdk import keeping
    except ModuleNotFoundError as exc:
        raise not_installed("recorded_spans()", exc) from exc
    provider, kept = keeping()
    try:
        yield RecordedSpans(provider, kept)
    finally:
        provider.shutdown()
