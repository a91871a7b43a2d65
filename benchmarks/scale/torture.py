"""``python -m benchmarks.scale.torture``: tries to make an effect happen twice, lose a result, raise, or block.

Six trials: ``toolcall run`` killed with SIGKILL and resumed, with threads and with processes; a soak of calls with
random faults on both event loops; shapes of stacks with stages that misbehave, found by hypothesis; groups of calls of
which any are cancelled, through each stage with a store; hostile inputs against the bound on the time that a call
may hold the loop; and a table of the attacks that the tests make. ``--short`` leaves the table out: four minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic

import attrs

from benchmarks.scale.kill_and_resume import kill_and_resume

ROOT = Path(__file__).parents[2]
LONGEST = 900  # seconds of one trial: one that hangs fails
_FOLDERS = ("/proc/self/fd", "/dev/fd")


@attrs.frozen
class Effort:
    """The effort of each trial.

    Args:
        kills: of ``toolcall run``, for each executor.
        lines: of mutating calls that the killed runs work on.
        calls: of the soak, for each event loop.
        examples: of hypothesis, for each property.
        groups: of calls of which some are cancelled, for each stage, store and event loop.
        histories: on virtual time.
        cases: random hostile inputs, beside the hand-made ones.
    """

    kills: int
    lines: int
    calls: int
    examples: int
    groups: int
    histories: int
    cases: int


LONG = Effort(kills=20, lines=2_500, calls=100_000, examples=2_000, groups=10_000, histories=50_000, cases=20_000)
SHORT = Effort(kills=6, lines=600, calls=5_000, examples=200, groups=100, histories=2_000, cases=3_000)


def kill(effort: Effort) -> Iterator[str]:
    """Kill and resume; yield what went wrong."""
    executors: dict[str, Sequence[str]] = {
        "threads": ("--concurrency", "8"),
        "processes": ("--executor", "process", "--workers", "2", "--concurrency", "4"),
    }
    for name, options in executors.items():
        with tempfile.TemporaryDirectory() as folder:
            tally = kill_and_resume(Path(folder), options, kills=effort.kills, lines=effort.lines)
        print(f"{name}: {tally}", flush=True)
        if tally.twice or tally.wrong:
            yield f"{name}: {tally.twice} effects twice, wrong results {tally.wrong[:3]}"
        if not tally.results == tally.lines_with_a_result == tally.lines:
            yield f"{name}: {tally.results} results for {tally.lines} lines"


def run_elsewhere(name: str, *command: str, **environment: str) -> Iterator[str]:
    """Run a program of this repository with its output shown; yield its name if it fails."""
    print(f"{name}:", flush=True)
    try:
        done = subprocess.run(  # noqa: S603  # modules of this repository
            [sys.executable, *command], cwd=ROOT, env={**os.environ, **environment}, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        yield f"{name} did not end in {LONGEST} s"
        return
    if done.returncode:
        yield f"{name} ended with exit code {done.returncode}"


def try_all(effort: Effort) -> Iterator[str]:
    """Every trial; yield what went wrong."""
    yield from kill(effort)
    for backend in ("asyncio", "trio"):
        module = ("-m", "benchmarks.scale.soak", "--calls", str(effort.calls), "--backend", backend)
        yield from run_elsewhere(f"soak on {backend}", *module)
    property_tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_effects.py")
    yield from run_elsewhere("shapes of stacks", *property_tests, TOOLCALL_EXAMPLES=str(effort.examples))
    for kind in ("memory", "lets_others", "file"):
        for stage in ("quota", "rate_limit", "concurrency", "circuit_breaker", "audit", "ledger"):
            groups = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-k", f"{kind} and {stage}")
            yield from run_elsewhere(
                f"cancelled groups, {stage} in {kind}",
                *groups,
                "tests/test_cancelled_groups.py",
                TOOLCALL_GROUPS=str(effort.groups),
            )
    histories = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "tests/simulation")
    yield from run_elsewhere("histories on virtual time", *histories, TOOLCALL_HISTORIES=str(effort.histories))
    hostile = ("-m", "benchmarks.scale.worst", "--check", "--cases", str(effort.cases))
    yield from run_elsewhere("hostile inputs", *hostile)
    if effort is LONG:  # else `make test` has just run them
        yield from run_elsewhere("families of attacks", "-m", "benchmarks.scale.families")


def count_descriptors() -> int:
    """Number of files that this process has open; 0 where that cannot be found out."""
    return next((len(os.listdir(folder)) for folder in _FOLDERS if Path(folder).is_dir()), 0)  # noqa: PTH208


def count_children() -> int:
    """Number of child processes that are left; 0 where that cannot be found out."""
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    return len(listing.read_text().split()) if listing.exists() else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="about three minutes")
    options = parser.parse_args(arguments)
    began, descriptors = monotonic(), count_descriptors()
    wrong = list(try_all(SHORT if options.short else LONG))
    left = count_descriptors() - descriptors
    if left or count_children():
        wrong.append(f"{left} descriptors and {count_children()} processes are left")
    print(f"{monotonic() - began:.0f} s, {left} descriptors and {count_children()} processes left")
    print(*wrong or ["no effect twice, no result lost, nothing raised, nothing left"], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
