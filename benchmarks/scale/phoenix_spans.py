"""Read spans back from Phoenix over HTTP, as finished spans that our own tools take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from benchmarks.scale.servers import get

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Status

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ReadSpan(NamedTuple):
    """A span as it was read back; it has the attributes of a finished span, and Phoenix's kind."""

    name: str
    context: SpanContext | None
    parent: SpanContext | None
    start_time: int | None
    end_time: int | None
    status: Status
    attributes: Mapping[str, Any] | None
    instrumentation_scope: Any
    kind: str


def read_spans(url: str, since: datetime | None = None) -> list[ReadSpan]:
    """Read all spans of the default project.

    Args:
        url: where Phoenix listens.
        since: only spans that began at or after that moment; None: all.
    """
    found: list[ReadSpan] = []
    query: dict[str, str] = {"limit": "1000"} | ({} if since is None else {"start_time": since.isoformat()})
    while True:
        page = json.loads(get(f"{url}/v1/projects/default/spans?{urlencode(query)}"))
        found += map(_parse, page["data"])
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


def _parse(sent: Mapping[str, Any]) -> ReadSpan:
    """Parse one span. Phoenix keeps microseconds, and does not keep the instrumentation scope."""
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode

    from toolcall_pipeline.base.semconv import SCOPE

    def context(span_id: str | None) -> SpanContext | None:
        return SpanContext(int(sent["context"]["trace_id"], 16), int(span_id, 16), False) if span_id else None  # noqa: FBT003

    return ReadSpan(
        sent["name"],
        context(sent["context"]["span_id"]),
        context(sent["parent_id"]),
        _nanoseconds(sent["start_time"]),
        _nanoseconds(sent["end_time"]),
        Status(StatusCode[sent["status_code"]], sent.get("status_message") or None),
        sent["attributes"],
        InstrumentationScope(SCOPE),
        sent["span_kind"],
    )


def _nanoseconds(moment: str) -> int:
    """Nanoseconds since the epoch, as spans have them."""
    return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(microseconds=1) * 1000
