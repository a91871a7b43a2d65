"""TurnState: the requests of a turn, what came of each, and how the model is asked for those that are open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs
from returns.result import Failure

from ..engine.batch import run_batch, without_twins
from ..engine.call import Call, Outcome, is_failure
from ..engine.compose.pipeline import Pipeline
from ..engine.errors import InvalidParams, MalformedCall, NeedsUserInput, ToolError
from ..engine.guards import Guards
from ..engine.report import CallReport
from ..messages import Wording, render
from ..messages.odd_fields import coerce_error_fields
from ..once import Conversation
from ..once.turn_guard import Done, Identity, TurnGuard
from .records import Answered, Record
from .requests import Request, check, find_repeat, inherit_context, match_requests, requires_retry

GUIDANCE = (
    "The previous tool call(s) need additional information. Please retry with the missing parameters based on the "
    "error messages."
)
# Added only if such a parameter is missing: any other tool would be asked for something that it does not take.
DOCUMENT_GUIDANCE = " For document creation, include a 'text' or 'content' parameter with the document body."
_BODY_PARAMETERS = frozenset(("text", "content"))
_RAISED_TEMPERATURE = 0.7


@attrs.frozen
class Hints:
    """Options for the next request to the model; proposed, never imposed. The defaults suit a first request.

    Args:
        temperature: Default 0.5. None: no advice.
        max_tokens: Default 1200. None: no advice.
        tool_choice: Default ``auto``. None: no advice.
    """

    temperature: float | None = 0.5
    max_tokens: int | None = 1200
    tool_choice: str | None = "auto"


@attrs.define(eq=False)
class TurnState:
    """One turn under way."""

    pipeline: Pipeline
    wording: Wording
    requests: list[Request] = attrs.field(factory=list[Request])
    latest: list[Request] = attrs.field(factory=list[Request])  # those that ran last
    records: list[Record] = attrs.field(factory=list[Record])
    question: str | None = None
    done: list[Done] = attrs.field(factory=list[Done])
    scope: Conversation = attrs.field(factory=Conversation)  # what is undecided, for calls without a conversation
    replies: int = 0  # whose calls have run

    @property
    def open(self) -> list[Request]:
        """The requests that the model is asked for again."""
        return [each for each in self.requests if requires_retry(each.error)]

    @property
    def guidance(self) -> str:
        """The text for the model beside the answers."""
        errors = (coerce_error_fields(each.error) for each in self.open if isinstance(each.error, InvalidParams))
        wrong = (error.problems for error in errors if isinstance(error, InvalidParams))
        missing = {problem.path for problems in wrong for problem in problems if problem.rule == "required"}
        return GUIDANCE + (DOCUMENT_GUIDANCE if missing & _BODY_PARAMETERS else "")

    @property
    def hints(self) -> Hints:
        """Proposed options to ask the model for the open requests."""
        failed = [each for each in (*self.open, *self.latest) if each.error is not None]
        # Raise the temperature only if every failed tool is read-only; the model must not invent a recipient.
        only_reads = all(each.tool is not None and each.tool.effect == "read" for each in failed)
        was_cut_off = any(isinstance(each.error, MalformedCall) and each.error.truncated for each in failed)
        temperature = _RAISED_TEMPERATURE if only_reads else Hints().temperature
        return Hints(temperature, None if was_cut_off else Hints().max_tokens)

    def assign(self, reply: list[Call]) -> list[tuple[Request, Call]]:
        """Each call of a reply with its request: one that is over, one that is open, or a new one."""
        ended = [each for each in self.requests if not requires_retry(each.error)]
        single, places = without_twins(reply)
        checked = [check(self.pipeline, call) for call in single]
        repeats = [find_repeat(Identity.of(call), ended) for call in checked]
        others = [call for call, repeat in zip(checked, repeats, strict=True) if repeat is None]
        matches = iter(match_requests(others, self.open))
        assigned: list[tuple[Request, Call]] = []
        for call, repeat in zip(single, repeats, strict=True):
            request = repeat or next(matches)
            whole = inherit_context(call, (request or self.requests[0]).first)
            assigned.append((request or Request(whole), whole))
        return [assigned[place] for place in places]

    async def run_attempt(self, assigned: Sequence[tuple[Request, Call]]) -> tuple[Answered, ...]:
        """Run the calls whose requests are not over, all together; returns an answer for each call.

        Several calls with one request are twins, see `without_twins`: the first of them runs.
        """
        firsts: dict[int, int] = {}
        for place, (each, _) in enumerate(assigned):
            firsts.setdefault(id(each), place)
        running = [
            place
            for place, (each, _) in enumerate(assigned)
            if firsts[id(each)] == place and (not each.attempt or requires_retry(each.error))
        ]
        calls = [assigned[place][1] for place in running]
        self.replies += 1
        guards = [TurnGuard(self.done, self.replies, self.scope) for _ in calls]
        reports: dict[int, CallReport] = {}

        async def run(index: int, call: Call) -> Outcome:
            guarded = call.under(call.report, Guards.of(guards[index], outer=call.guards))
            report = reports[index] = await self.pipeline.report(guarded)
            outcome = cast("Outcome", report.outcome)
            guards[index].answer(outcome)
            return outcome

        outcomes = await run_batch(self.pipeline, calls, run)
        answers = {place: request for place, (request, _) in enumerate(assigned)}
        self.latest = []
        for index, place in enumerate(running):
            request, call = assigned[place]
            if guards[index].repeated:  # the checks alone did not show it; the request stays as it is
                request = Request(call)
                request.outcome = self._word(outcomes[index])
                request.text = render(request.outcome, wording=self.wording)
                answers[place] = request
                continue
            request.identity = guards[index].identity or Identity.of(check(self.pipeline, call))
            self._note_outcome(request, call, outcomes[index], reports.get(index))
            self.latest.append(request)
        told = [answers[firsts[id(each)]] for each, _ in assigned]
        return tuple(Answered(call, each.outcome, each.text) for each, (_, call) in zip(told, assigned, strict=True))

    def _word(self, outcome: Outcome) -> Outcome:
        """The outcome as the turn words it, if it says other than the pipeline does."""
        if not is_failure(outcome) or (self.pipeline.wording or Wording()) == self.wording:
            return outcome
        error: ToolError = outcome.failure()
        return Failure(error.worded(self.wording))

    def _note_outcome(self, request: Request, call: Call, outcome: Outcome, report: CallReport | None) -> None:
        """Take down what came of a call; without a report it was held back."""
        before = request.error
        if request.attempt == 0:
            self.requests.append(request)
        request.call, request.outcome, request.attempt = call, self._word(outcome), request.attempt + 1
        request.tool = self.pipeline.find(call.name) if report is None else report.tool
        request.text = render(outcome, previous=before, tool=request.name, wording=self.wording)
        error = request.error
        if isinstance(error, NeedsUserInput) and self.question is None:
            self.question = cast("NeedsUserInput", coerce_error_fields(error)).question
        record = Record(
            call.name,
            0.0 if report is None else report.seconds * 1000,
            error is None,
            self.pipeline.redact(call).arguments if report is None else report.call.arguments,
            None if error is None else request.text,
            requires_retry(error),
            request.attempt,
            None if error is None else error.kind,
            None if before is None else before.kind,
        )
        self.records.append(record)
