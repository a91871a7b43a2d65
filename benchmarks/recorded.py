"""Calls that models made, as they were recorded, each with the pipeline over the tools that it was offered.

A directory of ``calls_*.jsonl``, ``toolsets.jsonl`` and ``tools.jsonl``, and ``field_reports.jsonl``,
``resolve_gold.jsonl`` and ``repair_pairs.jsonl`` where they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import jsonschema_rs

from middlewares import standard
from pipeline import Call, Pipeline, SetupError, Tool, ToolRegistry

REPORTS = "field_reports"
Offer: TypeAlias = Mapping[str, "Offered"]  # by name
Row: TypeAlias = dict[str, Any]


async def echo(**arguments: object) -> object:
    """What the tool was given."""
    return arguments


@attrs.frozen(eq=False)
class Offered:
    """A tool, and a second opinion on its arguments; None where no schema was recorded."""

    tool: Tool[..., Any]
    schema: Mapping[str, Any] | None
    validator: jsonschema_rs.Validator | None

    @classmethod
    def of(cls, name: str, schema: Mapping[str, Any] | None) -> Offered:
        """Raises SetupError where the schema does not compile."""
        tool = Tool.from_schema(name=name, parameters=schema, handler=echo, effect="read")
        return cls(tool, schema, None if schema is None else jsonschema_rs.validator_for(dict(schema), offline=True))


@attrs.frozen
class Recorded:
    """One call, and what is known of it beforehand."""

    call: Call
    suite: str
    pipeline: Pipeline
    mistakes: tuple[str, ...]  # the kinds of them, each once
    name_kind: str | None  # what is wrong with the name; None: it is a tool's
    schema: bool  # whether its suite has schemas: else nobody can judge the arguments
    offered: Offered | None = None  # the tool of that very name
    wrong: tuple[tuple[str, str], ...] = ()  # each mistake that was recorded: its kind, and where, as ``items.0.price``
    valid_by_record: bool = False
    valid_by_schema: bool = False

    @property
    def sent(self) -> object:
        """The arguments as JSON values. Raises ValueError for text that holds none."""
        arguments = self.call.arguments
        return json.loads(arguments) if isinstance(arguments, str) else arguments or {}


def read(data: Path) -> list[Recorded]:
    """All that was recorded there. Raises OSError, ValueError, KeyError or SetupError where that is no such data."""
    return [*_calls(data), *(_reports(data) if (data / f"{REPORTS}.jsonl").exists() else ())]


def default_data() -> Path:
    """Where the recorded calls are, if they are."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpora"
    return Path(os.environ.get("TOOLCALL_CORPORA") or beside)


def is_data(data: Path) -> bool:
    """Whether recorded calls are there."""
    return (data / "toolsets.jsonl").is_file() and any(data.glob("calls_*.jsonl"))


def _calls(data: Path) -> Iterator[Recorded]:
    tools: dict[tuple[str, str], Offered] = {}
    for row in rows_of(data / "tools.jsonl"):
        try:
            tools[row["suite"], row["tool_id"]] = Offered.of(row["tool"], row["json_schema"])
        except SetupError as exc:
            raise SetupError(f"tool {row['tool_id']}: {exc}") from exc
    offers = {(row["suite"], row["toolset"]): row["tools"] for row in rows_of(data / "toolsets.jsonl")}
    ready: dict[tuple[str, str], tuple[Offer, Pipeline]] = {}
    for path in sorted(data.glob("calls_*.jsonl")):
        for row in rows_of(path):
            suite, key = row["suite"], (row["suite"], row["toolset"])
            if key not in ready:
                offer = {name: tools[suite, tool] for name, tool in offers[key].items()}
                ready[key] = offer, pipeline_of(offer)
            wrong = tuple((mistake["kind"], mistake["path"]) for mistake in row["schema_mistakes"])
            name_kind = row.get("name_kind", "unknown") if row["recorded_outcome"] == "unknown_tool" else None
            yield _recorded(row, *ready[key], wrong, name_kind)


def _reports(data: Path) -> Iterator[Recorded]:
    """Each with a schema of its own, or with the names that were offered; its one mistake is its kind."""
    for row in rows_of(data / f"{REPORTS}.jsonl"):
        names: list[str] = row.get("available_tools") or [row["tool_name_as_called"]]
        offer = {name: Offered.of(name, row.get("json_schema")) for name in names}
        name_kind = row["kind"] if row["recorded_outcome"] == "unknown_tool" else None
        yield _recorded(row, offer, pipeline_of(offer), ((row["kind"], ""),), name_kind)


def _recorded(
    row: Row, offer: Offer, pipeline: Pipeline, wrong: tuple[tuple[str, str], ...], name_kind: str | None
) -> Recorded:
    arguments = row["arguments"]
    if arguments is None:  # the model's text was no JSON object
        arguments = row.get("arguments_raw")
    call = Call(row["tool_name_as_called"], arguments, row["id"])
    offered = offer.get(call.name)
    validator = offered.validator if offered is not None else None
    schema = any(each.validator for each in offer.values()) if offered is None else validator is not None
    kinds = tuple(dict.fromkeys(kind for kind, _ in wrong))
    made = Recorded(call, row["suite"], pipeline, kinds, name_kind, schema, offered, wrong)
    return attrs.evolve(
        made,
        valid_by_record=schema and not wrong and name_kind is None,
        valid_by_schema=validator is not None and _is_valid(validator, made),
    )


def _is_valid(validator: jsonschema_rs.Validator, recorded: Recorded) -> bool:
    try:
        return validator.is_valid(recorded.sent)
    except ValueError:
        return False


def pipeline_of(offer: Offer) -> Pipeline:
    """The standard one, over these tools."""
    registry = ToolRegistry()
    for offered in offer.values():
        registry.register(offered.tool)
    return standard(registry)


def rows_of(path: Path) -> Iterator[Row]:
    """The objects of a file, one a line."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
