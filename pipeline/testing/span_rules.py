"""assert_trace: ended spans form one well-formed tree for each call. Each rule is checked by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

from ..base.semconv import (
    ATTEMPT,
    ATTEMPTS,
    ERROR_TYPE,
    EXECUTE_TOOL,
    EXECUTOR,
    LANDED,
    OPERATION,
    OTHER,
    REASON,
    SCOPE,
    STAGE_DURATION,
    STAGE_SECONDS,
    STAGE_VERDICT,
    TOOL_NAME,
)
from ..engine.errors import ERROR_TYPES
from ..engine.report import CANCELLED, NO_EXECUTOR, Attempt, CallReport, StageRecord
from ..telemetry.detail import NOTABLE_STAGES, Stages
from ..telemetry.span_tree import FinishedSpan, format_reasons, id_of, walk_tree
from ..telemetry.spans import NOTABLE, collect_verdicts, find_deciding

Role: TypeAlias = Literal["call", "attempt", "stage"]
Breach: TypeAlias = tuple[str, FinishedSpan | None]  # the rule that is broken, and the span that breaks it
_VERDICTS = {*(each.kind for each in ERROR_TYPES), CANCELLED}
NONE_RECORDED: Final = (
    "no pipeline recorded here: give it `standard(tools, trace=Trace(tracer_provider=recorded.tracer_provider))`"
)
_SHOWN_KEYS = (ATTEMPTS, ATTEMPT, ERROR_TYPE, STAGE_VERDICT, REASON)


class CallTraces:
    """The spans that the pipeline made, among all spans, and which of them stands under which."""

    def __init__(self, every: Sequence[FinishedSpan]) -> None:
        by_start = sorted(every, key=lambda span: span.start_time or 0)
        self._by_id = {id_of(span.context): span for span in every}
        self._ours = [span for span in by_start if getattr(span.instrumentation_scope, "name", None) == SCOPE]
        self._roles = {id(span): _find_role(span) for span in self._ours}
        self._parents = {id(span): self._find_parent(span) for span in self._ours}
        self._children: dict[int, list[FinishedSpan]] = {}
        for span in self._ours:
            self._children.setdefault(id(self._parents[id(span)]), []).append(span)
        self.calls = [span for span in self._ours if self._roles[id(span)] == "call"]

    def _find_parent(self, span: FinishedSpan) -> FinishedSpan | None:
        """The nearest call or attempt above it: a middleware's own span, or a live one, may stand between."""
        passed: set[int] = set()
        above: FinishedSpan | None = span
        while above is not None and id(above) not in passed:
            passed.add(id(above))
            above = self._by_id.get(id_of(above.parent)) if above.parent is not None else None
            role = self._roles.get(id(above))
            if above is not None and role and (role != "stage" or _attribute(above, STAGE_SECONDS) is None):
                return above
        return None

    def _children_of(self, parent: FinishedSpan, role: Role) -> list[FinishedSpan]:
        return [span for span in self._children.get(id(parent), ()) if self._roles[id(span)] == role]

    def check_number(self, calls: int | None, reports: Sequence[CallReport] | None) -> Iterator[Breach]:
        """There are as many call spans as calls."""
        found = len(self.calls)
        why = "" if self._ours else f"; {NONE_RECORDED}"
        for wanted in (calls, None if reports is None else len(reports)):
            if wanted is not None and wanted != found:
                yield f"each call has one call span: {wanted} wanted, {found} found{why}", None
        if calls is None and reports is None and not found:
            yield f"each call has one call span: none found{why}", None

    def check_spans(self) -> Iterator[Breach]:
        """Each span is valid by itself, and stands in its place."""
        ids = Counter(id_of(span.context) for span in self._ours)
        for span in self._ours:
            code = span.status.status_code.name
            if span.context is None or ids[id_of(span.context)] > 1:
                yield "a span has an id of its own", span
            if span.start_time is None or span.end_time is None or span.end_time < span.start_time:
                yield "a span has ended, and not before it started", span
            if (code == "ERROR") != (_attribute(span, ERROR_TYPE) is not None):
                yield "a span is red exactly if it has an error.type", span
            description = span.status.description
            if description is not None and description.startswith(str(_attribute(span, ERROR_TYPE))):
                yield "the description of a status does not repeat the error.type", span
            if code == "OK":
                yield "a span that is not red has no status: OK is the application's to set", span
            if self._roles[id(span)] != "call":
                yield from self._check_place(span)

    def _check_place(self, span: FinishedSpan) -> Iterator[Breach]:
        parent = self._parents[id(span)]
        if _attribute(span, OPERATION) is not None:
            yield "only a call span has gen_ai.operation.name", span
        if parent is None:
            yield "an attempt or a stage has a parent in its trace", span
            return
        allowed = ("call",) if self._roles[id(span)] == "attempt" or span.name == "retry" else ("call", "attempt")
        if self._roles[id(parent)] not in allowed:
            yield "attempts and retry stand under the call, other stages under the call or an attempt", span
        elif span.name == "execute" and self._roles[id(parent)] != "attempt":
            yield "execute stands under an attempt", span
        if not _is_within(span, parent):
            yield "a child starts and ends within its parent", span

    def check_call(self, call: FinishedSpan, *, stages: Stages) -> Iterator[Breach]:
        """A call has its name, numbered attempts, and spans of its stages or none."""
        yield from _check_call_span(call)
        attempts = self._children_of(call, "attempt")
        for number, attempt in enumerate(attempts, 1):
            if _attribute(attempt, ATTEMPT) != number:
                yield f"attempts are numbered from 1, in the order in which they started: this is {number}", attempt
            if attempt.name not in ("attempt", f"attempt {_attribute(call, TOOL_NAME)}"):
                yield "an attempt is named after the tool of its call", attempt
        ran = sum(_attribute(attempt, EXECUTOR) != NO_EXECUTOR for attempt in attempts)
        if _attribute(call, ATTEMPTS) != ran:
            yield f"toolcall.attempts is the number of attempts that ran: there are {ran}", call
        for parent in (call, *attempts):
            if stages is True and not self._children.get(id(parent)):
                yield "the stages of a call and of an attempt have spans", parent
            if not stages and (found := self._children_of(parent, "stage")):
                yield "stages=False: there are no spans of stages", found[0]

    def compare(self, call: FinishedSpan, report: CallReport, *, stages: Stages) -> Iterator[Breach]:
        """The spans of a call agree with its report."""
        tool = report.tool.name if report.tool is not None else OTHER
        if _attribute(call, TOOL_NAME) != tool:
            yield f"the tool of a call is that of the report, {tool}", call
        verdict = CANCELLED if report.outcome is None else getattr(report.error, "kind", None)
        if _attribute(call, ERROR_TYPE) != verdict:
            yield f"the error.type of a call is that of the report, {verdict or 'none'}", call
        attempts = {_attribute(span, ATTEMPT): span for span in self._children_of(call, "attempt")}
        rows = [Attempt(*row) for row in report.attempt_rows]
        if len(attempts) != len(rows):
            yield f"there are as many attempts as in the report, {len(rows)}", call
        for attempt in rows:
            span = attempts.get(attempt.number)
            if span is not None and _attribute(span, ERROR_TYPE) != attempt.verdict:
                yield f"the error.type of an attempt is that of the report, {attempt.verdict or 'none'}", span
            if span is not None and (_attribute(span, EXECUTOR), _attribute(span, LANDED)) != (
                attempt.executor,
                attempt.landed,
            ):
                yield f"executor and landed are those of the report, {attempt.executor} and {attempt.landed}", span
        if stages:
            yield from self._compare_stages({0: call, **attempts}, report, notable=stages == NOTABLE_STAGES)
        else:
            yield from _compare_durations(call, report)

    def _compare_stages(
        self, parents: dict[int, FinishedSpan], report: CallReport, *, notable: bool
    ) -> Iterator[Breach]:
        verdict = CANCELLED if report.outcome is None else getattr(report.error, "kind", None)
        deciding = find_deciding(report.stages, collect_verdicts(report.attempt_rows, verdict))
        runs = Counter(
            tuple(_describe_run(stage, ns, is_red=index in deciding) for ns in (stage.end - stage.start, stage.own))
            for index, stage in enumerate(report.stages)
            if not notable or index in deciding or stage.note or stage.own > NOTABLE
        )
        for attempt, parent in parents.items():
            for span in self._children_of(parent, "stage"):
                duration = (span.end_time or 0) - (span.start_time or 0)
                red, passed_on = _attribute(span, ERROR_TYPE), _attribute(span, STAGE_VERDICT)
                stage = StageRecord(span.name, 0, 0, red or passed_on, attempt, _attribute(span, REASON) or "", 0)
                told = _describe_run(stage, duration, is_red=red is not None)
                own = round((_attribute(span, STAGE_SECONDS) or 0) * 1e9)  # a live span has the time of its inside too
                live = _describe_run(stage, own, is_red=red is not None)
                found = next((each for each in +runs if told == each[0] or live == each[1]), None)
                if found is None:
                    yield f"a stage span is in the report, and this is not: {told}", span
                else:
                    runs[found] -= 1
        for run, _ in +runs:
            yield f"a stage of the report has a span, and this has none: {run}", parents[0]


def _check_call_span(call: FinishedSpan) -> Iterator[Breach]:
    tool, verdict = _attribute(call, TOOL_NAME), _attribute(call, ERROR_TYPE)
    if _attribute(call, OPERATION) != EXECUTE_TOOL:
        yield "a call span has gen_ai.operation.name=execute_tool", call
    if call.name != f"{EXECUTE_TOOL} {tool}":
        yield f"a call span is named after gen_ai.tool.name, {tool}", call
    if verdict is not None and verdict not in _VERDICTS:
        yield f"the error.type of a call is a kind of error or {CANCELLED}, not {verdict}", call


def _compare_durations(call: FinishedSpan, report: CallReport) -> Iterator[Breach]:
    durations: Counter[str] = Counter()
    for stage in report.stages:
        durations[STAGE_DURATION.format(stage.name)] += stage.own
    for key, nanoseconds in durations.items():
        if round((_attribute(call, key) or 0) * 1e9) != nanoseconds:
            yield f"stages=False: {key} is that of the report, {nanoseconds / 1e9} s", call


def _find_role(span: FinishedSpan) -> Role:
    if span.name.startswith(f"{EXECUTE_TOOL} "):
        return "call"
    is_attempt = span.name.startswith("attempt ") or _attribute(span, ATTEMPT) is not None
    return "attempt" if is_attempt else "stage"


def _attribute(span: FinishedSpan, key: str) -> Any:
    return (span.attributes or {}).get(key)


def _is_within(span: FinishedSpan, parent: FinishedSpan) -> bool:
    times = [parent.start_time, span.start_time, span.end_time, parent.end_time]
    return times == sorted(time or 0 for time in times)


def _describe_run(stage: StageRecord, nanoseconds: int, *, is_red: bool) -> str:
    where = f"in attempt {stage.attempt}" if stage.attempt else "outside of all attempts"
    verdict = "passed" if stage.verdict is None else stage.verdict if is_red else f"{stage.verdict} of another stage"
    return f"{stage.name} {where}, {verdict}, {nanoseconds} ns{f', {stage.note}' if stage.note else ''}"


def assert_trace(
    spans: Iterable[FinishedSpan],
    *,
    calls: int | None = None,
    reports: Sequence[CallReport] | None = None,
    stages: Stages = True,
) -> None:
    """Check that ended spans are complete and agree with each other. Spans of other libraries may be among them.

    With ``Trace(defer=True)``, call its `flush` first; `RecordedSpans` does so by itself.

    Args:
        spans: Spans of the SDK, in any order.
        calls: How many calls there were. None: one or more.
        reports: The reports of all those calls, as `Pipeline.report` returns them. The spans must then have the same
            outcomes, attempts, and stages, each with its verdict, reason and duration. None: nothing to compare with.
        stages: As for `Trace`. False: stage spans must be absent; "notable": only notable stages have one.

    Raises:
        AssertionError: A rule is broken. It lists every broken rule, and draws the trees with a mark at the spans that
            break them.
    """
    every = list(spans)
    traces = CallTraces(every)
    breaches = [*traces.check_number(calls, reports), *traces.check_spans()]
    for call in traces.calls:
        breaches += traces.check_call(call, stages=stages)
    if reports is not None and len(reports) == len(traces.calls):
        for call, report in zip(traces.calls, sorted(reports, key=lambda each: each.started_at), strict=True):
            breaches += traces.compare(call, report, stages=stages)
    if breaches:
        raise AssertionError(_format_message(every, breaches))


def _format_message(every: Sequence[FinishedSpan], breaches: Sequence[Breach]) -> str:
    """The broken rules, numbered, and the trees with those numbers at the spans."""
    rules = [f"{number}. {rule}" for number, (rule, _) in enumerate(breaches, 1)]
    drawn: list[str] = []
    for guide, span in walk_tree(every):
        marks = [str(number) for number, (_, breaker) in enumerate(breaches, 1) if breaker is span]
        error = "" if span.status.is_ok else "  ERROR"
        mark = f"  <-- {', '.join(marks)}" if marks else ""
        drawn.append(f"{guide}{span.name}{error}  {format_reasons(span, _SHOWN_KEYS)}".rstrip() + mark)
    return "\n".join(["These spans are not well-formed traces of calls:", *rules, "", *(drawn or ["(no spans)"])])
