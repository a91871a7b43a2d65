"""ToolError: everything that a tool call can fail with, as a closed union of classes.

The type checkers prove that a ``match`` over the union is complete. A stage of your own refuses a call with `Denied` or
`Unavailable`. The facts about a kind of error are the arguments of its class, see `ErrorKind`; the guide in
``pipeline/messages`` has them in one table. A ``cause`` is private: its text is in no ``repr``, no span and no text for
the model, and a pickle keeps only the name of its type (`RemoteCause`). A text for the model has the type `Public`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import attrs

from .error_kind import ErrorKind
from .privacy import Public, RemoteCause, private

# Whether the side effect happened. "no": the body never began, or the tool says that nothing happened. "maybe": the
# body began, and nothing is known. "yes": the tool succeeded, or says that it happened.
Landed: TypeAlias = Literal["no", "maybe", "yes"]
_MESSAGE_AND_DETAILS = {"message": "message", "parameter": "details.parameter", "suggestions": "details.suggestion"}


class SetupError(TypeError, ValueError):
    """A programmer's mistake at set-up. Raised at once, never during a call.

    It is a TypeError and a ValueError, so ``except TypeError`` and ``except ValueError`` catch it too.
    """


@attrs.frozen
class Problem:
    """One thing wrong with the arguments."""

    path: str  # such as ``filter.tags[1]``; "": the arguments as a whole
    # The JSON Schema keyword that is violated (``required``, ``type``, ``minimum``…), or ``validator`` for the author's
    # own check. ``additionalProperties`` also marks an undeclared name that the schema permits, if one is missing.
    rule: str
    expected: Public  # such as "an integer"; from the schema, or from the author's own validator
    got: str = ""  # the JSON type of the value, or a number or boolean itself; "": no value came
    suggestion: str = ""  # the permitted name or value that is closest to the one that came; "": none is close


@attrs.frozen
class Repair:
    """One correction of a call before the tool ran."""

    path: str  # ``name`` for the tool's name, else as `Problem.path`
    rule: str
    before: object
    after: object


@attrs.frozen
class FailureDetails:
    """The part of a failure that the tool's author adds, for the model."""

    parameter: str | None = None  # the argument that caused the failure; None: no single one
    suggestion: Public | None = None  # the next step for the model; None: none
    constraint: Public | None = attrs.field(
        default=None, repr=False
    )  # what the argument must be, such as "at most 100"; None: not said
    value: object = attrs.field(default=None, repr=False, hash=False)  # what the argument was; None: not said
    retry_after: float | None = attrs.field(
        default=None, repr=False
    )  # seconds until another call makes sense; None: not known
    more: Mapping[str, object] = attrs.field(factory=dict[str, object], repr=False, hash=False)  # further facts by name


_NO_DETAILS = FailureDetails()


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
    """No tool has the name that the model asked for."""

    kind: ClassVar[Literal["unknown_tool"]] = "unknown_tool"
    template_fields: ClassVar = {
        "tool": "requested",
        "suggestions": "suggestions",
        "available": "available",
        "count": "count",
    }
    requested: str  # as the model spelt it; "": the name was not a text
    suggestions: tuple[str, ...] = ()  # at most 3 similar names that may be called now, closest first
    available: tuple[str, ...] = ()  # all names that may be called now; empty if they are more than are listed
    # How many tools may be called now, if ``available`` does not list them. None: not known.
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
    """The tool exists, but may not be called now."""

    kind: ClassVar[Literal["unavailable"]] = "unavailable"
    template_fields: ClassVar = {"tool": "tool", "reason": "reason", "seconds": "retry_after"}
    tool: str
    reason: str  # disabled, paused, rate_limited, breaker_open, quota, busy, changed, …; a text may say it in words
    retry_after: float | None = None  # seconds; None: not known
    message: Public = attrs.field(default="", repr=False)  # from the tool's author; "": the model gets a fixed text
    details: FailureDetails = attrs.field(default=_NO_DETAILS, repr=False)


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
    """The body did not run: its batch ended first, an earlier run of it goes on, or only a plan was asked for."""

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
    """The arguments are not a JSON object."""

    kind: ClassVar[Literal["malformed_call"]] = "malformed_call"
    template_fields: ClassVar = {"reason": "reason"}
    reason: Public
    position: tuple[int, int] | None = None  # line and column, both from 1
    truncated: bool = False  # the provider or the parser reports that the text was cut off
    schema: Mapping[str, Any] | None = private()  # for the form of valid arguments


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
    """The arguments violate the tool's schema."""

    kind: ClassVar[Literal["validation"]] = "validation"
    problems: tuple[Problem, ...]  # all of them, at least one
    repairs: tuple[Repair, ...] = ()  # of the tool's name; arguments are repaired only if all of them are valid then
    sent: object = private()  # the arguments as the model wrote them; compared with the next failure's
    details: FailureDetails = attrs.field(
        default=_NO_DETAILS, repr=False
    )  # what a tool that refuses its arguments adds
    schema: Mapping[str, Any] | None = private()  # for the form of valid arguments


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
    """Only the user knows what is missing: the model has to ask, not to guess."""

    kind: ClassVar[Literal["needs_input"]] = "needs_input"
    template_fields: ClassVar = {"question": "question", "parameter": "parameter"}
    question: Public
    parameter: str | None = None
    details: FailureDetails = attrs.field(default=_NO_DETAILS, repr=False)


@attrs.frozen
class ResourceNotFound(
    ErrorKind, fixable_by="model", category="execution", error_type="not_found", log_level="warning", example={}
):
    """The tool ran, and what it should work on does not exist."""

    kind: ClassVar[Literal["not_found"]] = "not_found"
    template_fields: ClassVar = _MESSAGE_AND_DETAILS
    message: Public = ""  # "": the model gets a fixed text
    details: FailureDetails = FailureDetails()
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
    """A backend, a policy or a person refused the call."""

    kind: ClassVar[Literal["permission"]] = "permission"
    template_fields: ClassVar = {"message": "message"}
    by: str  # who refused; the model does not see it
    message: Public = ""  # "": the model gets a fixed text
    details: FailureDetails = attrs.field(default=_NO_DETAILS, repr=False)
    cause: BaseException | None = private()


@attrs.frozen
class NeedsSetup(
    ErrorKind,
    fixable_by="operator",
    category="execution",
    error_type="permission",
    log_level="error",
    example={"service": "mail"},
):
    """Credentials or configuration are missing; neither the model nor the user can add them."""

    kind: ClassVar[Literal["configuration"]] = "configuration"
    template_fields: ClassVar = {"message": "message", "service": "service"}
    service: Public
    message: Public = ""  # "": the model gets a fixed text
    details: FailureDetails = attrs.field(default=_NO_DETAILS, repr=False)
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
    """The time limit was reached."""

    kind: ClassVar[Literal["timeout"]] = "timeout"
    template_fields: ClassVar = {"seconds": "after"}
    after: float | None = None  # seconds; None: a time limit inside the tool, of unknown length
    still_running: bool = False  # in a thread, which cannot be ended
    landed: Landed = "maybe"
    retry_after: float | None = attrs.field(default=None, repr=False)  # seconds; None: not known
    message: Public = attrs.field(default="", repr=False)  # from the tool's author; "": the model gets a fixed text
    details: FailureDetails = attrs.field(default=_NO_DETAILS, repr=False)
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
    """The call may work later: a connection failed, a server is full, a status 503."""

    kind: ClassVar[Literal["transient"]] = "transient"
    template_fields: ClassVar = {"seconds": "retry_after"}
    cause: BaseException | None = private(positional=True)
    retry_after: float | None = None  # seconds; None: not known
    landed: Landed = "maybe"
    message: Public = attrs.field(default="", repr=False)  # from the tool's author; "": the model gets a fixed text
    details: FailureDetails = attrs.field(default=_NO_DETAILS, repr=False)


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
    """The tool ran and reports that it failed."""

    kind: ClassVar[Literal["execution"]] = "execution"
    template_fields: ClassVar = _MESSAGE_AND_DETAILS
    message: Public = ""  # "": the model gets a fixed text
    details: FailureDetails = FailureDetails()
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
    """The call of a mutating tool was lost and may have taken effect. It is never repeated."""

    kind: ClassVar[Literal["outcome_unknown"]] = "outcome_unknown"
    template_fields: ClassVar = {"verify_with": "verify_with"}
    cause: TimedOut | Transient | None = None
    verify_with: str | None = None  # the tool that shows whether the call took effect; None: no such tool


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
    """A bug, in the tool or in a stage. Its ``repr`` names the class of the cause, which may be known."""

    kind: ClassVar[Literal["internal"]] = "internal"
    cause: BaseException | None = private(positional=True)

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
    | NeedsSetup
    | TimedOut
    | Transient
    | ExecutionFailed
    | OutcomeUnknown
    | Crashed
)

ERROR_TYPES: frozenset[type[ToolError]] = frozenset(get_args(ToolError))
