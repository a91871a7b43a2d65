"""run_turn: runs the calls of one reply, and asks the model again for those that it can fix (document 003).

It differs from the document in three points. It makes three attempts in all, where the document's text says three and
its loop makes four. The kind of an error decides whether the model is asked again, where the document looks for
``what`` or ``missing`` in the text. A question that only the user can answer ends the turn, where the document raises
the temperature until the model invents an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, cast

from ..base.event_loops import is_failure_of_body
from ..base.setup_error import SetupError
from ..engine.batch import without_twins
from ..engine.call import Call, set_caller
from ..engine.compose.pipeline import Pipeline
from ..messages import Wording
from .records import Answered, Turn
from .requests import Request
from .turn_state import Hints, TurnState

if TYPE_CHECKING:
    from ..messages.templates import Texts
    from ..messages.wording import Profile


class Model(Protocol):
    """Asks the model again, and keeps the conversation. An async function with these parameters will do."""

    async def __call__(self, answered: Sequence[Answered], guidance: str, hints: Hints, /) -> Sequence[Call]:
        """Send the model the answers, then the guidance, and return its next calls. An exception ends the turn.

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
    profile: str | Profile | None = None,
    verbosity: str | None = None,
    templates: Mapping[str, Texts] | None = None,
    principal: str = "",
    deps: object = None,
    conversation: str = "",
) -> Turn:
    """Run the calls of a reply, and ask the model again for those whose error it can fix.

    The calls of one attempt run together, as with `gather`. A call that succeeded is not repeated, nor is one that
    may have taken effect: the model reads an ``outcome_unknown``, and is not asked for it. A `NeedsUserInput` ends the
    turn with its question. An error that the model and the user cannot fix ends its call. If the model
    sends a call again that is over, the answer is the one that it had, unless it is a read that succeeded. A call is
    known by its tool and its validated params, however the model writes them, and also inside of a `batch`. Equal calls
    in one reply are several calls, and all of them run; one that comes twice with one id is one call. The whole turn,
    the model's requests included, is one trace: the trace of the span around this, else one with a span
    ``invoke_agent`` of its own.

    Args:
        model: Asks the model again.
        calls: The calls of the model's reply.
        pipeline: Runs the calls.
        attempts: How many times calls run at most, the first time included; at least 1. Default 3.
        profile: As with `pipeline.render`. Default None: as the pipeline words its texts.
        verbosity: Likewise.
        templates: Likewise.
        principal: Who asks, for each call of the turn that does not say it. Default "": no principal.
        deps: The caller's own object, for each call of the turn that has none. Default None: none.
        conversation: The thread or session, for each call of the turn that has none, see `Call`. Default "": none.

    Returns:
        The outcomes, and what to say to the model. Each text says what changed since the attempt before. Whatever a
        model does, this does not raise; an exception of its client is `Turn.error`. Cancellation passes.

    Raises:
        SetupError: ``attempts`` is below 1, or a profile, verbosity or template does not exist.
    """
    if attempts < 1:
        raise SetupError(f"run_turn: `attempts` must be ≥ 1, not {attempts}")
    wording = (pipeline.wording or Wording()).changed(profile, verbosity, templates)
    asked = set_caller(list(calls), principal, deps, conversation)
    with pipeline.begin_turn() if asked else nullcontext():
        return await _run(model, asked, TurnState(pipeline, wording), attempts)


async def _run(model: Model, calls: list[Call], state: TurnState, attempts: int) -> Turn:
    single, places = without_twins(calls)
    requests = [Request(call) for call in single]
    given = [requests[place] for place in places]
    untold = await state.run_attempt(list(zip(given, calls, strict=True)))
    done = 1
    client_error: BaseException | None = None
    while done < attempts and state.question is None and state.open:
        try:
            reply = _require_calls(await model(untold, state.guidance, state.hints))
        except BaseException as exc:  # a user's client may raise anything; what has run must not be lost
            if not is_failure_of_body(exc):
                raise
            client_error = exc
            break
        untold = ()
        if not reply:
            break
        untold = await state.run_attempt(state.assign(reply))
        done += 1
    added = state.requests[len(single) :]
    return Turn(
        tuple(Answered(call, each.outcome, each.text) for call, each in zip(calls, given, strict=True)),
        tuple(Answered(each.call, each.outcome, each.text) for each in added),
        untold,
        tuple(state.records),
        done,
        state.question,
        client_error,
    )


def _require_calls(reply: Iterable[object] | None) -> list[Call]:
    found = list(reply or ())
    if odd := dict.fromkeys(type(each).__name__ for each in found if not isinstance(each, Call)):
        raise SetupError(f"a Model returns calls, not {', '.join(odd)}")
    return cast("list[Call]", found)
