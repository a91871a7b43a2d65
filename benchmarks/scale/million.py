"""``python -m benchmarks.scale.million``: ``toolcall run`` on a million calls, killed half-way and resumed.

Each line of CALLS must have exactly one row in RESULTS, its own, of the kind that its mistake leads to, and the memory
of a run must not grow with its calls. The growth is read from /proc; without one only the peak is known.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.scale.mixed_calls import CASES, check_rows, make_line

FEWEST = 1000  # calls: with fewer, a run may end before it is killed
MOST_GROWTH = 64.0  # MB, from the first tenth of a run on
_INTERVAL = 0.005  # seconds between two looks at a run
_TOOLS = "benchmarks.scale.mixed_calls:tools"
_ROOT = Path(__file__).parents[2]


class Run(NamedTuple):
    """The result of one run of the command.

    Args:
        code: its exit code; -9: it was killed.
        rows: that it added to RESULTS.
        seconds: that it took.
        peak: MB, the most memory that it held.
        growth: MB, from the first tenth of its rows on; 0 without /proc.
    """

    code: int
    rows: int
    seconds: float
    peak: float
    growth: float


def run(command: Sequence[str], results: Path, rows: int, *, kill: bool) -> Run:
    """Run the command to its end, or with ``kill`` until it has added that many rows.

    Its output goes to the file ``output`` beside RESULTS.
    """
    with results.with_name("output").open("ab") as output, results.open("rb", buffering=0) as file:
        before, added, tenth, peak, began = count_newlines(file), 0, 0.0, 0.0, time.perf_counter()
        with subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output) as process:  # noqa: S603
            try:
                while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                    added += count_newlines(file)
                    resident, most = read_memory(process.pid)
                    peak, tenth = max(peak, most), tenth or (resident if added >= rows / 10 else 0.0)
                    if kill and added >= rows:
                        os.kill(process.pid, signal.SIGKILL)
                    time.sleep(_INTERVAL)
                process.returncode = os.waitstatus_to_exitcode(ended[1])
            finally:
                process.kill()  # in case this was interrupted
        seconds = time.perf_counter() - began
        file.seek(0)  # a torn last row, whose newline was counted before, may have been replaced
        added = count_newlines(file) - before
    # ru_maxrss only without /proc: it is never less than what this process held when it started the other one.
    peak = peak or ended[2].ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Run(process.returncode, added, seconds, peak, peak - tenth if tenth else 0.0)


def count_newlines(file: FileIO) -> int:
    """Count the newlines from the current position to the present end of the file."""
    return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def read_memory(pid: int) -> tuple[float, float]:
    """MB that a process holds, and the most that it held; zeros without /proc or after its end."""
    status = ""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status))
    return int(found.get("VmRSS", 0)) * 1024 / 1e6, int(found.get("VmHWM", 0)) * 1024 / 1e6


def tear_last_row(results: Path) -> bool:
    """Cut into the last row, as a full disk would, unless it is torn already; return whether it was."""
    with results.open("r+b") as file:
        end = file.seek(-1, os.SEEK_END)
        torn = file.read() != b"\n"
        file.truncate(end + 1 if torn else end - 20)  # bytes; a row is much longer
    return torn


def _print_run(title: str, it: Run) -> Run:
    rate = it.rows / it.seconds
    print(f"  {title:32}{it.rows:>12,}{it.seconds:>10.1f}{rate:>10,.0f}{it.peak:>10.1f}{it.growth:>+12.1f}", flush=True)
    return it


def measure(folder: Path, calls: int, options: Sequence[str] = ()) -> Iterator[str]:
    """Run both halves and print what is found; yield a line for each rule that is broken."""
    path, results, output = (folder / name for name in ("calls", "results", "output"))
    written = Counter[str]()
    with path.open("w", encoding="utf-8") as file:
        for case, text, _ in map(make_line, range(1, calls + 1)):
            written[case] += 1
            file.write(f"{text}\n")
    results.touch()
    print(f"{f'{calls:,} calls':34}        rows   seconds   calls/s  peak, MB  growth, MB", flush=True)
    command = [sys.executable, "-m", "toolcall_pipeline", "run", _TOOLS, str(path), "-o", str(results), "--follow"]
    first = _print_run("killed half-way", run([*command, *options], results, calls // 2, kill=True))
    if first.code != -signal.SIGKILL:
        yield f"the first run must be killed: it ended with {first.code}, {output.read_text('utf-8', 'replace')}"
        return
    torn = tear_last_row(results)
    second = _print_run("resumed", run([*command, "--resume", *options], results, calls - first.rows, kill=False))
    both = Run(0, first.rows + second.rows, first.seconds + second.seconds, *map(max, first[3:], second[3:]))
    _print_run("together", both)
    print(f"the last row was torn by {'the kill' if torn else 'us'}; the second run has to replace it")
    with results.open("rb") as file:
        found = Counter(check_rows(file, calls))
    print(f"{'the lines hold':34}       lines       right")
    for case, about in CASES.items():
        print(f"  {case:32}{written[case]:>12,}{found[case, '']:>12,}  {about.kind or 'success'}")
    yield from (f"{case}: {fault}, {times:,} times" for (case, fault), times in found.items() if fault)
    if second.code != 1:  # as documented for malformed lines
        yield f"the second run must end with 1: it ended with {second.code}, {output.read_text('utf-8', 'replace')}"
    if both.growth > MOST_GROWTH:
        yield f"memory may grow by {MOST_GROWTH:g} MB from the first tenth of a run on: {both.growth:.1f} MB"
    if left := {each.name for each in folder.iterdir()} - {path.name, results.name, output.name}:
        yield f"no file may be left beside RESULTS: {left}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; with ``--check``, return 1 if a rule is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale.million",
        description="Run very many calls with toolcall run, kill it half-way, and resume it.",
    )
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--executor", metavar="NAME", help="where tools run, as in toolcall run")
    parser.add_argument("--check", action="store_true", help="exit 1 if a rule is broken")
    options = parser.parse_args(arguments)
    if options.calls < FEWEST:
        parser.error(f"--calls must be ≥ {FEWEST:,}, not {options.calls:,}: fewer could end before they are killed")
    with TemporaryDirectory(prefix="toolcall-million-") as folder:
        more = ("--executor", options.executor) if options.executor else ()
        broken = list(measure(Path(folder), options.calls, more))
    for rule in broken:
        print(f"broken: {rule}")
    return 1 if options.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
