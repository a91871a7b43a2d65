"""Effects of a turn: which calls took effect, so that a later reply gets their answers in place of a second effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from returns.result import Failure, Success

from ..engine.call import Call, Outcome
from ..engine.errors import Landed, NotExecuted, OutcomeUnknown, TimedOut, ToolError, Transient
from ..engine.guards import tool_of
from ..engine.report import error_of
from ..once import Conversation, InScope
from .identity import Identity, identify

_CANNOT_TELL = NotExecuted("it cannot be told apart from an earlier call of this tool that may have taken effect")


def requires_retry(error: ToolError | None) -> bool:
    """Whether the model is asked for the call again: it can fix the error, and the call did not take effect."""
    return error is not None and error.fixable_by == "model" and not isinstance(error, OutcomeUnknown)


@attrs.define(eq=False)
class Effect:
    """The bodies of one call.

    Args:
        reply: The number of the model's reply that the call is from.
        identity: The tool and the params that the call asked for.
        landed: Whether a body is known to have taken effect, though it failed.
        outcome: The outcome of the call. None: it has none.
    """

    reply: int
    identity: Identity
    landed: bool = False
    outcome: Outcome[Any] | None = attrs.field(default=None, repr=False)

    @property
    def happened(self) -> bool:
        """Whether the call is known to have taken effect. One that may have is in the scope of the turn."""
        return self.landed or type(self.outcome) is Success


@attrs.define(eq=False)
class Effects:
    """The effects of one turn."""

    each: list[Effect] = attrs.field(factory=list[Effect])

    def find_earlier(self, identity: Identity, reply: int) -> Iterator[tuple[Effect, bool]]:
        """The calls of replies before this one that took effect, and that may have asked for the same.

        With each, whether it is certain that they asked for the same.
        """
        for effect in self.each:
            if effect.reply < reply and effect.happened:
                same = effect.identity.is_same(identity)
                if same is not False:
                    yield effect, bool(same)


@attrs.define(eq=False)
class TurnGuard(InScope):
    """Replays the success of an equal call of an earlier reply in place of a second body; one guard for each call.

    Equal calls within one reply are several calls: the model wants that many. All tools but ``read`` are guarded. An
    ``idempotent`` one too: to set a value again may undo a change that was made in between. A ``keyed`` one too: the
    call that is sent again has another key. Calls that a tool of the turn makes, such as `batch`, count as calls of the
    same reply. A call that may have taken effect is not here, but in the scope, with those of the conversation.

    Args:
        effects: Of the turn.
        reply: The number of the reply.
    """

    effects: Effects
    reply: int
    scope: Conversation | None = None
    repeated: Effect | None = None  # the earlier call whose outcome was the answer
    _own: list[Effect] = attrs.field(factory=list[Effect])

    @property
    def identity(self) -> Identity | None:
        """Return the identity of the call before its body began; None if no body of a guarded tool began."""
        return self._own[-1].identity if self._own else None

    def inherit(self) -> TurnGuard:
        """The guard of a call that the tool makes."""
        return TurnGuard(self.effects, self.reply, self.scope)

    def answer(self, outcome: Outcome) -> None:
        """The call has ended."""
        for effect in self._own:
            effect.outcome = outcome

    def refuse(self, call: Call) -> Outcome | None:
        """The earlier outcome, or NotExecuted if the params cannot be compared."""
        tool = tool_of(call)
        if tool is not None and tool.effect == "read":
            return None
        earlier = list(self.effects.find_earlier(identify(call), self.reply))
        if not earlier:
            return None
        effect = next((effect for effect, is_certain in earlier if is_certain), None)
        if effect is None:
            return Failure(_CANNOT_TELL)
        self.repeated = effect
        return self._replay(effect.outcome, None if tool is None else tool.verify_with)

    def begin(self, call: Call) -> None:
        """A body of the call begins."""
        tool = tool_of(call)
        if tool is not None and tool.effect == "read":
            return
        identity = identify(call)
        effect = next((each for each in self._own if each.identity == identity), None)
        if effect is None:
            effect = Effect(self.reply, identity)
            self._own.append(effect)
            self.effects.each.append(effect)

    def learn_landed(self, call: Call, landed: Landed) -> None:  # noqa: ARG002
        """Its outcome says whether it took effect."""
        for effect in self._own[-1:]:
            effect.landed = effect.landed or landed == "yes"

    @staticmethod
    def _replay(outcome: Outcome[Any] | None, verify_with: str | None) -> Outcome:
        """Return the answer to a repeated call. An answer that Retry would repeat counts as lost."""
        error = error_of(outcome)
        if type(outcome) is Success or not isinstance(error, (TimedOut, Transient, type(None))):
            return outcome or Failure(OutcomeUnknown(Transient(landed="maybe"), verify_with))
        return Failure(OutcomeUnknown(error or Transient(landed="maybe"), verify_with))
