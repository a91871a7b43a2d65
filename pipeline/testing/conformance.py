"""assert_trace: whether finished spans are what the pipeline promises, one well-formed tree for each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from ..errors import KINDS
from ..report import CANCELLED, CallReport
from ..semconv import (
    ATTEMPT,
    ATTEMPTS,
    ERROR_TYPE,
    EXECUTE_TOOL,
    OPERATION,
    OTHER,
    REASON,
    SCOPE,
    STAGE_DURATION,
    TOOL_NAME,
)
from ..telemetry.span_tree import Finished, id_of, lines, why

Role: TypeAlias = Literal["call", "attempt", "stage"]
Breach: TypeAlias = tuple[str, Finished | None]  # the rule that is broken, and the span that breaks it
_TOLD = (ATTEMPTS, ATTEMPT, ERROR_TYPE, REASON)
_VERDICTS = {*(str(vars(kind)["kind"]) for kind in KINDS), CANCELLED}


def assert_trace(
    spans: Iterable[Finished],
    *,
    calls: int | None = None,
    reports: Sequence[CallReport] | None = None,
    stages: bool = True,
) -> None:
    """Prove that finished spans of the SDK are whole and true; those of other libraries may stand among them.

    ``calls`` is how many there were (None: one or more). ``reports``, as `Pipeline.report` gives them, are compared
    with the spans: outcome, attempts, and each stage with its verdict, its reason and its time. ``stages=False`` is for
    a Trace that makes no spans of them. What is made later must have been made: `Trace.flush`. Raises AssertionError
    with each rule that is broken, and the trees, in which the spans that break one are marked.
    """
    every = list(spans)
    trace = _Trace(every)
    breaches = [*trace.counted(calls, reports), *trace.whole()]
    for call in trace.calls:
        breaches += [*_named(call), *trace.numbered(call), *trace.staged(call, wanted=stages)]
    if reports is not None and len(reports) == len(trace.calls):
        for call, report in zip(trace.calls, sorted(reports, key=lambda each: each.started_at), strict=True):
            breaches += trace.told(call, report, stages=stages)
    if breaches:
        raise AssertionError(_message(every, breaches))


class _Trace:
    """The spans, and who stands under whom."""

    def __init__(self, every: Sequence[Finished]) -> None:
        begun = sorted(every, key=lambda span: span.start_time or 0)
        self._by_id = {id_of(span.context): span for span in every}
        self._ours = [span for span in begun if getattr(span.instrumentation_scope, "name", None) == SCOPE]
        self._role = {id(span): _role(span) for span in self._ours}
        self._above = {id(span): self._found_above(span) for span in self._ours}
        self._inside: dict[int, list[Finished]] = {}
        for span in self._ours:
            self._inside.setdefault(id(self._above[id(span)]), []).append(span)
        self.calls = [span for span in self._ours if self._role[id(span)] == "call"]

    def _found_above(self, span: Finished) -> Finished | None:
        """The nearest of ours above: a middleware may have put a span of its own around an attempt."""
        passed: set[int] = set()
        above: Finished | None = span
        while above is not None and id(above) not in passed:
            passed.add(id(above))
            above = self._by_id.get(id_of(above.parent)) if above.parent is not None else None
            if id(above) in self._role:
                return above
        return None

    def _under(self, above: Finished, role: Role) -> list[Finished]:
        return [span for span in self._inside.get(id(above), ()) if self._role[id(span)] == role]

    def counted(self, calls: int | None, reports: Sequence[CallReport] | None) -> Iterator[Breach]:
        """As many calls as there were."""
        there = len(self.calls)
        for wanted in (calls, None if reports is None else len(reports)):
            if wanted is not None and wanted != there:
                yield f"each call has one call span: {wanted} wanted, {there} found", None
        if calls is None and reports is None and not there:
            yield "each call has one call span: none found", None

    def whole(self) -> Iterator[Breach]:
        """What holds for each span by itself, and with the one above it."""
        ids = Counter(id_of(span.context) for span in self._ours)
        for span in self._ours:
            code = span.status.status_code.name
            if span.context is None or ids[id_of(span.context)] > 1:
                yield "a span has an id of its own", span
            if span.start_time is None or span.end_time is None or span.end_time < span.start_time:
                yield "a span has ended, and not before it began", span
            if (code == "ERROR") != (_fact(span, ERROR_TYPE) is not None):
                yield "a span is red exactly if it has an error.type", span
            if code == "OK":
                yield "a span that is not red has no status: OK is the application's to say", span
            if self._role[id(span)] != "call":
                yield from self._placed(span)

    def _placed(self, span: Finished) -> Iterator[Breach]:
        above = self._above[id(span)]
        if _fact(span, OPERATION) is not None:
            yield "only a call span carries gen_ai.operation.name", span
        if above is None:
            yield "the parent of an attempt or a stage is there, in the same trace", span
            return
        wanted = ("call",) if self._role[id(span)] == "attempt" or span.name == "retry" else ("call", "attempt")
        if self._role[id(above)] not in wanted:
            yield "an attempt and retry stand under the call, other stages under it or an attempt", span
        elif span.name == "execute" and self._role[id(above)] != "attempt":
            yield "execute stands under an attempt", span
        if not _within(span, above):
            yield "a child begins and ends within its parent", span

    def numbered(self, call: Finished) -> Iterator[Breach]:
        """The attempts of a call."""
        attempts = self._under(call, "attempt")
        for number, attempt in enumerate(attempts, 1):
            if _fact(attempt, ATTEMPT) != number:
                yield f"attempts are numbered from 1, in the order in which they began: this is {number}", attempt
            if attempt.name not in ("attempt", f"attempt {_fact(call, TOOL_NAME)}"):
                yield "an attempt is named after the tool of its call", attempt
        if _fact(call, ATTEMPTS) != len(attempts):
            yield f"toolcall.attempts is the number of attempts: there are {len(attempts)}", call

    def staged(self, call: Finished, *, wanted: bool) -> Iterator[Breach]:
        """Whether there are stages at all."""
        for above in (call, *self._under(call, "attempt")):
            stages = self._under(above, "stage")
            if wanted and not self._inside.get(id(above)):
                yield "the stages of a call and of an attempt have their spans", above
            if not wanted and stages:
                yield "stages=False: there are no spans of stages", stages[0]

    def told(self, call: Finished, report: CallReport, *, stages: bool) -> Iterator[Breach]:
        """The same as in the report."""
        tool = report.tool.name if report.tool is not None else OTHER
        if _fact(call, TOOL_NAME) != tool:
            yield f"the call's tool is that of the report, {tool}", call
        came_to = CANCELLED if report.outcome is None else getattr(report.error, "kind", None)
        if _fact(call, ERROR_TYPE) != came_to:
            yield f"the call's error.type is what came of it, {came_to or 'a success'}", call
        attempts = {_fact(span, ATTEMPT): span for span in self._under(call, "attempt")}
        if len(attempts) != len(report.attempts):
            yield f"the attempts are those of the report, {len(report.attempts)}", call
        for each in report.attempts:
            if (span := attempts.get(each.number)) is not None and _fact(span, ERROR_TYPE) != each.verdict:
                yield f"an attempt's error.type is that of the report, {each.verdict}", span
        if stages:
            yield from self._told_of_stages({0: call, **attempts}, report)
        else:
            yield from _told_of_durations(call, report)

    def _told_of_stages(self, places: dict[int, Finished], report: CallReport) -> Iterator[Breach]:
        ran = Counter(
            _ran(each.attempt, each.name, each.verdict, each.note, each.end - each.start) for each in report.stages
        )
        for number, above in places.items():
            for span in self._under(above, "stage"):
                took = (span.end_time or 0) - (span.start_time or 0)
                told = _ran(number, span.name, _fact(span, ERROR_TYPE), _fact(span, REASON), took)
                if not ran[told]:
                    yield f"a stage's span tells what the report does, and not: {told}", span
                ran[told] -= 1
        for missing in +ran:
            yield f"each stage of the report has its span, as has: {missing}", places[0]


def _told_of_durations(call: Finished, report: CallReport) -> Iterator[Breach]:
    took: Counter[str] = Counter()
    for each in report.stages:
        took[STAGE_DURATION.format(each.name)] += each.end - each.start
    for key, nanoseconds in took.items():
        if round((_fact(call, key) or 0) * 1e9) != nanoseconds:
            yield f"stages=False: {key} is how long the runs of that stage took, {nanoseconds / 1e9} s", call


def _role(span: Finished) -> Role:
    if span.name == EXECUTE_TOOL or span.name.startswith(f"{EXECUTE_TOOL} "):
        return "call"
    attempt = span.name.startswith("attempt ") or _fact(span, ATTEMPT) is not None
    return "attempt" if attempt else "stage"


def _fact(span: Finished, key: str) -> Any:
    return (span.attributes or {}).get(key)


def _within(span: Finished, above: Finished) -> bool:
    times = (above.start_time, span.start_time, span.end_time, above.end_time)
    return list(times) == sorted(each or 0 for each in times)


def _ran(attempt: int, name: str, verdict: str | None, note: str | None, took: int) -> str:
    place = f"in attempt {attempt}" if attempt else "outside of all attempts"
    return f"{name} {place}, {verdict or 'passed'}, {took} ns{f', {note}' if note else ''}"


def _named(call: Finished) -> Iterator[Breach]:
    tool, verdict = _fact(call, TOOL_NAME), _fact(call, ERROR_TYPE)
    if _fact(call, OPERATION) != EXECUTE_TOOL:
        yield "a call span carries gen_ai.operation.name=execute_tool", call
    if call.name != (EXECUTE_TOOL if tool == OTHER else f"{EXECUTE_TOOL} {tool}"):
        yield f"a call span is named after gen_ai.tool.name, {tool}", call
    if verdict is not None and verdict not in _VERDICTS:
        yield f"a call fails with a kind of error or is {CANCELLED}, not {verdict}", call


def _message(every: Sequence[Finished], breaches: Sequence[Breach]) -> str:
    """The rules, numbered, and the trees with those numbers at the spans."""
    broken = [f"{number}. {rule}" for number, (rule, _) in enumerate(breaches, 1)]
    drawn: list[str] = []
    for guide, span in lines(every):
        marks = [str(number) for number, (_, breaker) in enumerate(breaches, 1) if breaker is span]
        red = "" if span.status.is_ok else "  ERROR"
        mark = f"  <-- {', '.join(marks)}" if marks else ""
        drawn.append(f"{guide}{span.name}{red}  {why(span, _TOLD)}".rstrip() + mark)
    return "\n".join(["These spans are not what a pipeline leaves behind:", *broken, "", *(drawn or ["(no spans)"])])
