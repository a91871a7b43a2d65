"""Names that no tool has, as models called them, and the tool that was meant: run, suggested, or rightly neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.recorded import Offered, pipeline_of, rows_of
from pipeline import Call, Pipeline, UnknownTool, is_failure

GOLD = "resolve_gold"
_UNDETERMINED = "undetermined"  # the basis of rows in which nobody can say what was meant
_LEAKED = "leaked_token_or_trailing_text"
# Percent that were reached; of the last two not more.
REACHED: Mapping[str, float] = {
    "run, or suggested first": 99.3,
    "run, or among the first three": 99.3,
    "run, or suggested first, no control tokens": 100.0,
    "run, or among the first three, no control tokens": 100.0,
    "something suggested where nothing fits": 6.6,
    "another tool run": 0.0,
}
_AT_MOST = frozenset(("something suggested where nothing fits", "another tool run"))


@attrs.frozen
class Answered:
    """What came of one such name."""

    id: str
    gold: str | None  # None: of the tools that were offered none fits
    leaked: bool  # a control token is in it, or text that came behind it
    run: str | None  # the tool that ran
    suggested: tuple[str, ...] = ()

    @property
    def place(self) -> int | None:
        """Where the right one stands, 0 for run or first; None where it does not."""
        named = (self.run,) if self.run is not None else self.suggested
        return named.index(self.gold) if self.gold in named else None


@attrs.frozen
class Suggestions:
    """All of them, but those of which nobody can say what was meant."""

    answered: Sequence[Answered]

    @property
    def wrong(self) -> dict[str, list[Answered]]:
        """Those that are not as they should be, by why."""
        found = {
            "not suggested first": [each for each in self.answered if each.gold is not None and each.place != 0],
            "something suggested where nothing fits": [
                each for each in self.answered if each.gold is None and each.suggested
            ],
            "another tool run": [each for each in self.answered if each.run not in (None, each.gold)],
        }
        return {why: answered for why, answered in found.items() if answered}

    def shares(self) -> dict[str, tuple[int, int]]:
        """The figures that are held."""
        meant = [each for each in self.answered if each.gold is not None]
        fitting: list[Answered] = [each for each in self.answered if each.gold is None]
        plain = [each for each in meant if not each.leaked]
        figures: dict[str, tuple[int, int]] = {}
        for some, which in ((meant, ""), (plain, ", no control tokens")):
            figures[f"run, or suggested first{which}"] = sum(each.place == 0 for each in some), len(some)
            figures[f"run, or among the first three{which}"] = sum(each.place is not None for each in some), len(some)
        figures["something suggested where nothing fits"] = sum(bool(each.suggested) for each in fitting), len(fitting)
        figures["another tool run"] = len(self.wrong.get("another tool run", ())), len(self.answered)
        return figures

    def lines(self) -> Iterator[str]:
        """As it is printed."""
        yield f"names that no tool has: {len(self.answered):,}"
        for what, (count, whole) in self.shares().items():
            yield f"  {what}: {count:,} of {whole:,}{f' ({100 * count / whole:.2f} %)' if whole else ''}"
        for why, answered in self.wrong.items():
            yield f"  {why}: {', '.join(each.id for each in answered)}"

    def as_json(self) -> dict[str, Any]:
        """Figures and ids."""
        return {"shares": self.shares(), "wrong": {why: [each.id for each in all_] for why, all_ in self.wrong.items()}}

    def fallen(self) -> Iterator[str]:
        """What is worse than it was."""
        for what, (count, whole) in self.shares().items():
            share, reached = 100 * count / max(whole, 1), REACHED[what]
            worse = share > reached + 0.05 if what in _AT_MOST else share < reached - 0.05
            if whole and worse:
                yield f"names, {what}: {share:.1f} %, and it was {reached:.1f} %"


async def answer(data: Path) -> Suggestions:
    """Each name called with the tools that were offered; none where they are not recorded."""
    file = data / f"{GOLD}.jsonl"
    ready: dict[tuple[str, ...], Pipeline] = {}
    answered: list[Answered] = []
    for row in rows_of(file) if file.exists() else ():
        if row["gold"] is None and row["basis"] == _UNDETERMINED:
            continue
        offered = tuple(row["offered"])
        if offered not in ready:
            ready[offered] = pipeline_of({name: Offered.of(name, None) for name in offered})
        report = await ready[offered].report(Call(row["called"], {}, row["id"]))
        outcome: Any = report.outcome
        error = outcome.failure() if is_failure(outcome) else None
        run = report.tool.name if report.tool is not None else None
        suggested = error.suggestions if isinstance(error, UnknownTool) else ()
        answered.append(Answered(row["id"], row["gold"], row["basis"] == _LEAKED, run, suggested))
    return Suggestions(answered)
