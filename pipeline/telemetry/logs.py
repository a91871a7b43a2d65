"""The developer's log: a record for each failed call and each repeated attempt, and at debug level for every call.

Only the record of a failure may contain a private cause (the text or stack of an exception).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

from ..base import semconv
from ..base.foreign_values import safe_str
from ..base.options import check_type, refuse
from ..engine.errors import (
    ERROR_TYPES,
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    TimedOut,
    ToolError,
    Transient,
    UnknownTool,
)
from ..engine.report import CallReport, kind_of
from ..privacy import WITHHELD, get_logger, make_mask, make_safe
from .attributes import find_reason, list_problems, list_repairs
from .trace_context import read_agent

if TYPE_CHECKING:
    from ..engine.call import Call, ValidCall
    from ..privacy import Mask
    from ..tools.definition import Tool

logger = get_logger()
flow = get_logger("flow")  # a logger of its own, so that it can be switched on by itself
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_own_levels: dict[str, int] = {}  # by kind of error
_LEVEL_OF: dict[type[ToolError], int] = {}  # a cache, for classes whose level depends on nothing else
_MAX_TEXT = 200  # characters of a name or a cause, which a model or a backend may make of any length
_RUN_IN_LOOP = (
    'A tool that is no coroutine function runs in a thread of its own. Declare it with run_in="loop", or open the '
    "connection in the tool."
)
_WORDS = ("message", "question", "reason")  # of an author, for the model
_MAX_SHOWN = 1000  # pairs of tool and exception class to remember; classes may be created without end
_MAX_PLACES = 20  # of one class in one tool: a parser that recurses has a stack for each input
_MAX_CHAIN = 20  # exceptions of one crash whose lines count
_shown_bugs: dict[tuple[str, str], set[int]] = {}  # stacks and texts, by names of tool and of exception class
_OF_SETUP = ": SetupError"
_SAID = 3  # the argument of a record that describes the error
_TEXT_LINE = re.compile(r'File "([^"\n]*)", line (\d+)')  # in a stack that another process wrote


def log_failure(
    call: Call,
    tool: Tool[..., Any] | None,
    error: ToolError,
    mask: Mask | None = None,
    decided_by: str = "",
    note: str = "",
) -> None:
    """Log a failed call at the level of its kind of error, a crash with its stack.

    A failure with a message of the tool's author is a warning, because it was foreseen, and so is one with a
    ``retry_after``: a rate limit. `set_log_level` overrides both.

    If the application has not configured logging, only bugs are logged, each once: the first crash of each exception
    class and stack in each tool, and the first of each mistake of set-up (`SetupError`). They go to stderr (Python's
    handler of last resort), so that they do not stay invisible.

    Args:
        call: The call as it was sent.
        tool: The tool, or None if it was not found.
        error: The error of the call.
        mask: Masks the secrets of the call, and decides whether texts of others are logged. Default None: it has none.
        decided_by: The name of the stage that decided. Default "": not known.
        note: The note of that stage. Default "": none is known.
    """
    level = _find_level(error)
    if not logger.isEnabledFor(level):
        return
    name = None if tool is None else tool.name
    crash = error.cause if isinstance(error, Crashed) else None
    has_readers = logger.hasHandlers()
    if not has_readers and not isinstance(error, (Crashed, NeedsSetup)):
        return
    said = _describe(error, tool, mask)
    if not has_readers and not _is_new_bug(name or "", crash, said):
        return
    stack = None if crash is None else make_safe(crash, mask and mask.foreign)
    if stack is not None and tool is not None and tool.run_in == "thread" and _is_bound_to_thread(crash):
        stack.add_note(_RUN_IN_LOOP)
    logger.log(
        level,
        "Tool %s%s: %s%s (call %s)",
        _quote(call.name),
        f" (resolved to {_quote(name)})" if name is not None and name != call.name else "",
        error.kind,
        said,
        _quote(call.id),
        exc_info=(type(stack), stack, stack.__traceback__) if stack is not None else None,
        extra={semconv.ERROR_TYPE: error.kind, **_say_why(error, tool, decided_by, note), **_name_call(call, name)},
    )


def _is_bound_to_thread(crash: BaseException | None) -> bool:
    return type(crash).__module__ == "sqlite3" and "can only be used in that same thread" in safe_str(crash)


def _say_why(error: ToolError, tool: Tool[..., Any] | None, decided_by: str, note: str) -> dict[str, str]:
    """The stage that decided and its reason, as the call's span has them."""
    told = {semconv.DECIDED_BY: decided_by, semconv.REASON: find_reason(error, tool, decided_by) or note}
    return {name: value for name, value in told.items() if value}


def log_retry(call: ValidCall, error: ToolError, wait: float, reason: str) -> None:
    """Log a failed attempt that is repeated: at info level, or at a lower one that `set_log_level` gave its kind.

    It never raises, whatever the application's filters and handlers do.

    Args:
        call: The attempt that failed.
        error: The error of the attempt.
        wait: Seconds until the next attempt.
        reason: Why it is repeated.
    """
    level = min(logging.INFO, _own_levels.get(error.kind, logging.INFO))
    if not logger.isEnabledFor(level):
        return
    with suppress(Exception):
        tool = call.tool
        logger.log(
            level,
            "Tool %s: %s%s; attempt %d is repeated in %.3f s: %s (call %s)",
            _quote(tool.name),
            error.kind,
            _describe(error, tool, make_mask(call, tool)),
            call.attempt,
            wait,
            reason,
            _quote(call.id),
            extra={semconv.ERROR_TYPE: error.kind, semconv.ATTEMPT: call.attempt, **_name_call(call, tool.name)},
        )


def log_flow(report: CallReport) -> None:
    """Log a call at debug level: its stages with durations and verdicts, retry decisions, and repairs."""
    stages = ", ".join(
        f"{stage.name} {stage.seconds * 1000:.3f} ms{f' {stage.verdict}' if stage.verdict else ''}"
        for stage in report.stages
    )
    decisions = "".join(f"; attempt {decision.attempt}: {decision.reason}" for decision in report.decisions)
    repairs = "".join(f"; repaired {each}" for each in list_repairs(report))
    tool = report.tool.name if report.tool is not None else None
    flow.debug(
        "Tool %s: %s in %.3f ms (%s)%s%s (call %s)",
        _quote(report.call.name),
        "cancelled" if report.outcome is None else kind_of(report.outcome) or "success",
        report.seconds * 1000,
        stages,
        decisions,
        repairs,
        _quote(report.call.id),
        extra=_name_call(report.call, tool),
    )


def is_logged(error: ToolError) -> bool:
    """Whether the log level lets `log_failure` log this error."""
    return logger.isEnabledFor(_LEVEL_OF.get(type(error)) or _find_level(error))


def set_log_level(kind: str, level: int | None) -> None:
    """Set the level at which failures of one kind are logged, in the whole process.

    Args:
        kind: A kind of error, such as ``not_found``.
        level: A level of `logging`, such as ``logging.INFO``. None: the library's default.

    Raises:
        SetupError: The kind is unknown, or the level is not a number.
    """
    kinds = sorted(each.kind for each in ERROR_TYPES)
    if kind not in kinds:
        refuse("set_log_level", "kind", f"one of {', '.join(kinds)}", kind)
    check_type("set_log_level", "level", level, int, optional=True)
    if level is None:
        _own_levels.pop(kind, None)
    else:
        _own_levels[kind] = level
    _LEVEL_OF.clear()


def _find_level(error: ToolError) -> int:
    if (own := _own_levels.get(error.kind)) is not None:
        return own
    if isinstance(error, (ExecutionFailed, TimedOut, Transient)):
        asked_to_wait = not isinstance(error, ExecutionFailed) and error.retry_after is not None
        return logging.WARNING if error.message or asked_to_wait else _LEVELS[error.log_level]
    level = _LEVEL_OF[type(error)] = _LEVELS[error.log_level]
    return level


def _name_call(call: Call, tool: str | None) -> dict[str, Any]:
    """Return the extra fields of a record, under the attribute names of the conventions."""
    name = semconv.OTHER if tool is None else tool
    fields: dict[str, Any] = {semconv.TOOL_NAME: name, **read_agent(), **_trace_ids()}
    if call.id:
        fields[semconv.CALL_ID] = call.id
    if call.name != tool:
        fields[semconv.REQUESTED_NAME] = call.name
    return fields


def is_first_of_bug(record: logging.LogRecord) -> bool:
    """Whether a record of `log_failure` is the first of its bug, which stderr has where nothing reads the log."""
    tool: str = getattr(record, semconv.TOOL_NAME, "")
    crash = record.exc_info[1] if record.exc_info else None
    said = str(record.args[_SAID]) if isinstance(record.args, tuple) and len(record.args) > _SAID else ""
    return _is_new_bug("" if tool == semconv.OTHER else tool, crash, said)


def _is_new_bug(tool: str, crash: BaseException | None, said: str) -> bool:
    """Remember a crash by class and stack, a SetupError by text; return True if it is the first of its tool."""
    if crash is None and not said.startswith(_OF_SETUP):
        return False
    key = (tool, _OF_SETUP if crash is None else type(crash).__name__)
    places = _shown_bugs.get(key)
    if places is None:
        if len(_shown_bugs) >= _MAX_SHOWN:
            return False
        places = _shown_bugs[key] = set()
    place = hash(said if crash is None else frozenset(_list_lines(crash)))  # a set: recursion of any depth has one
    if place in places or len(places) >= _MAX_PLACES:
        return False
    places.add(place)
    return True


def _list_lines(crash: BaseException) -> Iterator[tuple[str, int]]:
    """Yield file and line of each frame of an exception, of those that led to it, and of the members of a group."""
    waiting: list[BaseException | None] = [crash]
    for exc in waiting:  # which grows
        if exc is None:
            continue
        traceback = exc.__traceback__
        if traceback is None:
            yield from ((file, int(line)) for file, line in _TEXT_LINE.findall(safe_str(exc)))
        while traceback is not None:
            yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
            traceback = traceback.tb_next
        members = (
            cast("BaseExceptionGroup[BaseException]", exc).exceptions if isinstance(exc, BaseExceptionGroup) else ()
        )
        shown = exc.__context__ if exc.__cause__ is None and not exc.__suppress_context__ else exc.__cause__
        waiting += [shown, *members][: max(0, _MAX_CHAIN - len(waiting))]


def _trace_ids() -> dict[str, str]:
    """Return the ids of the current span, as W3C Trace Context writes them; empty without a span."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}


def _describe(error: ToolError, tool: Tool[..., Any] | None, mask: Mask | None) -> str:
    """Return the facts of an error beyond its kind, with a colon before them; mostly empty."""
    if isinstance(error, InvalidParams):  # only declared names and rules: a name that the model made up is content
        words = [_quote(each.expected, mask) if each.rule == "validator" else "" for each in error.problems]
        problems = [
            f"{_quote(path) if path else 'arguments'} ({rule}{said and ': '}{said})"  # an author's check says more
            for (path, rule), said in zip(list_problems(error, tool), words, strict=False)
        ]
        more = f" and {rest} more" if (rest := len(error.problems) - len(problems)) else ""
        return f": {', '.join(problems)}{more}"
    if isinstance(error, UnknownTool):
        return f": did you mean {', '.join(map(_quote, error.suggestions))}?" if error.suggestions else ""
    if isinstance(error, MalformedCall):
        return f": {_quote(error.reason, mask)}" if error.reason else ""
    cause: object = getattr(error, "cause", None)
    cause = getattr(cause, "cause", None) or cause  # the cause of an OutcomeUnknown is an error with a cause
    if isinstance(error, Crashed):
        return "" if cause is None else f": {type(cause).__name__}"
    if isinstance(cause, BaseException):
        said = safe_str(cause)
        if mask is not None:  # of a ToolFailed its author's words are left
            shown = mask.foreign(said)
            said = mask(getattr(error, "message", "")) if shown == WITHHELD else shown
        return f": {type(cause).__name__}{said and f': {_quote(said)}'}"
    if isinstance(error, Denied):  # not its message, which may quote arguments
        return f": by {_quote(error.by)}"
    if error.kind == "unavailable":
        return f": {error.reason}"
    words = [getattr(error, name, "") for name in _WORDS]
    return "".join(f": {_quote(said, mask)}" for said in words if said)


def _quote(value: object, mask: Mask | None = None) -> str:
    """Return the value as one quoted line of limited length, so that no input can forge a line of the log."""
    text = safe_str(value)
    if mask is not None:
        text = mask(text)
    return repr(text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…")
