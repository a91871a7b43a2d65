"""ToolError: everything that a tool call can fail with, as a closed union of classes.

The type checkers prove that a ``match`` over the union is complete. A stage of your own refuses a call with `Denied` or
`Unavailable`. The facts about a kind of error are the arguments of its class, see `ErrorKind`; the guide in
``pipeline/messages`` has them in one table. A ``cause`` is private: its text is in no ``repr``, no span and no text for
the model, and a pickle keeps only the name of its type (`RemoteCause`). A text for the model has the type `Public`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import attrs

from ..privacy import Public, RemoteCause, private, says_landed
from .error_kind import ErrorKind

# Whether the side effect happened. "no": the body never began, or the tool says that nothing happened. "maybe": the
# body began, and nothing is known. "yes": the tool succeeded, or says that it happened.
Landed: TypeAlias = Literal["no", "maybe", "yes"]
_MESSAGE_AND_DETAILS = {"message": "message", "parameter": "details.parameter", "suggestions": "details.suggestion"}


@attrs.frozen
class Problem:
    """One thing wrong with the arguments.

    Attributes:
        path: Such as ``filter.tags[1]``; "": the arguments as a whole.
        rule: The JSON Schema keyword that is violated (``required``, ``type``, ``minimum``…), or ``validator``
            for the author's own check. ``additionalProperties`` also marks an undeclared name that the schema
            permits, if one is missing.
        expected: Such as "an integer"; from the schema, or from the author's own validator.
        got: The JSON type of the value, or a number or boolean itself; "": no value came.
        suggestion: The permitted name or value that is closest to the one that came; "": none is close.
    """

    path: str
    rule: str
    expected: Public
    got: str = ""
    suggestion: str = ""


# The rule of an entry that is told like a repair but changed nothing: an undeclared name of a valid call, which looks
# like a misspelt parameter. Its `before` is the name, its `after` the parameter.
NAME_KEPT: Final = "name_kept"


@attrs.frozen
class Repair:
    """One correction of a call before the tool ran; with the rule `NAME_KEPT`, a doubt about a valid one.

    Attributes:
        path: ``name`` for the tool's name, else as `Problem.path`.
        rule: The repair rule that made it, see `Validate`; or the step of the name, such as ``canonical``.
        before: The value as it was sent.
        after: The value that the tool is called with.
    """

    path: str
    rule: str
    before: object
    after: object


@attrs.frozen
class FailureDetails:
    """The part of a failure that the tool's author adds, for the model.

    Attributes:
        parameter: The argument that caused the failure; None: no single one.
        suggestion: The next step for the model. None: not said.
        constraint: The demand on the argument, such as "at most 100"; None: not said.
        value: The value that was sent; None: not said.
        retry_after: Seconds until another call makes sense; None: not known.
        more: Further facts by name.
    """

    parameter: str | None = None
    suggestion: Public | None = None
    constraint: Public | None = attrs.field(default=None, repr=False)
    value: object = attrs.field(default=None, repr=False, hash=False)
    retry_after: float | None = attrs.field(default=None, repr=False)
    more: Mapping[str, object] = attrs.field(factory=dict[str, object], repr=False, hash=False)


NO_DETAILS = FailureDetails()


@attrs.frozen
class UnknownTool(
    ErrorKind,
    fixable_by="model",
    category="availability",
    error_type="not_found",
    log_level="warning",
    example={"requested": "raed", "suggestions": ("read",), "available": ("read", "write")},
    body="refused",
):
    """No tool has the name that the model asked for.

    Attributes:
        requested: As the model spelt it; "": the name was not a text.
        suggestions: At most 3 similar names that may be called now, closest first.
        available: All names that may be called now; empty if they are more than are listed.
        count: How many tools may be called now, if ``available`` does not list them. None: not known.
    """

    kind: ClassVar[Literal["unknown_tool"]] = "unknown_tool"
    template_fields: ClassVar = {
        "tool": "requested",
        "suggestions": "suggestions",
        "available": "available",
        "count": "count",
    }
    requested: str
    suggestions: tuple[str, ...] = ()
    available: tuple[str, ...] = ()
    count: int | None = attrs.field(default=None, eq=False)


@attrs.frozen
class Unavailable(
    ErrorKind,
    fixable_by="runtime",
    category="availability",
    error_type="permission",
    log_level="warning",
    example={"tool": "read", "reason": "disabled"},
    breaker="ignored",
    body="refused",
):
    """The tool exists, but may not be called now.

    Attributes:
        tool: Its name.
        reason: One of disabled, paused, rate_limited, breaker_open, quota, busy, changed, …; or a text of a stage.
        retry_after: Seconds until another call makes sense; None: not known.
        message: From the tool's author; "": the model gets a fixed text.
        details: Further facts of the failure, for the model.
        body_landed: Whether the side effect of a body that answers so happened. Default: it may have. Of a stage it
            says nothing: no body began.
        quota_of: What shares the quota that is used up, of the stage `Quota`: "conversation", "principal", "tool" or
            "turn". Then no ``retry_after`` says that it does not come back. Default "": not known.
    """

    kind: ClassVar[Literal["unavailable"]] = "unavailable"
    template_fields: ClassVar = {"tool": "tool", "reason": "reason", "seconds": "retry_after"}
    tool: str
    reason: str
    retry_after: float | None = None
    message: Public = attrs.field(default="", repr=False)
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)
    body_landed: Landed = attrs.field(default="maybe", eq=False, repr=False, kw_only=True)
    quota_of: str = attrs.field(default="", eq=False, repr=False, kw_only=True)


@attrs.frozen
class NotExecuted(
    ErrorKind,
    fixable_by="runtime",
    category="availability",
    error_type="execution",
    log_level="info",
    example={"reason": "an earlier call of the batch failed"},
    breaker="ignored",
    body="refused",
):
    """The body did not run: its batch ended first, an earlier run of it goes on, or only a plan was asked for.

    Attributes:
        reason: Why, as the model reads it.
    """

    kind: ClassVar[Literal["not_executed"]] = "not_executed"
    template_fields: ClassVar = {"reason": "reason"}
    reason: Public


@attrs.frozen
class MalformedCall(
    ErrorKind,
    fixable_by="model",
    category="parameter",
    error_type="validation",
    log_level="warning",
    example={"reason": "expected `,` or `}`", "position": (1, 12)},
    body="refused",
):
    """The arguments are not a JSON object.

    Attributes:
        reason: The mistake in the text, in words.
        position: Line and column, both from 1.
        truncated: The provider or the parser reports that the text was cut off.
        schema: Private: the schema of the arguments, for the form in the text.
    """

    kind: ClassVar[Literal["malformed_call"]] = "malformed_call"
    template_fields: ClassVar = {"reason": "reason"}
    reason: Public
    position: tuple[int, int] | None = None
    truncated: bool = False
    schema: Mapping[str, Any] | None = private()


@attrs.frozen
class InvalidParams(
    ErrorKind,
    fixable_by="model",
    category="parameter",
    error_type="validation",
    log_level="warning",
    example={"problems": (Problem("path", "required", "a string"),)},
    body="refused",
):
    """The arguments violate the tool's schema.

    Attributes:
        problems: All of them, at least one.
        repairs: Of the tool's name; arguments are repaired only if all of them are valid then.
        sent: The arguments as the model wrote them; compared with the next failure's.
        details: Further facts from a tool that refuses its arguments itself.
        schema: For the form of valid arguments.
        read: What ``sent`` holds, if it is JSON text that was read already.
    """

    kind: ClassVar[Literal["validation"]] = "validation"
    problems: tuple[Problem, ...]
    repairs: tuple[Repair, ...] = ()
    sent: object = private()
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)
    schema: Mapping[str, Any] | None = private()
    read: object = private()


@attrs.frozen
class NeedsUserInput(
    ErrorKind,
    fixable_by="human",
    category="parameter",
    error_type="validation",
    log_level="info",
    example={"question": "Which one is meant?"},
    body="refused",
):
    """Only the user knows what is missing: the model has to ask, not to guess.

    Attributes:
        question: The question to the user, as the model reads it.
        parameter: The argument that is asked for; None: no single one.
        details: Further facts of the failure, for the model.
    """

    kind: ClassVar[Literal["needs_input"]] = "needs_input"
    template_fields: ClassVar = {"question": "question", "parameter": "parameter"}
    question: Public
    parameter: str | None = None
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)


@attrs.frozen
class ResourceNotFound(
    ErrorKind, fixable_by="model", category="execution", error_type="not_found", log_level="warning", example={}
):
    """The tool ran, and what it should work on does not exist.

    Attributes:
        message: "": the model gets a fixed text.
        details: Further facts of the failure, for the model.
        cause: The private exception; it is only logged. None: there is none.
    """

    kind: ClassVar[Literal["not_found"]] = "not_found"
    template_fields: ClassVar = _MESSAGE_AND_DETAILS
    message: Public = ""
    details: FailureDetails = NO_DETAILS
    cause: BaseException | None = private()


@attrs.frozen
class Denied(
    ErrorKind,
    fixable_by="human",
    category="execution",
    error_type="permission",
    log_level="warning",
    example={"by": "policy"},
    body="refused",
):
    """A backend, a policy or a person refused the call.

    Attributes:
        by: Who refused, such as the name of the stage. It is for logs and reports; the model does not see it.
        message: Why, for the model. "": it gets a fixed text.
        details: Further facts of the failure, for the model.
        cause: The private exception; it is only logged. None: there is none.
    """

    kind: ClassVar[Literal["permission"]] = "permission"
    template_fields: ClassVar = {"message": "message"}
    by: str
    message: Public = ""
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)
    cause: BaseException | None = private()


@attrs.frozen
class AwaitingApproval(
    ErrorKind,
    fixable_by="human",
    category="execution",
    error_type="permission",
    log_level="info",
    example={"id": "apr_7f3c2a", "expires_at": 1_800_000_000.0},
    breaker="ignored",
    body="refused",
):
    """A person or a policy has to decide first. The call runs once it is approved, and it need not be sent again.

    Attributes:
        id: The id of the approval, by which a person decides.
        expires_at: When the question expires, in seconds since 1970-01-01 UTC. None: it does not.
        message: A text for the model in place of the fixed one. "": the fixed one.
    """

    kind: ClassVar[Literal["awaiting_approval"]] = "awaiting_approval"
    template_fields: ClassVar = {"message": "message"}
    id: str
    expires_at: float | None = None
    message: Public = attrs.field(default="", repr=False)


@attrs.frozen
class NeedsSetup(
    ErrorKind,
    fixable_by="operator",
    category="execution",
    error_type="permission",
    log_level="error",
    example={"service": "mail"},
):
    """Credentials or configuration are missing; neither the model nor the user can add them.

    Attributes:
        service: The service that is not set up.
        message: "": the model gets a fixed text.
        details: Further facts of the failure, for the model.
        cause: The private exception; it is only logged. None: there is none.
    """

    kind: ClassVar[Literal["configuration"]] = "configuration"
    template_fields: ClassVar = {"message": "message", "service": "service"}
    service: Public
    message: Public = ""
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)
    cause: BaseException | None = private()


@attrs.frozen
class TimedOut(
    ErrorKind,
    fixable_by="runtime",
    category="execution",
    error_type="timeout",
    log_level="error",
    example={"after": 30.0},
    breaker="failure",
):
    """The time limit was reached.

    Attributes:
        after: Seconds; None: a time limit inside the tool, of unknown length.
        still_running: In a thread, which cannot be ended.
        landed: Whether the call may have taken effect.
        retry_after: Seconds; None: not known.
        message: From the tool's author; "": the model gets a fixed text.
        details: Further facts of the failure, for the model.
        cause: The private exception; it is only logged. None: there is none.
    """

    kind: ClassVar[Literal["timeout"]] = "timeout"
    template_fields: ClassVar = {"seconds": "after"}
    after: float | None = None
    still_running: bool = False
    landed: Landed = "maybe"
    retry_after: float | None = attrs.field(default=None, repr=False)
    message: Public = attrs.field(default="", repr=False)
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)
    cause: BaseException | None = private()


@attrs.frozen
class Transient(
    ErrorKind,
    fixable_by="runtime",
    category="execution",
    error_type="execution",
    log_level="error",
    example={"retry_after": 5.0},
    breaker="failure",
):
    """The call may work later: a connection failed, a server is full, a status 503.

    Attributes:
        cause: The private exception; it is only logged. None: there is none.
        retry_after: Seconds; None: not known.
        landed: Whether the call may have taken effect.
        message: From the tool's author; "": the model gets a fixed text.
        details: Further facts of the failure, for the model.
    """

    kind: ClassVar[Literal["transient"]] = "transient"
    template_fields: ClassVar = {"seconds": "retry_after"}
    cause: BaseException | None = private(positional=True)
    retry_after: float | None = None
    landed: Landed = "maybe"
    message: Public = attrs.field(default="", repr=False)
    details: FailureDetails = attrs.field(default=NO_DETAILS, repr=False)


@attrs.frozen
class ExecutionFailed(
    ErrorKind,
    fixable_by="model",
    category="execution",
    error_type="execution",
    log_level="error",
    example={},
    body="ran",
):
    """The tool ran and reports that it failed.

    Attributes:
        message: "": the model gets a fixed text.
        details: Further facts of the failure, for the model.
        cause: The private exception; it is only logged. None: there is none.
    """

    kind: ClassVar[Literal["execution"]] = "execution"
    template_fields: ClassVar = _MESSAGE_AND_DETAILS
    message: Public = ""
    details: FailureDetails = NO_DETAILS
    cause: BaseException | None = private()


@attrs.frozen
class OutcomeUnknown(
    ErrorKind,
    fixable_by="model",
    category="execution",
    error_type="execution",
    log_level="error",
    example={"cause": TimedOut(30.0)},
    breaker="failure",
    body="ran",
):
    """The call of a mutating tool was lost and may have taken effect. It is never repeated.

    Attributes:
        cause: The private exception; it is only logged. None: there is none.
        verify_with: The tool that shows whether the call took effect; None: no such tool.
    """

    kind: ClassVar[Literal["outcome_unknown"]] = "outcome_unknown"
    template_fields: ClassVar = {"verify_with": "verify_with"}
    cause: TimedOut | Transient | None = None
    verify_with: str | None = None


@attrs.frozen
class Crashed(
    ErrorKind,
    fixable_by="nobody",
    category="internal",
    error_type="execution",
    log_level="error",
    example={},
    breaker="failure",
):
    """A bug, in the tool or in a stage. Its ``repr`` names the class of the cause, which may be known.

    Attributes:
        cause: The private exception; it is only logged. None: there is none.
    """

    kind: ClassVar[Literal["internal"]] = "internal"
    cause: BaseException | None = private(positional=True)

    @property
    def has_landed(self) -> bool:
        """Whether the call has taken effect all the same, as its cause says, such as a bug of an ``ensure=``."""
        return says_landed(self.cause)

    def __repr__(self) -> str:
        cause: object = self.cause
        named = cause.type_name if isinstance(cause, RemoteCause) else type(cause).__name__
        return "Crashed()" if cause is None else f"Crashed({named})"


ToolError: TypeAlias = (
    UnknownTool
    | Unavailable
    | NotExecuted
    | MalformedCall
    | InvalidParams
    | NeedsUserInput
    | ResourceNotFound
    | Denied
    | AwaitingApproval
    | NeedsSetup
    | TimedOut
    | Transient
    | ExecutionFailed
    | OutcomeUnknown
    | Crashed
)

ERROR_TYPES: frozenset[type[ToolError]] = frozenset(get_args(ToolError))
