"""``toolcall run``: a file of calls through a pipeline, some at a time; one row of results for each of its lines."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from middlewares import standard

from ...call import Call
from ...compose.pipeline import Pipeline
from ...errors import Crashed, SetupError
from ...executors import Executor, Thread
from ...messages import render
from ...telemetry.logs import log_failure
from ..loading import Refused, compiled, load, registry_of
from ..stdio import printing_to_stderr, stdin_taken
from .calls_file import Line, Lines, parsed
from .executor_choice import calls_at_a_time, executor_of, opened
from .progress import SHOW_CURSOR, Told, size_of
from .results_file import MALFORMED, Results, row_of, row_without_report

_GRACE = 5.0  # seconds: after an interruption for the calls under way, and at the end for threads left behind
_TOOLS_THREAD = "AnyIO worker thread"  # of another name it may be the module's own, which ends as it likes
_STOPS = (signal.SIGINT, signal.SIGTERM)


def run(
    target: str,
    calls: str,
    output: Path,
    *,
    concurrency: int | None = None,
    timeout: float | None = None,
    attempts: int | None = None,
    executor: str | None = None,
    workers: int | None = None,
    resume: bool = False,
) -> int:
    """0: each line has its result; 1: some of them are malformed; 130 or 143: interrupted. Raises Refused."""
    try:
        with printing_to_stderr():
            concurrency = concurrency or calls_at_a_time(executor, workers)
            place = executor_of(executor, workers, concurrency)
            pipeline = _pipeline(target, place, timeout=timeout, attempts=attempts, executor=executor, workers=workers)
            with _opened(calls) as fd, closing(Results.open(output, resume=resume)) as results:
                told = Told()
                if (registry := registry_of(pipeline)) is not None and not len(registry):
                    told.say(f"{target} is empty: it has no tools")
                code = _run(_Run(pipeline, results, told, concurrency, place), fd, output)
    except KeyboardInterrupt:  # before the first call: from then on it is a signal like the other
        return 128 + signal.SIGINT
    _leave_threads_behind(code)
    return code


def _pipeline(target: str, place: Executor, **given: float | str | None) -> Pipeline:
    found = load(target)
    if (registry := registry_of(found)) is not None:
        compiled(registry, target)
    asked = {key: value for key, value in given.items() if value is not None}
    if isinstance(found, Pipeline):
        if asked:
            raise Refused(f"{target} is a Pipeline, with stages of its own: --{' and --'.join(asked)} cannot be set")
        return found
    options: dict[str, Any] = {key: asked[key] for key in ("timeout", "attempts") if key in asked}
    try:
        if isinstance(place, Thread):  # not for all tools, so that the async ones need nobody to find their place
            return standard(found, executors={place.name: place}, **options)
        return standard(found, executor=place, **options)
    except SetupError as exc:
        raise Refused(f"{target}: {exc}") from None


@contextmanager
def _opened(calls: str) -> Generator[int]:
    with ExitStack() as stack:
        try:
            if calls == "-":
                fd = stack.enter_context(stdin_taken())  # else a tool's subprocess might read the calls
            else:
                fd = os.open(calls, os.O_RDONLY)
                stack.callback(os.close, fd)
        except OSError as exc:
            raise Refused(f"{calls}: {exc.strerror}") from None
        yield fd


def _run(it: _Run, fd: int, output: Path) -> int:
    began = perf_counter()
    interrupted = None
    try:
        with it.told.bar(size_of(fd)) as bar:
            interrupted = anyio.run(it.all, fd, bar)
    except* Refused as group:
        refused: BaseException = group
        while isinstance(refused, BaseExceptionGroup):
            refused = refused.exceptions[0]
        raise refused from None
    it.told.sum_up(it.results.kinds, output, perf_counter() - began)
    if mended := it.results.done.mended:
        are = "line was malformed before and is a call now: it keeps its row"
        if mended > 1:
            are = "lines were malformed before and are calls now: they keep their rows"
        it.told.say(f"{mended:,} {are}; what is put at the end of CALLS is run, and has a row of its own")
    if interrupted is not None:
        it.told.say(f"{signal.Signals(interrupted).name}: the same command with --resume goes on from here")
        return 128 + interrupted
    if it.results.done.left:
        raise Refused(f"{it.results.done.left:,} results are of lines that CALLS does not have: it has changed since")
    return int(it.results.kinds[MALFORMED] > 0)


class _Run:
    """Workers that take the next line when they are done with one: what is in memory is what is under way."""

    def __init__(self, pipeline: Pipeline, results: Results, told: Told, concurrency: int, place: Executor) -> None:
        self.pipeline = pipeline
        self.results = results
        self.told = told
        self.concurrency = concurrency
        self.place = place
        self._working: anyio.CancelScope  # of the workers, while there are any

    async def all(self, fd: int, bar: Any) -> int | None:
        """Run every line that has no row yet; the signal that it was interrupted by, if it was."""
        lines, interrupted = Lines(fd), anyio.Event()
        loop = asyncio.get_running_loop()
        async with opened(self.place):  # until then a signal ends the process: nothing has begun
            with _signals(lambda: loop.call_soon_threadsafe(interrupted.set)) as caught:
                async with anyio.create_task_group() as around:
                    around.start_soon(self._stop, lines, interrupted)
                    around.start_soon(self.told.tick, bar, lines)
                    async with anyio.create_task_group() as workers:
                        self._working = workers.cancel_scope
                        for _ in range(self.concurrency):
                            workers.start_soon(self._work, lines)
                    around.cancel_scope.cancel()
        return caught[0] if caught else None

    async def _stop(self, lines: Lines, interrupted: anyio.Event) -> None:
        """Begin nothing new, and let what is under way come to its end: it may have taken effect already."""
        await interrupted.wait()
        lines.stop()
        self.told.say(f"stopping: waiting {_GRACE:g} s at most for the calls under way; once more stops at once")
        await anyio.sleep(_GRACE)
        self._working.cancel()

    async def _work(self, lines: Lines) -> None:
        while (taken := await lines.next()) is not None:
            line = parsed(*taken)
            if self.results.done.left and self.results.done.meet(line):
                self.told.skipped += 1
            elif line.call is None:
                self.results.write(row_without_report(line, MALFORMED, line.wrong))
                self.told.say_malformed(line.number, line.wrong)
            else:
                row = await self._call(line, line.call)
                self.results.write(row)
                self.told.calls += 1
                self.told.failed += not row["ok"]

    async def _call(self, line: Line, call: Call) -> dict[str, Any]:
        began = perf_counter()
        try:
            return row_of(line, await self.pipeline.report(call))
        except BaseException as exc:  # whatever a tool raises, else --resume would meet it for ever
            # A tool that exits, or awaits what was cancelled, ends its own call; no pipeline may catch that, a run can.
            if self._working.cancel_called:
                raise
            error = Crashed(exc)
            log_failure(call, None, error)
            return row_without_report(line, error.kind, render(error), 1, perf_counter() - began)


@contextmanager
def _signals(stop: Callable[[], object]) -> Generator[list[int]]:
    """The first signal stops; the second ends the process, from wherever a tool may hold it: no row is lost by that."""
    caught: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if caught:
            if sys.stderr.isatty():
                os.write(2, SHOW_CURSOR)
            os._exit(128 + number)
        caught.append(number)
        stop()

    before = [(number, signal.signal(number, handle)) for number in _STOPS]
    try:
        yield caught
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _leave_threads_behind(code: int) -> None:
    """A thread that a time limit gave up on cannot be ended, and Python would wait for it for ever."""
    others = [thread for thread in threading.enumerate() if thread.name == _TOOLS_THREAD]
    until = perf_counter() + _GRACE
    for thread in others:
        thread.join(max(0.0, until - perf_counter()))
    if any(thread.is_alive() for thread in others):
        with printing_to_stderr():
            print("tools still run in threads that cannot be ended: leaving them behind", flush=True)
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # exporters send what they still hold
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, AttributeError):  # broken, or not there
                stream.flush()
        os._exit(code)
