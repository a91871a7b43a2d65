"""The output of a run while it runs and at its end. All of it goes to stderr, so that RESULTS may be stdout."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...messages.text import format_count
from ...privacy import neutralise
from .calls_file import LineReader
from .result_rows import MALFORMED
from .run_results import SUCCESS

SHOW_CURSOR = b"\x1b[?25h"  # the progress bar hides it
_INTERVAL = 0.1  # seconds between two updates of the bar
_MAX_MALFORMED = 20  # malformed lines that are printed; all of them have a result


class RunProgress:
    """Counts what this run did, and prints it.

    Attributes:
        calls: Calls that ended.
        failed: How many of them failed.
        skipped: Lines that had a result from an earlier run.
        unknown: Calls that had begun in an earlier run, and were not run again.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.failed = 0
        self.skipped = 0
        self.unknown = 0
        self._malformed = 0
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def print(self, text: str) -> None:
        """Print one line, above the bar if there is one."""
        self._console.print(neutralise(text), soft_wrap=True)

    def print_malformed(self, number: int, problem: str) -> None:
        """Print what is wrong with a line of CALLS, for the first lines only."""
        self._malformed += 1
        if self._malformed <= _MAX_MALFORMED:
            self.print(f"line {number}: {problem}")
        elif self._malformed == _MAX_MALFORMED + 1:
            self.print("more malformed lines follow, which are not printed; each has a result")

    @contextmanager
    def show_bar(self, size: int | None) -> Generator[Progress]:
        """Draw a progress bar, in bytes of CALLS, if stderr is a terminal: to count lines is to read them twice."""
        counts = TextColumn("{task.fields[calls]:,} calls  {task.fields[failed]:,} failed  {task.fields[rate]:,.0f}/s")
        columns = (SpinnerColumn(), BarColumn(24), TaskProgressColumn(), counts, TimeElapsedColumn())
        shown = sys.stderr.isatty()
        with Progress(*columns, console=self._console, disable=not shown, auto_refresh=False) as bar:
            bar.add_task("", total=size, calls=0, failed=0, rate=0.0)
            yield bar

    async def update_bar(self, bar: Progress, lines: LineReader) -> None:
        """Update the bar until the task is cancelled; return at once if there is none."""
        began = anyio.current_time()
        while not bar.disable:
            await anyio.sleep(_INTERVAL)
            rate = self.calls / (anyio.current_time() - began)
            counts: dict[str, Any] = {"calls": self.calls, "failed": self.failed, "rate": rate}
            bar.update(bar.task_ids[0], completed=lines.bytes_read, refresh=True, **counts)

    def print_summary(self, kinds: Counter[str], results: str, seconds: float) -> None:
        """Print how many results there are of each kind, successes first, then what this run did."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("outcome")
        table.add_column("results", justify="right")
        table.add_column("share", justify="right")
        total = kinds.total()
        for kind, count in sorted(kinds.items(), key=lambda each: (each[0] != SUCCESS, -each[1], each[0])):
            style = "green" if kind == SUCCESS else "yellow" if kind == MALFORMED else "red"
            table.add_row(neutralise(kind), f"{count:,}", f"{count / total:.1%}", style=style)
        if total:
            self._console.print(table)
        rate = self.calls / max(seconds, 1e-9)
        skipped = f"; {format_count(self.skipped, 'line')} had a result before" if self.skipped else ""
        calls = f"{format_count(self.calls, 'call')} in {seconds:.2f} s, {rate:,.0f} calls/s"
        self.print(f"{format_count(total, 'result')} in {results}: {calls}{skipped}")
        if malformed := kinds[MALFORMED]:
            self.print(f"{format_count(malformed, 'malformed line')}: no call, so nothing was run")
        if self.unknown:
            had = f"{format_count(self.unknown, 'call')} had begun when an earlier run ended, and may have taken effect"
            self.print(f"{had}: not run again; check each outcome_unknown, and append to CALLS what has to run again")


def measure_file(fd: int) -> int | None:
    """The size of a regular file in bytes; None for a pipe or a terminal, whose size is not known."""
    status = os.fstat(fd)
    return status.st_size if stat.S_ISREG(status.st_mode) else None
