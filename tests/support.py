"""What several test files need: a call, a tool, the spans that were exported, a span tree as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pipeline import Call, Effect, Tool, ValidCall


async def nothing(**_: object) -> str:
    """Do nothing, successfully."""
    return "done"


def a_tool(
    name: str = "probe", effect: Effect = "read", fn: Callable[..., Any] = nothing, **options: Any
) -> Tool[..., Any]:
    """A tool that takes any object."""
    return Tool.from_schema(name=name, parameters=None, handler=fn, effect=effect, **options)


def a_call(tool: Tool[..., Any] | None = None, params: Mapping[str, Any] | None = None, **fields: Any) -> ValidCall:
    """A call that has passed all checks."""
    tool = tool or a_tool()
    return Call(tool.name, **fields).resolved(tool).validated(dict(params or {}))


class Exported:
    """A provider of its own, and the spans that it exported."""

    def __init__(self, **options: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    @property
    def tree(self) -> str:
        return tree(self.spans)


def tree(spans: Sequence[ReadableSpan], *attributes: str) -> str:
    """Spans as indented lines in the order in which they began, with error.type and the attributes asked for."""
    children: dict[int | None, list[ReadableSpan]] = {}
    known = {span.context.span_id for span in spans if span.context}
    for span in spans:
        parent = span.parent.span_id if span.parent and span.parent.span_id in known else None
        children.setdefault(parent, []).append(span)
    lines: list[str] = []

    def add(parent: int | None, depth: int) -> None:
        for span in sorted(children.get(parent, []), key=lambda each: each.start_time or 0):
            facts = {key: (span.attributes or {}).get(key) for key in ("error.type", *attributes)}
            told = "".join(f" {key}={value}" for key, value in facts.items() if value is not None)
            red = " ERROR" if span.status.status_code.name == "ERROR" else ""
            lines.append("  " * depth + span.name + red + told)
            add(span.context.span_id if span.context else None, depth + 1)

    add(None, 0)
    return "\n".join(lines)
