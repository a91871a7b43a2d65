"""What becomes of calls that real models made: ``python -m benchmarks.corpus [--data DIR] [--check] [--json FILE]``.

The tools are made of the schemas that were recorded, with a handler that gives back what it received. The data is
no part of the project: DIR is ``$TOOLCALL_CORPORA``, else ``../shared/corpora`` beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import anyio
import attrs

from benchmarks import second_attempts, suggestions
from benchmarks.judged import FIELD, MISTAKES, NAMES, NO_MISTAKE, VERDICTS, Judged, Tally, grouped, judge
from benchmarks.recorded import REPORTS, Recorded, default_data, is_data, read
from benchmarks.repairs import Repairs
from pipeline import SetupError

# Percent noticed (repaired or refused), and repaired, that were reached, by kind; what is not listed is noticed, all of
# it, and nothing of it has to be repaired: `repairable` says what can be, and `MENDED` what was reached of that.
REACHED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    MISTAKES: {
        NO_MISTAKE: (0, 0),
        # A schema that does not forbid what it does not declare takes it, and so does the pipeline.
        "extra_arg": (28.3, 14.4),
        "misnamed_arg": (78.6, 50.0),
        "missing_required": (100, 11.5),
        "null_for_optional": (100, 90.4),
        "empty_string_for_enum": (100, 100),
        "scalar_string_for_array": (100, 90.5),
        "string_for_boolean": (100, 91.9),
        "string_for_number": (100, 83.3),
        "number_for_string": (100, 77.8),
        "bad_enum_case_or_separator": (100, 87.0),
        "boolean_for_string": (100, 100),
        "object_for_number": (100, 100),
        "positional_arguments": (100, 23.1),
    },
    NAMES: {"leaked_control_token": (100, 90.4)},
    FIELD: {"string_null_placeholder": (0, 0), "unknown_tool:added_prefix": (100, 100)},
}
# Percent of wrong arguments, by the names of `Repairs.shares`; what is not listed is all of it.
MENDED: Mapping[str, float] = {
    "repairable, repaired to a value that validates": 96.6,
    "repairable, repaired to the value that was meant": 96.6,
}
_FEW = 3  # ids that are printed; --json has all of them


class Part(Protocol):
    """One of the tables, with its own floors."""

    def lines(self) -> Iterator[str]:
        """As it is printed."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Figures and ids, and no word of any call."""
        ...

    def fallen(self) -> Iterator[str]:
        """What is worse than it was."""
        ...


@attrs.frozen
class Result:
    """All that was measured."""

    judged: list[Judged]
    groups: dict[str, dict[str, Tally]]
    per_second: float
    parts: Mapping[str, Part]  # each a table of its own

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

    def fallen(self) -> Iterator[str]:
        """What is worse than it was."""
        if self.changed:
            yield f"{len(self.changed)} valid calls were not accepted unchanged"
        if self.raised:
            yield f"{len(self.raised)} exceptions"
        for group in (MISTAKES, NAMES, FIELD):
            for kind, tally in self.groups[group].items():
                noticed, repaired = REACHED.get(group, {}).get(kind, (100.0, 0.0))
                shares = (
                    ("repaired or refused", noticed, tally.percent("repaired", "refused")),
                    ("repaired", repaired, tally.percent("repaired")),
                )
                for verdict, reached, share in shares:
                    if share < reached - 0.05:  # they are noted to a tenth
                        yield f"{group}, {kind}: {share:.1f} % {verdict}, and it was {reached:.1f} %"
        for part in self.parts.values():
            yield from part.fallen()

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
            **{title: part.as_json() for title, part in self.parts.items()},
            "fallen": list(self.fallen()),
        }


async def measure(data: Path, calls: Sequence[Recorded]) -> Result:
    """All of them, one after the other; then once more without a report, for the time."""
    judged = [await judge(each) for each in calls]
    began = perf_counter()
    for each in calls:
        await each.pipeline(each.call)
    per_second = len(calls) / (perf_counter() - began)
    reports = [each for each in judged if each.recorded.suite == REPORTS]
    parts: dict[str, Part] = {
        "repairs": Repairs.of("in recorded calls", (each for each in judged if each.recorded.suite != REPORTS), MENDED),
        "repairs in field reports": Repairs.of("in field reports", reports, {}),
        "names": await suggestions.answer(data),
        "second attempts": await second_attempts.attempt(data),
    }
    return Result(judged, grouped(judged), per_second, parts)


def show(result: Result) -> None:
    """Print it."""
    print(f"  {'':36}{'calls':>8}{''.join(f'{each:>10}' for each in VERDICTS)}{'%':>7}  of which")
    for title, tallies in result.groups.items():
        if tallies:
            print(title, *(tally.line(what) for what, tally in tallies.items()), sep="\n")
    total = Tally()
    for each in result.judged:
        total.add(each)
    if result.judged:
        print(f"in all\n{total.line('')}")
    for by, valid in result.valid().items():
        unchanged = sum(each.unchanged for each in valid)
        share = f" ({100 * unchanged / len(valid):.2f} %)" if valid else ""
        print(f"calls that are valid {by}, accepted unchanged: {unchanged:,} of {len(valid):,}{share}")
    for each in result.changed:
        print(f"  not unchanged: {each.recorded.call.id} ({each.kind or each.verdict})")
    for kinds, ids in result.disagreements.items():
        more = f", and {len(ids) - _FEW:,} more" if len(ids) > _FEW else ""
        print(f"record and schema disagree, {kinds}: {', '.join(ids[:_FEW])}{more}")
    for part in result.parts.values():
        print(*part.lines(), sep="\n")
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
    result = anyio.run(measure, data, calls)
    show(result)
    if options.json is not None:
        options.json.write_text(json.dumps(result.as_json(), indent=1) + "\n", encoding="utf-8")
    fallen = list(result.fallen()) if options.check else []
    for each in fallen:
        print(f"fallen: {each}")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
