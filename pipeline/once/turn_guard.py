"""TurnGuard: what the calls of a turn changed, so that a later reply gets its answer in place of a second effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
from returns.result import Failure, Success

from ..engine.call import Call, Outcome
from ..engine.errors import Landed, NotExecuted, OutcomeUnknown, TimedOut, Transient
from ..engine.guards import tool_of
from ..parameters import read_arguments
from .decision import decide
from .digests import join_digest
from .in_process import InScope
from .intents import read_asked, write_arguments
from .undecided import Conversation

_CANNOT_TELL = NotExecuted("it cannot be told apart from an earlier call of this tool that may have taken effect")


@attrs.frozen
class Identity:
    """The tool and the params of a call, as they were when this was made.

    Args:
        tool: The name of the tool; else what the model wrote, "" if that is not text.
        params: The strict digest of the validated params. None: the call was not validated. "": they have no form.
        written: The digest of the arguments as the model wrote them. None: they are not an object.
    """

    tool: str
    params: str | None
    written: str | None

    @staticmethod
    def of(call: Call) -> Identity:
        """The identity of a call, with as much as the phase knows that it has reached."""
        tool = tool_of(call)
        given: Any = getattr(call, "params", None)
        name: Any = call.name if tool is None else tool.name
        written = None if read_arguments(call.arguments) is None else write_arguments(call)
        params: str | None = None
        if tool is not None and isinstance(given, Mapping):
            form = read_asked(cast("Any", call), cast("Mapping[str, object]", given), written or "").strict
            params = form and join_digest(form)
        as_written = None if written is None else join_digest(written)
        return Identity(str.__str__(name) if isinstance(name, str) else "", params, as_written)

    def is_same(self, other: Identity) -> bool | None:
        """Whether both ask for the same, strictly; None if that cannot be known."""
        if self.tool != other.tool:
            return False
        if self.params and other.params:
            return self.params == other.params
        if self.written is None or other.written is None:
            return None
        return True if self.written == other.written else None if "" in (self.params, other.params) else False


@attrs.define(eq=False)
class Done:
    """The body of a call of a turn, and what came of it.

    Args:
        reply: The number of the model's reply that the call is from.
        identity: What the call asked for.
        landed: Whether the body is known to have taken effect, though it failed.
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
class TurnGuard(InScope):
    """Replays the success of an equal call of an earlier reply in place of a second body; one guard for each call.

    Equal calls within one reply are several calls: the model wants that many. Calls that a tool of the turn makes, such
    as `batch`, count as calls of the same reply. What may have taken effect is not here, but in the scope, with that of
    the conversation.

    Args:
        each: The bodies of the turn.
        reply: The number of the reply.
        scope: What is undecided in the turn.
    """

    each: list[Done]
    reply: int
    scope: Conversation | None = None
    repeated: bool = False  # the answer is that of an earlier call
    _own: list[Done] = attrs.field(factory=list[Done])

    @property
    def identity(self) -> Identity | None:
        """The identity of the call before its body began; None if no body of a guarded tool began."""
        return self._own[-1].identity if self._own else None

    def inherit(self) -> TurnGuard:
        """The guard of a call that the tool makes."""
        return TurnGuard(self.each, self.reply, self.scope)

    def answer(self, outcome: Outcome) -> None:
        """The call has ended."""
        for done in self._own:
            done.outcome = outcome

    def refuse(self, call: Call) -> Outcome | None:
        """The earlier outcome, or NotExecuted if the params cannot be compared."""
        tool = tool_of(call)
        if tool is not None and decide("done", tool.effect) != "answer":
            return None
        earlier = [done for done in self.each if done.reply < self.reply and done.happened]
        if not earlier:
            return None
        identity = Identity.of(call)
        same = [(done, is_same) for done in earlier if (is_same := done.identity.is_same(identity)) is not False]
        certain = next((done for done, is_same in same if is_same), None)
        if certain is None:
            return Failure(_CANNOT_TELL) if same else None
        self.repeated = True
        error = certain.outcome.failure() if type(certain.outcome) is Failure else None
        if type(certain.outcome) is Success or not isinstance(error, (TimedOut, Transient, type(None))):
            return certain.outcome
        # One that Retry would repeat counts as lost.
        return Failure(OutcomeUnknown(error or Transient(landed="maybe"), None if tool is None else tool.verify_with))

    def begin(self, call: Call) -> None:
        """A body of the call begins."""
        tool = tool_of(call)
        if tool is not None and tool.effect == "read":
            return
        identity = Identity.of(call)
        if all(done.identity != identity for done in self._own):
            self._own.append(Done(self.reply, identity))
            self.each.append(self._own[-1])

    def learn_landed(self, call: Call, landed: Landed) -> None:  # noqa: ARG002
        """Its outcome says whether it took effect."""
        for done in self._own[-1:]:
            done.landed = done.landed or landed == "yes"
