"""Run one recorded call through its pipeline, judge its outcome, and count the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, cast

import attrs

from benchmarks.corpus.oracle import canonical_text
from benchmarks.corpus.recordings import REPORTS, RecordedCall
from toolcall_pipeline import Crashed, is_failure, render
from toolcall_pipeline.engine.errors import NAME_KEPT

Verdict: TypeAlias = Literal["accepted", "repaired", "refused"]
VERDICTS: tuple[Verdict, ...] = ("accepted", "repaired", "refused")
SUITES, NO_SCHEMA = "by suite", "by suite, without schemas"
MISTAKES, NAMES, FIELD = "by mistake in the arguments", "by mistake in the name", "by field report"
NO_MISTAKE = "none, by the record"


@attrs.frozen
class JudgedCall:
    """A recorded call and its outcome.

    Args:
        recorded: the call.
        verdict: what the pipeline did with it.
        kind: of the error; None: it succeeded.
        unchanged: whether it was accepted and the tool received exactly what the model sent.
        raised: the type of an exception that left the pipeline or crashed inside it, a bug either way; None: none.
        received: what the tool received.
        text: the text for the model about a refusal.
    """

    recorded: RecordedCall
    verdict: Verdict
    kind: str | None = None
    unchanged: bool = False
    raised: str | None = None
    received: object = None
    text: str = ""


@attrs.define
class Tally:
    """One line of a table."""

    calls: int = 0
    verdicts: Counter[Verdict] = attrs.field(factory=lambda: cast("Counter[Verdict]", Counter()))
    kinds: Counter[str] = attrs.field(factory=lambda: cast("Counter[str]", Counter()))

    def add(self, judged: JudgedCall) -> None:
        """Count one more call."""
        self.calls += 1
        self.verdicts[judged.verdict] += 1
        if judged.kind is not None:
            self.kinds[judged.kind] += 1

    def percent(self, *verdicts: Verdict) -> float:
        """The share of these verdicts among the calls."""
        return 100 * sum(self.verdicts[each] for each in verdicts) / self.calls

    def line(self, title: str) -> str:
        """The line as it is printed."""
        counts = "".join(f"{self.verdicts[each]:>10,}" for each in VERDICTS)
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.kinds.most_common())
        return f"  {title:36}{self.calls:>8,}{counts}{self.percent('refused'):>7.1f}  {kinds}".rstrip()


async def judge(recorded: RecordedCall) -> JudgedCall:
    """Run the call and judge its outcome."""
    try:
        report = await recorded.pipeline.report(recorded.call)
    except Exception as exc:  # noqa: BLE001  # this measures that no exception leaves a pipeline
        return JudgedCall(recorded, "refused", "raised", raised=type(exc).__name__)
    outcome: Any = report.outcome
    if is_failure(outcome):
        error: Any = outcome.failure()
        crashed = type(error.cause).__name__ if type(error) is Crashed else None
        return JudgedCall(recorded, "refused", error.kind, raised=crashed, text=render(error))
    received: object = outcome.unwrap()
    if any(each.rule != NAME_KEPT for each in report.repairs):
        return JudgedCall(recorded, "repaired", received=received)
    unchanged = canonical_text(received) == canonical_text(recorded.sent)
    return JudgedCall(recorded, "accepted", unchanged=unchanged, received=received)


def group(judged: Iterable[JudgedCall]) -> dict[str, dict[str, Tally]]:
    """Count the calls in every table. A call with mistakes of several kinds counts for each of them."""
    tables: dict[str, dict[str, Tally]] = {title: {} for title in (SUITES, NO_SCHEMA, MISTAKES, NAMES, FIELD)}
    for each in judged:
        recorded = each.recorded
        if recorded.suite == REPORTS:
            lines = [(FIELD, kind) for kind in recorded.mistakes]
        else:
            mistakes = recorded.mistakes or ((NO_MISTAKE,) if recorded.valid_by_record else ())
            suites = SUITES if recorded.schema else NO_SCHEMA
            lines = [(suites, recorded.suite), *((MISTAKES, kind) for kind in mistakes)]
            lines += [(NAMES, recorded.name_mistake)] if recorded.name_mistake else []
        for table, line in lines:
            tables[table].setdefault(line, Tally()).add(each)
    for title in (MISTAKES, NAMES):
        tables[title] = dict(sorted(tables[title].items(), key=lambda item: -item[1].calls))
    return tables
