"""Names that no tool has, as models called them: was the intended tool run or suggested, and nothing else?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.corpus.recordings import OfferedTool, RecordedCall, build_pipeline, read_rows
from toolcall_pipeline import Call, Pipeline, ToolView, UnknownTool, is_failure
from toolcall_pipeline.tools.shapes import ShapeIndex

GOLD = "resolve_gold"
_UNDETERMINED = "undetermined"  # the basis of rows where the intended name is unknown
_LEAKED = "leaked_token_or_trailing_text"
# Percent reached so far; the last two are ceilings.
LIMITS: Mapping[str, float] = {
    "run, or suggested first": 99.3,
    "run, or among the first three": 99.3,
    "run, or suggested first, no control tokens": 100.0,
    "run, or among the first three, no control tokens": 100.0,
    "something suggested where nothing fits": 0.4,
    "another tool run": 0.0,
}
MOST_WRONG = 0.01  # of valid calls, by shape
_CEILINGS = frozenset(("something suggested where nothing fits", "another tool run"))


@attrs.frozen
class UnknownName:
    """A name that no tool has, and the suggestions for it.

    Args:
        id: of the call.
        gold: the tool that was meant; None: none of the offered tools fits.
        leaked: whether the name contains a control token, or text behind one.
        run: the tool that ran; None: none did.
        suggested: the suggested tools, the best first.
    """

    id: str
    gold: str | None
    leaked: bool
    run: str | None
    suggested: tuple[str, ...] = ()

    @property
    def rank(self) -> int | None:
        """The intended tool's place: 0 if it ran or was suggested first; None if it was not named."""
        named = (self.run,) if self.run is not None else self.suggested
        return named.index(self.gold) if self.gold in named else None


@attrs.frozen
class Suggestions:
    """All names whose intended tool is known."""

    names: Sequence[UnknownName]

    @property
    def wrong(self) -> dict[str, list[UnknownName]]:
        """The names that were answered wrongly, by what was wrong."""
        found = {
            "not suggested first": [each for each in self.names if each.gold is not None and each.rank != 0],
            "something suggested where nothing fits": [
                each for each in self.names if each.gold is None and each.suggested
            ],
            "another tool run": [each for each in self.names if each.run not in (None, each.gold)],
        }
        return {why: names for why, names in found.items() if names}

    def shares(self) -> dict[str, tuple[int, int]]:
        """The figures that have limits, as counts: how many, of how many."""
        with_tool = [each for each in self.names if each.gold is not None]
        without_tool: list[UnknownName] = [each for each in self.names if each.gold is None]
        clean = [each for each in with_tool if not each.leaked]
        shares: dict[str, tuple[int, int]] = {}
        for some, which in ((with_tool, ""), (clean, ", no control tokens")):
            shares[f"run, or suggested first{which}"] = sum(each.rank == 0 for each in some), len(some)
            shares[f"run, or among the first three{which}"] = sum(each.rank is not None for each in some), len(some)
        suggested = sum(bool(each.suggested) for each in without_tool)
        shares["something suggested where nothing fits"] = suggested, len(without_tool)
        shares["another tool run"] = len(self.wrong.get("another tool run", ())), len(self.names)
        return shares

    def lines(self) -> Iterator[str]:
        """The table as it is printed, with the ids of wrong answers."""
        yield f"names that no tool has: {len(self.names):,}"
        for what, (count, whole) in self.shares().items():
            yield f"  {what}: {count:,} of {whole:,}{f' ({100 * count / whole:.2f} %)' if whole else ''}"
        for why, names in self.wrong.items():
            yield f"  {why}: {', '.join(each.id for each in names)}"

    def as_json(self) -> dict[str, Any]:
        """Figures and ids."""
        return {
            "shares": self.shares(),
            "wrong": {why: [each.id for each in names] for why, names in self.wrong.items()},
        }

    def regressions(self) -> Iterator[str]:
        """The shares that are beyond their limits."""
        for what, (count, whole) in self.shares().items():
            share, limit = 100 * count / max(whole, 1), LIMITS[what]
            worse = share > limit + 0.05 if what in _CEILINGS else share < limit - 0.05
            if whole and worse:
                yield f"names, {what}: {share:.1f} %, and it was {limit:.1f} %"


@attrs.frozen
class Shapes:
    """Valid calls, asked for by shape alone, with and without their own tool among those that were offered.

    Args:
        right: their own tool was found, though the name said nothing.
        wrong: another one was found, or one in place of their own tool that was not offered; with that tool's name.
        calls: how many calls were asked.
    """

    right: int
    wrong: Sequence[tuple[str, str, str]]
    calls: int

    def lines(self) -> Iterator[str]:
        """The table as it is printed."""
        yield f"by shape, in {self.calls:,} valid calls"
        yield f"  their own tool, under a name that says nothing: {self.right:,}"
        share = f" ({100 * len(self.wrong) / self.calls:.2f} %)" if self.calls else ""
        yield f"  another tool, where their own is not offered: {len(self.wrong):,}{share}"

    def as_json(self) -> dict[str, Any]:
        """Figures and ids."""
        return {"right": self.right, "wrong": list(self.wrong), "calls": self.calls}

    def regressions(self) -> Iterator[str]:
        """The shares that are beyond their limits."""
        if self.calls and len(self.wrong) > MOST_WRONG * self.calls:
            yield f"by shape: another tool for {len(self.wrong):,} of {self.calls:,} calls"


def ask_by_shape(calls: Sequence[RecordedCall]) -> Shapes:
    """Ask for each valid call under a name that says nothing, and under its own name without its own tool."""
    indexes: dict[Pipeline, ShapeIndex] = {}
    valid = [each for each in calls if each.offered is not None and each.valid_by_schema]
    right, wrong = 0, list[tuple[str, str, str]]()
    for each in valid:
        registry: ToolView = each.pipeline.registries[0]
        index = indexes.setdefault(each.pipeline, ShapeIndex(registry))
        name, arguments = each.call.name, each.call.arguments
        right += index.find("", arguments, set(registry.tools)) == name
        other = index.find(name, arguments, set(registry.tools) - {name})
        if other is not None:
            wrong.append((each.call.id, name, other))
    return Shapes(right, wrong, len(valid))


async def run_unknown_names(folder: Path, calls: Sequence[RecordedCall] = ()) -> Suggestions:
    """Call each name, with its arguments where they were recorded, and with the tools that were offered.

    None if the folder has no such file.
    """
    file = folder / f"{GOLD}.jsonl"
    recorded = {each.call.id: each for each in calls if each.name_mistake is not None}
    pipelines: dict[tuple[str, ...], Pipeline] = {}
    names: list[UnknownName] = []
    for row in read_rows(file) if file.exists() else ():
        if row["gold"] is None and row["basis"] == _UNDETERMINED:
            continue
        known = recorded.get(row["id"])
        if known is not None:
            report = await known.pipeline.report(known.call)
        else:
            offered = tuple(row["offered"])
            if offered not in pipelines:
                pipelines[offered] = build_pipeline({name: OfferedTool.make(name, None) for name in offered})
            report = await pipelines[offered].report(Call(row["called"], {}, row["id"]))
        outcome: Any = report.outcome
        error = outcome.failure() if is_failure(outcome) else None
        run = report.tool.name if report.tool is not None else None
        suggested = error.suggestions if isinstance(error, UnknownTool) else ()
        names.append(UnknownName(row["id"], row["gold"], row["basis"] == _LEAKED, run, suggested))
    return Suggestions(names)
