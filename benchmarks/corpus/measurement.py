"""All that is measured over the recorded calls, with the floors that it must not fall below."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import attrs

from benchmarks.corpus.recordings import REPORTS, RecordedCall
from benchmarks.corpus.repair_report import RepairReport
from benchmarks.corpus.second_attempts import run_second_attempts
from benchmarks.corpus.suggestions import ask_by_shape, run_unknown_names
from benchmarks.corpus.verdicts import FIELD, MISTAKES, NAMES, NO_MISTAKE, JudgedCall, Tally, group, judge
from toolcall_pipeline import Limits
from toolcall_pipeline.parameters.limits import Size
from toolcall_pipeline.parameters.limits import measure as measure_value

# By kind of mistake: percent noticed (repaired or refused), and percent repaired, as reached so far. A kind that is
# not listed has to be noticed always, and need not be repaired: the oracle says what can be repaired.
FLOORS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    MISTAKES: {
        NO_MISTAKE: (0, 0),
        # A schema that does not forbid undeclared arguments takes them, and so does the pipeline.
        "extra_arg": (28.3, 14.4),
        "misnamed_arg": (78.6, 50.0),
        "missing_required": (100, 11.5),
        "null_for_optional": (100, 90.4),
        "empty_string_for_enum": (100, 100),
        "scalar_string_for_array": (100, 88.8),  # "unknown" is not a list of one
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
# Percent of the calls with wrong arguments, by the names of `RepairReport.shares`; the others have to be 100.
REPAIR_FLOORS: Mapping[str, float] = {
    "repairable, repaired to a value that validates": 96.6,
    "repairable, repaired to the value that was meant": 96.6,
}


def size_of_arguments(arguments: object) -> Size:
    """The size of arguments; of text that is not JSON only the bytes are known."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    try:
        found = measure_value(json.loads(text), Limits(bytes=None, depth=None, keys=None))
    except ValueError:
        found = Size(0, 0, 0)
    return found._replace(bytes=len(text.encode("utf-8", "surrogatepass")))


class Section(Protocol):
    """One of the tables, with its own floors."""

    def lines(self) -> Iterator[str]:
        """The table as it is printed."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Figures and ids; nothing of what was in a call."""
        ...

    def regressions(self) -> Iterator[str]:
        """Return the figures that are worse than before."""
        ...


@attrs.frozen
class Measurement:
    """All that was measured.

    Args:
        judged: every call with its verdict.
        tables: counts, by title and line.
        per_second: calls that run in a second, without a report.
        sections: further tables, by the name that they have in the JSON.
    """

    judged: list[JudgedCall]
    tables: dict[str, dict[str, Tally]]
    per_second: float
    sections: Mapping[str, Section]

    def valid(self) -> dict[str, list[JudgedCall]]:
        """The calls that must be accepted unchanged, by two judges that know nothing of each other."""
        return {
            "by the record": [each for each in self.judged if each.recorded.valid_by_record],
            "by the schema": [each for each in self.judged if each.recorded.valid_by_schema],
        }

    @property
    def changed(self) -> list[JudgedCall]:
        """Valid calls that did not reach the tool as they were sent; there must be none."""
        valid = {each.recorded.call.id: each for judged in self.valid().values() for each in judged}
        return [each for each in valid.values() if not each.unchanged]

    @property
    def raised(self) -> list[JudgedCall]:
        """Calls that raised an exception; there must be none."""
        return [each for each in self.judged if each.raised is not None]

    @property
    def largest(self) -> Size:
        """The most bytes, levels, and names and items that arguments have, each of its own."""
        sizes = [size_of_arguments(each.recorded.call.arguments) for each in self.judged]
        return Size(*(max(each, default=0) for each in zip(*sizes, strict=True)))

    @property
    def disagreements(self) -> dict[str, list[str]]:
        """Ids of calls that the record and the schema judge differently, by the mistakes that the record knows."""
        found: dict[str, list[str]] = {}
        for each in self.judged:
            recorded = each.recorded
            if recorded.valid_by_record != recorded.valid_by_schema:
                found.setdefault(", ".join(recorded.mistakes) or NO_MISTAKE, []).append(recorded.call.id)
        return found

    def regressions(self) -> Iterator[str]:
        """Return the figures that are worse than before."""
        if self.changed:
            yield f"{len(self.changed)} valid calls were not accepted unchanged"
        if self.raised:
            yield f"{len(self.raised)} exceptions"
        for title in (MISTAKES, NAMES, FIELD):
            for kind, tally in self.tables[title].items():
                noticed, repaired = FLOORS.get(title, {}).get(kind, (100.0, 0.0))
                shares = (
                    ("repaired or refused", noticed, tally.percent("repaired", "refused")),
                    ("repaired", repaired, tally.percent("repaired")),
                )
                for verdict, floor, share in shares:
                    if share < floor - 0.05:  # floors are rounded to a tenth
                        yield f"{title}, {kind}: {share:.1f} % {verdict}, and it was {floor:.1f} %"
        for section in self.sections.values():
            yield from section.regressions()

    def as_json(self) -> dict[str, Any]:
        """Figures and ids; nothing of what was in a call."""
        return {
            "calls": len(self.judged),
            "largest": self.largest._asdict(),
            "valid": {by: len(valid) for by, valid in self.valid().items()},
            "changed": [each.recorded.call.id for each in self.changed],
            "exceptions": {each.recorded.call.id: each.raised for each in self.raised},
            "disagreements": self.disagreements,
            "calls_per_second": self.per_second,
            "tables": {
                title: {kind: attrs.asdict(tally) for kind, tally in tallies.items()}
                for title, tallies in self.tables.items()
            },
            **{title: section.as_json() for title, section in self.sections.items()},
            "regressions": list(self.regressions()),
        }


async def measure(folder: Path, calls: Sequence[RecordedCall]) -> Measurement:
    """Run all calls one after the other, judge them, and run them once more without a report, for the time."""
    judged = [await judge(each) for each in calls]
    began = perf_counter()
    for each in calls:
        await each.pipeline(each.call)
    per_second = len(calls) / (perf_counter() - began)
    reports = [each for each in judged if each.recorded.suite == REPORTS]
    recorded = [each for each in judged if each.recorded.suite != REPORTS]
    sections: dict[str, Section] = {
        "repairs": RepairReport.of("in recorded calls", recorded, REPAIR_FLOORS),
        "repairs in field reports": RepairReport.of("in field reports", reports, {}),
        "names": await run_unknown_names(folder, calls),
        "by shape": ask_by_shape(calls),
        "second attempts": await run_second_attempts(folder),
    }
    return Measurement(judged, group(judged), per_second, sections)
