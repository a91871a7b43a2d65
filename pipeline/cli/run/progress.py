"""What a run says while it runs, and at its end; all of it on stderr, so that RESULTS may be a pipe."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from .calls_file import Lines
from .results_file import MALFORMED, SUCCESS

_BEAT = 0.1  # seconds between two looks of the bar
_MOST = 20  # malformed lines that are told one by one; they all have their row
SHOW_CURSOR = b"\x1b[?25h"  # the bar hides it


class Told:
    """What happened so far in this run, in numbers, and the bar that shows them where stderr is a terminal."""

    def __init__(self) -> None:
        self.calls = 0
        self.failed = 0
        self.skipped = 0
        self.malformed = 0
        self.console = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, soft_wrap=True)

    def say_malformed(self, number: int, wrong: str) -> None:
        """A line of CALLS is none."""
        self.malformed += 1
        if self.malformed <= _MOST:
            self.say(f"line {number}: {wrong}")
        elif self.malformed == _MOST + 1:
            self.say("more malformed lines: not told one by one, but each has its row")

    @contextmanager
    def bar(self, size: int | None) -> Generator[Progress]:
        """Drawn on a terminal only. ``size`` is that of CALLS in bytes: to count its lines is to read it twice."""
        counts = TextColumn("{task.fields[calls]:,} calls  {task.fields[failed]:,} failed  {task.fields[rate]:,.0f}/s")
        columns = (SpinnerColumn(), BarColumn(24), TaskProgressColumn(), counts, TimeElapsedColumn())
        shown = sys.stderr.isatty()
        with Progress(*columns, console=self.console, disable=not shown, auto_refresh=False) as bar:
            bar.add_task("", total=size, calls=0, failed=0, rate=0.0)
            yield bar

    async def tick(self, bar: Progress, lines: Lines) -> None:
        """Keep the bar up to date; for ever, so somebody has to cancel it."""
        began = anyio.current_time()
        while not bar.disable:
            await anyio.sleep(_BEAT)
            rate = self.calls / (anyio.current_time() - began)
            now: dict[str, Any] = {"calls": self.calls, "failed": self.failed, "rate": rate}
            bar.update(bar.task_ids[0], completed=lines.read, refresh=True, **now)

    def sum_up(self, kinds: Counter[str], results: Path, seconds: float) -> None:
        """All rows of RESULTS by kind, then what this run did."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("outcome")
        table.add_column("lines", justify="right")
        table.add_column("share", justify="right")
        total = kinds.total()
        for kind, count in sorted(kinds.items(), key=lambda each: (each[0] != SUCCESS, -each[1], each[0])):
            colour = "green" if kind == SUCCESS else "yellow" if kind == MALFORMED else "red"
            table.add_row(kind, f"{count:,}", f"{count / total:.1%}", style=colour)
        if total:
            self.console.print(table)
        done = f"{self.calls:,} calls in {seconds:.2f} s, {self.calls / max(seconds, 1e-9):,.0f} calls/s"
        before = f"; {self.skipped:,} lines were done before" if self.skipped else ""
        self.say(f"{total:,} results in {results}: {done}{before}")
        if malformed := kinds[MALFORMED]:
            self.say(f"{malformed:,} malformed {'line' if malformed == 1 else 'lines'}: no calls, so nothing was run")


def size_of(fd: int) -> int | None:
    """The size of an ordinary file in bytes; None for all that ends when it ends."""
    facts = os.fstat(fd)
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None
