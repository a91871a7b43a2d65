"""``errors=``, a user's table of exceptions for a tool or a pipeline; and the error that a kind and its parts make."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, cast, get_args

import attrs

from ..base.introspection import is_async
from ..base.setup_error import SetupError
from ..base.timing import wall_time
from ..engine.errors import (
    ERROR_TYPES,
    NO_DETAILS,
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    Landed,
    NeedsSetup,
    NeedsUserInput,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
)
from ..privacy import PublicText, approved, get_logger
from .failure import FailureKind, ToolFailed, as_public
from .http_failures import Kind, read_status, read_wait

# A kind; a ToolFailed, which says all, such as ``ToolFailed("No such issue", kind="not_found", landed=False)``; or a
# function of the exception, or of the exception and the name of the tool, that returns one of these, an error, or None:
# the next table decides.
Meaning: TypeAlias = "Kind | ToolError | ToolFailed | None"
ErrorEntry: TypeAlias = Kind | ToolFailed | Callable[[Any], Meaning] | Callable[[Any, str], Meaning]
# By an exception's type, or by its name: "package.Class", as in "httpx.ConnectError".
Errors: TypeAlias = Mapping[type[Exception] | str, ErrorEntry]

KINDS: tuple[str, ...] = (*get_args(FailureKind), "internal")
_logger = get_logger()
_WITH_WAIT: tuple[Kind, ...] = ("unavailable", "timeout", "transient")  # these have a field of their own for it


def not_begun(exc: BaseException) -> Transient:
    """For ``errors={httpx.ConnectError: not_begun}`` of a tool whose only request this is: nothing happened.

    The call may then be repeated, even for a mutating tool. In the table of a pipeline it counts as "may have
    happened": of a tool that sends two requests, the first may have taken effect when the second is refused.
    """
    return Transient(exc, landed="no")


@attrs.frozen
class ErrorTable:
    """A checked ``errors=``. The entry of the exception's own class decides, else the entry of its nearest base.

    Attributes:
        owner: The tool or stage whose option it is, for error texts.
        entries: The table, by types of exceptions or their names.
        by_name: Whether some entries are names.
    """

    owner: str
    entries: Mapping[type[Exception] | str, ErrorEntry]
    by_name: bool

    @staticmethod
    def of(owner: str, errors: Errors | None) -> ErrorTable | None:
        """Check a table.

        Args:
            owner: The tool or stage whose option it is, for error texts.
            errors: The table. None and an empty one: there is none.

        Raises:
            SetupError: An entry is not valid.
        """
        if errors is None:
            return None
        if not isinstance(cast("object", errors), Mapping):
            raise SetupError(f"{owner}: `errors` must map exception types to kinds or functions, not {errors!r}")
        table = dict(errors)
        for key, entry in table.items():
            _check_key(owner, key)
            _check_entry(owner, key, entry)
        return ErrorTable(owner, table, any(isinstance(key, str) for key in table)) if table else None

    def find(self, exc: BaseException, tool: str, text: PublicText, now: float | None = None) -> ToolError | None:  # noqa: C901  # one case for each kind of entry
        """Return the error that the table has for an exception. Never raises.

        Args:
            exc: The exception that the tool raised.
            tool: The name of the tool.
            text: The exception's text, if a model may see it, else "".
            now: Seconds since the epoch, for a ``Retry-After`` that is a date. Default None: the current time.

        Returns:
            None without an entry, or if its function returns None. A crash with the mistake as its cause, if the
            function fails.
        """
        entry: Any = self._find_entry(type(exc))
        if entry is None:
            return None
        found: Any = entry
        if callable(entry):
            try:
                found = entry(exc, tool) if _takes_tool(entry) else entry(exc)
            except ToolFailed as failed:
                return declared(failed, tool)
            except Exception as mistake:  # noqa: BLE001  # the border to the user's function
                if mistake.__cause__ is None and mistake is not exc:
                    mistake.__cause__ = exc  # for the log
                return Crashed(mistake)
        if found is None:
            return None
        if isinstance(found, ToolFailed):
            return declared(found, tool)
        if type(found) in ERROR_TYPES:
            return cast("ToolError", found)
        if isinstance(found, str) and found in KINDS:
            meaning = read_status(exc)
            seconds = meaning and read_wait(meaning, wall_time() if now is None else now)
            return build_error(cast("Kind", found), tool, text, retry_after=seconds, cause=exc)
        if inspect.iscoroutine(found):
            found.close()
        wrong = TypeError(f"{self.owner}: a function in `errors` must return a kind or an error, not {type(found)}")
        wrong.__cause__ = exc
        return Crashed(wrong)

    def _find_entry(self, cls: type[BaseException]) -> ErrorEntry | None:
        for each in cls.__mro__:
            entry = self.entries.get(cast("type[Exception]", each))
            if entry is None and self.by_name:
                module, name = str(each.__module__), each.__qualname__
                entry = self.entries.get(f"{module}.{name}") or self.entries.get(f"{module.partition('.')[0]}.{name}")
            if entry is not None:
                return entry
        return None


def declared(failed: ToolFailed, tool: str) -> ToolError:
    """The error that a ToolFailed is. One of a kind that there is not counts as ``execution``, and the log says so."""
    said: Any = failed  # a subclass may have skipped our __init__
    known: Any = getattr(said, "kind", "execution")
    is_known = isinstance(known, str) and known in KINDS
    kind: Kind = cast("Kind", known) if is_known else "execution"
    if not is_known and _logger.hasHandlers():
        shown: object = known if isinstance(known, str) else type(cast("object", known))
        _logger.error("Tool %.200r: ToolFailed has no kind %.100r; it has: %s", tool, shown, ", ".join(KINDS))
    landed: Any = getattr(said, "landed", None)
    details = getattr(said, "details", None)
    return build_error(
        kind,
        tool,
        as_public(getattr(said, "message", failed)) or PublicText(""),
        details if type(details) is FailureDetails else NO_DETAILS,
        landed=landed if landed in get_args(Landed) else "maybe",
        cause=failed,
    )


def _check_key(owner: str, key: object) -> None:
    if isinstance(key, str):
        if not all(part.isidentifier() for part in key.split(".")) or "." not in key:
            raise SetupError(f"{owner}: `errors` must name a class as 'package.Class', not {key!r}")
    elif not (isinstance(key, type) and issubclass(key, Exception)):
        raise SetupError(f"{owner}: `errors` must map exception types or their names, not {key!r}")
    elif issubclass(key, ToolFailed):
        raise SetupError(f"{owner}: `errors` must not have {key.__name__}: a ToolFailed says its kind itself")


@lru_cache(maxsize=1_000)
def _takes_tool(entry: Callable[..., Any]) -> bool:
    """Whether a function of the exception has a second parameter without a default, for the name of the tool."""
    try:
        parameters = inspect.signature(entry).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    wanted = [each for each in parameters if each.kind in _BY_PLACE and each.default is each.empty]
    return len(wanted) > 1


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _check_entry(owner: str, key: object, entry: object) -> None:
    name = key.__name__ if isinstance(key, type) else key
    if (isinstance(entry, str) and entry in KINDS) or isinstance(entry, ToolFailed):
        return
    if isinstance(entry, type) or not callable(entry) or is_async(entry):
        raise SetupError(
            f"{owner}: `errors` must map {name} to a kind ({', '.join(KINDS)}) or to a sync function of the "
            f"exception, not to {entry!r}"
        )


def without_texts(error: Any, tool: str) -> ToolError:
    """The error of the same kind with its fixed text: what others said may hold a secret in any code."""
    if type(error) is Crashed:  # for Classify
        return error
    details: FailureDetails = getattr(error, "details", NO_DETAILS)
    return build_error(
        error.kind if error.kind in KINDS else "execution",
        tool,
        PublicText(""),
        retry_after=getattr(error, "retry_after", None) or details.retry_after,
        landed=getattr(error, "landed", "maybe"),
        cause=getattr(error, "cause", None),
    )


def build_error(  # noqa: C901  # one case for each kind
    kind: Kind,
    tool: str,
    message: PublicText,
    details: FailureDetails = NO_DETAILS,
    *,
    retry_after: float | None = None,
    landed: Landed = "maybe",
    cause: BaseException | None = None,
) -> ToolError:
    """Make the error of a kind; no part is lost in any of them.

    Args:
        kind: The kind. An unknown one counts as ``execution``.
        tool: The name of the tool.
        message: The text for the model. "": the fixed text of the kind.
        details: The facts beside the text. Default: none.
        retry_after: Seconds until another call makes sense. Default None: from the details.
        landed: Whether the side effect happened. Default: it may have.
        cause: The exception, for the log. Default None: none.
    """
    wait = details.retry_after if retry_after is None else retry_after
    if kind in _WITH_WAIT:
        details = _without("retry_after", details)
    elif retry_after is not None:
        details = attrs.evolve(details, retry_after=retry_after)
    match kind:
        case "not_found":
            return ResourceNotFound(message, details, cause=cause)
        case "permission":
            return Denied(tool, message, details, cause=cause)
        case "configuration":
            return NeedsSetup(approved(tool), message, details, cause=cause)
        case "needs_input":
            rest = _without("parameter", details)  # it has a field of its own
            return NeedsUserInput(message or "What is missing to carry this out?", details.parameter, rest)
        case "validation":
            text = message or "the tool refused it"
            problem = Problem(details.parameter or "", "validator", text)
            return InvalidParams((problem,), details=_without("parameter", details))
        case "unavailable":
            return Unavailable(tool, "busy", wait, message, details, body_landed=landed)
        case "timeout":
            return TimedOut(None, landed=landed, retry_after=wait, message=message, details=details, cause=cause)
        case "transient":
            return Transient(cause, wait, landed, message, details)
        case "internal":
            return Crashed(cause)
        case _:
            return ExecutionFailed(message, details, cause=cause)


def _without(name: str, details: FailureDetails) -> FailureDetails:
    """Return the details without one of them. `evolve` is slow, and most details do not have it."""
    changes: dict[str, Any] = {name: None}
    return details if getattr(details, name) is None else attrs.evolve(details, **changes)
