"""Fresh processes: each measures some groups once, and the median of their figures is the result.

A process has its own memory layout and string hashes, and both move a ratio by some percent. One process, however
long it runs, cannot average that out.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import anyio
import attrs

from benchmarks.overhead.importing import ROOT
from benchmarks.overhead.measure import Effort, Value, measure
from benchmarks.overhead.results import Result
from benchmarks.overhead.rows import Group
from benchmarks.overhead.table import BY_NAME
from toolcall_pipeline.testing.overhead.rounds import TOLERANCE, Core


def run(groups: Sequence[Group], effort: Effort, progress: Callable[[str], object]) -> list[Result]:
    """Measure the groups in fresh processes, and return a result for each row.

    The groups take turns, so that a bad minute of the machine does not hit all processes of one group. Values from a
    disturbed core are replaced, as far as ``effort.spare`` allows.

    Args:
        groups: that are measured.
        effort: how long.
        progress: is given a line before each process.
    """
    values: dict[str, list[Value]] = {row.what: [] for group in groups for row in group.rows}
    fast: float | None = None  # nanoseconds of the probe on an undisturbed core, as far as known
    until = monotonic() + effort.seconds
    parts = [[group] for group in groups] if effort.apart else [list(groups)]
    for turn in range(effort.processes + effort.spare):
        for part in parts:
            rows = [row for group in part for row in group.rows]
            if min(len(undisturbed(values[row.what], fast)) for row in rows) >= effort.processes:
                continue
            if turn >= effort.processes and monotonic() > until:
                break
            progress(f"process {turn + 1} for {', '.join(group.name for group in part)}")
            found = _in_a_fresh_process(part, effort, fast)
            fast = min(found["fast"], fast or found["fast"])
            for what, value in found["values"].items():
                values[what].append(Value(**value))
    return [
        Result(row, [value.figure for value in undisturbed(values[row.what], fast) or values[row.what]])
        for group in groups
        for row in group.rows
    ]


def undisturbed(values: Sequence[Value], fast: float | None) -> list[Value]:
    """The values that were measured while the core ran about as fast as it ever did in this run."""
    return [value for value in values if fast is None or value.probe <= fast * TOLERANCE]


def _in_a_fresh_process(groups: Sequence[Group], effort: Effort, fast: float | None) -> Any:
    """Return what the process found. Raises RuntimeError with its stderr if it fails."""
    order = json.dumps({"groups": [group.name for group in groups], "effort": attrs.asdict(effort), "fast": fast})
    command = [sys.executable, "-m", "benchmarks.overhead.processes", order]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def main(order: str) -> None:
    """Measure in this process, as the order says, and print what was found as JSON."""
    given = json.loads(order)
    effort = Effort(**given["effort"])
    logging.disable(logging.CRITICAL)  # for both sides: the loop logs nothing at all
    core = Core(given["fast"], effort.patience)
    values: dict[str, Value] = {}
    for name in given["groups"]:
        group = BY_NAME[name]
        with group.scenarios() as scenarios:
            values |= anyio.run(measure, group, scenarios, core, effort)
    found = {"fast": core.fast, "values": {what: attrs.asdict(value) for what, value in values.items()}}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
