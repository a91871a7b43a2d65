"""What is made later: by whom, how much of it waits, and that none of it is forgotten."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor

from pipeline.report import StageRow
from pipeline.telemetry.deferred import Later
from pipeline.telemetry.queues import drain_all
from support import Exported

ROW: StageRow = ("stage", 1, 2, None, 0, "")


class Looking:
    """Stands in for the pauses of the threads: each is over when the test says so."""

    def __init__(self) -> None:
        self.begun, self._go = Event(), Event()
        self.over = False
        self._before = set(threading.enumerate())  # other tests' threads may take a while to end

    def __call__(self, _seconds: float) -> None:
        self.begun.set()
        if not self.over:
            assert self._go.wait(10)
            if not self.over:
                self._go.clear()

    def again(self) -> None:
        """Let the thread look once, and wait until it has."""
        assert self.begun.wait(10)
        self.begun.clear()
        self._go.set()

    @property
    def threads(self) -> list[Thread]:
        """Those that were begun in this test and have not ended."""
        return [each for each in threading.enumerate() if each.name == "toolcall-spans" and each not in self._before]

    def finish(self) -> None:
        """No more waiting: the threads find nothing and end."""
        self.over = True
        self._go.set()
        while running := self.threads:
            running[0].join(10)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looking]:
    made = Looking()
    monkeypatch.setattr("pipeline.telemetry.deferred.sleep", made)
    monkeypatch.setattr("pipeline.telemetry.deferred._IDLE", 2)
    yield made
    made.finish()


@pytest.fixture
def hand_over() -> tuple[Exported, Callable[[Later], None]]:
    """The spans that were made, and what has one made."""
    exported = Exported()
    tracer = exported.provider.get_tracer("test")
    return exported, lambda later: later(tracer, [ROW], {0: (Context(), 0)}, [])


def test_a_thread_makes_them(looking: Looking, hand_over: tuple[Exported, Callable[[Later], None]]) -> None:
    """Nothing is made on the caller's thread, and all of it at the next look of the other one."""
    exported, hand = hand_over
    later = Later()
    for _ in range(3):
        hand(later)
    assert exported.spans == ()
    looking.again()
    assert looking.begun.wait(10)
    assert len(exported.spans) == 3


def test_one_thread_while_there_is_work(looking: Looking, hand_over: tuple[Exported, Callable[[Later], None]]) -> None:
    """A queue has one thread, which ends when there is nothing to do, and another one when there is again."""
    exported, hand = hand_over
    later = Later()
    for round_ in (1, 2):
        for _ in range(5):
            hand(later)
        # As a caller does that saw no thread, right before another one began it.
        later._begin()  # pyright: ignore[reportPrivateUsage]
        (thread,) = looking.threads
        for _ in range(1 + 2):  # one look that finds it, two that find nothing
            looking.again()
        thread.join(10)
        assert not thread.is_alive()
        looking.begun.clear()
        assert len(exported.spans) == 5 * round_


def test_a_queue_that_nobody_keeps(looking: Looking, hand_over: tuple[Exported, Callable[[Later], None]]) -> None:
    """A queue at rest is kept by nobody but its owner; one with work is kept until that is done."""
    exported, hand = hand_over
    later = Later()
    hand(later)
    kept = weakref.ref(later)
    del later
    gc.collect()
    assert kept() is not None
    looking.finish()
    gc.collect()
    assert kept() is None
    assert len(exported.spans) == 1


def test_what_comes_in_at_the_last_moment(
    looking: Looking, hand_over: tuple[Exported, Callable[[Later], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in between the thread's last look and its end is made by another thread."""
    exported, hand = hand_over
    later = Later()
    hand(later)
    (first,) = looking.threads
    last = later.flush
    looks = iter(range(100))

    def flush() -> int:
        made = last()
        if next(looks) == 2:  # the last one of this thread, which still counts as there
            hand(later)
        return made

    monkeypatch.setattr(later, "flush", flush)
    for _ in range(3):
        looking.again()
    first.join(10)
    looking.finish()
    assert len(exported.spans) == 2


def test_where_there_is_no_thread_to_be_had(
    hand_over: tuple[Exported, Callable[[Later], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a process no thread can be started: then the caller makes them."""

    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    exported, hand = hand_over
    monkeypatch.setattr("threading.Thread.start", refuse)
    later = Later()
    hand(later)
    hand(later)
    assert len(exported.spans) == 2


@pytest.mark.usefixtures("looking")
def test_all_queues_are_drained(hand_over: tuple[Exported, Callable[[Later], None]]) -> None:
    """drain_all makes what waits in any queue, whoever has it."""
    exported, hand = hand_over
    queues = [Later(), Later()]
    for later in queues:
        hand(later)
    drain_all()
    assert len(exported.spans) == 2
    drain_all()
    assert len(exported.spans) == 2


@pytest.mark.usefixtures("looking")
def test_flushing_comes_to_an_end(hand_over: tuple[Exported, Callable[[Later], None]]) -> None:
    """A flush makes what waits when it is asked for, though more comes in all the while."""
    exported, hand = hand_over
    later = Later()

    class More(SpanProcessor):
        def on_end(self, span: Any) -> None:
            if len(exported.spans) < 10:
                hand(later)

    exported.provider.add_span_processor(More())
    hand(later)
    hand(later)
    assert later.flush() == 2
    assert later.flush() == 2
    assert len(exported.spans) == 4


@pytest.mark.usefixtures("looking")
def test_drops_of_many_threads_are_all_counted(hand_over: tuple[Exported, Callable[[Later], None]]) -> None:
    """Of what is over the limit every call counts, from whichever thread; what fits is made."""
    exported, hand = hand_over
    later = Later(size=10)
    for _ in range(10):
        hand(later)

    def many() -> None:
        for _ in range(200):
            hand(later)

    callers = [Thread(target=many) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert later.dropped == 8 * 200
    assert later.flush() == len(exported.spans) == 10


def test_a_fork_leaves_the_locks_behind() -> None:
    """A fork in the middle of a flush does not stop the child, which has nothing of its parent's to make."""
    if not hasattr(os, "fork"):
        pytest.skip("this platform has no fork")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_A_FLUSH], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1"]


IN_A_FLUSH = """
import os
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from pipeline.telemetry.queues import drain_all
from pipeline.telemetry.deferred import Later
later, provider, made = Later(), TracerProvider(), []
class Forks(SpanProcessor):
    def on_end(self, span):
        made.append(span)
        if len(made) == 1:
            self.child = os.fork()
            if self.child == 0:  # the lock of the flush that it stands in was taken by the parent
                drain_all()
                os._exit(later.flush() + later.dropped)
forks = Forks()
provider.add_span_processor(forks)
later(provider.get_tracer("test"), [("stage", 1, 2, None, 0, "")], {0: (Context(), 0)}, [])
later.flush()
_, status = os.waitpid(forks.child, 0)
print(os.waitstatus_to_exitcode(status), len(made))
"""


def test_at_exit_before_a_provider_that_came_later() -> None:
    """What is deferred is made before the exit of a provider, also of one that was made after the first call."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["first", "second"]


AT_EXIT = """
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from pipeline.telemetry import deferred as module
from pipeline.telemetry.deferred import Later
later, module._IDLE = Later(), 1
def hand(name):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
    later(provider.get_tracer("test"), [(name, 1, 2, None, 0, "")], {0: (Context(), 0)}, [])
    return provider
first = hand("first")
while later._working:  # until its thread has found nothing to do
    pass
first.force_flush()
second = hand("second")
"""
