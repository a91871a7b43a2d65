"""The result of a turn: its answers, a record of each attempt at a call, and how often attempts succeeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import attrs
from returns.result import Success

from ..engine.call import Call, Outcome
from ..privacy import PublicText


def _show(outcome: object) -> str:
    return "<Success>" if type(outcome) is Success else repr(outcome)  # its value may hold a secret


@attrs.frozen
class Answered:
    """A call and its answer.

    Args:
        call: The call, with its id.
        outcome: The outcome of the call.
        text: The text for the model. From a value with images the adapters make more than this text.
    """

    call: Call
    outcome: Outcome[Any] = attrs.field(repr=_show)
    text: PublicText = attrs.field(repr=False)


@attrs.frozen
class Record:
    """One attempt at one call. The first six fields are those that other systems keep of a retry.

    Args:
        name: The tool's name as the model wrote it.
        execution_time_ms: Milliseconds; 0 if the call was held back.
        success: Whether the attempt succeeded.
        input_params: The arguments as the model wrote them, without secrets, as a `CallReport` has them.
        error: The text for the model; None for a success.
        requires_retry: Whether the model can fix it, however many attempts are left.
        attempt: The number of the attempt at this call, from 1.
        kind: The kind of the error; None for a success.
        after: The kind of error that the attempt before ended in; None for the first attempt.
    """

    name: str
    execution_time_ms: float
    success: bool
    input_params: object
    error: PublicText | None
    requires_retry: bool
    attempt: int
    kind: str | None = None
    after: str | None = None


@attrs.frozen
class Turn:
    """The outcome of the calls of one reply.

    If the retries stay out of the conversation, send ``answered``: it has the calls that the conversation knows. If
    they are part of it, send ``untold``: it has the answers that the conversation still lacks.

    Args:
        answered: The calls that were given, in their order, each with its last outcome.
        added: Further calls that the model made when it was asked again.
        untold: The answers of the last attempt, if the model has not received them; else empty.
        records: A record of each attempt at each call.
        attempts: How many times calls ran; at most the number that was allowed.
        question: A question that only the user can answer, and that ended the turn. None: there was none.
        error: The exception of the model's client that ended the turn. None: none.
    """

    answered: tuple[Answered, ...]
    added: tuple[Answered, ...]
    untold: tuple[Answered, ...]
    records: tuple[Record, ...]
    attempts: int
    question: str | None = None
    error: BaseException | None = None

    @property
    def outcomes(self) -> tuple[Outcome[Any], ...]:
        """The last outcome of each call that was given, in their order."""
        return tuple(each.outcome for each in self.answered)


class Rate(NamedTuple):
    """Number of attempts that succeeded, of all.

    Attributes:
        succeeded: How many succeeded.
        tried: How many were tried.
    """

    succeeded: int
    tried: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 without attempts."""
        return self.succeeded / self.tried if self.tried else 0.0


@attrs.frozen
class Rates:
    """Shares of attempts that succeeded. A call that the model did not send again is not an attempt.

    Args:
        by_attempt: By the number of the attempt.
        by_kind: By the kind of error that the attempt before ended in.
    """

    by_attempt: Mapping[int, Rate]
    by_kind: Mapping[str, Rate]


def success_rates(turns: Iterable[Turn]) -> Rates:
    """The share of attempts that succeeded.

    More than 60 % of the second attempts is a fair aim: ``success_rates(turns).by_attempt[2].share``.

    Args:
        turns: Results of `run_turn`.
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
