"""run_turn: runs the calls of one reply, and asks the model again for those that it can fix (document 003).

It differs from the document in three points. It makes three attempts in all, where the document's text says three and
its loop makes four. The kind of an error decides whether the model is asked again, where the document looks for
``what`` or ``missing`` in the text. A question that only the user can answer ends the turn, where the document raises
the temperature until the model invents an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, cast

import attrs
from returns.result import Success

from ..batch import run_batch
from ..call import Call, Outcome, set_caller
from ..compose.pipeline import Pipeline
from ..errors import InvalidParams, MalformedCall, NeedsUserInput, SetupError
from ..guards import Guards
from ..messages import render
from ..messages.odd_fields import straighten
from ..report import CallReport
from .effects import Effects, TurnGuard, requires_retry
from .identity import check, identify
from .records import Answered, Record, Turn
from .requests import Request, find_repeat, inherit_context, match_requests

if TYPE_CHECKING:
    from ..messages.profile import Profile
    from ..messages.templates import Texts

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
    """How the model might be asked; passed to it and never imposed. The defaults of document 003 suit a first request.

    Args:
        temperature: Default 0.5. None: no advice.
        max_tokens: Default 1200. None: no advice.
        tool_choice: Default ``auto``. None: no advice.
    """

    temperature: float | None = 0.5
    max_tokens: int | None = 1200
    tool_choice: str | None = "auto"


class Model(Protocol):
    """Asks the model again, and keeps the conversation. An async function with these parameters will do."""

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints, /) -> Sequence[Call]:
        """Tell the model the answers, then the guidance, and return its next calls. An exception ends the turn.

        Args:
            answered: All calls of the model's last reply with their answers, as providers want them.
            guidance: A text that asks for the calls to be corrected.
            hints: How the model might be asked.

        Returns:
            The calls of the model's reply. None of them: the model gave up, which ends the turn.
        """
        ...


async def run_turn(
    model: Model,
    calls: Sequence[Call],
    pipeline: Pipeline,
    *,
    attempts: int = 3,
    profile: str | Profile = "default",
    verbosity: str = "normal",
    templates: Mapping[str, Texts] | None = None,
    principal: str = "",
    deps: object = None,
) -> Turn:
    """Run the calls of a reply, and ask the model again for those whose error it can fix.

    The calls of one attempt run together, as with `gather`. A call that succeeded is not repeated, nor is one that
    may have taken effect: the model is told an ``outcome_unknown``, and not asked for it. A `NeedsUserInput` ends the
    turn with its question. An error that only the runtime, an operator or nobody can fix ends its call. If the model
    sends a call again that is over, the answer is the one that it had, unless it is a read that succeeded. A call is
    known by its tool and its validated params, however the model writes them, and also inside of a `batch`. Equal calls
    in one reply are several calls, and all of them run. The whole turn, the model's requests included, is one trace:
    that of the span around this, else one with a span ``invoke_agent`` of its own.

    Args:
        model: Asks the model again.
        calls: The calls of the model's reply.
        pipeline: Runs the calls.
        attempts: How many times calls run at most, the first time included; at least 1. Default 3.
        profile: As with `pipeline.render`.
        verbosity: As with `pipeline.render`.
        templates: As with `pipeline.render`.
        principal: Who asks, for each call of the turn that does not say it. Default "": nobody in particular.
        deps: The caller's own object, for each call of the turn that has none. Default None: none.

    Returns:
        The outcomes, and what to tell the model. Each text says what changed since the attempt before. Whatever a
        model does, this does not raise; an exception of its client is `Turn.error`. Cancellation passes.

    Raises:
        SetupError: ``attempts`` is below 1, or a profile, verbosity or template does not exist.
    """
    if attempts < 1:
        raise SetupError(f"run_turn: `attempts` must be ≥ 1, not {attempts}")
    wording: dict[str, Any] = {"profile": profile, "verbosity": verbosity, "templates": templates}
    render(Success(None), **wording)  # raises for a wrong option before anything runs
    asked = set_caller(list(calls), principal, deps)
    with pipeline.begin_turn() if asked else nullcontext():
        return await _run(model, asked, _TurnState(pipeline, wording), attempts)


async def _run(model: Model, calls: list[Call], state: _TurnState, attempts: int) -> Turn:
    untold = await state.run_attempt([(Request(call), call) for call in calls])
    done = 1
    client_error: Exception | None = None
    while done < attempts and state.question is None and state.open:
        try:
            reply = _require_calls(await model(untold, state.guidance, state.hints))
        except Exception as exc:  # noqa: BLE001  # a user's client may raise anything; what has run must not be lost
            client_error = exc
            break
        untold = ()
        if not reply:
            break
        untold = await state.run_attempt(state.assign(reply))
        done += 1
    given, added = state.requests[: len(calls)], state.requests[len(calls) :]
    return Turn(
        tuple(Answered(each.first, each.outcome, each.text) for each in given),
        tuple(Answered(each.call, each.outcome, each.text) for each in added),
        untold,
        tuple(state.records),
        done,
        state.question,
        client_error,
    )


def _require_calls(reply: Iterable[object] | None) -> list[Call]:
    found = list(reply or ())
    if not all(isinstance(call, Call) for call in found):
        raise SetupError(f"a Model returns calls, not {', '.join(type(each).__name__ for each in found)}")
    return cast("list[Call]", found)


@attrs.define(eq=False)
class _TurnState:
    """One turn under way."""

    pipeline: Pipeline
    wording: dict[str, Any]  # options of `render`
    requests: list[Request] = attrs.field(factory=list[Request])
    latest: list[Request] = attrs.field(factory=list[Request])  # those that ran last
    records: list[Record] = attrs.field(factory=list[Record])
    question: str | None = None
    effects: Effects = attrs.field(factory=Effects)
    replies: int = 0  # whose calls have run

    @property
    def open(self) -> list[Request]:
        """The requests that the model is asked for again."""
        return [each for each in self.requests if requires_retry(each.error)]

    @property
    def guidance(self) -> str:
        """What the model is told beside the answers."""
        errors = (straighten(each.error) for each in self.open if isinstance(each.error, InvalidParams))
        wrong = (error.problems for error in errors if isinstance(error, InvalidParams))
        missing = {problem.path for problems in wrong for problem in problems if problem.rule == "required"}
        return GUIDANCE + (DOCUMENT_GUIDANCE if missing & _BODY_PARAMETERS else "")

    @property
    def hints(self) -> Hints:
        """How the model might be asked for the open requests."""
        failed = [each for each in (*self.open, *self.latest) if each.error is not None]
        # Raise the temperature only if every failed tool is read-only; the model must not invent a recipient.
        only_reads = all(each.tool is not None and each.tool.effect == "read" for each in failed)
        was_cut_off = any(isinstance(each.error, MalformedCall) and each.error.truncated for each in failed)
        temperature = _RAISED_TEMPERATURE if only_reads else Hints().temperature
        return Hints(temperature, None if was_cut_off else Hints().max_tokens)

    def assign(self, reply: list[Call]) -> list[tuple[Request, Call]]:
        """Each call of a reply with its request: one that is over, one that is open, or a new one."""
        ended = [each for each in self.requests if not requires_retry(each.error)]
        checked = [check(self.pipeline, call) for call in reply]
        repeats = [find_repeat(identify(call), ended) for call in checked]
        others = [call for call, repeat in zip(checked, repeats, strict=True) if repeat is None]
        matches = iter(match_requests(others, self.open))
        assigned: list[tuple[Request, Call]] = []
        for call, repeat in zip(reply, repeats, strict=True):
            request = repeat or next(matches)
            whole = inherit_context(call, (request or self.requests[0]).first)
            assigned.append((request or Request(whole), whole))
        return assigned

    async def run_attempt(self, assigned: Sequence[tuple[Request, Call]]) -> tuple[Answered, ...]:
        """Run the calls whose requests are not over, all together; returns an answer for each call."""
        running = [place for place, (each, _) in enumerate(assigned) if not each.attempt or requires_retry(each.error)]
        calls = [assigned[place][1] for place in running]
        self.replies += 1
        guards = [TurnGuard(self.effects, self.replies) for _ in calls]
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
            if guards[index].repeated is not None:  # the checks alone did not show it; the request stays as it is
                request = Request(call)
                request.outcome, request.text = outcomes[index], render(outcomes[index], **self.wording)
                answers[place] = request
                continue
            request.identity = guards[index].identity or identify(check(self.pipeline, call))
            self._note_outcome(request, call, outcomes[index], reports.get(index))
            self.latest.append(request)
        return tuple(
            Answered(call, answers[place].outcome, answers[place].text) for place, (_, call) in enumerate(assigned)
        )

    def _note_outcome(self, request: Request, call: Call, outcome: Outcome, report: CallReport | None) -> None:
        """Take down what came of a call; without a report it was held back."""
        before = request.error
        if request.attempt == 0:
            self.requests.append(request)
        request.call, request.outcome, request.attempt = call, outcome, request.attempt + 1
        request.tool = self.pipeline.find(call.name) if report is None else report.tool
        request.text = render(outcome, previous=before, tool=request.name, **self.wording)
        error = request.error
        if isinstance(error, NeedsUserInput) and self.question is None:
            self.question = cast("NeedsUserInput", straighten(error)).question
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
