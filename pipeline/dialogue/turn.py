"""run_turn: the calls of one reply, where the model is asked again for those that it can mend (document 003).

What differs from the document, and why: three attempts in all, where its text says three and its loop does four; an
error's kind decides who is asked again, where it looks for ``what`` or ``missing`` in the text; a question that only
the user can answer ends the turn, where it makes the model more creative until it invents the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import attrs
from returns.result import Success

from ..batch import gather
from ..call import Call, Outcome
from ..compose.pipeline import Pipeline
from ..errors import InvalidParams, MalformedCall, NeedsUserInput, OutcomeUnknown, SetupError, ToolError
from ..messages import render
from ..report import CallReport, error_of
from .records import Answered, Rates, Record, Turn, success_rates
from .requests import Asked, carried, matched, repeated

__all__ = ["Answered", "Hints", "Model", "Rates", "Record", "Turn", "run_turn", "success_rates"]

if TYPE_CHECKING:
    from ..messages.profiles.profile import Profile
    from ..messages.templates import Words

GUIDANCE = (
    "The previous tool call(s) need additional information. Please retry with the missing parameters based on the "
    "error messages."
)
# Only where such a parameter is missing: any other tool would be asked for what it does not have.
FOR_DOCUMENTS = " For document creation, include a 'text' or 'content' parameter with the document body."
_BODIES = frozenset(("text", "content"))


@attrs.frozen
class Hints:
    """How the model might be asked, by document 003; passed, never imposed. As they are, they are for a first request.

    ``None`` is no advice.
    """

    temperature: float | None = 0.5
    max_tokens: int | None = 1200
    tool_choice: str | None = "auto"


_RAISED = 0.7


class Model(Protocol):
    """Whoever asks the model again; it keeps the conversation."""

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints, /) -> Sequence[Call]:
        """The model's next calls, once it has been told those answers, then the guidance; none: it gave up.

        ``answered`` are all calls of its last reply, as providers want them. What this raises ends the turn.
        """
        ...


async def run_turn(
    model: Model,
    calls: Sequence[Call],
    pipeline: Pipeline,
    *,
    attempts: int = 3,  # in all, the first one included
    profile: str | Profile = "default",
    verbosity: str = "normal",
    templates: Mapping[str, Words] | None = None,
) -> Turn:
    """Run the calls of a reply, and ask the model again for those whose error it can mend.

    Calls of one attempt run together. What ended well is not repeated, and neither is what may have taken effect: of
    an ``outcome_unknown`` the model is told, and asked nothing. A `NeedsUserInput` ends the turn with its question; an
    error that is the runtime's, an operator's or nobody's ends its call. A call that the model sends once more though
    it came to its end is answered with what it had, unless it is a read that went well. Each text says what changed
    since the last attempt at that call; ``profile``, ``verbosity`` and ``templates`` are as with `tell`.

    Never raises for what a model did; an exception of its client is `Turn.error`. Raises SetupError for ``attempts``
    below 1 and for a profile that does not exist. Cancellation passes.
    """
    if attempts < 1:
        raise SetupError(f"attempts is at least 1, not {attempts}")
    options: dict[str, Any] = {"profile": profile, "verbosity": verbosity, "templates": templates}
    render(Success(None), **options)  # what makes no sense is told of now
    talk = _Talk(_Reporting(pipeline), options)
    untold = await talk.attempt([(Asked(call), call) for call in calls])
    done, failed = 1, cast("Exception | None", None)
    while done < attempts and talk.question is None and talk.open:
        try:
            again = _as_calls(await model(untold, talk.guidance, talk.hints))
        except Exception as exc:  # noqa: BLE001  # a client may raise anything, and what has run is not lost for that
            failed = exc
            break
        untold = ()
        if not again:
            break
        untold = await talk.attempt(talk.placed(again))
        done += 1
    first, added = talk.asked[: len(calls)], talk.asked[len(calls) :]
    return Turn(
        tuple(Answered(each.first, each.outcome, each.text) for each in first),
        tuple(Answered(each.call, each.outcome, each.text) for each in added),
        untold,
        tuple(talk.records),
        done,
        talk.question,
        failed,
    )


def _as_calls(again: Iterable[object] | None) -> list[Call]:
    """Raises SetupError for anything but calls."""
    found = list(again or ())
    if not all(isinstance(call, Call) for call in found):
        raise SetupError(f"a Model gives back calls, not {', '.join(type(each).__name__ for each in found)}")
    return cast("list[Call]", found)


def _requires_retry(error: ToolError | None) -> bool:
    return error is not None and error.fixable_by == "model" and not isinstance(error, OutcomeUnknown)


@attrs.define(eq=False)
class _Talk:
    """One turn under way."""

    pipeline: _Reporting
    options: dict[str, Any]  # of `tell`
    asked: list[Asked] = attrs.field(factory=list[Asked])
    latest: list[Asked] = attrs.field(factory=list[Asked])  # what ran last
    records: list[Record] = attrs.field(factory=list[Record])
    question: str | None = None

    @property
    def open(self) -> list[Asked]:
        """What the model is asked for again."""
        return [each for each in self.asked if _requires_retry(each.error)]

    @property
    def guidance(self) -> str:
        wrong = (each.error.problems for each in self.open if isinstance(each.error, InvalidParams))
        missing = {problem.path for problems in wrong for problem in problems if problem.rule == "required"}
        return GUIDANCE + (FOR_DOCUMENTS if missing & _BODIES else "")

    @property
    def hints(self) -> Hints:
        """Hotter only for what just reads: more fancy is no way to come by a recipient.

        After a call that was cut off there is no advice on its length.
        """
        failed = [each for each in (*self.open, *self.latest) if each.error is not None]
        reads = all(each.tool is not None and each.tool.effect == "read" for each in failed)
        cut = any(isinstance(each.error, MalformedCall) and each.error.truncated for each in failed)
        return Hints(_RAISED if reads else Hints().temperature, None if cut else Hints().max_tokens)

    def placed(self, again: list[Call]) -> list[tuple[Asked, Call]]:
        """Each call with what it is another attempt at; what is none of them is new."""
        over = [each for each in self.asked if not _requires_retry(each.error)]
        ended = [repeated(call, over) for call in again]
        left = [call for call, old in zip(again, ended, strict=True) if old is None]
        found = iter(matched(left, self.open))
        meant = [old or next(found) for old in ended]
        whole = [carried(call, (old or self.asked[0]).first) for call, old in zip(again, meant, strict=True)]
        return [(old or Asked(call), call) for call, old in zip(whole, meant, strict=True)]

    async def attempt(self, placed: Sequence[tuple[Asked, Call]]) -> tuple[Answered, ...]:
        """Run what has not come to its end, all of it together; an answer for each call."""
        running = [(asked, call) for asked, call in placed if asked.attempt == 0 or _requires_retry(asked.error)]
        outcomes = await gather(self.pipeline, [call for _, call in running])
        for (asked, call), outcome in zip(running, outcomes, strict=True):
            self._ended(asked, call, outcome)
        self.latest = [asked for asked, _ in running]
        return tuple(Answered(call, asked.outcome, asked.text) for asked, call in placed)

    def _ended(self, asked: Asked, call: Call, outcome: Outcome) -> None:
        report = self.pipeline.reports.get(id(call))
        before, error = asked.error, cast("ToolError | None", error_of(outcome))
        if asked.attempt == 0:
            self.asked.append(asked)
        asked.call, asked.outcome, asked.attempt = call, outcome, asked.attempt + 1
        asked.tool = report.tool if report is not None else self.pipeline.tool_of(call.name)
        asked.text = render(outcome, previous=before, tool=asked.name, **self.options)
        if isinstance(error, NeedsUserInput) and self.question is None:
            self.question = error.question
        record = Record(
            call.name,
            0.0 if report is None else report.seconds * 1000,
            error is None,
            call.arguments,
            None if error is None else asked.text,
            _requires_retry(error),
            asked.attempt,
            None if error is None else error.kind,
            None if before is None else before.kind,
        )
        self.records.append(record)


class _Reporting(Pipeline):
    """The same pipeline, which keeps the report of each call."""

    def __init__(self, inner: Pipeline) -> None:
        super().__init__(inner.entries)
        self._inner = inner
        self.reports: dict[int, CallReport] = {}  # by the call's id()

    async def __call__(self, call: Call, /) -> Outcome:
        report = self.reports[id(call)] = await self._inner.report(call)
        return cast("Outcome", report.outcome)
