"""Finished spans as text: each trace as an indented tree, with the time that each took and why it failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from opentelemetry.trace import SpanContext, Status

from ..semconv import ERROR_TYPE, REASON, REPAIRS

TOLD = (ERROR_TYPE, REASON, REPAIRS)  # the attributes that tell why
DRAWN = ("├ ", "│ ", "└ ", "  ")
ASCII = ("|-", "| ", "`-", "  ")
Guides: TypeAlias = tuple[str, str, str, str]


class Finished(Protocol):
    """What is asked of a span: a ``ReadableSpan`` of the SDK, or what looks like one."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def context(self) -> SpanContext | None:
        """The ids of its trace and of itself."""
        ...

    @property
    def parent(self) -> SpanContext | None:
        """Those of the span above it; None: there is none."""
        ...

    @property
    def start_time(self) -> int | None:
        """Nanoseconds since the epoch."""
        ...

    @property
    def end_time(self) -> int | None:
        """The same; None: it has not ended."""
        ...

    @property
    def status(self) -> Status:
        """Red or not."""
        ...

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """What it says."""
        ...

    @property
    def instrumentation_scope(self) -> Any:
        """Who made it; ``name`` tells."""
        ...


S = TypeVar("S", bound=Finished)
Id: TypeAlias = tuple[int, int]  # of the trace, of the span


def id_of(context: SpanContext | None) -> Id | None:
    """What a span is found by, among those of other traces too; None for none."""
    return (context.trace_id, context.span_id) if context is not None else None


def milliseconds(span: Finished) -> float:
    """How long it took."""
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e6


def why(span: Finished, keys: Sequence[str] = TOLD) -> str:
    """The attributes that tell why it came out as it did, as ``key=value``; mostly empty."""
    told: list[str] = []
    for key in keys:
        value = (span.attributes or {}).get(key)
        if value is not None:
            words = (value,) if isinstance(value, (str, int, float)) else cast("Sequence[object]", value)
            told.append(f"{key}={', '.join(map(str, words))}")
    return "  ".join(told)


def lines(spans: Collection[S], guides: Guides = DRAWN) -> Iterator[tuple[str, S]]:
    """Each span and then those below it, in the order in which they began, with the guides that stand before it.

    One whose parent is not among them stands at the top, so all are there whatever is missing.
    """
    known = {id_of(span.context) for span in spans}
    below: dict[Id | None, list[S]] = {}
    for span in sorted(spans, key=lambda each: each.start_time or 0):
        above = id_of(span.parent)
        below.setdefault(above if above in known else None, []).append(span)
    branch, line, last_branch, nothing = guides

    def walk(parent: Id | None, before: str) -> Iterator[tuple[str, S]]:
        inside = below.pop(parent, [])  # taken out: what stands under itself is not walked for ever
        for place, span in enumerate(inside, 1):
            last = place == len(inside)
            top = parent is None
            yield "" if top else before + (last_branch if last else branch), span
            yield from walk(id_of(span.context), "" if top else before + (nothing if last else line))

    yield from walk(None, "")
    while below:  # only those that stand under themselves
        yield from walk(next(iter(below)), "")


def tree(spans: Collection[Finished], guides: Guides = DRAWN, keys: Sequence[str] = TOLD) -> str:
    """The trees as text, a line each: guides and name, milliseconds, and what tells why."""
    rows = [(guide + span.name, span) for guide, span in lines(spans, guides)]
    width = max((len(label) for label, _ in rows), default=0)
    told = (f"{label:{width}}  {milliseconds(span):9.2f} ms  {_mark(span)}{why(span, keys)}" for label, span in rows)
    return "\n".join(line.rstrip() for line in told)


def _mark(span: Finished) -> str:
    return "" if span.status.is_ok else "ERROR  "
