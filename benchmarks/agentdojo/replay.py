"""Replay recorded calls on fresh environments, through our pipeline and through AgentDojo's runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.agentdojo.comparison import (
    ReplayedCall,
    bare_schema,
    kind_of_report,
    kind_of_text,
    repair_rules,
    same_result,
    without_timestamps,
)
from benchmarks.agentdojo.suites import Dojo, make_tools
from toolcall_pipeline import Call, Outcome, render
from toolcall_pipeline.middlewares import standard


async def replay(dojo: Dojo, record: dict[str, Any]) -> ReplayedCall:
    """Run one call both ways, each on an environment of its own."""
    name, tool, since = record["toolset"], record["tool_name_as_called"], datetime.now()  # noqa: DTZ005  # as theirs
    suite, before = dojo.suites[name], dojo.environments[name]
    theirs, ours = before.model_copy(deep=True), before.model_copy(deep=True)
    value, error = dojo.runtime(suite.tools).run_function(theirs, tool, record["arguments"])
    report = await standard(make_tools(suite, ours)).report(Call(tool, record["arguments"], record["id"]))
    kind, reason = kind_of_report(report)
    outcome: Outcome | None = report.outcome
    same = same_result(report, "" if outcome is None else render(outcome), value, error, since)
    if same and without_timestamps(ours, since) != without_timestamps(theirs, since):
        same = False
    return ReplayedCall(
        record["id"],
        name,
        tool,
        record["recorded_outcome"],
        kind_of_text(error),
        kind,
        reason,
        repair_rules(report),
        same,
        record["seen"],
    )


async def replay_all(dojo: Dojo, records: Sequence[dict[str, Any]]) -> list[ReplayedCall]:
    """Replay the calls one after the other."""
    return [await replay(dojo, record) for record in records]


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Read a file of JSON objects, one a line."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def read_schemas(folder: Path) -> dict[tuple[str, str], Any]:
    """The schemas that the models were offered, by suite and name."""
    offered = {
        each["toolset"]: each["tools"] for each in read_lines(folder / "toolsets.jsonl") if each["suite"] == "agentdojo"
    }
    by_id = {each["tool_id"]: each["json_schema"] for each in read_lines(folder / "tools.jsonl")}
    return {(name, tool): by_id[key] for name, tools in offered.items() for tool, key in tools.items()}


def different_schemas(ours: dict[tuple[str, str], Any], recorded: dict[tuple[str, str], Any]) -> list[str]:
    """The tools whose schema is not the recorded one, or that are on one side only."""
    names = sorted(ours.keys() | recorded.keys())
    return [" ".join(name) for name in names if bare_schema(ours.get(name)) != bare_schema(recorded.get(name))]
