"""Deferred spans: which thread makes them, how many may wait, and that none is forgotten."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event, Thread
from typing import Any, TypeAlias

import pytest
from opentelemetry.sdk.trace import SpanProcessor

from support import PATIENT, Exported, StageSpans
from toolcall_pipeline.telemetry import DeferredSpans
from toolcall_pipeline.telemetry.queues import flush_queues

NewQueue: TypeAlias = Callable[..., DeferredSpans]
Add: TypeAlias = Callable[[DeferredSpans], None]


class StepSleep:
    """Stands in for the sleep between two looks into the queue: it ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self._go = Event(), Event()
        self._over = False
        self._before = set(threading.enumerate())  # threads of other tests may take a while to end

    def __call__(self, _seconds: float) -> None:
        self.begun.set()
        if not self._over:
            assert self._go.wait(PATIENT)
            if not self._over:
                self._go.clear()

    def step(self) -> None:
        """Wait until the thread sleeps, and let it look into the queue once."""
        assert self.begun.wait(PATIENT)
        self.begun.clear()
        self._go.set()

    @property
    def threads(self) -> list[Thread]:
        """The threads that were started in this test and have not ended."""
        return [each for each in threading.enumerate() if each.name == "toolcall-spans" and each not in self._before]

    def finish(self) -> None:
        """End all sleep, and wait until the threads have found nothing to do and ended."""
        self._over = True
        self._go.set()
        while running := self.threads:
            running[0].join(PATIENT)


@pytest.fixture
def sleep() -> Iterator[StepSleep]:
    made = StepSleep()
    yield made
    made.finish()


@pytest.fixture
def new_queue(sleep: StepSleep) -> NewQueue:
    """Makes a queue whose thread looks when the test says so, and ends after two looks that find nothing."""
    return partial(DeferredSpans, max_idle=2, sleep=sleep)


@pytest.fixture
def added() -> tuple[Exported, Add]:
    """The spans that were made, and a function that adds a call with one of them to a queue."""
    exported = Exported()
    tracer = exported.provider.get_tracer("test")
    return exported, lambda queue: queue.add(StageSpans(tracer, "stage"))


def test_the_thread_makes_the_spans(sleep: StepSleep, new_queue: NewQueue, added: tuple[Exported, Add]) -> None:
    """The caller's thread makes no span, and the queue's thread makes all of them at its next look."""
    exported, add = added
    queue = new_queue()
    for _ in range(3):
        add(queue)
    assert exported.spans == ()
    sleep.step()
    assert sleep.begun.wait(PATIENT)
    assert len(exported.spans) == 3


def test_one_thread_while_there_is_work(sleep: StepSleep, new_queue: NewQueue, added: tuple[Exported, Add]) -> None:
    """A queue has one thread. It ends when there is nothing to do, and the next call starts another."""
    exported, add = added
    queue = new_queue()
    for round_ in (1, 2):
        for _ in range(5):
            add(queue)
        queue._start()  # pyright: ignore[reportPrivateUsage]  # as a caller that saw no thread just before there was one
        (thread,) = sleep.threads
        for _ in range(1 + 2):  # one look that finds the calls, two that find nothing
            sleep.step()
        thread.join(PATIENT)
        assert not thread.is_alive()
        sleep.begun.clear()
        assert len(exported.spans) == 5 * round_


@pytest.mark.long
def test_a_queue_without_an_owner(sleep: StepSleep, new_queue: NewQueue, added: tuple[Exported, Add]) -> None:
    """An empty queue is kept alive by its owner only; one with calls in it lives until their spans are made."""
    exported, add = added
    queue = new_queue()
    add(queue)
    kept = weakref.ref(queue)
    del queue
    gc.collect()
    assert kept() is not None
    sleep.finish()
    gc.collect()
    assert kept() is None
    assert len(exported.spans) == 1


def test_a_call_added_while_the_thread_ends(
    sleep: StepSleep, new_queue: NewQueue, added: tuple[Exported, Add], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is added between the last look of the thread and its end gets another thread."""
    exported, add = added
    queue = new_queue()
    add(queue)
    (first,) = sleep.threads
    flush = queue.flush
    looks = iter(range(100))

    def flush_and_add() -> int:
        made = flush()
        if next(looks) == 2:  # the last look of this thread, which still counts as running
            add(queue)
        return made

    monkeypatch.setattr(queue, "flush", flush_and_add)
    for _ in range(3):
        sleep.step()
    first.join(PATIENT)
    sleep.finish()
    assert len(exported.spans) == 2


def test_without_a_thread_the_caller_makes_the_spans(
    added: tuple[Exported, Add], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no thread can be started, as at the end of a process, the caller's thread makes the spans."""

    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    exported, add = added
    monkeypatch.setattr("threading.Thread.start", refuse)
    queue = DeferredSpans()
    add(queue)
    add(queue)
    assert len(exported.spans) == 2


def test_all_queues_are_flushed(new_queue: NewQueue, added: tuple[Exported, Add]) -> None:
    """flush_queues() makes the spans that wait in any queue, once."""
    exported, add = added
    queues = [new_queue(), new_queue()]
    for queue in queues:
        add(queue)
    flush_queues()
    assert len(exported.spans) == 2
    flush_queues()
    assert len(exported.spans) == 2


def test_a_flush_returns(new_queue: NewQueue, added: tuple[Exported, Add]) -> None:
    """A flush makes the spans of the calls that wait when it starts, although more are added all the time."""
    exported, add = added
    queue = new_queue()

    class AddsMore(SpanProcessor):
        def on_end(self, span: Any) -> None:
            if len(exported.spans) < 10:
                add(queue)

    exported.provider.add_span_processor(AddsMore())
    add(queue)
    add(queue)
    assert queue.flush() == 2
    assert queue.flush() == 2
    assert len(exported.spans) == 4


def test_at_the_end_the_thread_makes_what_waits(added: tuple[Exported, Add]) -> None:
    """An exporter may take any time, so it blocks the thread, and not who ends the process."""
    exported, add = added
    makers: list[str] = []

    class Maker(SpanProcessor):
        def on_end(self, span: Any) -> None:
            makers.append(threading.current_thread().name)

    exported.provider.add_span_processor(Maker())
    queue = DeferredSpans()
    add(queue)
    queue.drain(PATIENT)
    assert makers == ["toolcall-spans"]
    assert queue.is_empty


def test_dropped_calls_of_many_threads_are_all_counted(new_queue: NewQueue, added: tuple[Exported, Add]) -> None:
    """Every call beyond max_queue is counted, from whichever thread, and the others get their spans."""
    exported, add = added
    queue = new_queue(max_queue=10)
    for _ in range(10):
        add(queue)

    def add_many() -> None:
        for _ in range(200):
            add(queue)

    callers = [Thread(target=add_many, daemon=True) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert queue.dropped == 8 * 200
    assert queue.flush() == len(exported.spans) == 10


def test_a_fork_during_a_flush() -> None:
    """The child of a fork in the middle of a flush is not blocked by its locks, and has no call to make spans of."""
    if not hasattr(os, "fork"):
        pytest.skip("this platform has no fork")
    command = [sys.executable, "-W", "ignore", "-c", FORK_DURING_FLUSH]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


FORK_DURING_FLUSH = """
import os
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from toolcall_pipeline.telemetry import DeferredSpans
from toolcall_pipeline.telemetry.queues import flush_queues
queue, provider, made = DeferredSpans(), TracerProvider(), []
class Forks(SpanProcessor):
    def on_end(self, span):
        made.append(span)
        if len(made) == 1:
            self.child = os.fork()
            if self.child == 0:  # the parent holds the lock of the flush in which this runs
                flush_queues()
                os._exit(queue.flush() + queue.dropped)
forks = Forks()
provider.add_span_processor(forks)
class Call:
    def make_spans(self):
        provider.get_tracer("test").start_span("stage").end()
queue.add(Call())
queue.flush()
_, status = os.waitpid(forks.child, 0)
print(os.waitstatus_to_exitcode(status), len(made))
"""


def test_at_exit_before_a_newer_provider() -> None:
    """At the end of the process, spans are made before a provider shuts down that is newer than the first thread."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["first", "second"]


AT_EXIT = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from toolcall_pipeline.telemetry import DeferredSpans
queue = DeferredSpans(max_idle=1)
class Call:
    def __init__(self, provider, name):
        self.provider, self.name = provider, name
    def make_spans(self):
        self.provider.get_tracer("test").start_span(self.name).end()
def add(name):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
    queue.add(Call(provider, name))
    return provider
first = add("first")
while queue._running:  # until its thread has found nothing to do
    pass
first.force_flush()
second = add("second")
"""
