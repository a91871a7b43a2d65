"""Recovery: which call of a journal answers which failure, and how many failures the next attempts mend.

A failure is answered by the next call of the same tool in its conversation; that of a name that no tool has, by a call
of the same name or of a tool that its text suggested. A call answers one failure, the one that has waited longest, and
none of its own reply. A chain begins with a failure that answers none (attempt 1), and ends with a success. Calls
without a conversation are left out, and cancelled ones.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

import attrs

from ..engine.report.json_form import Form
from .faults import read_fields

NO_TOOL: Final = "?"  # stands for each name that no tool has: a model makes up as many as it likes
_Z: Final = 1.959964  # of a normal distribution: 95 % lie within
_MOST_GROUPS: Final = 1_000  # those beyond are counted together
_REST: Final = ("(others)", "(others)", "(others)")
_MOST_OPEN: Final = 64  # chains of one conversation; that which waited longest is over
_LAST: Final = 3  # attempt that is counted


@attrs.frozen
class Share:
    """A part of a whole, with its 95 % interval by Wilson (1927)."""

    part: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper bound; 0 and 1 of nothing."""
        if not self.of:
            return 0.0, 1.0
        n, p, square = self.of, self.part / self.of, _Z * _Z
        middle = (p + square / (2 * n)) / (1 + square / n)
        half = _Z / (1 + square / n) * sqrt(p * (1 - p) / n + square / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        if not self.of:
            return "of 0"
        low, high = self.interval
        return f"{self.part:,} of {self.of:,} = {self.part / self.of:.0%} [{low:.0%}, {high:.0%}]"

    def as_json(self) -> dict[str, Any]:
        """The share as JSON data."""
        low, high = self.interval
        share = round(self.part / self.of, 4) if self.of else None
        return {"part": self.part, "of": self.of, "share": share, "low": round(low, 4), "high": round(high, 4)}


@attrs.define
class Recovery:
    """The chains of one group: of a kind, a tool and a wording, those of the first failure.

    Attributes:
        chains: First failures.
        second, third: Those that had such an attempt, and how many of these succeeded.
        repeats: Attempts with the arguments of the attempt before; of all attempts after the first.
        attempts: Attempts after the first.
        seconds: From the begin of a first failure to the begin of the call that mended it, in all.
        told: Characters of the texts of all failures.
    """

    chains: int = 0
    second: list[int] = attrs.field(factory=lambda: [0, 0])
    third: list[int] = attrs.field(factory=lambda: [0, 0])
    repeats: int = 0
    attempts: int = 0
    seconds: float = 0.0
    told: int = 0

    @property
    def at_2(self) -> Share:
        """Of all first failures, those that the second attempt mended."""
        return Share(self.second[1], self.chains)

    @property
    def by_3(self) -> Share:
        """Of all first failures, those that the second or the third attempt mended."""
        return Share(self.second[1] + self.third[1], self.chains)

    def as_json(self) -> dict[str, Any]:
        """The group as JSON data."""
        return {
            "failures": self.chains,
            "at_2": self.at_2.as_json(),
            "by_3": self.by_3.as_json(),
            "of_second_attempts": Share(self.second[1], self.second[0]).as_json(),
            "of_third_attempts": Share(self.third[1], self.third[0]).as_json(),
            "repeats": Share(self.repeats, self.attempts).as_json(),
            "seconds_lost": round(self.seconds, 3),
            "characters_told": self.told,
        }


@attrs.define(eq=False)
class Chain:
    """A failure, and what answered it so far."""

    first: Form
    last: Form
    group: tuple[str, str, str]  # of the first one
    suggested: Sequence[str] = ()  # by the text of the last one
    attempt: int = 1  # of the last one, from 1

    def is_answered_by(self, form: Form) -> bool:
        """Whether a later call is an attempt to mend this failure."""
        return is_answer(self.last, form, self.suggested)


@attrs.define
class Recoveries:
    """The figures of all chains."""

    total: Recovery = attrs.field(factory=Recovery)
    groups: defaultdict[tuple[str, str, str], Recovery] = attrs.field(
        factory=lambda: defaultdict[tuple[str, str, str], Recovery](Recovery)
    )
    _open: dict[tuple[str, str], OrderedDict[int, Chain]] = attrs.field(
        factory=dict[tuple[str, str], OrderedDict[int, Chain]], repr=False
    )

    def add(self, form: Form) -> Chain | None:
        """Count a call, given after those before it. Returns the chain that it answers, which it may have ended."""
        if not form["conversation"] or form["outcome"] == "cancelled":
            return None
        chains = self._open.setdefault((form["principal"], form["conversation"]), OrderedDict())
        found = next((chain for chain in chains.values() if chain.is_answered_by(form)), None)
        if found is not None:
            self._count_attempt(found, form)
            del chains[id(found)]
        if form["outcome"] == "failure":
            chain = self._begin(form) if found is None else found
            chain.last = form
            chain.suggested = list_suggestions(form)
            for each in self._groups_of(chain):
                each.told += len(form.get("told") or "")
            chains[id(chain)] = chain
            if len(chains) > _MOST_OPEN:
                chains.popitem(last=False)
        if not chains:
            del self._open[form["principal"], form["conversation"]]
        return found

    def _begin(self, form: Form) -> Chain:
        group = str(form["kind"]), NO_TOOL if form["tool"] is None else str(form["tool"]), form["wording"]
        if group not in self.groups and len(self.groups) >= _MOST_GROUPS:
            group = _REST
        chain = Chain(form, form, group)
        for each in self._groups_of(chain):
            each.chains += 1
        return chain

    def _groups_of(self, chain: Chain) -> tuple[Recovery, Recovery]:
        return self.total, self.groups[chain.group]

    def _count_attempt(self, chain: Chain, form: Form) -> None:
        chain.attempt += 1
        is_mended = form["outcome"] == "success"
        is_same = "arguments" in form and form["name"] == chain.last["name"]
        is_same = is_same and form["arguments"] == chain.last.get("arguments")
        for each in self._groups_of(chain):
            each.attempts += 1
            each.repeats += is_same
            if chain.attempt <= _LAST:
                pair = each.second if chain.attempt < _LAST else each.third
                pair[0] += 1
                pair[1] += is_mended
            if is_mended:
                each.seconds += (form["at"] - chain.first["at"]) / 1e9

    def list_groups(self) -> list[tuple[tuple[str, str, str], Recovery]]:
        """The groups, that with the most failures that nothing mended first."""
        return sorted(self.groups.items(), key=lambda each: (each[1].by_3.part - each[1].chains, each[0]))

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return {
            **self.total.as_json(),
            "groups": [
                {"kind": kind, "tool": tool, "wording": wording, **each.as_json()}
                for (kind, tool, wording), each in self.list_groups()
            ],
        }


def is_of_reply(form: Form, other: Form) -> bool:
    """Whether two calls of a conversation are known to be of one reply of the model."""
    return bool(form["reply"] and form["reply"] == other["reply"])


def is_answer(failed: Form, form: Form, suggested: Sequence[str]) -> bool:
    """Whether a later call of the conversation is an attempt to mend a failure, whose text suggested these names."""
    if is_of_reply(failed, form):
        return False
    if failed["tool"] is not None:
        return bool(form["tool"] == failed["tool"])
    return bool(form["name"] == failed["name"] or form["tool"] in suggested)


def list_suggestions(form: Form) -> Sequence[str]:
    """The names that the text for an unknown name suggested."""
    found: Sequence[str] = read_fields(form).get("suggestions", ())
    return found
