"""The quality of repairs over many calls: shares with their floors, and the ids of what stands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from benchmarks.corpus.repair_quality import FINDINGS, Case, Shares, examine
from benchmarks.corpus.verdicts import JudgedCall

_COLUMNS = ("calls", "repairable", "repaired", "as meant", "the rest", "refused by name")


@attrs.frozen
class RepairReport:
    """All calls with wrong arguments of one source.

    Args:
        title: names the source.
        cases: the calls.
        floors: percent that each share reached so far; a share that is not listed has to be 100.
    """

    title: str
    cases: Sequence[Case]
    floors: Mapping[str, float] = attrs.field(factory=dict[str, float])

    @classmethod
    def of(cls, title: str, judged: Iterable[JudgedCall], floors: Mapping[str, float]) -> RepairReport:
        """Examine the calls, and keep those with wrong arguments."""
        return cls(title, [case for each in judged if (case := examine(each)) is not None], floors)

    def shares(self) -> Shares:
        """The figures that have floors."""
        repairable = [case for case in self.cases if case.intended is not None]
        rest = [case for case in self.cases if case.intended is None]
        refused = [case for case in self.cases if case.judged.verdict == "refused"]
        return {
            "repairable, repaired to a value that validates": _share(repairable, lambda case: case.validates),
            "repairable, repaired to the value that was meant": _share(repairable, lambda case: case.as_intended),
            "not repairable, refused by name": _share(rest, lambda case: case.refused_by_name),
            "refused, by name": _share(refused, lambda case: case.refused_by_name),
            "no right value changed": _share(self.cases, lambda case: not case.changed),
            "no value invented": _share(self.cases, lambda case: not case.invented),
        }

    def findings(self) -> dict[str, list[Case]]:
        """The cases that are not as they should be."""
        found = {what: [case for case in self.cases if holds(case)] for what, holds in FINDINGS.items()}
        return {what: cases for what, cases in found.items() if cases}

    def split(self, keys: Callable[[Case], Iterable[str]]) -> dict[str, RepairReport]:
        """Split by key, the largest part first; a case with several keys is in several parts."""
        parts: dict[str, list[Case]] = {}
        for case in self.cases:
            for key in keys(case):
                parts.setdefault(key, []).append(case)
        return {key: RepairReport(key, cases) for key, cases in sorted(parts.items(), key=lambda part: -len(part[1]))}

    def lines(self) -> Iterator[str]:
        """The report as it is printed: counts, and the ids of findings."""
        yield f"wrong arguments, {self.title}"
        yield f"  {'':36}{_COLUMNS[0]:>8}" + "".join(f"{each:>{len(each) + 4}}" for each in _COLUMNS[1:])
        for kind, part in self.split(_mistakes).items():
            counts = [count for pair in list(part.shares().values())[:3] for count in pair]
            row = (counts[1], counts[0], counts[2], counts[5], counts[4])
            yield f"  {kind:36}{len(part.cases):>8,}" + "".join(
                f"{count:>{len(column) + 4},}" for column, count in zip(_COLUMNS[1:], row, strict=True)
            )
        for name, part in self.split(_interpretations).items():
            yield f"  meant as {name}: {sum(case.as_intended for case in part.cases)} of {len(part.cases)} repaired"
        for what, (count, whole) in self.shares().items():
            yield f"  {what}: {count:,} of {whole:,}{f' ({100 * count / whole:.2f} %)' if whole else ''}"
        for what, cases in self.findings().items():
            yield f"  {what}: {len(cases)}"
            yield from (f"    {_line(case)}" for case in cases)

    def as_json(self) -> dict[str, Any]:
        """Figures, and ids by mistake and by interpretation; nothing of what was in a call."""
        return {
            "shares": self.shares(),
            "repairable": {
                title: {
                    key: [case.judged.recorded.call.id for case in part.cases if case.intended is not None]
                    for key, part in self.split(keys).items()
                }
                for title, keys in (("by mistake", _mistakes), ("by interpretation", _interpretations))
            },
            "findings": {
                what: [case.judged.recorded.call.id for case in cases] for what, cases in self.findings().items()
            },
        }

    def regressions(self) -> Iterator[str]:
        """The shares that are below their floors."""
        for what, (count, whole) in self.shares().items():
            floor = self.floors.get(what, 100.0)
            if whole and 100 * count / whole < floor - 0.05:  # floors are rounded to a tenth
                yield f"{self.title}, {what}: {100 * count / whole:.1f} %, and it was {floor:.1f} %"


def _share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> tuple[int, int]:
    return sum(map(holds, cases)), len(cases)


def _mistakes(case: Case) -> Iterable[str]:
    return case.judged.recorded.mistakes or ("by the schema only",)


def _interpretations(case: Case) -> Iterable[str]:
    return case.intended.interpretations if case.intended is not None else ()


def _line(case: Case) -> str:
    details = (*_interpretations(case), *case.changed, *case.unnamed)
    mistakes = ", ".join(_mistakes(case))
    return f"{case.judged.recorded.call.id}  {mistakes}: {', '.join(details) or case.judged.verdict}"
