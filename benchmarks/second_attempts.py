"""Calls that failed, and the same model's next good call of that tool: does our text name what had to be changed?

Of the calls only those that break the schema count: of the rest the arguments were well formed, and no schema tells
what was wrong. Most are answered by no text at all, since they are repaired outright.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.recorded import Offered, pipeline_of, rows_of
from benchmarks.repairable import text_of
from benchmarks.repairs import names
from pipeline import Call, is_failure, render

PAIRS = "repair_pairs"
REACHED: Mapping[str, float] = {  # percent
    "repaired outright": 39.4,
    # Of the one that is missing nobody could know: a right value, which the model changed as well.
    "told every argument that was changed": 95.0,
    "told every argument that was changed and not just left out": 95.0,
}


@attrs.frozen
class Attempt:
    """A call that breaks the schema, and what the model then sent."""

    id: str
    told: str | None  # None: it was repaired outright
    sent: Mapping[str, Any]
    then: Mapping[str, Any]  # by the model
    received: object = None  # by the tool, of what was repaired

    @property
    def changed(self) -> list[str]:
        """The arguments that the model changed, added or left out."""
        either = dict.fromkeys((*self.sent, *self.then))
        return [name for name in either if _text(self.sent, name) != _text(self.then, name)]

    @property
    def unnamed(self) -> list[str]:
        """Those of them that our text does not name."""
        return [name for name in self.changed if self.told is not None and not names(self.told, name)]


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    return text_of(arguments[name]) if name in arguments else None


@attrs.frozen
class SecondAttempts:
    """All of them."""

    pairs: int
    attempts: Sequence[Attempt]

    def shares(self) -> dict[str, tuple[int, int]]:
        """The figures."""
        told = [each for each in self.attempts if each.told is not None]
        named = [each for each in told if not each.unnamed]
        sent = [each for each in told if not any(name in each.then for name in each.unnamed)]
        repaired = [each for each in self.attempts if each.told is None]
        return {
            "repaired outright": (len(repaired), len(self.attempts)),
            "repaired to what the model sent then": (
                sum(text_of(each.received) == text_of(each.then) for each in repaired),
                len(repaired),
            ),
            "told every argument that was changed": (len(named), len(told)),
            "told every argument that was changed and not just left out": (len(sent), len(told)),
            "repaired, or told every argument that was changed": (len(repaired) + len(named), len(self.attempts)),
        }

    def lines(self) -> Iterator[str]:
        """As it is printed; an argument that is not named stands there by its name."""
        yield f"calls that failed, and the next one: {self.pairs:,}, of which {len(self.attempts):,} break the schema"
        for what, (count, whole) in self.shares().items():
            yield f"  {what}: {count:,} of {whole:,}{f' ({100 * count / whole:.2f} %)' if whole else ''}"
        for each in self.attempts:
            if each.unnamed:
                dropped = [name for name in each.unnamed if name not in each.then]
                kept = [name for name in each.unnamed if name in each.then]
                yield f"  not named: {each.id}  " + ", ".join((*kept, *(f"{name} (left out then)" for name in dropped)))

    def as_json(self) -> dict[str, Any]:
        """Figures and ids."""
        return {
            "pairs": self.pairs,
            "shares": self.shares(),
            "repaired": [each.id for each in self.attempts if each.told is None],
            "not named": [each.id for each in self.attempts if each.unnamed],
        }

    def fallen(self) -> Iterator[str]:
        """What is worse than it was."""
        for what, reached in REACHED.items():
            count, whole = self.shares()[what]
            if whole and 100 * count / whole < reached - 0.05:
                yield f"second attempts, {what}: {100 * count / whole:.1f} %, and it was {reached:.1f} %"


async def attempt(data: Path) -> SecondAttempts:
    """Each failed call once more, with the tool's schema; none where they are not recorded."""
    file = data / f"{PAIRS}.jsonl"
    pairs = [*rows_of(file)] if file.exists() else []
    called = {(row["suite"], row["tool"]) for row in pairs}
    tools = {
        (row["suite"], row["tool"]): Offered.of(row["tool"], row["json_schema"])
        for row in rows_of(data / "tools.jsonl")
        if (row["suite"], row["tool"]) in called
    }
    attempts: list[Attempt] = []
    for row in pairs:
        offered = tools.get((row["suite"], row["tool"]))
        sent: Mapping[str, Any] = row["failed_arguments"]
        if offered is None or offered.validator is None or offered.validator.is_valid(sent):
            continue
        report = await pipeline_of({row["tool"]: offered}).report(Call(row["tool"], sent, row["id"]))
        outcome: Any = report.outcome
        told = render(outcome.failure()) if is_failure(outcome) else None
        received: object = None if told is not None else outcome.unwrap()
        attempts.append(Attempt(row["id"], told, sent, row["repaired_arguments"], received))
    return SecondAttempts(len(pairs), attempts)
