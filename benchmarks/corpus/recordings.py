"""Recorded calls of real models, each with a pipeline over the tools that the model was offered.

A folder holds ``calls_*.jsonl``, ``toolsets.jsonl`` and ``tools.jsonl``; ``field_reports.jsonl``,
``resolve_gold.jsonl`` and ``repair_pairs.jsonl`` are optional. The recordings are not part of this project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import jsonschema_rs

from toolcall_pipeline import Call, Pipeline, SetupError, Tool, ToolRegistry
from toolcall_pipeline.middlewares import standard

REPORTS = "field_reports"
Offer: TypeAlias = Mapping[str, "OfferedTool"]  # by name
Row: TypeAlias = dict[str, Any]


async def echo(**arguments: object) -> object:
    """Return what the tool received."""
    return arguments


@attrs.frozen(eq=False)
class OfferedTool:
    """A tool that returns its arguments, made of a recorded schema.

    Args:
        tool: as the pipeline has it.
        schema: of its parameters; None: none was recorded.
        validator: a second opinion on arguments, independent of the pipeline; None without a schema.
    """

    tool: Tool[..., Any]
    schema: Mapping[str, Any] | None
    validator: jsonschema_rs.Validator | None

    @classmethod
    def make(cls, name: str, schema: Mapping[str, Any] | None) -> OfferedTool:
        """Make a tool. Raises SetupError if the schema does not compile."""
        tool = Tool.from_schema(name=name, parameters=schema, handler=echo, effect="read")
        return cls(tool, schema, None if schema is None else jsonschema_rs.validator_for(dict(schema), offline=True))


@attrs.frozen
class RecordedCall:
    """One call, and what its record says about it.

    Args:
        call: as the model sent it.
        suite: the collection that it comes from.
        pipeline: over the tools that were offered with it.
        mistakes: the kinds of mistakes in its arguments, each once.
        name_mistake: what is wrong with the name; None: a tool has that name.
        schema: whether its suite has schemas; without one the arguments cannot be judged.
        offered: the tool of exactly that name; None: there is none.
        mistakes_at: every recorded mistake, as its kind and its path (``items.0.price``).
        valid_by_record: whether the record knows of no mistake.
        valid_by_schema: whether the arguments fit the schema.
    """

    call: Call
    suite: str
    pipeline: Pipeline
    mistakes: tuple[str, ...]
    name_mistake: str | None
    schema: bool
    offered: OfferedTool | None = None
    mistakes_at: tuple[tuple[str, str], ...] = ()
    valid_by_record: bool = False
    valid_by_schema: bool = False

    @property
    def sent(self) -> object:
        """The arguments as JSON values. Raises ValueError if they are text that is not JSON."""
        arguments = self.call.arguments
        return json.loads(arguments) if isinstance(arguments, str) else arguments or {}


def read_calls(folder: Path) -> list[RecordedCall]:
    """Read all recorded calls. Raises OSError, ValueError, KeyError or SetupError if the files have another format."""
    return [*_read_calls(folder), *(_read_reports(folder) if (folder / f"{REPORTS}.jsonl").exists() else ())]


def default_folder() -> Path:
    """Return ``$TOOLCALL_CORPORA``, or else ``../shared/corpora`` beside the checkout; it need not exist."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "corpora"
    return Path(os.environ.get("TOOLCALL_CORPORA") or beside)


def has_calls(folder: Path) -> bool:
    """Whether the folder holds recorded calls."""
    return (folder / "toolsets.jsonl").is_file() and any(folder.glob("calls_*.jsonl"))


def build_pipeline(offer: Offer) -> Pipeline:
    """Build the standard pipeline over these tools."""
    registry = ToolRegistry()
    for offered in offer.values():
        registry.register(offered.tool)
    return standard(registry)


def read_rows(path: Path) -> Iterator[Row]:
    """Read a file of JSON objects, one a line."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _read_calls(folder: Path) -> Iterator[RecordedCall]:
    tools: dict[tuple[str, str], OfferedTool] = {}
    for row in read_rows(folder / "tools.jsonl"):
        try:
            tools[row["suite"], row["tool_id"]] = OfferedTool.make(row["tool"], row["json_schema"])
        except SetupError as exc:
            raise SetupError(f"tool {row['tool_id']}: {exc}") from exc
    offers = {(row["suite"], row["toolset"]): row["tools"] for row in read_rows(folder / "toolsets.jsonl")}
    built: dict[tuple[str, str], tuple[Offer, Pipeline]] = {}
    for path in sorted(folder.glob("calls_*.jsonl")):
        for row in read_rows(path):
            suite, key = row["suite"], (row["suite"], row["toolset"])
            if key not in built:
                offer = {name: tools[suite, tool] for name, tool in offers[key].items()}
                built[key] = offer, build_pipeline(offer)
            mistakes = tuple((mistake["kind"], mistake["path"]) for mistake in row["schema_mistakes"])
            name_mistake = row.get("name_kind", "unknown") if row["recorded_outcome"] == "unknown_tool" else None
            yield _make(row, *built[key], mistakes, name_mistake)


def _read_reports(folder: Path) -> Iterator[RecordedCall]:
    """Read calls from bug reports. Each has its own schema or list of names, and exactly one mistake."""
    for row in read_rows(folder / f"{REPORTS}.jsonl"):
        names: list[str] = row.get("available_tools") or [row["tool_name_as_called"]]
        offer = {name: OfferedTool.make(name, row.get("json_schema")) for name in names}
        name_mistake = row["kind"] if row["recorded_outcome"] == "unknown_tool" else None
        yield _make(row, offer, build_pipeline(offer), ((row["kind"], ""),), name_mistake)


def _make(
    row: Row, offer: Offer, pipeline: Pipeline, mistakes: tuple[tuple[str, str], ...], name_mistake: str | None
) -> RecordedCall:
    arguments = row["arguments"]
    if arguments is None:  # the model's text was not a JSON object
        arguments = row.get("arguments_raw")
    call = Call(row["tool_name_as_called"], arguments, row["id"])
    offered = offer.get(call.name)
    validator = offered.validator if offered is not None else None
    schema = any(each.validator for each in offer.values()) if offered is None else validator is not None
    kinds = tuple(dict.fromkeys(kind for kind, _ in mistakes))
    made = RecordedCall(call, row["suite"], pipeline, kinds, name_mistake, schema, offered, mistakes)
    return attrs.evolve(
        made,
        valid_by_record=schema and not mistakes and name_mistake is None,
        valid_by_schema=validator is not None and _is_valid(validator, made),
    )


def _is_valid(validator: jsonschema_rs.Validator, recorded: RecordedCall) -> bool:
    try:
        return validator.is_valid(recorded.sent)
    except ValueError:
        return False
