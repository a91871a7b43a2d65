"""Ended spans as text: each trace as an indented tree, with the duration of each span and why it failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from opentelemetry.trace import SpanContext, Status

from ..base.semconv import DECIDED_BY, ERROR_TYPE, REASON, REPAIRS, STAGE_VERDICT
from ..privacy import neutralise

REASON_KEYS = (ERROR_TYPE, DECIDED_BY, STAGE_VERDICT, REASON, REPAIRS)  # the attributes that say why
_MAX_NAME = 200  # characters of the name of a span, which a foreign library may make of any text
_MAX_REASON = 1_000  # characters of one reason
UNICODE = ("├ ", "│ ", "└ ", "  ")
ASCII = ("|-", "| ", "`-", "  ")
Guides: TypeAlias = tuple[str, str, str, str]  # before a span, before those below it, and both for the last span


class FinishedSpan(Protocol):
    """The properties of a span that are read here: the SDK's ``ReadableSpan``, or a similar object."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def context(self) -> SpanContext | None:
        """The ids of its trace and its own."""
        ...

    @property
    def parent(self) -> SpanContext | None:
        """The ids of its parent. None: it is the top of its trace."""
        ...

    @property
    def start_time(self) -> int | None:
        """Nanoseconds since the epoch."""
        ...

    @property
    def end_time(self) -> int | None:
        """Nanoseconds since the epoch. None: it has not ended."""
        ...

    @property
    def status(self) -> Status:
        """Unset, OK or ERROR."""
        ...

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """Its attributes."""
        ...

    @property
    def instrumentation_scope(self) -> Any:
        """The library that made it; its ``name`` is read."""
        ...


S = TypeVar("S", bound=FinishedSpan)
SpanId: TypeAlias = tuple[int, int]  # of the trace, of the span


def id_of(context: SpanContext | None) -> SpanId | None:
    """Return the id of a span, unique among all traces; None for None."""
    return (context.trace_id, context.span_id) if context is not None else None


def duration_ms(span: FinishedSpan) -> float:
    """Return the milliseconds from its start to its end."""
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e6


def format_reasons(span: FinishedSpan, keys: Sequence[str] = REASON_KEYS) -> str:
    """Return the attributes that say why a span ended as it did, as ``key=value``; mostly empty."""
    reasons: list[str] = []
    for key in keys:
        value = (span.attributes or {}).get(key)
        if value is not None:
            values = (value,) if isinstance(value, (str, int, float)) else cast("Sequence[object]", value)
            reasons.append(neutralise(f"{key}={', '.join(map(str, values))}", limit=_MAX_REASON))
    return "  ".join(reasons)


def walk_tree(spans: Collection[S], guides: Guides = UNICODE) -> Iterator[tuple[str, S]]:
    """Yield each span with the guides to draw before it: first the span, then those below it, by start time.

    Every span is yielded. One whose parent is not among ``spans`` stands at the top.
    """
    known = {id_of(span.context) for span in spans}
    children: dict[SpanId | None, list[S]] = {}
    for span in sorted(spans, key=lambda each: each.start_time or 0):
        parent = id_of(span.parent)
        children.setdefault(parent if parent in known else None, []).append(span)
    branch, line, last_branch, blank = guides

    def walk(parent: SpanId | None, prefix: str) -> Iterator[tuple[str, S]]:
        below = children.pop(parent, [])  # removed, so that a span that is its own ancestor is yielded once
        for index, span in enumerate(below, 1):
            is_last, is_top = index == len(below), parent is None
            yield "" if is_top else prefix + (last_branch if is_last else branch), span
            yield from walk(id_of(span.context), "" if is_top else prefix + (blank if is_last else line))

    yield from walk(None, "")
    while children:  # only spans that are their own ancestors are left
        yield from walk(next(iter(children)), "")


def draw_tree(spans: Collection[FinishedSpan], guides: Guides = UNICODE) -> str:
    """Return the spans as text, one per line: guides and name, milliseconds, ERROR if it failed, and why."""
    rows = [(guide + neutralise(span.name, limit=_MAX_NAME), span) for guide, span in walk_tree(spans, guides)]
    width = max((len(label) for label, _ in rows), default=0)
    lines = (
        f"{label:{width}}  {duration_ms(span):9.2f} ms  {'' if span.status.is_ok else 'ERROR  '}{format_reasons(span)}"
        for label, span in rows
    )
    return "\n".join(line.rstrip() for line in lines)
