"""One recorded call through the pipeline: what became of it, and how such calls are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, cast

import attrs

from benchmarks.recorded import REPORTS, Recorded
from benchmarks.repairable import text_of
from pipeline import Crashed, is_failure, render

Verdict: TypeAlias = Literal["accepted", "repaired", "refused"]
VERDICTS: tuple[Verdict, ...] = ("accepted", "repaired", "refused")
SUITES, APART, MISTAKES, NAMES = "by suite", "without schemas", "by mistake in the arguments", "by unknown name"
FIELD = "by field report"
NO_MISTAKE = "none, by the record"


@attrs.frozen
class Judged:
    """What became of one call."""

    recorded: Recorded
    verdict: Verdict
    kind: str | None = None  # of the error
    unchanged: bool = False  # accepted, and the handler received what the model sent
    raised: str | None = (
        None  # the type of an exception that left the pipeline, or crashed inside of it: a bug either way
    )
    received: object = None  # by the handler
    told: str = ""  # to the model, of a refusal


@attrs.define
class Tally:
    """One line of a table."""

    calls: int = 0
    verdicts: Counter[Verdict] = attrs.field(factory=lambda: cast("Counter[Verdict]", Counter()))
    kinds: Counter[str] = attrs.field(factory=lambda: cast("Counter[str]", Counter()))

    def add(self, judged: Judged) -> None:
        """One call more."""
        self.calls += 1
        self.verdicts[judged.verdict] += 1
        if judged.kind is not None:
            self.kinds[judged.kind] += 1

    def percent(self, *verdicts: Verdict) -> float:
        """Their share of these calls."""
        return 100 * sum(self.verdicts[each] for each in verdicts) / self.calls

    def line(self, what: str) -> str:
        """As it is printed."""
        counts = "".join(f"{self.verdicts[each]:>10,}" for each in VERDICTS)
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.kinds.most_common())
        return f"  {what:36}{self.calls:>8,}{counts}{self.percent('refused'):>7.1f}  {kinds}".rstrip()


async def judge(recorded: Recorded) -> Judged:
    """Run it, and see what came out."""
    try:
        report = await recorded.pipeline.report(recorded.call)
    except Exception as exc:  # noqa: BLE001  # that none leaves a pipeline is what is measured
        return Judged(recorded, "refused", "raised", raised=type(exc).__name__)
    outcome: Any = report.outcome
    if is_failure(outcome):
        error: Any = outcome.failure()
        crashed = type(error.cause).__name__ if type(error) is Crashed else None
        return Judged(recorded, "refused", error.kind, raised=crashed, told=render(error))
    received: object = outcome.unwrap()
    if report.repairs:
        return Judged(recorded, "repaired", received=received)
    return Judged(recorded, "accepted", unchanged=text_of(received) == text_of(recorded.sent), received=received)


def grouped(judged: Iterable[Judged]) -> dict[str, dict[str, Tally]]:
    """The tables. A call with mistakes of several kinds counts for each of them."""
    groups: dict[str, dict[str, Tally]] = {title: {} for title in (SUITES, APART, MISTAKES, NAMES, FIELD)}
    for each in judged:
        recorded = each.recorded
        if recorded.suite == REPORTS:
            places = [(FIELD, kind) for kind in recorded.mistakes]
        else:
            mistakes = recorded.mistakes or ((NO_MISTAKE,) if recorded.valid_by_record else ())
            places = [(SUITES if recorded.schema else APART, recorded.suite), *((MISTAKES, kind) for kind in mistakes)]
            places += [(NAMES, recorded.name_kind)] if recorded.name_kind else []
        for group, kind in places:
            groups[group].setdefault(kind, Tally()).add(each)
    for title in (MISTAKES, NAMES):
        groups[title] = dict(sorted(groups[title].items(), key=lambda item: -item[1].calls))
    return groups
