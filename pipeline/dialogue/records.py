"""What came of a turn: its answers, a record for each attempt at a call, and how often attempts succeeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import attrs

from ..call import Call, Outcome
from ..privacy import PublicText


@attrs.frozen
class Answered:
    """A call and what came of it."""

    call: Call
    outcome: Outcome[Any]
    text: PublicText  # for the model; of a value with images the adapters make more


@attrs.frozen
class Record:
    """One attempt at one call; the first six are document 003's."""

    name: str  # as the model spelt it
    execution_time_ms: float  # 0: it was held back
    success: bool
    input_params: object  # as the model wrote them
    error: PublicText | None  # what the model is told; None: it succeeded
    requires_retry: bool  # whether the model can mend it, whatever attempts are left
    attempt: int  # at this call, from 1
    kind: str | None = None  # of its error; None: it succeeded
    after: str | None = None  # the kind of error that the attempt before ended in; None: there was none


@attrs.frozen
class Turn:
    """What came of the calls of one reply.

    The retries may stay out of the conversation: then ``answered`` holds the answers to the calls that it knows. Or
    they stay in it: then ``untold`` holds the answers that are still missing there.
    """

    answered: tuple[Answered, ...]  # the calls that were given, in their order, each with its last outcome
    added: tuple[Answered, ...]  # calls that the model made besides, while it was asked again
    untold: tuple[Answered, ...]  # of the last attempt, which the model has not been told
    records: tuple[Record, ...]
    attempts: int  # how often calls ran, at most those that were allowed
    question: str | None = None  # for the user, who alone knows the answer: it ended the turn
    error: Exception | None = None  # of the model's client: it ended the turn

    @property
    def outcomes(self) -> tuple[Outcome[Any], ...]:
        """The last outcome of each call that was given, in their order."""
        return tuple(each.outcome for each in self.answered)


class Rate(NamedTuple):
    """How many of how many succeeded."""

    succeeded: int
    tried: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 of none."""
        return self.succeeded / self.tried if self.tried else 0.0


@attrs.frozen
class Rates:
    """How often attempts succeeded. What the model did not send again was no attempt, and is not in it."""

    by_attempt: Mapping[int, Rate]
    by_kind: Mapping[str, Rate]  # of the attempts that followed an error of that kind


def success_rates(turns: Iterable[Turn]) -> Rates:
    """The share of attempts that succeeded, by their number and by the error before (document 003, "Success Metrics").

    003 aims at more than 60 % of the second attempts: ``success_rates(turns).by_attempt[2].share``.
    """
    by_attempt: dict[int, list[bool]] = {}
    by_kind: dict[str, list[bool]] = {}
    for turn in turns:
        for record in turn.records:
            by_attempt.setdefault(record.attempt, []).append(record.success)
            if record.after is not None:
                by_kind.setdefault(record.after, []).append(record.success)
    return Rates(
        {number: Rate(sum(each), len(each)) for number, each in sorted(by_attempt.items())},
        {kind: Rate(sum(each), len(each)) for kind, each in sorted(by_kind.items())},
    )
