"""Classify an exception of a tool as a kind of error. Its text is private unless the tool reveals it.

The first of these that knows the exception decides:

=====================================================  ====================================================
a `ToolFailed`                                         the kind that it names, with all that it says
``errors=`` of the tool                                what the user says
``errors=`` of the pipeline                            what the user says
the type, as in `toolcall_pipeline.tools.client_exceptions`     ConnectionError and the like are ``transient``,
                                                       TimeoutError and the like ``timeout``, PermissionError
                                                       ``permission``, FileNotFoundError ``not_found``, other noes of
                                                       a file system ``execution``, …
an HTTP status 401                                     ``configuration``
an HTTP status 403                                     ``permission``; with headers of a rate limit as 429
an HTTP status 404 or 410                              ``not_found``
an HTTP status 408, 425, 429 or 5xx                    ``transient``, with the wait that the service asks for
any other HTTP status 4xx                              ``execution``
a type in ``reveal=``                                  ``execution``
anything else, such as ValueError and KeyError         ``internal``: it stays a crash
=====================================================  ====================================================

``reveal=`` also lets the model see the text of an exception whose kind another line decides. An exception group counts
as the exceptions in it, if they all mean the same kind. For a mutating tool none of this says that nothing happened:
another request of the same body may have taken effect. Only `ToolFailed` and ``errors=`` of the tool can say so, and
of a tool with ``one_request=True`` a 429, a refused connection and a name that has no address.

Of a tool that declares secrets ``reveal=`` lets no text pass, for an exception may hold a secret in any code.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from ..base.foreign_values import or_default
from ..base.setup_error import SetupError
from ..engine.errors import Crashed, ExecutionFailed, TimedOut, ToolError, Transient
from ..privacy import ForeignText, PublicText, approved, withholds
from .client_exceptions import WITHOUT_MEANING, find_meaning
from .definition import Tool
from .error_tables import ErrorTable, build_error, declared
from .failure import ToolFailed
from .http_failures import read_wait

Reveal: TypeAlias = tuple[type[BaseException], ...]
_MAX_DEPTH = 20  # groups within groups


def classify(
    error: Crashed,
    tool: Tool[..., Any],
    now: float,
    errors: ErrorTable | None = None,
    foreign_text: ForeignText = "withhold",
) -> ToolError:
    """Find the error that an exception means.

    Args:
        error: A crash, with the exception as its cause.
        tool: The tool that raised it.
        now: Seconds since the epoch, for a ``Retry-After`` that is a date.
        errors: The table of the pipeline. Default None: none.
        foreign_text: Whether ``reveal=`` counts for a tool that declares secrets: "mask" says so. Default "withhold".

    Returns:
        An error by the table above, with the exception as its private cause. ``error`` itself if it stays a crash.
    """
    if error.cause is None:
        return error
    own = tool.errors
    tables = () if own is None and errors is None else tuple(each for each in (own, errors) if each is not None)
    reveal = () if withholds(tool, foreign_text) else tool.reveal
    found = _free(_classify(error.cause, tool, now, tables, reveal, _MAX_DEPTH), tool)
    return error if found is None or (type(found) is Crashed and found.cause is error.cause) else found


@or_default(default=False)
def stays_crash(error: Crashed, tool: Tool[..., Any]) -> bool:
    """Return True if the class alone shows that `classify` without a pipeline's table returns the crash itself.

    False where only `classify` can decide. A tool that crashes mostly does so again with the same class of exception.
    """
    cause = error.cause
    if cause is None or tool.errors is not None or tool.reveal:
        return False
    return type(cause) in WITHOUT_MEANING and not cause.__dict__  # nothing was set on it, such as a status


def classify_own(error: Crashed, tool: Tool[..., Any], foreign_text: ForeignText = "withhold") -> ToolError | None:
    """The error that the tool's own ``errors=`` has for a crash; None: it has none, and others may decide."""
    if tool.errors is None or error.cause is None or isinstance(error.cause, SetupError):  # that is not from the tool
        return None
    single = _unwrap(error.cause)
    reveal = () if withholds(tool, foreign_text) else tool.reveal
    if isinstance(single, ToolFailed):
        return None
    return _free(tool.errors.find(single, tool.name, read_text(single, reveal)), tool)


def _free(error: ToolError | None, tool: Tool[..., Any]) -> ToolError | None:
    """The error, with ``landed`` "no" where it leaves that open and its exception proves it."""
    if isinstance(error, (TimedOut, Transient)) and error.landed == "maybe" and tool.proves_no_effect(error):
        return error.changed(landed="no")
    return error


@or_default(approved(""))
def read_text(exc: BaseException, reveal: Reveal) -> PublicText:
    """The text of an exception, if the tool's author approves it with ``reveal=``, else ""."""
    if not (reveal and isinstance(exc, reveal)):
        return PublicText("")
    if type(exc).__module__.startswith("pydantic") and callable(errors := getattr(exc, "errors", None)):
        # str(exc) would hold class names of the author and a link to pydantic's pages: not approved.
        problems: Any = errors(include_url=False, include_context=False, include_input=False)
        return approved("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems))
    return approved(str(exc))


def _classify(
    exc: BaseException, tool: Tool[..., Any], now: float, tables: tuple[ErrorTable, ...], reveal: Reveal, depth: int
) -> ToolError | None:
    """The error; None: it is a crash."""
    exc = _unwrap(exc)
    if isinstance(exc, ToolFailed):
        return declared(exc, tool.name)
    text = read_text(exc, reveal)
    for table in tables:
        if (found := table.find(exc, tool.name, text, now)) is not None:
            return found
    if isinstance(exc, BaseExceptionGroup):
        return _classify_group(cast("BaseExceptionGroup[BaseException]", exc), tool, now, tables, reveal, depth)
    meaning = find_meaning(exc)
    if meaning is None or meaning.kind == "internal":
        return ExecutionFailed(text, cause=exc) if tool.reveal and isinstance(exc, tool.reveal) else None
    return build_error(meaning.kind, tool.name, text or meaning.text, retry_after=read_wait(meaning, now), cause=exc)


def _classify_group(
    group: BaseExceptionGroup[BaseException],
    tool: Tool[..., Any],
    now: float,
    tables: tuple[ErrorTable, ...],
    reveal: Reveal,
    depth: int,
) -> ToolError | None:
    found = [_classify(each, tool, now, tables, reveal, depth - 1) for each in group.exceptions] if depth else [None]
    # In front those that may have landed: of a pair of requests, one may have taken effect.
    first, *others = sorted(found, key=lambda error: getattr(error, "landed", "no") == "no")
    return first if all(type(each) is type(first) for each in others) else None


def _unwrap(exc: BaseException) -> BaseException:
    """The only exception of a group, which a task group makes of it; a group of several stays itself."""
    while isinstance(exc, BaseExceptionGroup):
        first, *others = cast("BaseExceptionGroup[BaseException]", exc).exceptions
        if others:
            break
        exc = first
    return cast("BaseException", exc)
