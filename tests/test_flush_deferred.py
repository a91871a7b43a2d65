"""Nothing that is deferred is lost silently: a provider's flush and shutdown, processors that raise, and the end."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from returns.result import Success

from support import PATIENT, Exported, StageSpans, a_tool
from toolcall_pipeline import SetupError, ToolRegistry
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.telemetry import DeferredSpans, FlushDeferred, configure
from toolcall_pipeline.telemetry.queues import flush_queues
from toolcall_pipeline.telemetry.sdk import TreePrinter, refuse_second_provider
from toolcall_pipeline.telemetry.setup import _choose_names  # pyright: ignore[reportPrivateUsage]


def call_once(provider: Any) -> Trace:
    """Make one call with deferred spans."""
    tools = ToolRegistry()
    tools.register(a_tool())
    observer = Trace(tracer_provider=provider, defer=True)
    anyio.run(standard(tools).replace("trace", observer).call, "probe")
    return observer


@pytest.mark.parametrize("ends", [TracerProvider.force_flush, TracerProvider.shutdown], ids=["flush", "shutdown"])
def test_a_provider_gets_all_spans(ends: Callable[[TracerProvider], object]) -> None:
    """With FlushDeferred first, a flush and a shutdown of the provider export every span of the calls before."""
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(FlushDeferred())
    provider.add_span_processor(BatchSpanProcessor(kept))
    call_once(provider)
    ends(provider)
    assert len(kept.get_finished_spans()) == 7


@pytest.mark.parametrize("ends", ["force_flush", "shutdown"])
def test_the_provider_of_configure_gets_all_spans(ends: str) -> None:
    """The provider that `configure` makes has the processor already."""
    kept = InMemorySpanExporter()
    with configure(exporters=[kept], metrics="none", globally=False) as telemetry:
        call_once(telemetry.tracer_provider)
        getattr(telemetry.tracer_provider, ends)()
        assert len(kept.get_finished_spans()) == 7


class Raises(SpanProcessor):
    """A processor with a bug."""

    def __init__(self, error: type[BaseException], when: str) -> None:
        self._error = error
        setattr(self, when, self._raise)

    def _raise(self, span: Any, *_: Any, **__: Any) -> None:
        if span.name == "stage":
            raise self._error


@pytest.mark.parametrize("when", ["on_start", "on_end"])
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
def test_whatever_a_processor_raises_the_thread_goes_on(error: type[BaseException], when: str) -> None:
    """An exception of any class in a processor is logged; it does not end the thread, nor lose other spans."""
    exported, made, go = Exported(), threading.Event(), threading.Event()
    exported.provider.add_span_processor(Raises(error, when))

    class Sees(SpanProcessor):
        def on_end(self, span: Any) -> None:
            if span.name == "last":
                made.set()

    seen = TracerProvider(shutdown_on_exit=False)
    seen.add_span_processor(Sees())
    queue = DeferredSpans(max_idle=1, sleep=lambda _: go.wait(PATIENT))
    queue.add(StageSpans(exported.provider.get_tracer("test"), "stage", "other"))
    queue.add(StageSpans(seen.get_tracer("test"), "last"))
    go.set()
    assert made.wait(PATIENT)
    assert "other" in [span.name for span in exported.spans]


class RaisesAt(SpanProcessor):
    """A processor that raises at its n-th step of a call, whichever that is."""

    def __init__(self, error: type[BaseException], step: int) -> None:
        self._error, self._left = error, step

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._step()

    def on_end(self, span: Any) -> None:
        self._step()

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise self._error


FAULTS = {
    "The span of a call could not be started",
    "The span of an attempt could not be started",
    "The span of a stage could not be made",
    "A span could not be ended",
}


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, BaseException])
@pytest.mark.parametrize("step", range(1, 15))  # seven spans start and end
def test_a_processor_may_raise_at_any_step(
    error: type[BaseException], step: int, defer: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A call succeeds whatever a processor raises wherever, that is logged, and the next call has all its spans."""
    exported = Exported()
    exported.provider.add_span_processor(RaisesAt(error, step))
    tools = ToolRegistry()
    tools.register(a_tool())
    observer = Trace(tracer_provider=exported.provider, defer=defer)
    pipeline = standard(tools).replace("trace", observer)

    async def call_twice() -> tuple[int, int]:
        assert await pipeline.call("probe") == Success("done")
        observer.flush()
        before = len(exported.spans)
        assert await pipeline.call("probe") == Success("done")
        observer.flush()
        return before, len(exported.spans) - before

    before, then = anyio.run(call_twice)
    assert then == 7
    # A span that could not be started is not ended; one whose end raised was exported by the processor before.
    assert before >= 5 if step > 1 else before == 0
    assert set(caplog.messages) <= FAULTS
    assert len(caplog.messages) == 1


def test_a_processor_that_flushes_in_a_flush() -> None:
    """A span processor that flushes the provider while a flush runs waits for nothing."""
    exported = Exported()
    flush = FlushDeferred()

    class Flushes(SpanProcessor):
        def on_end(self, span: Any) -> None:
            flush.force_flush()
            flush.shutdown()

    exported.provider.add_span_processor(Flushes())
    call_once(exported.provider).flush()
    assert len(exported.spans) == 7


def test_two_threads_that_flush_in_a_flush() -> None:
    """Threads that make the spans of two queues, with a processor that flushes all of them, wait for nothing."""
    exported, both = Exported(), threading.Barrier(2)

    class Flushes(SpanProcessor):
        def on_end(self, span: Any) -> None:
            if span.name == "first":
                both.wait(PATIENT)
            flush_queues()

    exported.provider.add_span_processor(Flushes())
    queues = [DeferredSpans(sleep=threading.Event().wait) for _ in range(2)]
    for queue in queues:
        queue.max_queue = 10
        vars(queue)["_running"] = True  # no thread of its own: the two below are those
        queue.add(StageSpans(exported.provider.get_tracer("test"), "first", "second"))
    threads = [threading.Thread(target=queue.flush, daemon=True) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENT)
    assert sorted(span.name for span in exported.spans) == ["first", "first", "second", "second"]
    assert not any(thread.is_alive() for thread in threads)


def test_drops_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first call that is dropped is a warning; all of them are counted."""
    queue, exported = DeferredSpans(max_queue=0), Exported()
    for _ in range(3):
        queue.add(StageSpans(exported.provider.get_tracer("test"), "stage"))
    assert queue.dropped == 3
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "more than 0 calls wait" in record.getMessage()


@pytest.mark.parametrize("in_thread", [True, False], ids=["its thread hangs", "no thread"])
def test_an_end_has_a_deadline(in_thread: bool) -> None:
    """An exporter that does not answer holds the end up no longer than the deadline; what waits then is dropped."""
    inside, go = threading.Event(), threading.Event()

    class Hangs(SpanProcessor):
        def on_end(self, span: Any) -> None:
            inside.set()
            assert go.wait(PATIENT)

    exported = Exported()
    exported.provider.add_span_processor(Hangs())
    queue = DeferredSpans(max_idle=1) if in_thread else DeferredSpans(sleep=lambda _: go.wait(PATIENT))
    for _ in range(3):
        queue.add(StageSpans(exported.provider.get_tracer("test"), "stage"))
    if in_thread:
        assert inside.wait(PATIENT)
    try:
        queue.drain(0)
        assert queue.dropped == 3
        if in_thread:  # the hook at the exit and that of the provider both drain: the second one waits no more
            queue.drain(60)
            assert queue.dropped == 3
    finally:
        go.set()


@pytest.mark.long
def test_a_hanging_exporter_does_not_hold_the_process() -> None:
    """The process ends though an exporter never answers, and says what was lost."""
    script = """
import toolcall_pipeline.telemetry.queues as queues
queues.drain_queues.__defaults__ = (0.2,)
import threading
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from toolcall_pipeline.telemetry import DeferredSpans
class Hangs(SpanProcessor):
    def on_end(self, span): threading.Event().wait()
provider = TracerProvider()
provider.add_span_processor(Hangs())
queue = DeferredSpans()
class Call:
    def make_spans(self): provider.get_tracer("test").start_span("stage").end()
for _ in range(2):
    queue.add(Call())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENT)
    assert "Calls lose their deferred spans" in done.stderr


def test_the_sdk_is_loaded_when_the_processor_is_named() -> None:
    """The import of `toolcall_pipeline.telemetry` loads no SDK."""
    script = """
import sys
import toolcall_pipeline.telemetry
print("opentelemetry.sdk" in sys.modules)
toolcall_pipeline.telemetry.FlushDeferred
print("opentelemetry.sdk" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


class Hangs(SpanExporter):
    """An exporter that does not answer while it is given the span of a stage."""

    def __init__(self) -> None:
        self.asked, self.answer, self.ended = threading.Event(), threading.Event(), threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        if spans[0].name == "resolve":
            self.asked.set()
            self.answer.wait(PATIENT)
            self.ended.set()
        return SpanExportResult.SUCCESS


def test_a_flush_does_not_wait_for_an_exporter_that_hangs() -> None:
    """Its time limit holds too if a processor exports each span as it ends: the flush says that spans still wait."""
    exporter, provider = Hangs(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(FlushDeferred())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    observer = call_once(provider)
    try:
        assert exporter.asked.wait(PATIENT)
        call_once(provider)
        assert not provider.force_flush(50)
        assert not exporter.ended.is_set()
    finally:
        exporter.answer.set()
        observer.flush()
    assert provider.force_flush()


def test_a_flush_that_comes_first_does_not_wait_either() -> None:
    """The thread exports, so the caller is not the one who hangs, also if the thread had not looked yet."""
    exporter, provider = Hangs(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(FlushDeferred())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    observer = call_once(provider)
    try:
        assert not provider.force_flush(50)
        assert not exporter.ended.is_set()
    finally:
        exporter.answer.set()
        observer.flush()


def test_a_flush_of_a_busy_process_ends() -> None:
    """A flush waits for the calls that had ended before it, and not for those that end meanwhile."""
    queue, stop = DeferredSpans(), threading.Event()

    class EndsAnother:
        """A call at whose end the next one is there already."""

        def make_spans(self) -> None:
            if not stop.is_set():
                queue.add(self)

        make_without_stages = make_spans

    try:
        queue.add(EndsAnother())
        assert queue.wait_until_made(5)
    finally:
        stop.set()


def test_a_tree_is_written_when_its_top_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Each span of a trace is a line on stderr, once the topmost one has ended."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(TreePrinter())
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("top"):
        with tracer.start_as_current_span("below"):
            pass
        assert capsys.readouterr().err == ""
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub("[^a-z]+", " ", line).split()[0] for line in lines] == ["top", "below"]


@pytest.mark.parametrize(
    ("given", "variable", "names"),
    [
        (None, "", ["tree"]),
        (None, "otlp, console", ["otlp", "console"]),
        (None, "otlp,none", []),
        ("console", "otlp", ["console"]),
        (" , otlp ,", "", ["otlp"]),
    ],
)
def test_the_exporters_of_a_signal(
    given: str | None, variable: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option decides, then the variable of the standard, then the default; several are parted by commas."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", variable)
    assert _choose_names("traces", given, "tree") == names


def test_a_second_provider_is_refused_with_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the class of the provider that is set, and says what to call instead."""
    monkeypatch.setattr("toolcall_pipeline.telemetry.sdk.get_tracer_provider", TracerProvider)
    with pytest.raises(SetupError) as caught:
        refuse_second_provider(meter=False)
    assert str(caught.value) == (
        "a tracer provider is already set (opentelemetry.sdk.trace.TracerProvider), and OpenTelemetry does not let it "
        "be replaced: Trace() uses it, so leave configure() out, or call configure(globally=False)"
    )
