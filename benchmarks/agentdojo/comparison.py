"""A recorded call against two replays of it: which of the three disagree, why, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

import attrs

from toolcall_pipeline import CallReport, InvalidParams, Success, is_failure

OutcomeKind: TypeAlias = Literal["ok", "unknown_tool", "invalid_params", "runtime_error"]
Relation: TypeAlias = Literal["all agree", "only ours agrees", "repaired", "only ours disagrees", "no replay agrees"]

OUTCOMES: tuple[OutcomeKind, ...] = ("ok", "unknown_tool", "invalid_params", "runtime_error")
AGREEMENT = 0.947  # a share of the calls, at least; reached: 958 of 1,011, where the plain replay has 949
OURS_ONLY = 0.0  # a share of the calls, at most
_REFUSED: dict[str, OutcomeKind] = {
    "unknown_tool": "unknown_tool",
    "malformed_call": "invalid_params",
    "validation": "invalid_params",
}
_FOR_READERS = ("title", "description")


@attrs.frozen
class ReplayedCall:
    """One recorded call and what two replays made of it.

    Args:
        id: of the call.
        suite: that its tool belongs to.
        tool: as the model called it.
        recorded: the outcome when it was recorded.
        plain: the outcome in AgentDojo's runtime.
        ours: the outcome in our pipeline.
        reason: why ours failed; empty if it did not.
        repairs: the rules by which ours repaired the arguments.
        same: whether both replays had the same result; None: only one of them ran the tool.
        seen: how often the recordings contain this call.
    """

    id: str
    suite: str
    tool: str
    recorded: OutcomeKind
    plain: OutcomeKind
    ours: OutcomeKind
    reason: str = ""
    repairs: tuple[str, ...] = ()
    same: bool | None = None
    seen: int = 1

    @property
    def relation(self) -> Relation:
        """The ones of the three that disagree. A call that was refused when recorded, and is repaired now, agrees."""
        if self.ours == self.recorded:
            return "all agree" if self.plain == self.recorded else "only ours agrees"
        if self.repairs and self.recorded == "invalid_params" and self.ours in ("ok", "runtime_error"):
            return "repaired"
        return "only ours disagrees" if self.plain == self.recorded else "no replay agrees"

    @property
    def agrees(self) -> bool:
        """Whether ours did with the call what was recorded, or better."""
        return self.relation in ("all agree", "only ours agrees", "repaired")

    @property
    def group(self) -> str:
        """The properties that calls with the same disagreement share."""
        change = f"{self.recorded} -> {self.ours}"
        match self.relation:
            case "only ours disagrees":
                return f"{change}: {self.reason or 'accepted'}"
            case "repaired":
                return f"{change}: {', '.join(self.repairs)}"
            case "only ours agrees":
                return f"{self.suite} {self.tool}: {self.recorded}, plain {self.plain}"
            case _:
                return f"{self.suite} {self.tool}: {change}"


def kind_of_text(error: str | None) -> OutcomeKind:
    """Read the outcome from the text with which AgentDojo's runtime answers; None is a success."""
    if error is None:
        return "ok"
    if error.startswith("ToolNotFoundError:"):
        return "unknown_tool"
    of_arguments = error.startswith("ValidationError:") and "Input schema for `" in error.partition("\n")[0]
    return "invalid_params" if of_arguments else "runtime_error"


def kind_of_report(report: CallReport) -> tuple[OutcomeKind, str]:
    """Read the outcome and its reason from our report."""
    outcome = report.outcome
    if outcome is None or not is_failure(outcome):
        return "ok", ""
    error = outcome.failure()
    if isinstance(error, InvalidParams):
        reasons = {f"{problem.rule}, wants {problem.expected or 'nothing'}" for problem in error.problems}
        return "invalid_params", "; ".join(sorted(reasons))
    return _REFUSED.get(error.kind, "runtime_error"), error.kind


def repair_rules(report: CallReport) -> tuple[str, ...]:
    """The rules that repaired the arguments; corrections of the name do not count."""
    return tuple(sorted({repair.rule for repair in report.repairs if repair.path != "name"}))


def same_result(report: CallReport, text: str, value: object, error: str | None, since: datetime) -> bool | None:
    """Whether both replays ran the tool with the same result.

    That is the same value, or a failure whose text is in our text for the model. None if only one of them ran
    the tool, or none did.
    """
    ours, plain = kind_of_report(report)[0], kind_of_text(error)
    if ours == plain == "ok" and type(report.outcome) is Success:
        received: object = report.outcome.unwrap()
        return bool(without_timestamps(received, since) == without_timestamps(value, since))
    if ours == plain == "runtime_error" and error is not None:
        return error.partition(": ")[2] in text
    return None


def without_timestamps(value: Any, since: datetime) -> Any:
    """Models as dicts, and one constant for every moment since the replay began."""
    if hasattr(value, "model_dump"):
        return without_timestamps(value.model_dump(), since)
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {key: without_timestamps(inner, since) for key, inner in mapping.items()}
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return [without_timestamps(item, since) for item in items]
    if isinstance(value, datetime) and value.tzinfo is None and value >= since:
        return "now"
    return value


def bare_schema(schema: Any) -> Any:
    """A schema without titles and descriptions, and without the ban on undeclared arguments, which only ours has."""
    if isinstance(schema, list):
        items = cast("list[Any]", schema)
        return [bare_schema(item) for item in items]
    if not isinstance(schema, dict):
        return schema
    bare: dict[str, Any] = {}
    for key, inner in cast("dict[str, Any]", schema).items():
        if key in ("properties", "$defs"):
            bare[key] = {name: bare_schema(each) for name, each in inner.items()}
        elif key not in _FOR_READERS and (key, inner) != ("additionalProperties", False):
            bare[key] = bare_schema(inner)
    return bare


def share(rows: Sequence[ReplayedCall], holds: Callable[[ReplayedCall], bool], *, seen: bool = False) -> float:
    """The share of the calls, or with ``seen`` of their occurrences, for which it holds; 1 for no calls."""
    weights = [(row.seen if seen else 1, holds(row)) for row in rows]
    whole = sum(weight for weight, _ in weights)
    return sum(weight for weight, held in weights if held) / whole if whole else 1.0


def group(rows: Iterable[ReplayedCall], relation: Relation) -> list[tuple[str, list[str]]]:
    """Group the calls of that relation by what they have in common: the largest group first, with its ids."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row.relation == relation:
            groups.setdefault(row.group, []).append(row.id)
    return sorted(((name, sorted(ids)) for name, ids in groups.items()), key=lambda each: (-len(each[1]), each[0]))


def cross_tabulate(rows: Iterable[ReplayedCall]) -> Counter[tuple[str, OutcomeKind, OutcomeKind]]:
    """Count the calls by suite, recorded outcome and ours."""
    return Counter((row.suite, row.recorded, row.ours) for row in rows)


def regressions(rows: Sequence[ReplayedCall]) -> list[str]:
    """Return the figures that are worse than before; empty if none is."""
    found: list[str] = []
    if not rows:
        found.append("no calls")
    if (agreement := share(rows, lambda row: row.agrees)) < AGREEMENT:
        found.append(f"agreement is {agreement:.2%}, and must be {AGREEMENT:.1%} at least")
    if rows and (ours := share(rows, lambda row: row.relation == "only ours disagrees")) > OURS_ONLY:
        found.append(f"ours alone disagrees on {ours:.2%}, and must on {OURS_ONLY:.1%} at most")
    if odd := [row.id for row in rows if row.same is False]:
        found.append(f"the replays had different results: {', '.join(odd[:5])} ({len(odd)})")
    return found
