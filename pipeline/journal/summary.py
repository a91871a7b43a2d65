"""Summary: the figures of a journal. The tables, the JSON and the page of ``toolcall report`` are made from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import attrs

from ..engine.report.json_form import Form
from .faults import find_fault
from .recovery import NO_TOOL, Recoveries, Share, is_answer, is_of_reply, list_suggestions

_PERCENTILES: Final = (0.5, 0.9, 0.99)
_MOST_CALLS: Final = 100  # of a reply that are looked at for the answer to a failure: else the time is quadratic
_MOST_NAMES: Final = 1_000  # principals, and the like; those beyond are counted together
_REST: Final = "(others)"
_MOST_TIMES: Final = 100_000  # durations of one tool that are kept for its percentiles


@attrs.define
class Tally:
    """Calls of one group."""

    calls: int = 0
    failures: int = 0  # without the cancelled ones
    cancelled: int = 0
    kinds: Counter[str] = attrs.field(factory=Counter[str])  # of failures
    faults: Counter[str] = attrs.field(factory=Counter[str])  # failures by whose fault they are
    seconds: list[float] = attrs.field(factory=list[float], repr=False)

    def add(self, form: Form, fault: str | None) -> None:
        """Count a call."""
        self.calls += 1
        self.cancelled += form["outcome"] == "cancelled"
        if fault is not None:
            self.failures += 1
            self.kinds[form["kind"]] += 1
            self.faults[fault] += 1
        if len(self.seconds) < _MOST_TIMES:
            self.seconds.append(form["seconds"])

    def as_json(self) -> dict[str, Any]:
        """The tally as JSON data, with milliseconds."""
        return {
            "calls": self.calls,
            "failures": self.failures,
            "cancelled": self.cancelled,
            "kinds": dict(self.kinds.most_common()),
            "faults": dict(self.faults.most_common()),
            "ms": find_percentiles(self.seconds),
        }


@attrs.define
class StageTally:
    """The runs of one stage; ``seconds`` is its own time, without the stages inside of it."""

    runs: int = 0
    decided: int = 0
    seconds: list[float] = attrs.field(factory=list[float], repr=False)
    total: float = 0.0


@attrs.define
class Summary:
    """The figures of the calls of a journal.

    Attributes:
        total: All calls.
        tools: By the name of the tool; ``"?"`` for names that no tool has.
        principals: By principal; "" for calls without one.
        wordings: By the profile of the texts for the model.
        attempts: By how often the body ran, from 0: the calls, and the successes among them.
        next_steps: By the tool of a failed call of a conversation, what the model did next.
        recovery: How many failures the next attempts mended.
        repairs: Calls with a repair by its rule, and the successes among them.
        decisions: Decisions about retries, by their reason.
        decided_by: Failures, by the stage that made them.
        stages: By name.
        repaired: Calls with at least one repair, and the successes among them.
        retried: Calls whose body ran more than once, and the successes among them.
        waited: Seconds between attempts, together.
        replayed: Calls that got the outcome of an earlier one.
        dropped: Calls that are not in the journal, because its writer could not follow.
        first, last: When the first and the last call started, in nanoseconds since the epoch; 0: there is none.
        hours: Calls and failures by the hour, in hours since the epoch.
    """

    total: Tally = attrs.field(factory=Tally)
    tools: defaultdict[str, Tally] = attrs.field(factory=lambda: defaultdict[str, Tally](Tally))
    principals: defaultdict[str, Tally] = attrs.field(factory=lambda: defaultdict[str, Tally](Tally))
    wordings: defaultdict[str, Tally] = attrs.field(factory=lambda: defaultdict[str, Tally](Tally))
    attempts: defaultdict[int, list[int]] = attrs.field(factory=lambda: defaultdict[int, list[int]](lambda: [0, 0]))
    next_steps: defaultdict[str, Counter[str]] = attrs.field(
        factory=lambda: defaultdict[str, Counter[str]](Counter[str])
    )
    recovery: Recoveries = attrs.field(factory=Recoveries)
    repairs: defaultdict[str, list[int]] = attrs.field(factory=lambda: defaultdict[str, list[int]](lambda: [0, 0]))
    decisions: Counter[str] = attrs.field(factory=Counter[str])
    decided_by: Counter[str] = attrs.field(factory=Counter[str])
    stages: defaultdict[str, StageTally] = attrs.field(factory=lambda: defaultdict[str, StageTally](StageTally))
    repaired: list[int] = attrs.field(factory=lambda: [0, 0])
    retried: list[int] = attrs.field(factory=lambda: [0, 0])
    waited: float = 0.0
    replayed: int = 0
    dropped: int = 0
    first: int = 0
    last: int = 0
    hours: defaultdict[int, list[int]] = attrs.field(factory=lambda: defaultdict[int, list[int]](lambda: [0, 0]))

    def as_json(self) -> dict[str, Any]:
        """The summary as JSON data."""
        total = self.total.as_json()
        return {
            **total,
            "tools": {name: tally.as_json() for name, tally in by_calls(self.tools)},
            "principals": {name: tally.as_json() for name, tally in by_calls(self.principals)},
            "wordings": {name: tally.as_json() for name, tally in by_calls(self.wordings)},
            "attempts": {
                str(count): {"calls": calls, "successes": successes}
                for count, (calls, successes) in sorted(self.attempts.items())
            },
            "recovery": self.recovery.as_json(),
            "next_steps": {name: dict(steps.most_common()) for name, steps in sorted(self.next_steps.items())},
            "repairs": {
                "calls": self.repaired[0],
                "successes": self.repaired[1],
                "rules": {rule: calls for rule, (calls, _) in self.list_repairs()},
                "by_rule": {rule: Share(good, calls).as_json() for rule, (calls, good) in self.list_repairs()},
            },
            "retries": {
                "calls": self.retried[0],
                "successes": self.retried[1],
                "waited_seconds": round(self.waited, 3),
                "reasons": dict(self.decisions.most_common()),
            },
            "decided_by": dict(self.decided_by.most_common()),
            "stages": {
                name: {
                    "runs": stage.runs,
                    "decided": stage.decided,
                    "total_ms": round(stage.total * 1e3, 3),
                    "ms": find_percentiles(stage.seconds),
                }
                for name, stage in sorted(self.stages.items(), key=lambda each: -each[1].total)
            },
            "replayed": self.replayed,
            "dropped": self.dropped,
            "first": self.first,
            "last": self.last,
        }

    def list_repairs(self) -> list[tuple[str, list[int]]]:
        """Rules of repairs with their calls and successes, the commonest first."""
        return sorted(self.repairs.items(), key=lambda each: -each[1][0])


def summarise(forms: Iterable[Form], dropped: int = 0) -> Summary:
    """Return the figures of calls, given in their order.

    Args:
        forms: The calls.
        dropped: How many more there were.
    """
    found = Summary(dropped=dropped)
    replies: dict[tuple[str, str], _Reply] = {}  # the last one of each conversation that has an open failure
    for form in forms:
        _add(found, form)
        found.recovery.add(form)
        if not form["conversation"]:
            continue
        key = form["principal"], form["conversation"]
        reply = replies.pop(key, None)
        if reply is None or not is_of_reply(reply.calls[-1], form):
            failed = [] if reply is None else reply.end(found)
            reply = _Reply(failed)
        reply.calls.append(form)
        if reply.failed or reply.calls[0]["outcome"] == "failure":
            replies[key] = reply
    for reply in replies.values():
        for form in reply.end(found):
            found.next_steps[_name(form)]["gave up"] += 1
    return found


@attrs.frozen(eq=False)
class _Reply:
    """The calls of one reply, as far as they matter, and the failures of the reply before it."""

    failed: list[Form]
    calls: list[Form] = attrs.field(factory=list[Form])

    def end(self, found: Summary) -> list[Form]:
        """Count the next steps of the failures before it. Returns its own failures."""
        for form in self.failed:
            following = find_next(form, self.calls)
            if following is not None:
                found.next_steps[_name(form)][name_next_step(form, following)] += 1
        return [form for form in self.calls if form["outcome"] == "failure"]


def find_next(failed: Form, later: Iterable[Form]) -> Form | None:
    """The next step after a failure, among the later calls of its conversation.

    That is the first call of the next reply that answers the failure, among its first 100, else its first call.
    """
    suggested = list_suggestions(failed)
    first: Form | None = None
    of_others = (form for form in later if not is_of_reply(failed, form))
    for form in islice(of_others, _MOST_CALLS):
        if first is not None and not is_of_reply(first, form):
            break
        if is_answer(failed, form, suggested):
            return form
        first = first or form
    return first


def name_next_step(failed: Form, following: Form) -> str:
    """The next step of a model after a call that failed, by the call that `find_next` finds."""
    if failed["name"] == following["name"] and failed.get("arguments") == following.get("arguments"):
        return "same again" if "arguments" in failed else "the same tool"
    if not is_answer(failed, following, list_suggestions(failed)):
        return "another tool"
    return "mended" if following["outcome"] == "success" else "failed again"


def find_percentiles(seconds: list[float]) -> dict[str, float]:
    """The median, and the 90th and 99th percentile, in milliseconds; empty without values."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"p{share * 100:g}": round(ordered[min(last, int(share * len(ordered)))] * 1e3, 3) for share in _PERCENTILES
    }


def by_calls(tallies: Mapping[str, Tally]) -> list[tuple[str, Tally]]:
    """Groups, that with the most failures first, then that with the most calls."""
    return sorted(tallies.items(), key=lambda each: (-each[1].failures, -each[1].calls, each[0]))


def _name(form: Form) -> str:
    return NO_TOOL if form["tool"] is None else str(form["tool"])


def _add(found: Summary, form: Form) -> None:
    fault = find_fault(form)
    succeeded = form["outcome"] == "success"
    found.total.add(form, fault)
    found.tools[_name(form)].add(form, fault)
    for groups, name in ((found.principals, form["principal"]), (found.wordings, form["wording"])):
        groups[name if name in groups or len(groups) < _MOST_NAMES else _REST].add(form, fault)
    ran = sum(1 for attempt in form["attempts"] if attempt[1])
    _count(found.attempts[ran], succeeded)
    if ran > 1:
        _count(found.retried, succeeded)
    if form["repairs"]:
        _count(found.repaired, succeeded)
        for rule in {repair[1] for repair in form["repairs"]}:
            _count(found.repairs[rule], succeeded)
    found.decisions.update(decision[2] for decision in form["decisions"])
    found.waited += sum(decision[1] or 0.0 for decision in form["decisions"])
    if form["decided_by"]:
        found.decided_by[form["decided_by"]] += 1
        found.stages[form["decided_by"]].decided += 1
    for name, _, _, _, _, _, own in form["stages"]:
        stage = found.stages[name]
        stage.runs += 1
        stage.total += own / 1e9
        if len(stage.seconds) < _MOST_TIMES:
            stage.seconds.append(own / 1e9)
    found.replayed += form["replayed"]
    at = form["at"]
    found.first, found.last = min(found.first or at, at), max(found.last, at)
    _count(found.hours[at // 3_600_000_000_000], not succeeded)


def _count(pair: list[int], holds: bool) -> None:  # noqa: FBT001  # the second of the pair
    pair[0] += 1
    pair[1] += holds
