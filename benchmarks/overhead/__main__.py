"""``python -m benchmarks.overhead``: measure what the pipeline costs, and print it as a table."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.overhead.counted import guard
from benchmarks.overhead.measure import Effort
from benchmarks.overhead.nobody_recording import LOOP, SPINE
from benchmarks.overhead.processes import run
from benchmarks.overhead.results import LAST_RUN, Result, columns, digits, machine
from benchmarks.overhead.rows import Group
from benchmarks.overhead.table import ABLATIONS, BY_NAME, GROUPS

FULL = Effort(rounds=15, slice=0.002, processes=5, spare=3, seconds=180, apart=True, patience=3)
QUICK = Effort(rounds=5, slice=0.001, processes=2, spare=0, seconds=0, apart=False, patience=0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with ``--guard``, count instead, and return 1 if a row is over its limit."""
    options = _parser().parse_args(arguments)
    if options.guard:
        return guard()
    effort = QUICK if options.quick else FULL
    if options.spread:
        return _spread(effort, options.spread)
    groups = options.only or ((*GROUPS, *ABLATIONS) if options.ablation else GROUPS)
    results = run(groups, effort, _progress)
    _print(groups, results)
    if options.json is not None:
        found = {**machine(), "effort": attrs.asdict(effort), "rows": [result.as_json() for result in results]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.compare is not None:
        _compare(results, json.loads(options.compare.read_text(encoding="utf-8")))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under half a minute, and less exact")
    parser.add_argument("--ablation", action="store_true", help="also measure what a call consists of")
    parser.add_argument(
        "--only", type=_groups, metavar="GROUPS", help=f"some groups, with commas: {', '.join(BY_NAME)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    compare = "say what got better or worse since that JSON; default: since the run in results/"
    parser.add_argument("--compare", type=Path, metavar="OLD", nargs="?", const=LAST_RUN, help=compare)
    parser.add_argument("--spread", type=int, metavar="N", help="measure the first group N times, and print the spread")
    counted = "count machine instructions under valgrind instead, and exit 1 if a row is over its limit"
    parser.add_argument("--guard", action="store_true", help=counted)
    return parser


def _groups(names: str) -> list[Group]:
    unknown = set(names.split(",")) - set(BY_NAME)
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown group {', '.join(sorted(unknown))}; known: {', '.join(BY_NAME)}")
    return [group for group in BY_NAME.values() if group.name in names.split(",")]


def _progress(text: str) -> None:
    """Show the progress to a person at a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _print(groups: Sequence[Group], results: Sequence[Result]) -> None:
    _progress("")
    found = {result.row.what: result for result in results}
    print(columns("", "median", "of", "processes", "budget"))
    for group in groups:
        print(group.title)
        for row in group.rows:
            print(found[row.what].line())


def _compare(results: Sequence[Result], earlier: dict[str, Any]) -> None:
    """Print each row's figure before and now."""
    before = {row["what"]: row for row in earlier["rows"]}
    print("compared with the earlier run")
    for result in results:
        if result.row == LOOP and LOOP.what in before and result.compared(before[LOOP.what]) != "same":
            print("  The hand-written loop runs at another speed than then: this is another machine, or a busy one.")
    for result in results:
        if (old := before.get(result.row.what)) is None:
            print(f"  {result.row.what:47} {'':>7}    {digits(result.median):>7}  new")
        else:
            verdict = result.compared(old)
            print(f"  {result.row.what:47} {digits(old['median']):>7} -> {digits(result.median):>7}  {verdict}")


def _spread(effort: Effort, times: int) -> int:
    """Measure the first group that many times, and print the range of each figure."""
    runs = [run([SPINE], effort, _progress) for _ in range(times)]
    _progress("")
    print(f"  {f'{times} runs':47} {'min':>7} {'median':>7} {'max':>7}")
    for at, row in enumerate(SPINE.rows):
        medians = [results[at].median for results in runs]
        low, middle, high = (digits(value) for value in (min(medians), statistics.median(medians), max(medians)))
        print(f"  {row.what:47} {low:>7} {middle:>7} {high:>7} {row.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
