"""``python -m benchmarks.agentdojo``: replay every recorded call of AgentDojo's tools, and compare the outcomes.

Each call runs twice on a fresh environment: through ``standard`` and, for comparison, through AgentDojo's
FunctionsRuntime. That separates our share from the share of any replay: a call that needed an earlier call of its
conversation, or that was recorded with another version of AgentDojo, cannot come out as recorded. It needs the package
``agentdojo`` and the recordings; without recordings nothing is replayed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import attrs

from benchmarks.agentdojo import pairs
from benchmarks.agentdojo.comparison import (
    OUTCOMES,
    Relation,
    ReplayedCall,
    cross_tabulate,
    group,
    regressions,
    share,
)
from benchmarks.agentdojo.replay import different_schemas, read_lines, read_schemas, replay_all
from benchmarks.agentdojo.suites import BENCHMARK, Dojo
from benchmarks.corpus.recordings import default_folder

CALLS = "calls_agentdojo.jsonl"
_SHOWN = 5  # ids of a group
_TITLES: dict[Relation, str] = {
    "only ours disagrees": "ours alone disagrees",
    "repaired": "refused when recorded, and repaired by ours",
    "only ours agrees": "ours alone agrees",
    "no replay agrees": "no replay agrees",
}


def table(rows: Sequence[ReplayedCall]) -> Iterator[str]:
    """Counts by suite and recorded outcome against ours, and the agreement of both replays."""
    counts = cross_tabulate(rows)
    columns = "{:10} {:17}{:>7}  " + "{:>16}" * len(OUTCOMES) + "{:>9}{:>9}"
    yield columns.format("", "", "", *["ours:"] * len(OUTCOMES), "agree:", "").rstrip()
    yield columns.format("suite", "recorded", "calls", *OUTCOMES, "ours", "plain")
    for suite in sorted({row.suite for row in rows}):
        for recorded in OUTCOMES:
            part = [row for row in rows if (row.suite, row.recorded) == (suite, recorded)]
            if part:
                ours = (counts[suite, recorded, kind] or "" for kind in OUTCOMES)
                yield columns.format(suite, recorded, len(part), *ours, *_agreements(part))
    blank = [""] * len(OUTCOMES)
    yield columns.format("all", "", f"{len(rows):,}", *blank, *_agreements(rows))
    seen = f"{sum(row.seen for row in rows):,}"
    yield columns.format("all", "as often as seen", seen, *blank, *_agreements(rows, seen=True))


def details(rows: Sequence[ReplayedCall]) -> Iterator[str]:
    """Print the facts that the table lacks: whether results are the same, then the disagreements by reason."""
    for kind, what in (
        ("ok", "succeeded both ways: the same value, and the same environment afterwards"),
        ("runtime_error", "failed in the tool both ways: its text told to the model, the same environment afterwards"),
    ):
        same = [row.same for row in rows if row.ours == kind and row.same is not None]
        yield f"{sum(map(bool, same)):,} of {len(same):,} that {what}"
    for relation, title in _TITLES.items():
        groups = group(rows, relation)
        yield f"{title}: {sum(len(ids) for _, ids in groups):,}"
        for name, ids in groups:
            yield f"  {len(ids):3}  {name}  [{', '.join(ids[:_SHOWN])}{', …' if len(ids) > _SHOWN else ''}]"


def as_json(rows: Sequence[ReplayedCall], different: Sequence[str], second: Sequence[pairs.Pair]) -> dict[str, Any]:
    """Ids and outcomes; nothing of what the models wrote."""
    ours, plain = _agreements(rows)
    return {
        "agentdojo": version("agentdojo"),
        "benchmark": BENCHMARK,
        "agreement": {"ours": ours, "plain": plain},
        "different schemas": list(different),
        "groups": {relation: dict(group(rows, relation)) for relation in _TITLES},
        "calls": [{**attrs.asdict(row), "relation": row.relation} for row in rows],
        "second attempts": [attrs.asdict(pair) for pair in second],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay and print; with ``--check``, return 1 if something is worse than it was."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agentdojo", description="Run recorded calls of AgentDojo's tools."
    )
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="the recordings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of each call")
    parser.add_argument("--check", action="store_true", help="exit 1 if a figure is worse than it was")
    options = parser.parse_args(arguments)
    calls, pairs_file = options.data / CALLS, options.data / pairs.PAIRS
    if not calls.is_file():
        print(f"There are no recorded calls of AgentDojo in {options.data}: nothing was replayed.")
        return 0
    try:
        dojo = Dojo.load()
    except ImportError as exc:
        print(f"This needs the package agentdojo, in an environment of its own (make test-agentdojo): {exc}")
        return 1
    logging.disable(logging.CRITICAL)  # failures of the tools are counted here, not logged
    ours = dojo.schemas()
    different = different_schemas(ours, read_schemas(options.data))
    rows = anyio.run(replay_all, dojo, list(read_lines(calls)))
    second = anyio.run(
        pairs.replay_pairs, dojo, read_lines(pairs_file) if pairs_file.is_file() else (), read_lines(calls)
    )
    print(f"agentdojo {version('agentdojo')}, suites of {BENCHMARK}: {len(ours)} tools, {len(different)} differ")
    for line in (*different, *table(rows), *details(rows), *pairs.lines(second)):
        print(line)
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(rows, different, second), indent=1) + "\n", encoding="utf-8")
    worse = [*regressions(rows), *pairs.regressions(second), *(f"another schema: {name}" for name in different)]
    if options.check and worse:
        print(*(f"worse: {each}" for each in worse), sep="\n")
        return 1
    return 0


def _agreements(rows: Sequence[ReplayedCall], *, seen: bool = False) -> tuple[str, str]:
    ours = share(rows, lambda row: row.ours == row.recorded, seen=seen)
    return f"{ours:.1%}", f"{share(rows, lambda row: row.plain == row.recorded, seen=seen):.1%}"


if __name__ == "__main__":
    sys.exit(main())
