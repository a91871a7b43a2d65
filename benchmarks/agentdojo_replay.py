"""AgentDojo's own tools in our registry, and every recorded call of them run: ``[--data DIR] [--json FILE] [--check]``.

Each call runs twice on a fresh environment: through ``middlewares.standard`` and, for comparison, through AgentDojo's
FunctionsRuntime. So what is ours is told from what any replay has: a call that needed an earlier one of its
conversation, or one recorded with another AgentDojo, cannot come out as recorded. Needs the package ``agentdojo``, and
the recordings, which are no part of this project: TOOLCALL_CORPORA, or ``../shared/corpora`` beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import attrs

from benchmarks import agentdojo_pairs
from benchmarks.comparison import (
    OUTCOMES,
    Relation,
    Replayed,
    bare_schema,
    crossed,
    grouped,
    mended,
    of_report,
    of_text,
    same_end,
    share,
    shortfalls,
    timeless,
)
from benchmarks.dojo import BENCHMARK, Dojo, tools_of
from benchmarks.recorded import default_data
from middlewares import standard
from pipeline import Call, Outcome, render

CALLS = "calls_agentdojo.jsonl"
SHOWN = 5  # ids of a group
TITLES: dict[Relation, str] = {
    "only ours disagrees": "ours alone disagrees",
    "repaired": "refused when recorded, and mended by ours",
    "only ours agrees": "ours alone agrees",
    "no replay agrees": "any replay disagrees",
}


async def replay(dojo: Dojo, record: dict[str, Any]) -> Replayed:
    """Run one call both ways."""
    name, tool, since = record["toolset"], record["tool_name_as_called"], datetime.now()  # noqa: DTZ005  # as theirs
    suite, before = dojo.suites[name], dojo.environments[name]
    theirs, here = before.model_copy(deep=True), before.model_copy(deep=True)
    value, error = dojo.runtime(suite.tools).run_function(theirs, tool, record["arguments"])
    report = await standard(tools_of(suite, here)).report(Call(tool, record["arguments"], record["id"]))
    ours, reason = of_report(report)
    outcome: Outcome | None = report.outcome
    same = same_end(report, "" if outcome is None else render(outcome), value, error, since)
    if same and timeless(here, since) != timeless(theirs, since):
        same = False
    return Replayed(
        record["id"],
        name,
        tool,
        record["recorded_outcome"],
        of_text(error),
        ours,
        reason,
        mended(report),
        same,
        record["seen"],
    )


async def replayed(dojo: Dojo, records: Sequence[dict[str, Any]]) -> list[Replayed]:
    return [await replay(dojo, record) for record in records]


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def recorded_schemas(data: Path) -> dict[tuple[str, str], Any]:
    """What the models were offered, by suite and name."""
    offered = {
        each["toolset"]: each["tools"] for each in lines_of(data / "toolsets.jsonl") if each["suite"] == "agentdojo"
    }
    by_id = {each["tool_id"]: each["json_schema"] for each in lines_of(data / "tools.jsonl")}
    return {(name, tool): by_id[key] for name, tools in offered.items() for tool, key in tools.items()}


def other_schemas(ours: dict[tuple[str, str], Any], recorded: dict[tuple[str, str], Any]) -> list[str]:
    """The tools whose schema is another one than was recorded, or that stand on one side only."""
    names = sorted(ours.keys() | recorded.keys())
    return [" ".join(name) for name in names if bare_schema(ours.get(name)) != bare_schema(recorded.get(name))]


def table(rows: Sequence[Replayed]) -> Iterator[str]:
    """By suite, recorded outcome against ours, and both agreements."""
    counts = crossed(rows)
    columns = "{:10} {:17}{:>7}  " + "{:>16}" * len(OUTCOMES) + "{:>9}{:>9}"
    yield columns.format("", "", "", *["ours:"] * len(OUTCOMES), "agree:", "").rstrip()
    yield columns.format("suite", "recorded", "calls", *OUTCOMES, "ours", "plain")
    for suite in sorted({row.suite for row in rows}):
        for recorded in OUTCOMES:
            part = [row for row in rows if (row.suite, row.recorded) == (suite, recorded)]
            if part:
                came = (counts[suite, recorded, ours] or "" for ours in OUTCOMES)
                yield columns.format(suite, recorded, len(part), *came, *agreements(part))
    blank = [""] * len(OUTCOMES)
    yield columns.format("all", "", f"{len(rows):,}", *blank, *agreements(rows))
    yield columns.format(
        "all", "as often as seen", f"{sum(row.seen for row in rows):,}", *blank, *agreements(rows, seen=True)
    )


def agreements(rows: Sequence[Replayed], *, seen: bool = False) -> tuple[str, str]:
    ours = share(rows, lambda row: row.ours == row.recorded, seen=seen)
    return f"{ours:.1%}", f"{share(rows, lambda row: row.plain == row.recorded, seen=seen):.1%}"


def told(rows: Sequence[Replayed]) -> Iterator[str]:
    """What the table does not say: the ends compared, then the disagreements by reason."""
    for came, what in (
        ("ok", "succeeded both ways, with one value and one environment afterwards"),
        ("runtime_error", "failed in the tool both ways, its text told to the model and one environment afterwards"),
    ):
        ends = [row.same for row in rows if row.ours == came and row.same is not None]
        yield f"{sum(map(bool, ends)):,} of {len(ends):,} that {what}"
    for relation, title in TITLES.items():
        groups = grouped(rows, relation)
        yield f"{title}: {sum(len(ids) for _, ids in groups):,}"
        for group, ids in groups:
            yield f"  {len(ids):3}  {group}  [{', '.join(ids[:SHOWN])}{', …' if len(ids) > SHOWN else ''}]"


def as_json(rows: Sequence[Replayed], other: Sequence[str], again: Sequence[agentdojo_pairs.Pair]) -> dict[str, Any]:
    """Ids and outcomes; nothing of what the models wrote."""
    return {
        "agentdojo": version("agentdojo"),
        "benchmark": BENCHMARK,
        "agreement": {"ours": agreements(rows)[0], "plain": agreements(rows)[1]},
        "other schemas": list(other),
        "groups": {relation: dict(grouped(rows, relation)) for relation in TITLES},
        "calls": [{**attrs.asdict(row), "relation": row.relation} for row in rows],
        "second attempts": [attrs.asdict(pair) for pair in again],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay, print, and judge if asked to."""
    parser = argparse.ArgumentParser(description="Run recorded calls of AgentDojo's tools through the pipeline.")
    parser.add_argument("--data", type=Path, default=default_data(), metavar="DIR", help="where the recordings are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of each call")
    parser.add_argument("--check", action="store_true", help="fail where agreement is below what was reached")
    options = parser.parse_args(arguments)
    if not (options.data / CALLS).is_file():
        print(f"There are no recorded calls of AgentDojo in {options.data}: nothing was replayed.")
        return 0
    try:
        dojo = Dojo.load()
    except ImportError as exc:
        print(f"This needs the package agentdojo, in an environment of its own (make test-agentdojo): {exc}")
        return 1
    logging.disable(logging.CRITICAL)  # what the tools fail with is what is counted here
    ours, recorded = dojo.schemas(), recorded_schemas(options.data)
    other = other_schemas(ours, recorded)
    rows = anyio.run(replayed, dojo, list(lines_of(options.data / CALLS)))
    print(
        f"agentdojo {version('agentdojo')}, suites of {BENCHMARK}: {len(ours)} tools, {len(other)} with another schema"
    )
    file = options.data / agentdojo_pairs.PAIRS
    pairs = lines_of(file) if file.is_file() else ()
    again = anyio.run(agentdojo_pairs.attempts, dojo, pairs, lines_of(options.data / CALLS))
    for line in (*other, *table(rows), *told(rows), *agentdojo_pairs.told(again)):
        print(line)
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(rows, other, again), indent=1) + "\n", encoding="utf-8")
    short = [*shortfalls(rows), *agentdojo_pairs.shortfalls(again), *(f"another schema: {name}" for name in other)]
    if options.check and short:
        print(*(f"fell short: {each}" for each in short), sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
