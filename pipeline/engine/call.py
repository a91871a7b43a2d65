"""Call -> ResolvedCall -> ValidCall: what is known of a call, each phase made by one stage; and its Outcome."""

from __future__ import annotations

from collections.abc import Mapping
from os import urandom
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast, overload

import attrs
from returns.result import Failure, Result, Success
from typing_extensions import TypeIs, TypeVar

from ..base.foreign_values import FaultBarrier
from .call_state import REQUIRED, WIRE, State, StateKey, add_state, read_state
from .errors import Repair, ToolError

# The type checkers see frozen classes; at run time attrs.frozen costs 230 ns a phase more. Only a copy that was made
# just now is written to, as `Any`; one of a user's subclass, which may be frozen, is made by attrs.evolve.
if TYPE_CHECKING:
    from attrs import frozen as phase

    from ..messages.wording import Wording
    from ..tools.definition import Tool
    from .guards import Guards
    from .report import LiveReport
else:
    phase = attrs.define

# Each phase and each copy is filled by name: `__init__` with its many arguments takes 1.4 times as long. Each method
# names all fields itself: in a function for all phases, Python would look each of them up anew.
_new = object.__new__
T = TypeVar("T", default=object)
S = TypeVar("S")
Listed = TypeVar("Listed", bound="list[Call]")
# A union of two and not Result[...]: both checkers type the payloads of a match, and prove it complete.
Outcome: TypeAlias = Success[T] | Failure[ToolError]


def is_failure(outcome: Outcome[T]) -> TypeIs[Failure[ToolError]]:
    """Narrow an outcome. On the hot path ``type(outcome) is Failure`` takes a fifth of the time."""
    return type(outcome) is Failure


def is_success(outcome: Outcome[T]) -> TypeIs[Success[T]]:
    """Narrow an outcome."""
    return type(outcome) is Success


def as_result(outcome: Outcome[T]) -> Result[T, ToolError]:
    """The outcome as what it is already, for the type checkers: a `Result`, to ``bind``, ``map`` and ``lash``."""
    return outcome


def _describe(value: Any) -> str:
    """Describe arguments for a ``repr``: how many there are. Which of them are secret is not known here."""
    if value is None:
        return "None"
    with FaultBarrier():  # a foreign value may have no length
        unit = " characters" if isinstance(value, (str, bytes, bytearray)) else ""
        return f"<{type(value).__name__} of {len(value)}{unit}>"
    return f"<{type(value).__name__}>"


def make_uuid() -> str:
    """A random UUID of version 4 (RFC 9562) as text: as ``str(uuid4())``, in a quarter of the time."""
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


@phase
class Call:
    """The request of the model, not checked yet.

    The ``repr`` of a call, in any phase, says how many arguments there are, and shows none of them.

    Args:
        name: The tool's name as the model wrote it. Anything but the name of a tool ends in UnknownTool.
        arguments: A mapping, JSON text, or None or "" for no arguments. Anything else ends in MalformedCall.
        id: The provider's id of the call, returned unchanged with the result. Default "": none.
        principal: Who asks (a process, an agent, a tenant). Caches and limits keep principals apart. Default "":
            no principal.
        deps: The caller's own object, for the tool's `ToolContext`. Never recorded.
        finish_reason: Why the provider ended its reply; ``"length"`` says that the call was cut off. None: unknown.
        timeout: Seconds for the whole call, all attempts and waits included. None: no limit.
        conversation: The thread, session or run that the call belongs to. It partitions what is remembered of calls:
            repeated calls, lost effects, deliveries. Default "": no conversation.
        reply: The provider's id of the reply that held the call; an adapter sets it. Default "": unknown.
        state: Values that stages handed on with `with_state`. Never recorded. None: nothing.
        report: Where the stages record what they do; set by the pipeline. None: no report is wanted.
        guards: Decide whether the body may begin; set by the pipeline. None: no guard is asked.
        wording: How a text for the model about this call is worded; an adapter that was given the pipeline sets it, and
            the pipeline in its own copies. None: as the outcome's error says, else as by default.
    """

    name: str
    arguments: object = attrs.field(default=None, repr=_describe)
    id: str = ""
    principal: str = ""
    deps: object = attrs.field(default=None, repr=False)
    finish_reason: str | None = None
    timeout: float | None = None
    conversation: str = ""
    reply: str = ""
    state: State | None = attrs.field(default=None, repr=False, eq=False)
    report: LiveReport | None = attrs.field(default=None, repr=False, eq=False)
    guards: Guards | None = attrs.field(default=None, repr=False, eq=False)
    wording: Wording | None = attrs.field(default=None, repr=False, eq=False)

    def asked_by(self, principal: str = "", deps: object = None, conversation: str = "", reply: str = "") -> Self:
        """The same call with these values where it has none of its own: the call itself if it lacks none of them."""
        lacks = (principal and not self.principal) or (conversation and not self.conversation)
        if not (lacks or (deps is not None and self.deps is None) or (reply and not self.reply)):
            return self
        principal = self.principal or principal
        deps = deps if self.deps is None else self.deps
        conversation = self.conversation or conversation
        reply = self.reply or reply
        if type(self) not in _PHASES:  # a user-defined subclass, which may be frozen
            return attrs.evolve(self, principal=principal, deps=deps, conversation=conversation, reply=reply)
        copy: Any = self.under(self.report, self.guards)
        copy.principal, copy.deps, copy.conversation, copy.reply = principal, deps, conversation, reply
        made: Self = copy
        return made

    def __getstate__(self) -> dict[str, object]:
        """All fields but the wording, whose texts may be functions; a call that is read again has none."""
        return {name: getattr(self, name) for name in attrs.fields_dict(type(self)) if name != "wording"}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        for name, value in {"wording": None, **state}.items():
            object.__setattr__(self, name, value)

    def worded(self, wording: Wording) -> Self:
        """A copy with this wording: nothing is written into a call that somebody else holds."""
        copy = self.under(self.report, self.guards)
        object.__setattr__(copy, "wording", wording)  # the type checkers, or its class, take it for frozen
        return copy

    def with_state(self, key: StateKey[S], value: S) -> Self:
        """A copy for the stages inside of this one and for the tool, which read the value with ``get_state(key)``.

        Every copy of the call keeps it: in later phases, in each attempt, and in the `ToolContext`, also in another
        process. It belongs to this one call: a call that the tool makes passes the stages itself, which set it anew.
        It is in no ``repr``, comparison, report, span or log.

        Args:
            key: Of a later value under the same key only the stages inside of the later stage know.
            value: Anything. A tool in another process sees it only if it pickles.

        Raises:
            SetupError: The key is not a `StateKey`.
        """
        return attrs.evolve(self, state=add_state(self.state, key, value))

    @overload
    def get_state(self, key: StateKey[S]) -> S: ...
    @overload
    def get_state(self, key: StateKey[S], default: T) -> S | T: ...
    def get_state(self, key: StateKey[Any], default: object = REQUIRED) -> object:
        """Return the value that a stage outside of this one has set with `with_state`.

        Args:
            key: The key with which it was set.
            default: The value to return if it was not set. None is a default as well. Default: it must have been set.

        Raises:
            SetupError: It was not set, without a default; or the key is not a `StateKey`.
        """
        return read_state(self.state, key, default)

    @property
    def wire(self) -> Mapping[str, Any]:
        """Fields that a provider sent beside the call and wants back with the answer: Anthropic's ``toolset_name``.

        Its adapter sets and reads it. Empty: nothing. It is in no ``repr``, comparison, report, span or log.
        """
        return {} if self.state is None else read_state(self.state, WIRE, {})

    def resolved(self, tool: Tool[..., Any], repairs: tuple[Repair, ...] = ()) -> ResolvedCall:
        """The next phase: this is the tool; ``repairs`` holds what was changed in the name to find it."""
        copy: Any = _new(ResolvedCall)
        copy.name = self.name
        copy.arguments = self.arguments
        copy.id = self.id
        copy.principal = self.principal
        copy.deps = self.deps
        copy.finish_reason = self.finish_reason
        copy.timeout = self.timeout
        copy.conversation = self.conversation
        copy.reply = self.reply
        copy.state = self.state
        copy.report = self.report
        copy.guards = self.guards
        copy.wording = self.wording
        copy.tool = tool
        copy.repairs = repairs
        made: ResolvedCall = copy
        return made

    def under(self, report: LiveReport | None, guards: Guards | None) -> Self:
        """A copy with another report and other guards."""
        if type(self) is not Call:  # a user-defined subclass, which may have fields of its own
            return attrs.evolve(self, report=report, guards=guards)
        copy: Any = _new(Call)
        copy.name = self.name
        copy.arguments = self.arguments
        copy.id = self.id
        copy.principal = self.principal
        copy.deps = self.deps
        copy.finish_reason = self.finish_reason
        copy.timeout = self.timeout
        copy.conversation = self.conversation
        copy.reply = self.reply
        copy.state = self.state
        copy.report = report
        copy.guards = guards
        copy.wording = self.wording
        made: Self = copy
        return made


_SET_BY_THE_PHASE_BEFORE: Any = None  # a field after one with a default must have a default


@phase(getstate_setstate=False)  # as in Call
class ResolvedCall(Call):
    """Resolve found the tool.

    Args:
        tool: The tool.
        repairs: The changes so far in the text of the model.
    """

    tool: Tool[..., Any] = _SET_BY_THE_PHASE_BEFORE
    repairs: tuple[Repair, ...] = ()

    def validated(self, params: dict[str, Any], repairs: tuple[Repair, ...] = ()) -> ValidCall:
        """The next phase: these are the arguments, parsed; ``repairs`` says what was changed in them."""
        repairs = self.repairs + repairs if repairs else self.repairs
        key = make_uuid() if self.tool.context else ""
        copy: Any = _new(ValidCall)
        copy.name = self.name
        copy.arguments = self.arguments
        copy.id = self.id
        copy.principal = self.principal
        copy.deps = self.deps
        copy.finish_reason = self.finish_reason
        copy.timeout = self.timeout
        copy.conversation = self.conversation
        copy.reply = self.reply
        copy.state = self.state
        copy.report = self.report
        copy.guards = self.guards
        copy.wording = self.wording
        copy.tool = self.tool
        copy.repairs = repairs
        copy.params = params
        copy.attempt = 1
        copy.idempotency_key = key
        made: ValidCall = copy
        return made

    def under(self, report: LiveReport | None, guards: Guards | None) -> Self:
        """As in `Call`."""
        if type(self) is not ResolvedCall:
            return attrs.evolve(self, report=report, guards=guards)
        copy: Any = _new(ResolvedCall)
        copy.name = self.name
        copy.arguments = self.arguments
        copy.id = self.id
        copy.principal = self.principal
        copy.deps = self.deps
        copy.finish_reason = self.finish_reason
        copy.timeout = self.timeout
        copy.conversation = self.conversation
        copy.reply = self.reply
        copy.state = self.state
        copy.report = report
        copy.guards = guards
        copy.wording = self.wording
        copy.tool = self.tool
        copy.repairs = self.repairs
        made: Self = copy
        return made


@phase(getstate_setstate=False)  # as in Call
class ValidCall(ResolvedCall):
    """Validate parsed the arguments.

    Args:
        params: The arguments as the tool takes them, by parameter name.
        attempt: Which attempt this is, from 1.
        idempotency_key: Made once for a call, equal across its attempts. "" for a tool that takes no ToolContext.
    """

    params: dict[str, Any] = attrs.field(default=_SET_BY_THE_PHASE_BEFORE, repr=_describe)
    attempt: int = 1
    idempotency_key: str = ""

    def under(self, report: LiveReport | None, guards: Guards | None) -> Self:
        """As in `Call`."""
        if type(self) is not ValidCall:
            return attrs.evolve(self, report=report, guards=guards)
        copy: Any = _new(ValidCall)
        copy.name = self.name
        copy.arguments = self.arguments
        copy.id = self.id
        copy.principal = self.principal
        copy.deps = self.deps
        copy.finish_reason = self.finish_reason
        copy.timeout = self.timeout
        copy.conversation = self.conversation
        copy.reply = self.reply
        copy.state = self.state
        copy.report = report
        copy.guards = guards
        copy.wording = self.wording
        copy.tool = self.tool
        copy.repairs = self.repairs
        copy.params = self.params
        copy.attempt = self.attempt
        copy.idempotency_key = self.idempotency_key
        made: Self = copy
        return made

    def with_params(self, params: dict[str, Any]) -> Self:
        """The same attempt with other params."""
        if type(self) is not ValidCall:  # as above; it may be frozen, too
            return attrs.evolve(self, params=params)
        copy: Any = self.under(self.report, self.guards)
        copy.params = params
        return cast("Self", copy)

    def with_idempotency_key(self, key: str) -> Self:
        """The same attempt with another idempotency key, such as that of an earlier call that asked for the same."""
        if type(self) is not ValidCall:  # as above
            return attrs.evolve(self, idempotency_key=key)
        copy: Any = self.under(self.report, self.guards)
        copy.idempotency_key = key
        return cast("Self", copy)

    def next_attempt(self) -> ValidCall:
        """The same call as its next attempt."""
        return attrs.evolve(self, attempt=self.attempt + 1)


_PHASES = frozenset((Call, ResolvedCall, ValidCall))


def set_caller(calls: Listed, principal: str, deps: object, conversation: str = "") -> Listed:
    """Say who asks for calls that do not say it; the list is changed and returned. See `Call.asked_by`."""
    if principal or conversation or deps is not None:
        calls[:] = [call.asked_by(principal, deps, conversation) for call in calls]
    return calls
