"""Kills ``toolcall run`` with SIGKILL again and again, resumes it each time, and counts what its tools did.

The tools change something: each appends its argument to a file of effects. A run is killed when one of its files has
grown, never after a time, so the kills fall into every part of a call.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs

MODULE = """
import os
import time
from pathlib import Path

import anyio

from toolcall_pipeline import ToolContext, ToolFailed, ToolRegistry

tools = ToolRegistry()
EFFECTS = Path(__file__).with_name("effects")

def take_effect(n):
    fd = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b"%d %d\\n" % (n, os.getpid()))
    os.close(fd)

@tools.tool(effect="mutating")
def pay(n: int) -> int:
    take_effect(n)
    time.sleep(0.004)
    return n

@tools.tool(effect="mutating")
async def post(n: int) -> int:
    await anyio.sleep(0.002)
    take_effect(n)
    await anyio.sleep(0.002)
    return n

@tools.tool(effect="mutating", context=True)
def order(context: ToolContext, n: int) -> int:
    if context.attempt == 1:
        raise ToolFailed("Busy.", kind="transient", landed=False)
    return pay.fn(n)
"""
TOOLS = ("pay", "post", "order")
_FILES = ("effects", "results.jsonl")  # a kill comes when one of these has grown
_MAX_GROWTH = 12  # lines that it grows by until the kill, at most
_SECONDS = 60.0  # for one run to get that far


@attrs.frozen
class Tally:
    """The findings after the last run."""

    kills: int
    lines: int  # of CALLS
    results: int
    lines_with_a_result: int
    effects: int
    twice: int  # lines whose effect happened more than once
    unknown: int  # results of the kind outcome_unknown
    unknown_that_landed: int
    wrong: tuple[dict[str, Any], ...]  # results that say something else than what happened
    workers: frozenset[int]  # the processes that the tools ran in

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.lines} lines: {self.results} results for {self.lines_with_a_result} lines, "
            f"{self.effects} effects, effects twice {self.twice}, unknown {self.unknown}, of which "
            f"{self.unknown_that_landed} took effect"
        )


def kill_and_resume(folder: Path, options: Sequence[str], *, kills: int, lines: int, seed: int = 0) -> Tally:
    """Run so many lines of mutating calls, with so many kills, then to the end.

    Args:
        folder: An empty directory for the files.
        options: Further options of the command, such as ``--executor process``.
        kills: How many runs are killed.
        lines: Lines of CALLS. There must be enough for every kill: a run that ends before its kill is an error.
        seed: Of the random choice of the moments.
    """
    (folder / "kill_tools.py").write_text(MODULE, encoding="utf-8")
    calls = ({"id": f"c{n}", "name": TOOLS[n % 3], "arguments": {"n": n}} for n in range(1, lines + 1))
    (folder / "calls.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    random = Random(seed)  # noqa: S311  # the same moments for the same seed
    for number in range(kills):
        with _start(folder, options) as process:
            _await_growth(folder / _FILES[number % len(_FILES)], random.randint(1, _MAX_GROWTH), process)
            process.kill()
            process.communicate()
    with _start(folder, options) as process:
        _, told = process.communicate()
    assert process.returncode == 0, told.decode()
    return _count(folder, kills, lines)


def _start(folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "toolcall_pipeline",
        "run",
        "kill_tools:tools",
        "calls.jsonl",
        "-o",
        "results.jsonl",
    ]
    return subprocess.Popen(  # noqa: S603  # our own command
        [*command, "--resume", "--follow", *options], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def _await_growth(file: Path, growth: int, process: subprocess.Popen[bytes]) -> None:
    start, deadline = _count_lines(file), time.monotonic() + _SECONDS
    while _count_lines(file) < start + growth:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, f"{file.name} does not grow"
        time.sleep(0.001)


def _count_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def _count(folder: Path, kills: int, lines: int) -> Tally:
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    effects = [[int(part) for part in line.split()] for line in (folder / "effects").read_bytes().splitlines()]
    landed = Counter(number for number, _ in effects)
    unknown = [row for row in rows if row["kind"] == "outcome_unknown"]
    return Tally(
        kills=kills,
        lines=lines,
        results=len(rows),
        lines_with_a_result=len({row["line"] for row in rows}),
        effects=len(effects),
        twice=sum(count > 1 for count in landed.values()),
        unknown=len(unknown),
        unknown_that_landed=sum(landed[row["line"]] > 0 for row in unknown),
        wrong=tuple(row for row in rows if row not in unknown and not (row["ok"] and landed[row["line"]])),
        workers=frozenset(worker for _, worker in effects),
    )
