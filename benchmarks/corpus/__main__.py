"""``python -m benchmarks.corpus``: run recorded calls of real models, and print their outcomes.

The tools are made of the recorded schemas and return what they receive. Without recordings nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from benchmarks.corpus.measurement import Measurement, measure
from benchmarks.corpus.recordings import default_folder, has_calls, read_calls
from benchmarks.corpus.verdicts import VERDICTS, Tally
from toolcall_pipeline import SetupError

_FEW = 3  # ids that are printed; --json has all of them


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with ``--check``, return 1 if something is worse than it was."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.corpus", description="Run recorded calls of real models through the pipeline."
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the recordings; default: $TOOLCALL_CORPORA")
    parser.add_argument("--check", action="store_true", help="exit 1 if a figure is worse than it was")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, and the ids of what stands out")
    options = parser.parse_args(arguments)
    folder = options.data or default_folder()
    if not has_calls(folder):
        print(f"There are no recorded calls in {folder}: nothing was measured.")
        return 0
    try:
        calls = read_calls(folder)
    except (OSError, ValueError, KeyError, SetupError) as exc:
        parser.error(f"{folder} does not hold recorded calls: {exc!r}")
    found = anyio.run(measure, folder, calls)
    _print(found)
    if options.json is not None:
        options.json.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    regressions = list(found.regressions()) if options.check else []
    for each in regressions:
        print(f"worse: {each}")
    return 1 if regressions else 0


def _print(found: Measurement) -> None:
    print(f"  {'':36}{'calls':>8}{''.join(f'{each:>10}' for each in VERDICTS)}{'%':>7}  errors")
    for title, tallies in found.tables.items():
        if tallies:
            print(title, *(tally.line(kind) for kind, tally in tallies.items()), sep="\n")
    total = Tally()
    for each in found.judged:
        total.add(each)
    if found.judged:
        print(f"in all\n{total.line('')}")
        largest = found.largest
        print(
            f"largest of {len(found.judged):,} arguments: {largest.bytes:,} bytes, {largest.depth} levels, "
            f"{largest.keys} names and items"
        )
    for by, valid in found.valid().items():
        unchanged = sum(each.unchanged for each in valid)
        share = f" ({100 * unchanged / len(valid):.2f} %)" if valid else ""
        print(f"valid {by}, accepted unchanged: {unchanged:,} of {len(valid):,}{share}")
    for each in found.changed:
        print(f"  not unchanged: {each.recorded.call.id} ({each.kind or each.verdict})")
    for kinds, ids in found.disagreements.items():
        more = f", and {len(ids) - _FEW:,} more" if len(ids) > _FEW else ""
        print(f"record and schema disagree, {kinds}: {', '.join(ids[:_FEW])}{more}")
    for section in found.sections.values():
        print(*section.lines(), sep="\n")
    print(f"exceptions: {len(found.raised)}")
    for each in found.raised:
        print(f"  {each.recorded.call.id}: {each.raised}")
    print(f"{found.per_second:,.0f} calls per second")


if __name__ == "__main__":
    sys.exit(main())
