"""LineRunner: runs the lines of CALLS through the pipeline, some at the same time, and writes their results."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import anyio
import attrs
from rich.progress import Progress

from ...call import Call
from ...compose.pipeline import Pipeline
from ...errors import Crashed
from ...executors import Executor
from ...messages import render
from ...telemetry.logs import log_failure
from .calls_file import CallLine, LineReader, parse_line
from .executor_choice import open_executor
from .interruption import catch_signals
from .progress import RunProgress
from .result_rows import MALFORMED, build_row, build_row_without_report
from .results_file import ResultsFile

_GRACE = 5.0  # seconds for the running calls after an interruption


@attrs.define(eq=False)
class LineRunner:
    """Workers, each of which takes the next line when its call has ended: only running calls are held in memory.

    Args:
        pipeline: What each call goes through.
        results: Where each result is written.
        progress: What counts and prints.
        concurrency: Workers, so calls at the same time; at least 1.
        executor: Opened before the first call, closed after the last one.
    """

    pipeline: Pipeline
    results: ResultsFile
    progress: RunProgress
    concurrency: int
    executor: Executor
    _workers: anyio.CancelScope = attrs.field(init=False, repr=False)  # set while there are any

    async def run_all(self, fd: int, bar: Progress) -> int | None:
        """Run every line without a result. Returns the signal that interrupted it, or None.

        Raises:
            CommandError: CALLS cannot be read, RESULTS cannot be written, or they do not belong together. Inside of an
                exception group.
        """
        lines, interrupted = LineReader(fd), anyio.Event()
        loop = asyncio.get_running_loop()
        async with open_executor(self.executor):  # a signal until here ends the process: no call has begun
            with catch_signals(lambda: loop.call_soon_threadsafe(interrupted.set)) as caught:
                async with anyio.create_task_group() as helpers:
                    helpers.start_soon(self._stop_when, interrupted, lines)
                    helpers.start_soon(self.progress.update_bar, bar, lines)
                    async with anyio.create_task_group() as workers:
                        self._workers = workers.cancel_scope
                        for _ in range(self.concurrency):
                            workers.start_soon(self._work, lines)
                    helpers.cancel_scope.cancel()
        return caught[0] if caught else None

    async def _stop_when(self, interrupted: anyio.Event, lines: LineReader) -> None:
        """Start no more calls, and let the running ones end: they may have taken effect already."""
        await interrupted.wait()
        lines.stop()
        self.progress.print(f"stopping: waiting up to {_GRACE:g} s for running calls; a second signal stops at once")
        await anyio.sleep(_GRACE)
        self._workers.cancel()

    async def _work(self, lines: LineReader) -> None:
        while (taken := await lines.next()) is not None:
            line = parse_line(*taken)
            if self.results.finished.unmatched and self.results.finished.match(line):
                self.progress.skipped += 1
            elif line.call is None:
                self.results.write(build_row_without_report(line, MALFORMED, line.problem))
                self.progress.print_malformed(line.number, line.problem)
            else:
                row = await self._run_call(line, line.call)
                self.results.write(row)
                self.progress.calls += 1
                self.progress.failed += not row["ok"]

    async def _run_call(self, line: CallLine, call: Call) -> dict[str, Any]:
        began = perf_counter()
        try:
            return build_row(line, await self.pipeline.report(call))
        except BaseException as exc:  # a tool that exits, or raises CancelledError, ends its call and not the run
            # No pipeline may catch these. A run may, and must write a result: --resume would run the call again.
            if self._workers.cancel_called:
                raise
            error = Crashed(exc)
            log_failure(call, None, error)
            return build_row_without_report(line, error.kind, render(error), 1, perf_counter() - began)
