"""A recorded call against two replays of it: which of the three disagree, why, and how many such there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

import attrs

from pipeline import CallReport, InvalidParams, Success, is_failure

Came: TypeAlias = Literal["ok", "unknown_tool", "invalid_params", "runtime_error"]
Relation: TypeAlias = Literal["all agree", "only ours agrees", "repaired", "only ours disagrees", "no replay agrees"]

OUTCOMES: tuple[Came, ...] = ("ok", "unknown_tool", "invalid_params", "runtime_error")
AGREEMENT = 0.947  # a share of the calls; reached: 958 of 1,011, where the plain replay has 949
OURS_ONLY = 0.0  # a share of the calls
_REFUSED: dict[str, Came] = {
    "unknown_tool": "unknown_tool",
    "malformed_call": "invalid_params",
    "validation": "invalid_params",
}
_FOR_READERS = ("title", "description")


@attrs.frozen
class Replayed:
    """One recorded call, what a plain replay made of it, and what ours did."""

    id: str
    suite: str
    tool: str
    recorded: Came
    plain: Came
    ours: Came
    reason: str = ""  # why ours failed; "" where it did not
    repairs: tuple[str, ...] = ()  # the rules by which ours mended the arguments
    same: bool | None = None  # the two replays came to the same thing; None: one ran the tool and the other did not
    seen: int = 1  # how often the recordings have this very call

    @property
    def relation(self) -> Relation:
        """Who disagrees with whom. A mended call that was refused when recorded is no disagreement."""
        if self.ours == self.recorded:
            return "all agree" if self.plain == self.recorded else "only ours agrees"
        if self.repairs and self.recorded == "invalid_params" and self.ours in ("ok", "runtime_error"):
            return "repaired"
        return "only ours disagrees" if self.plain == self.recorded else "no replay agrees"

    @property
    def holds(self) -> bool:
        """Ours did with the call what was recorded, or better."""
        return self.relation in ("all agree", "only ours agrees", "repaired")

    @property
    def group(self) -> str:
        """What calls of one kind have in common."""
        turn = f"{self.recorded} -> {self.ours}"
        match self.relation:
            case "only ours disagrees":
                return f"{turn}: {self.reason or 'accepted'}"
            case "repaired":
                return f"{turn}: {', '.join(self.repairs)}"
            case "only ours agrees":
                return f"{self.suite} {self.tool}: {self.recorded}, plain {self.plain}"
            case _:
                return f"{self.suite} {self.tool}: {turn}"


def of_text(error: str | None) -> Came:
    """What AgentDojo's runtime came to, by the text with which it answers."""
    if error is None:
        return "ok"
    if error.startswith("ToolNotFoundError:"):
        return "unknown_tool"
    of_arguments = error.startswith("ValidationError:") and "Input schema for `" in error.partition("\n")[0]
    return "invalid_params" if of_arguments else "runtime_error"


def of_report(report: CallReport) -> tuple[Came, str]:
    """What ours came to, and why."""
    outcome = report.outcome
    if outcome is None or not is_failure(outcome):
        return "ok", ""
    error = outcome.failure()
    if isinstance(error, InvalidParams):
        told = (f"{problem.rule}, wants {problem.expected or 'nothing'}" for problem in error.problems)
        return "invalid_params", "; ".join(sorted(set(told)))
    return _REFUSED.get(error.kind, "runtime_error"), error.kind


def mended(report: CallReport) -> tuple[str, ...]:
    """The rules by which the arguments were mended; the name is another matter."""
    return tuple(sorted({repair.rule for repair in report.repairs if repair.path != "name"}))


def same_end(report: CallReport, told: str, value: object, error: str | None, since: datetime) -> bool | None:
    """Whether both replays ran the tool to the same value, or to a failure with the same text for the model."""
    ours, plain = of_report(report)[0], of_text(error)
    if ours == plain == "ok" and type(report.outcome) is Success:
        given: object = report.outcome.unwrap()
        return bool(timeless(given, since) == timeless(value, since))
    if ours == plain == "runtime_error" and error is not None:
        return error.partition(": ")[2] in told
    return None


def timeless(value: Any, since: datetime) -> Any:
    """Models as dicts, and without the moments that are the replay's own."""
    if hasattr(value, "model_dump"):
        return timeless(value.model_dump(), since)
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {key: timeless(inner, since) for key, inner in mapping.items()}
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return [timeless(item, since) for item in items]
    if isinstance(value, datetime) and value.tzinfo is None and value >= since:
        return "now"
    return value


def bare_schema(schema: Any) -> Any:
    """A schema without what is for readers, and without the word on undeclared arguments, which is ours alone."""
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


def share(rows: Sequence[Replayed], holds: Callable[[Replayed], bool], *, seen: bool = False) -> float:
    """Of the calls, or of all their occurrences, the part for which it holds; 1 of none."""
    weights = [(row.seen if seen else 1, holds(row)) for row in rows]
    whole = sum(weight for weight, _ in weights)
    return sum(weight for weight, held in weights if held) / whole if whole else 1.0


def grouped(rows: Iterable[Replayed], relation: Relation) -> list[tuple[str, list[str]]]:
    """The calls of that relation by what they have in common, the largest group first, as ids."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row.relation == relation:
            groups.setdefault(row.group, []).append(row.id)
    return sorted(((group, sorted(ids)) for group, ids in groups.items()), key=lambda each: (-len(each[1]), each[0]))


def crossed(rows: Iterable[Replayed]) -> Counter[tuple[str, Came, Came]]:
    """How many calls, by suite, recorded outcome and ours."""
    return Counter((row.suite, row.recorded, row.ours) for row in rows)


def shortfalls(rows: Sequence[Replayed]) -> list[str]:
    """What fell below what was reached; empty where nothing did."""
    found: list[str] = []
    if not rows:
        found.append("no calls")
    if (reached := share(rows, lambda row: row.holds)) < AGREEMENT:
        found.append(f"agreement is {reached:.2%}, and was {AGREEMENT:.1%} at least")
    if rows and (ours := share(rows, lambda row: row.relation == "only ours disagrees")) > OURS_ONLY:
        found.append(f"ours alone disagrees on {ours:.2%}, and that was {OURS_ONLY:.1%} at most")
    if odd := [row.id for row in rows if row.same is False]:
        found.append(f"the replays came to different things: {', '.join(odd[:5])} ({len(odd)})")
    return found
