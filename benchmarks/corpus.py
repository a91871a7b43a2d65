"""What becomes of calls that real models made: ``python -m benchmarks.corpus [--data DIR] [--check] [--json FILE]``.

The tools are made of the schemas that were recorded, with a handler that gives back what it received. The data is
no part of the project: DIR is ``$TOOLCALL_CORPORA``, else ``../shared/corpora`` beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeAlias, cast

import anyio
import attrs

from benchmarks.recorded import REPORTS, Recorded, default_data, is_data, read
from pipeline import Crashed, SetupError, is_failure

Verdict: TypeAlias = Literal["accepted", "repaired", "refused"]
VERDICTS: tuple[Verdict, ...] = ("accepted", "repaired", "refused")
SUITES, APART, MISTAKES, NAMES = "by suite", "without schemas", "by mistake in the arguments", "by unknown name"
FIELD = "by field report"
NO_MISTAKE = "none, by the record"
# Percent refused and repaired that were reached, by kind of mistake; what is not listed is refused, all of it.
REACHED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    # A schema that does not forbid what it does not declare takes it, and so does the pipeline.
    MISTAKES: {NO_MISTAKE: (0, 0), "extra_arg": (28.3, 0), "misnamed_arg": (78.6, 0)},
    NAMES: {"leaked_control_token": (10.4, 89.6)},
    FIELD: {"string_null_placeholder": (0, 0), "unknown_tool:added_prefix": (0, 100)},
}
_FEW = 3  # ids that are printed; --json has all of them


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

    def percent(self, verdict: Verdict) -> float:
        """Its share of these calls."""
        return 100 * self.verdicts[verdict] / self.calls

    def line(self, what: str) -> str:
        """As it is printed."""
        counts = "".join(f"{self.verdicts[each]:>10,}" for each in VERDICTS)
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.kinds.most_common())
        return f"  {what:36}{self.calls:>8,}{counts}{self.percent('refused'):>7.1f}  {kinds}".rstrip()


@attrs.frozen
class Result:
    """All that was measured."""

    judged: list[Judged]
    groups: dict[str, dict[str, Tally]]
    per_second: float

    def valid(self) -> dict[str, list[Judged]]:
        """What should be accepted unchanged, all of it, by two judges that do not know of each other."""
        return {
            "by the record": [each for each in self.judged if each.recorded.valid_by_record],
            "by the schema": [each for each in self.judged if each.recorded.valid_by_schema],
        }

    @property
    def changed(self) -> list[Judged]:
        """The valid ones that did not reach the handler as they were sent: there should be none."""
        valid = {each.recorded.call.id: each for judged in self.valid().values() for each in judged}
        return [each for each in valid.values() if not each.unchanged]

    @property
    def raised(self) -> list[Judged]:
        """There should be none of these, either."""
        return [each for each in self.judged if each.raised is not None]

    @property
    def disagreements(self) -> dict[str, list[str]]:
        """Ids of the calls that the record and the schema judge differently, by what the record says of them."""
        found: dict[str, list[str]] = {}
        for each in self.judged:
            recorded = each.recorded
            if recorded.valid_by_record != recorded.valid_by_schema:
                found.setdefault(", ".join(recorded.mistakes) or NO_MISTAKE, []).append(each.recorded.call.id)
        return found

    def fallen(self) -> Iterable[str]:
        """What is worse than it was."""
        if self.changed:
            yield f"{len(self.changed)} valid calls were not accepted unchanged"
        if self.raised:
            yield f"{len(self.raised)} exceptions"
        for group in (MISTAKES, NAMES, FIELD):
            for kind, tally in self.groups[group].items():
                refused, repaired = REACHED.get(group, {}).get(kind, (100.0, 0.0))
                shares = (
                    ("refused", refused, tally.percent("refused")),
                    ("repaired", repaired, tally.percent("repaired")),
                )
                for verdict, reached, share in shares:
                    if share < reached - 0.05:  # they are noted to a tenth
                        yield f"{group}, {kind}: {share:.1f} % {verdict}, and it was {reached:.1f} %"

    def as_json(self) -> dict[str, Any]:
        """Figures and ids, and no word of any call."""
        return {
            "calls": len(self.judged),
            "valid": {judge: len(valid) for judge, valid in self.valid().items()},
            "changed": [each.recorded.call.id for each in self.changed],
            "exceptions": {each.recorded.call.id: each.raised for each in self.raised},
            "disagreements": self.disagreements,
            "calls_per_second": self.per_second,
            "groups": {
                title: {kind: attrs.asdict(tally) for kind, tally in tallies.items()}
                for title, tallies in self.groups.items()
            },
            "fallen": list(self.fallen()),
        }


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
        return Judged(recorded, "refused", error.kind, raised=crashed)
    if report.repairs:
        return Judged(recorded, "repaired")
    return Judged(recorded, "accepted", unchanged=_text(outcome.unwrap()) == _text(recorded.sent))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)  # to Python, 1 is 1.0 is True


async def measure(calls: Sequence[Recorded]) -> Result:
    """All of them, one after the other; then once more without a report, for the time."""
    judged = [await judge(each) for each in calls]
    began = perf_counter()
    for each in calls:
        await each.pipeline(each.call)
    return Result(judged, grouped(judged), len(calls) / (perf_counter() - began))


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


def show(result: Result) -> None:
    """Print it."""
    print(f"  {'':36}{'calls':>8}{''.join(f'{each:>10}' for each in VERDICTS)}{'%':>7}  of which")
    for title, tallies in result.groups.items():
        if tallies:
            print(title)
        for what, tally in tallies.items():
            print(tally.line(what))
    total = Tally()
    for each in result.judged:
        total.add(each)
    if result.judged:
        print(f"in all\n{total.line('')}")
    for judge, valid in result.valid().items():
        unchanged = sum(each.unchanged for each in valid)
        share = f" ({100 * unchanged / len(valid):.2f} %)" if valid else ""
        print(f"calls that are valid {judge}, accepted unchanged: {unchanged:,} of {len(valid):,}{share}")
    for each in result.changed:
        print(f"  not unchanged: {each.recorded.call.id} ({each.kind or each.verdict})")
    for kinds, ids in result.disagreements.items():
        more = f", and {len(ids) - _FEW:,} more" if len(ids) > _FEW else ""
        print(f"record and schema disagree, {kinds}: {', '.join(ids[:_FEW])}{more}")
    print(f"exceptions: {len(result.raised)}")
    for each in result.raised:
        print(f"  {each.recorded.call.id}: {each.raised}")
    print(f"{result.per_second:,.0f} calls per second")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and judge if asked to. Without data nothing is measured, and that is no failure."""
    parser = argparse.ArgumentParser(description="Run recorded calls of real models through the pipeline.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the recorded calls")
    parser.add_argument("--check", action="store_true", help="fail where less was reached than before")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, and the ids of what stands out")
    options = parser.parse_args(arguments)
    data = options.data or default_data()
    if not is_data(data):
        print(f"There are no recorded calls in {data}: nothing was measured.")
        return 0
    try:
        calls = read(data)
    except (OSError, ValueError, KeyError, SetupError) as exc:
        parser.error(f"{data} is not as recorded calls are: {exc!r}")
    result = anyio.run(measure, calls)
    show(result)
    if options.json is not None:
        options.json.write_text(json.dumps(result.as_json(), indent=1) + "\n", encoding="utf-8")
    fallen = list(result.fallen()) if options.check else []
    for each in fallen:
        print(f"fallen: {each}")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
