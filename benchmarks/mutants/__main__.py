"""``python -m benchmarks.mutants``: change the source in small ways, and see whether the tests notice.

A sample is taken of each file. Nothing is written: a mutant lives in the memory of one process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from benchmarks.mutants.equivalents import EQUIVALENT
from benchmarks.mutants.operators import Mutant, mutants_of
from benchmarks.mutants.patching import Living
from benchmarks.mutants.rooms import ROOMS, WITH_FRAMEWORKS
from benchmarks.mutants.session import MutantSession, Result, has_hypothesis

SCORE = 92  # percent of the mutants that can be noticed
_NOTICED = {"killed", "timed out"}
_ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sample and print it by file; with ``--check``, return 1 if too few were noticed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", metavar="NAMES", help=f"some of {', '.join(ROOMS)}, or parts of file names")
    parser.add_argument("--sample", type=int, default=4, metavar="N", help="mutants of each file; default: 4")
    parser.add_argument("--seed", default="1", help="another seed, another sample; default: 1")
    parser.add_argument("--tests", metavar="PATTERNS", help="only these test files, such as test_retry.py,test_c*.py")
    parser.add_argument("--long", action="store_true", help="with the long tests, and all examples of the properties")
    parser.add_argument(
        "--again",
        type=Path,
        metavar="FILE",
        help="without what the run of this --json noticed; --check and the new --json count both runs",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--check", action="store_true", help=f"exit 1 if less than {SCORE} %% were noticed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what became of each mutant")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else None
    rooms = {**ROOMS, **{name: room for name, room in WITH_FRAMEWORKS.items() if name in (wanted or ())}}
    files = {
        name: [
            each for each in room.files(_ROOT) if not wanted or name in wanted or any(part in each for part in wanted)
        ]
        for name, room in rooms.items()
    }
    files = {name: each for name, each in files.items() if each}
    tests = {name: rooms[name].test_files(_ROOT) for name in files}
    if options.tests:
        chosen = attrs.evolve(ROOMS["batch"], tests=tuple(options.tests.split(","))).test_files(_ROOT)
        tests = dict.fromkeys(files, chosen)
    rows: dict[str, dict[str, Any]] = {}
    if options.again is not None:
        rows = {row["mutant"]: row for row in json.loads(options.again.read_text(encoding="utf-8"))}
    noticed = {key for key, row in rows.items() if row["verdict"] in _NOTICED}

    def choose(living: Living) -> list[tuple[str, Mutant]]:
        return [
            (name, mutant)
            for name, room in files.items()
            for file in room
            for mutant in sample_of(file, living, options.sample, options.seed)
            if mutant.key not in noticed
        ]

    out = sys.stdout
    session = MutantSession(
        _ROOT,
        tests,
        [each for room in files.values() for each in room],
        choose,
        options.workers,
        lambda line: print(line, file=out, flush=True),
    )
    began = time.monotonic()
    given = ["-qq", "--capture=sys", "-p", "no:cacheprovider", f"--rootdir={_ROOT}"]
    # Without it this is the environment of a framework, which may warn as it likes, and starts processes.
    given += ["--hypothesis-seed=0"] if has_hypothesis() else ["-W", "ignore", "--capture=no"]
    if not options.long:
        given += ["-m", "not long", *["--examples=10"] * has_hypothesis()]
    ended = pytest.main([*given, *sorted({each for names in tests.values() for each in names})], plugins=[session])
    if not session.results and (ended or not noticed):
        print(f"nothing was measured: pytest ended with {ended}")
        return 2
    _print(session, time.monotonic() - began)
    for each in sorted(session.results, key=_is_noticed, reverse=True):  # of two with one key, the one that survived
        key = each.mutant.key
        rows[key] = {"mutant": key, "line": each.mutant.line, "verdict": each.verdict, "by": each.noticed_by}
    if options.json is not None:
        options.json.write_text(json.dumps([*rows.values()], indent=1) + "\n", encoding="utf-8")
    score = _score([(key, row["verdict"]) for key, row in rows.items()])
    print(f"{score:.1f} % of {len(rows)} mutants were noticed")
    return 1 if options.check and score < SCORE else 0


def sample_of(file: str, living: Living, size: int, seed: str) -> list[Mutant]:
    """The same mutants for the same source and seed, of each operator in turn.

    They are ordered by a hash of what they change, so an edit of one function leaves the sample of the others alone.
    """
    by_operator: dict[str, list[Mutant]] = {}
    for each in sorted(mutants_of(file, living.tree(file)), key=lambda each: _hash(seed + each.change)):
        by_operator.setdefault(each.operator, []).append(each)
    queues = [by_operator[each] for each in sorted(by_operator, key=lambda each: _hash(seed + file + each))]
    chosen: list[Mutant] = []
    while any(queues) and len(chosen) < size:
        for queue in queues:
            while queue and len(chosen) < size:
                mutant = queue.pop(0)
                if living.changes(mutant):
                    chosen.append(mutant)
                    break
    return chosen


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _print(session: MutantSession, seconds: float) -> None:
    by_file: dict[str, list[Result]] = {}
    for each in session.results:
        by_file.setdefault(each.mutant.file, []).append(each)
    print(f"\n{'':46}{'mutants':>8}{'killed':>8}{'timed out':>11}{'survived':>10}{'equivalent':>12}{'%':>7}")
    for file, results in by_file.items():
        print(_row(file, results))
    print(_row("in all", session.results))
    alive = [each for each in session.results if not _is_noticed(each)]
    for each in alive:
        mutant, reason = each.mutant, EQUIVALENT.get(each.mutant.key, "")
        print(f"\n{mutant.file}:{mutant.line} {mutant.function} {mutant.operator} ({each.verdict}, {each.tests} tests)")
        print(f"    {mutant.before} -> {mutant.after}")
        if reason:
            print(f"    equivalent: {reason}")
    for name in session.left_out:
        print(f"left out, because it fails without a mutant: {name}")
    print(f"\n{seconds / 60:.1f} minutes")


def _row(title: str, results: Sequence[Result]) -> str:
    killed, late = (sum(each.verdict == verdict for each in results) for verdict in ("killed", "timed out"))
    equivalent = sum(not _is_noticed(each) and each.mutant.key in EQUIVALENT for each in results)
    alive = len(results) - killed - late - equivalent
    counts = f"{len(results):8}{killed:8}{late:11}{alive:10}{equivalent:12}"
    return f"{title:46}{counts}{_score([(each.mutant.key, each.verdict) for each in results]):7.1f}"


def _score(verdicts: Sequence[tuple[str, str]]) -> float:
    """The percentage that was noticed of those that can be, by the keys of the mutants."""
    counted = [verdict in _NOTICED for key, verdict in verdicts if verdict in _NOTICED or key not in EQUIVALENT]
    return 100 * sum(counted) / len(counted) if counted else 100.0


def _is_noticed(result: Result) -> bool:
    return result.verdict in _NOTICED


if __name__ == "__main__":
    sys.exit(main())
