"""``toolcall run`` on very many calls, killed half-way and resumed: ``python -m benchmarks.million [--calls N]``.

What has to hold: each line of CALLS has one row in RESULTS, its own, of the kind that its mistake leads to, and a run's
memory does not grow with its calls. How it grows is read in /proc; where there is none, only its peak is told.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast
from zlib import crc32

import attrs

from pipeline import ToolFailed, ToolRegistry

FEWEST = 1000  # calls: fewer may be done before they are killed
MOST_GROWTH = 64.0  # MB, from the first tenth of a run on
_LOOK = 0.005  # seconds between two looks at a run
tools = ToolRegistry()


@tools.tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tools.tool(effect="mutating")
async def send(to: str) -> str:
    """Send a mail, of which nobody knows whether it went."""
    raise ConnectionResetError(to)


@tools.tool(effect="read")
def look_up(entry: dict[str, int]) -> str:
    """Look something up, in a thread."""
    if "broken" in entry:
        raise KeyError
    if "missing" in entry:
        raise ToolFailed("There is no such entry.")
    return str(entry)


@attrs.frozen
class Case:
    """What stands in some of the lines, and what has to come of it."""

    percent: int  # of the lines
    name: str  # {} is the line's number
    arguments: Callable[[int], object]
    kind: str | None = None  # of the row; None: success
    told: Callable[[int], str] | None = None  # where it is known: that no row has the answer to another call
    spoilt: Callable[[str], str] = str  # the line, as it is written


def _sum(n: int) -> dict[str, object]:
    return {"a": n, "b": 0}


CASES: dict[str, Case] = {
    "nothing wrong": Case(36, "add", _sum, None, str),
    "nothing wrong, in a thread": Case(10, "look_up", lambda n: {"entry": {"n": n}}, None, "{{'n': {}}}".format),
    "all arguments as JSON text": Case(7, "add", lambda n: json.dumps(_sum(n)), None, str),
    "JSON text for an object": Case(5, "look_up", lambda n: {"entry": f'{{"n": {n}}}'}, None, "{{'n': {}}}".format),
    "text for a number": Case(4, "add", lambda n: {"a": str(n), "b": 0}, None, str),
    "a control token in the name": Case(3, "add<|channel|>commentary", _sum, None, str),
    "a typo in the name": Case(4, "lookup", lambda n: {"entry": {"n": n}}, "unknown_tool"),
    "a name that is new each time": Case(3, "tool_{}", _sum, "unknown_tool"),
    "a missing field": Case(5, "add", lambda n: {"a": n}, "validation"),
    "an undeclared argument": Case(4, "add", lambda n: {**_sum(n), "colour": "red"}, "validation"),
    "another type": Case(3, "add", lambda n: {"a": f"t{n}", "b": []}, "validation"),
    "arguments cut off": Case(3, "add", lambda n: json.dumps(_sum(n))[:-3], "malformed_call"),
    "the tool crashes": Case(3, "look_up", lambda n: {"entry": {"broken": n}}, "internal"),
    "the tool says no": Case(3, "look_up", lambda n: {"entry": {"missing": n}}, "execution"),
    "the connection is lost": Case(2, "send", lambda n: {"to": f"ann{n}"}, "outcome_unknown"),
    "a line cut off": Case(2, "add", _sum, "malformed_line", None, lambda text: text[:-9]),
    "a line without a name": Case(1, "add", _sum, "malformed_line", None, lambda text: text.replace('"name"', '"to"')),
    "a line that is no object": Case(2, "add", _sum, "malformed_line", None, lambda text: f"[{text}]"),
}
_OF_A_HUNDRED = [name for name, case in CASES.items() for _ in range(case.percent)]


def line_of(number: int) -> tuple[str, str, dict[str, object]]:
    """The line of that number, from 1, always the same: its case, its text, and what its row has to say."""
    name = _OF_A_HUNDRED[crc32(b"%d" % number) % 100]
    case = CASES[name]
    call = {"id": f"call_{number}", "name": case.name.format(number), "arguments": case.arguments(number)}
    text = case.spoilt(json.dumps(call))
    known = _object(text)  # what stands in a broken line as well
    row = {"line": number, "id": known.get("id"), "name": known.get("name"), "ok": not case.kind, "kind": case.kind}
    return name, text, row if case.told is None else {**row, "told": case.told(number)}


def judged(rows: Iterable[bytes], calls: int) -> Iterator[tuple[str, str]]:
    """Of each row, and of each line that has none: the line's case, and what is wrong, or an empty text."""
    seen = bytearray(calls + 1)
    for raw in rows:
        row = _object(raw)
        number = row.get("line")
        if type(number) is not int or not 1 <= number <= calls:
            yield "no line of CALLS", "a row"
            continue
        case, _, expected = line_of(number)
        others = [key for key, value in expected.items() if (key, value) not in row.items()]
        yield case, "a second row" if seen[number] else f"another {' and '.join(others)}" if others else ""
        seen[number] = 1
    number = 0
    while (number := seen.find(0, number + 1)) > 0:
        yield line_of(number)[0], "no row"


def _object(text: str | bytes) -> dict[str, object]:
    with suppress(ValueError):
        if isinstance(found := json.loads(text), dict):
            return cast("dict[str, object]", found)
    return {}


class Run(NamedTuple):
    """What came of a run of the command."""

    code: int  # -9: killed
    rows: int  # that it added to RESULTS
    seconds: float
    peak: float  # MB
    grown: float  # MB, from the first tenth of its rows on


def run(command: Sequence[str], results: Path, rows: int, *, kill: bool) -> Run:
    """Run it to its end, or until it has added so many rows; what it says goes to a file beside RESULTS."""
    with results.with_name("said").open("ab") as said, results.open("rb", buffering=0) as file:
        before, added, tenth, peak, began = newlines(file), 0, 0.0, 0.0, time.perf_counter()
        with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=said, stderr=said) as process:  # noqa: S603
            try:
                while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                    added += newlines(file)
                    resident, most = memory(process.pid)
                    peak, tenth = max(peak, most), tenth or (resident if added >= rows / 10 else 0.0)
                    if kill and added >= rows:
                        os.kill(process.pid, signal.SIGKILL)
                    time.sleep(_LOOK)
                process.returncode = os.waitstatus_to_exitcode(ended[1])
            finally:
                process.kill()  # where this was interrupted
        seconds = time.perf_counter() - began
        file.seek(0)  # for the first of them may have taken the place of a torn one, whose end was read
        added = newlines(file) - before
    # Only where there is no /proc: it is never less than what this process held when it started the other.
    peak = peak or ended[2].ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Run(process.returncode, added, seconds, peak, peak - tenth if tenth else 0.0)


def newlines(file: FileIO) -> int:
    """How many there are from where it stands to where it ends by now."""
    return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def memory(pid: int) -> tuple[float, float]:
    """What a process holds, and the most that it held, in MB; nothing where there is no /proc, or it has ended."""
    status = ""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status))
    return int(found.get("VmRSS", 0)) * 1024 / 1e6, int(found.get("VmHWM", 0)) * 1024 / 1e6


def tear(results: Path) -> bool:
    """Cut into the last row, as a full disk or a machine that goes down would; whether it was torn already."""
    with results.open("r+b") as file:
        end = file.seek(-1, os.SEEK_END)
        torn = file.read() != b"\n"
        file.truncate(end + 1 if torn else end - 20)  # bytes; a row has far more
    return torn


def shown(what: str, it: Run) -> Run:
    """The same, printed."""
    rate = it.rows / it.seconds
    print(f"  {what:32}{it.rows:>12,}{it.seconds:>10.1f}{rate:>10,.0f}{it.peak:>10.1f}{it.grown:>+11.1f}", flush=True)
    return it


def measured(folder: Path, calls: int, options: Sequence[str] = ()) -> Iterator[str]:
    """Run them all, and print what is found; what does not hold, in words."""
    path, results, said, written = *(folder / name for name in ("calls", "results", "said")), Counter[str]()
    with path.open("w", encoding="utf-8") as file:
        for case, text, _ in map(line_of, range(1, calls + 1)):
            written[case] += 1
            file.write(f"{text}\n")
    results.touch()
    print(f"{f'{calls:,} calls':34}        rows   seconds   calls/s  peak, MB  grown, MB", flush=True)
    command = [sys.executable, "-m", "pipeline", "run", "benchmarks.million:tools", str(path), "-o", str(results)]
    first = shown("killed half-way", run([*command, *options], results, calls // 2, kill=True))
    if first.code != -signal.SIGKILL:
        yield f"the first run is killed: it ended with {first.code}, {said.read_text('utf-8', 'replace')}"
        return
    torn = tear(results)
    second = shown("resumed", run([*command, "--resume", *options], results, calls - first.rows, kill=False))
    both = Run(0, first.rows + second.rows, first.seconds + second.seconds, *map(max, first[3:], second[3:]))
    shown("together", both)
    print(f"last row torn by the kill: {torn:d}, by us: {not torn:d}; the second run has to cut it away")
    with results.open("rb") as file:
        found = Counter(judged(file, calls))
    print(f"{'what the lines hold':34}       lines    as wanted")
    for case, about in CASES.items():
        print(f"  {case:32}{written[case]:>12,}{found[case, '']:>13,}  {about.kind or 'success'}")
    yield from (f"{case}: {fault}, {times:,} times" for (case, fault), times in found.items() if fault)
    if second.code != 1:  # as documented, for malformed lines
        yield f"the second run ends with 1: it ended with {second.code}, {said.read_text('utf-8', 'replace')}"
    if both.grown > MOST_GROWTH:
        yield f"at most {MOST_GROWTH:g} MB more than after a tenth of a run: {both.grown:.1f} MB"
    if left := {each.name for each in folder.iterdir()} - {path.name, results.name, said.name}:
        yield f"nothing is left beside RESULTS: {left}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; with --check, 1 where something does not hold."""
    parser = argparse.ArgumentParser(description="Very many calls through toolcall run, killed half-way and resumed.")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--executor", metavar="NAME", help="where tools run, as toolcall run has it")
    parser.add_argument("--check", action="store_true", help="fail where something does not hold")
    options = parser.parse_args(arguments)
    if options.calls < FEWEST:
        parser.error(f"--calls: at least {FEWEST:,}, or they are done before they can be killed")
    with TemporaryDirectory(prefix="toolcall-million-") as folder:
        more = ("--executor", options.executor) if options.executor else ()
        broken = list(measured(Path(folder), options.calls, more))
    for what in broken:
        print(f"did not hold: {what}")
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
