"""LineRunner: runs the lines of CALLS through the pipeline, some at the same time, and writes their results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import ceil
from time import perf_counter
from typing import Any

import anyio
import attrs
from rich.progress import Progress

from ...base.setup_error import SetupError
from ...engine.call import Call
from ...engine.compose.pipeline import Pipeline
from ...engine.errors import Crashed, OutcomeUnknown
from ...executors import Executor, Thread
from ...messages import render
from ...privacy import make_mask
from ...telemetry.logs import log_failure
from ..asker import Asker
from ..loading import open_pipeline
from ..terminal_text import CommandError
from .calls_file import CallLine, LineReader, can_read_twice, parse_line, read_digests
from .interruption import catch_signals
from .line_ledger import LINE, LineLedger
from .progress import RunProgress
from .result_rows import MALFORMED, build_row, build_row_without_report
from .run_results import Place, RunResults

_GRACE = 5.0  # seconds for the running calls after an interruption
_MAX_ABANDONED = 40  # threads; the default of Execute


@attrs.define(eq=False)
class LineRunner:
    """Workers; each takes the next line when its call has ended: only running calls are held in memory."""

    target: str  # its name for the command
    asker: Asker  # of the lines that do not say who asks
    pipeline: Pipeline
    results: RunResults
    progress: RunProgress
    concurrency: int  # workers
    executor: Executor
    ledger: LineLedger | None  # None: RESULTS is no file that a later run could resume
    rerun_unknown: bool = False  # what had begun in an earlier run and has no result
    _failure: CommandError | None = attrs.field(init=False, default=None, repr=False)
    _workers: anyio.CancelScope = attrs.field(init=False, repr=False)  # set while there are any

    def __attrs_post_init__(self) -> None:
        if self.ledger is not None:
            self.pipeline = self.ledger.add_to(self.pipeline)

    async def run_all(self, fd: int, bar: Progress) -> int | None:
        """Run every line without a result. Returns the signal that interrupted it, or None.

        Raises:
            CommandError: CALLS cannot be read, RESULTS or the ledger cannot be written, or they do not belong together.
        """
        lines, stopping = LineReader(fd), anyio.Event()
        loop = asyncio.get_running_loop()
        # A signal until these are open ends the process: no call has begun.
        async with (
            open_executor(self.executor),
            self.asker.bind(self.pipeline) as self.pipeline,
            open_pipeline(self.pipeline, self.target),
        ):
            self.results.check_asker(self.asker.principal, self.asker.conversation)
            if self.results.has_earlier and can_read_twice(fd):
                self.results.look_through(read_digests(fd))
            if self.results.has_earlier and self.results.follow:
                self.results.export()
            if self.ledger is not None and self.rerun_unknown:
                await self.ledger.rerun_unknown()
            with catch_signals(lambda: loop.call_soon_threadsafe(stopping.set)) as caught:
                async with anyio.create_task_group() as helpers:
                    helpers.start_soon(self._stop_when, stopping, lines)
                    helpers.start_soon(self.progress.update_bar, bar, lines)
                    async with anyio.create_task_group() as workers:
                        self._workers = workers.cancel_scope
                        for _ in range(self.concurrency):
                            workers.start_soon(self._work, lines, stopping)
                    helpers.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        return caught[0] if caught else None

    async def _stop_when(self, stopping: anyio.Event, lines: LineReader) -> None:
        """Start no more calls, and let the running ones end: they may have taken effect already."""
        await stopping.wait()
        lines.stop()
        self.progress.print(f"stopping: waiting up to {_GRACE:g} s for running calls; a second signal stops at once")
        await anyio.sleep(_GRACE)
        self._workers.cancel()

    async def _work(self, lines: LineReader, stopping: anyio.Event) -> None:
        try:
            while (taken := await lines.next()) is not None:
                await self._run_line(parse_line(*taken))
        except CommandError as exc:
            self._failure = self._failure or exc
            stopping.set()

    async def _run_line(self, line: CallLine) -> None:
        place, is_done = self.results.see(line.number, line.digest)
        if is_done:
            self.progress.skipped += 1
        elif line.call is None:
            self.results.write(place, build_row_without_report(line, MALFORMED, line.problem))
            self.progress.print_malformed(line.number, line.problem)
        else:
            row = await self._run_call(line, line.call.with_state(LINE, place), place)
            self.results.write(place, row)

    async def _run_call(self, line: CallLine, call: Call, place: Place) -> dict[str, Any]:
        """The row of a call; CommandError if it could not be kept that the call begins."""
        began = perf_counter()
        try:
            report = await self.pipeline.report(call)
        except BaseException as exc:  # a tool that exits, or raises CancelledError, ends its call and not the run
            # No pipeline may catch these. A run may, and must write a result: --resume would run the call again.
            if self._workers.cancel_called:
                raise
            error = Crashed(exc)
            tool = self.pipeline.find(call.name)
            log_failure(call, tool, error, make_mask(call, tool))
            row = build_row_without_report(line, error.kind, render(error, call=call), 1, perf_counter() - began)
        else:
            if self.ledger is not None:
                await self.ledger.check(place)
            row = build_row(line, report)
            if report.replayed:  # an earlier run had begun it
                row["attempts"] = 1
                self.progress.unknown += row["kind"] == OutcomeUnknown.kind
        self.progress.calls += 1
        self.progress.failed += not row["ok"]
        return row


def default_concurrency(executor: str | None, workers: int | None) -> int:
    """Calls at the same time: one per process, because a call's time runs while it waits for a process; else 50."""
    return (workers or os.cpu_count() or 1) if executor == "process" else 50


def choose_executor(name: str | None, workers: int | None, concurrency: int) -> Executor:
    """The executor of that name; ``workers`` is its number of threads, processes or actors, None for its default."""
    if name is None or name == "thread":  # a sync tool holds a thread: as many threads as calls
        return Thread(workers or concurrency, max(_MAX_ABANDONED, concurrency))
    if name == "process":
        from ...executors import Process

        return Process(workers)
    # A Ray that is started for this run must not be reachable from outside: without this it would listen there.
    if not os.environ.get("RAY_ADDRESS"):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    from ...executors import Ray

    options: dict[str, Any] = {"workers": workers, "in_flight": ceil(concurrency / (workers or 1))}
    try:
        return Ray(init={"logging_level": "ERROR"}, **options)
    except SetupError as exc:
        raise CommandError(f"--executor {name}: {exc}") from None


@asynccontextmanager
async def open_executor(executor: Executor) -> AsyncGenerator[None]:
    """Start the executor, and close it at the end of the block."""
    try:
        await executor.__aenter__()
    except Exception as exc:  # an executor of any kind may raise anything, for example what its cluster raises
        text = " ".join(str(exc).split())
        raise CommandError(f"--executor {executor.name}: {type(exc).__name__}: {text}") from exc
    try:
        yield
    finally:
        await executor.aclose()
