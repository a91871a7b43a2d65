"""ToolError: everything a tool call can come to short of success.

======================  ==================  ==========  ============  ==========  =======
kind                    class               fixable by  category      error type  log
======================  ==================  ==========  ============  ==========  =======
``unknown_tool``        UnknownTool         model       availability  not_found   warning
``unavailable``         Unavailable         runtime     availability  permission  warning
``not_executed``        NotExecuted         runtime     availability  execution   info
``malformed_call``      MalformedCall       model       parameter     validation  warning
``validation``          InvalidParams       model       parameter     validation  warning
``needs_input``         NeedsUserInput      human       parameter     validation  info
``not_found``           ResourceNotFound    model       execution     not_found   error
``permission``          Denied              human       execution     permission  warning
``configuration``       NeedsSetup          operator    execution     permission  error
``timeout``             TimedOut            runtime     execution     timeout     error
``transient``           Transient           runtime     execution     execution   error
``execution``           ExecutionFailed     model       execution     execution   error
``outcome_unknown``     OutcomeUnknown      model       execution     execution   error
``internal``            Crashed             nobody      internal      execution   error
======================  ==================  ==========  ============  ==========  =======

The union is closed: a ``match`` over it is proved complete by the type checkers. A third party's stage
refuses with ``Denied`` or ``Unavailable``, its open doors. A ``cause`` is private: it is in no ``repr``, no
text for a model and no span, and a pickle keeps only its type's name (see `RemoteCause`). What a model does see is
`Public`: the text of an exception is not of that type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from .privacy import Public, private

if TYPE_CHECKING:  # the checkers know what attrs makes, and need no more
    from attrs import frozen as error
else:
    from .privacy import error

FixableBy: TypeAlias = Literal["model", "runtime", "human", "operator", "nobody"]
Category: TypeAlias = Literal["availability", "parameter", "execution", "internal"]
ErrorType: TypeAlias = Literal["validation", "not_found", "permission", "execution", "timeout"]
LogLevel: TypeAlias = Literal["info", "warning", "error"]
# Did the side effect happen? "no": the body never began, or the tool said so. "maybe": it began and was lost.
Landed: TypeAlias = Literal["no", "maybe", "yes"]


class SetupError(TypeError, ValueError):
    """What a programmer did wrong at set-up; raised at once, never during a call.

    A stage out of place is a kind of TypeError and a name taken twice a kind of ValueError: catching either works.
    """


@error
class Problem:
    """One thing wrong with the arguments."""

    path: str  # as in ``filter.tags[1]``; "" is the whole
    # The JSON Schema keyword that it breaks (``required``, ``type``, ``minimum``…), or ``validator`` for its author's
    # own check. A name that the schema lets pass is told too, as ``additionalProperties``, where one is missing.
    rule: str
    expected: Public  # what is wanted, as in "an integer"; from the schema or from the author's own validator
    got: str = ""  # what came: the JSON type, and the value of a number or boolean; "" where nothing came
    suggestion: str = ""  # the one of the allowed names or values that is closest to what came, if one is close


@error
class Repair:
    """One thing that was put right in a call before it ran: an entry of the ledger."""

    path: str  # ``name`` for the tool's name, else as in `Problem.path`
    rule: str
    before: object
    after: object


@error
class FailureDetails:
    """What a tool's author adds to a failure, for the model."""

    parameter: str | None = None
    suggestion: Public | None = None


@error
class UnknownTool:
    """No tool has that name."""

    kind: ClassVar[Literal["unknown_tool"]] = "unknown_tool"
    fixable_by: ClassVar[FixableBy] = "model"
    category: ClassVar[Category] = "availability"
    error_type: ClassVar[ErrorType] = "not_found"
    log: ClassVar[LogLevel] = "warning"
    requested: str  # as the model spelt it; "" for what was no text at all
    suggestions: tuple[str, ...] = ()  # callable now, closest first, at most 3, only good ones
    available: tuple[str, ...] = ()  # all that are callable now, if they are few; else empty


@error
class Unavailable:
    """The tool exists and may not be called just now."""

    kind: ClassVar[Literal["unavailable"]] = "unavailable"
    fixable_by: ClassVar[FixableBy] = "runtime"
    category: ClassVar[Category] = "availability"
    error_type: ClassVar[ErrorType] = "permission"
    log: ClassVar[LogLevel] = "warning"
    tool: str
    reason: str  # disabled, paused, rate_limited, breaker_open, quota, busy, changed, …; not told to the model
    retry_after: float | None = None  # seconds


@error
class NotExecuted:
    """The call was held back: its batch stopped, or only a plan was asked for."""

    kind: ClassVar[Literal["not_executed"]] = "not_executed"
    fixable_by: ClassVar[FixableBy] = "runtime"
    category: ClassVar[Category] = "availability"
    error_type: ClassVar[ErrorType] = "execution"
    log: ClassVar[LogLevel] = "info"
    reason: Public  # told to the model


@error
class MalformedCall:
    """The arguments are no JSON object."""

    kind: ClassVar[Literal["malformed_call"]] = "malformed_call"
    fixable_by: ClassVar[FixableBy] = "model"
    category: ClassVar[Category] = "parameter"
    error_type: ClassVar[ErrorType] = "validation"
    log: ClassVar[LogLevel] = "warning"
    reason: Public  # told to the model
    position: tuple[int, int] | None = None  # line and column, both from 1
    truncated: bool = False  # the provider or the parser says that the text was cut off


@error
class InvalidParams:
    """The arguments break the tool's schema."""

    kind: ClassVar[Literal["validation"]] = "validation"
    fixable_by: ClassVar[FixableBy] = "model"
    category: ClassVar[Category] = "parameter"
    error_type: ClassVar[ErrorType] = "validation"
    log: ClassVar[LogLevel] = "warning"
    problems: tuple[Problem, ...]  # all of them, at least one
    repairs: tuple[Repair, ...] = ()  # of the tool's name; those of arguments are adopted only where all is well then
    # A later text compares with these and takes an example from them; neither is shown itself.
    sent: object = private()  # the arguments as they were parsed: as the model wrote them
    schema: Mapping[str, Any] | None = private()


@error
class NeedsUserInput:
    """Only the user knows what is missing: ask, never guess."""

    kind: ClassVar[Literal["needs_input"]] = "needs_input"
    fixable_by: ClassVar[FixableBy] = "human"
    category: ClassVar[Category] = "parameter"
    error_type: ClassVar[ErrorType] = "validation"
    log: ClassVar[LogLevel] = "info"
    question: Public
    parameter: str | None = None


@error
class ResourceNotFound:
    """The tool ran, and what it was pointed at does not exist."""

    kind: ClassVar[Literal["not_found"]] = "not_found"
    fixable_by: ClassVar[FixableBy] = "model"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "not_found"
    log: ClassVar[LogLevel] = "error"
    message: Public = ""  # approved by the tool's author; "" has a fixed text
    details: FailureDetails = FailureDetails()
    cause: BaseException | None = private()


@error
class Denied:
    """Someone said no: a backend, a policy, a person."""

    kind: ClassVar[Literal["permission"]] = "permission"
    fixable_by: ClassVar[FixableBy] = "human"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "permission"
    log: ClassVar[LogLevel] = "warning"
    by: str  # who refused; not told to the model
    message: Public = ""  # approved for the model; "" has a fixed text
    cause: BaseException | None = private()


@error
class NeedsSetup:
    """Credentials or configuration are missing; nobody in the conversation can mend that."""

    kind: ClassVar[Literal["configuration"]] = "configuration"
    fixable_by: ClassVar[FixableBy] = "operator"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "permission"
    log: ClassVar[LogLevel] = "error"
    service: Public
    message: Public = ""  # approved for the model; "" has a fixed text
    cause: BaseException | None = private()


@error
class TimedOut:
    """The time was up."""

    kind: ClassVar[Literal["timeout"]] = "timeout"
    fixable_by: ClassVar[FixableBy] = "runtime"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "timeout"
    log: ClassVar[LogLevel] = "error"
    after: float | None = None  # seconds; None: the tool's own time-out, of unknown length
    still_running: bool = False  # a thread that cannot be ended, only left behind
    landed: Landed = "maybe"
    cause: BaseException | None = private()


@error
class Transient:
    """It may work later: a connection, a full server, a 503."""

    kind: ClassVar[Literal["transient"]] = "transient"
    fixable_by: ClassVar[FixableBy] = "runtime"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "execution"
    log: ClassVar[LogLevel] = "error"
    cause: BaseException | None = private(positional=True)
    retry_after: float | None = None  # seconds
    landed: Landed = "maybe"


@error
class ExecutionFailed:
    """The tool ran and says that it failed."""

    kind: ClassVar[Literal["execution"]] = "execution"
    fixable_by: ClassVar[FixableBy] = "model"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "execution"
    log: ClassVar[LogLevel] = "error"
    message: Public = ""  # approved by the tool's author; "" has a fixed text
    details: FailureDetails = FailureDetails()
    cause: BaseException | None = private()


@error
class OutcomeUnknown:
    """The call of a mutating tool was lost on its way, and may have taken effect. Never repeated."""

    kind: ClassVar[Literal["outcome_unknown"]] = "outcome_unknown"
    fixable_by: ClassVar[FixableBy] = "model"
    category: ClassVar[Category] = "execution"
    error_type: ClassVar[ErrorType] = "execution"
    log: ClassVar[LogLevel] = "error"
    cause: TimedOut | Transient | None = None
    verify_with: str | None = None  # the tool that tells whether it landed


@error
class Crashed:
    """A bug, in the tool or in a stage."""

    kind: ClassVar[Literal["internal"]] = "internal"
    fixable_by: ClassVar[FixableBy] = "nobody"
    category: ClassVar[Category] = "internal"
    error_type: ClassVar[ErrorType] = "execution"
    log: ClassVar[LogLevel] = "error"
    cause: BaseException | None = private(positional=True)


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

KINDS: frozenset[type] = frozenset(get_args(ToolError))
