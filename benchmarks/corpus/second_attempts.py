"""Calls that failed, and the same model's next good call of that tool: does our text name what had to change?

Only calls that break the schema count; for the others no schema says what was wrong. Most of them get no text at
all, since they are repaired outright.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.corpus.oracle import canonical_text
from benchmarks.corpus.recordings import OfferedTool, build_pipeline, read_rows
from benchmarks.corpus.repair_quality import mentions
from toolcall_pipeline import Call, is_failure, render

PAIRS = "repair_pairs"
FLOORS: Mapping[str, float] = {  # percent
    "repaired outright": 39.4,
    # In the one that is missing, the model also changed a right value, which no text could name.
    "told every argument that was changed": 95.0,
    "told every argument that was changed and not just left out": 95.0,
}


@attrs.frozen
class SecondAttempt:
    """A call that breaks the schema, and what the model sent next.

    Args:
        id: of the first call.
        text: what the pipeline answers to it; None: it is repaired outright.
        first: the arguments of the first call.
        second: the arguments of the model's next call.
        received: what the tool received of a repaired call.
    """

    id: str
    text: str | None
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    received: object = None

    @property
    def changed(self) -> list[str]:
        """The arguments that the model changed, added or left out."""
        either = dict.fromkeys((*self.first, *self.second))
        return [name for name in either if _value_text(self.first, name) != _value_text(self.second, name)]

    @property
    def unnamed(self) -> list[str]:
        """Those that our text does not name."""
        return [name for name in self.changed if self.text is not None and not mentions(self.text, name)]


@attrs.frozen
class SecondAttempts:
    """All of them.

    Args:
        pairs: how many pairs are recorded.
        attempts: those whose first call breaks the schema.
    """

    pairs: int
    attempts: Sequence[SecondAttempt]

    def shares(self) -> dict[str, tuple[int, int]]:
        """The figures that have floors, as counts: how many, of how many."""
        told = [each for each in self.attempts if each.text is not None]
        named = [each for each in told if not each.unnamed]
        kept_named = [each for each in told if not any(name in each.second for name in each.unnamed)]
        repaired = [each for each in self.attempts if each.text is None]
        same = sum(canonical_text(each.received) == canonical_text(each.second) for each in repaired)
        return {
            "repaired outright": (len(repaired), len(self.attempts)),
            "repaired to what the model sent next": (same, len(repaired)),
            "told every argument that was changed": (len(named), len(told)),
            "told every argument that was changed and not just left out": (len(kept_named), len(told)),
            "repaired, or told every argument that was changed": (len(repaired) + len(named), len(self.attempts)),
        }

    def lines(self) -> Iterator[str]:
        """The table as it is printed, with the names of arguments that a text does not name."""
        yield f"failed calls with the next one: {self.pairs:,}, of which {len(self.attempts):,} break the schema"
        for what, (count, whole) in self.shares().items():
            yield f"  {what}: {count:,} of {whole:,}{f' ({100 * count / whole:.2f} %)' if whole else ''}"
        for each in self.attempts:
            if each.unnamed:
                left_out = [f"{name} (left out next)" for name in each.unnamed if name not in each.second]
                kept = [name for name in each.unnamed if name in each.second]
                yield f"  not named: {each.id}  {', '.join((*kept, *left_out))}"

    def as_json(self) -> dict[str, Any]:
        """Figures and ids."""
        return {
            "pairs": self.pairs,
            "shares": self.shares(),
            "repaired": [each.id for each in self.attempts if each.text is None],
            "not named": [each.id for each in self.attempts if each.unnamed],
        }

    def regressions(self) -> Iterator[str]:
        """The shares that are below their floors."""
        for what, floor in FLOORS.items():
            count, whole = self.shares()[what]
            if whole and 100 * count / whole < floor - 0.05:
                yield f"second attempts, {what}: {100 * count / whole:.1f} %, and it was {floor:.1f} %"


async def run_second_attempts(folder: Path) -> SecondAttempts:
    """Run every recorded call that failed through a pipeline with its tool; none if the folder has no such file."""
    file = folder / f"{PAIRS}.jsonl"
    pairs = [*read_rows(file)] if file.exists() else []
    called = {(row["suite"], row["tool"]) for row in pairs}
    tools = {
        (row["suite"], row["tool"]): OfferedTool.make(row["tool"], row["json_schema"])
        for row in read_rows(folder / "tools.jsonl")
        if (row["suite"], row["tool"]) in called
    }
    attempts: list[SecondAttempt] = []
    for row in pairs:
        offered = tools.get((row["suite"], row["tool"]))
        sent: Mapping[str, Any] = row["failed_arguments"]
        if offered is None or offered.validator is None or offered.validator.is_valid(sent):
            continue
        outcome: Any = await build_pipeline({row["tool"]: offered})(Call(row["tool"], sent, row["id"]))
        text = render(outcome.failure()) if is_failure(outcome) else None
        received: object = None if text is not None else outcome.unwrap()
        attempts.append(SecondAttempt(row["id"], text, sent, row["repaired_arguments"], received))
    return SecondAttempts(len(pairs), attempts)


def _value_text(arguments: Mapping[str, Any], name: str) -> str | None:
    return canonical_text(arguments[name]) if name in arguments else None
