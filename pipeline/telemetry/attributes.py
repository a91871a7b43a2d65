"""The attributes of the spans of calls and attempts: those known at the start, and those known at the end.

Failures are told by names of classes, declared parameters and rules, without content: the text of a private cause, a
value, or a name that a model made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from opentelemetry.trace import Span, SpanKind, StatusCode

from ..base import semconv
from ..base.foreign_values import FaultBarrier
from ..engine.call import Call
from ..engine.call_state import StateKey
from ..engine.errors import Denied, InvalidParams, MalformedCall, Repair, TimedOut, Unavailable
from ..engine.report import NO_EXECUTOR, CallReport, LiveReport, find_decision, kind_of
from ..privacy import RemoteCause, get_logger
from ..privacy.secret_places import show_paths
from ..tools.definition import Tool

# Further attributes of the span of a call, from who made it, such as a server.
OF_CALL: StateKey[Mapping[str, str]] = StateKey("toolcall-pipeline.span-attributes")
# The name and the attributes at the start of a call span. A sampler decides by both, so they are final. A plain tuple:
# unpacking a NamedTuple takes three times as long.
SpanStart: TypeAlias = tuple[str, Mapping[str, str | int]]

_MAX_REPAIRS = 20  # of one call
_OF_THE_NAME = frozenset(("alias", "canonical_name", "provider_name", "transport_noise"))  # rules for the tool's name
_MAX_DESCRIPTION = 1_000  # characters
INTERNAL = SpanKind.INTERNAL
Facts: TypeAlias = Mapping[str, str | list[str]]
NO_FACTS: Facts = {}
_logger = get_logger()
_DESCRIBES = FaultBarrier(_logger, "A failure could not be described")
_ENDS = FaultBarrier(_logger, "A span could not be ended", BaseException)  # span processors are foreign code
_MAX_PROBLEMS = 20  # per call
_MAX_STATUS = 1_000  # characters
_MAX_RULE = 40  # characters
_OF_A_CHECK = "validator"  # the rule of a validator of the tool's author
# Reasons why a tool may not be called now. Any other reason is a text of its author and may contain anything.
_REASONS = frozenset(
    (
        "disabled",
        "paused",
        "unregistered",
        "rate_limited",
        "breaker_open",
        "quota",
        "busy",
        "changed",
        "disconnected",
        "unlisted",
        "store_away",
        "not_open",
        "approvals cannot be reached",
        "approvals are not open in this process, or its lease ended",
        "the audit cannot be reached",
        "the ledger cannot be reached",
        "the ledger is not open in this process, or its lease ended",
        "the lease of this process ended",
        "this very call still runs; its result is not known yet",
    )
)
_MAX_NAME = 128  # characters of a name or an id, which a model or a provider may make of any length


def make_span_start(tool: str, description: str = "") -> SpanStart:
    """Return the `SpanStart` for calls of that tool."""
    attributes = _start_attributes(tool)
    if description:
        attributes[semconv.TOOL_DESCRIPTION] = to_wire_text(description, _MAX_DESCRIPTION)
    return f"{semconv.EXECUTE_TOOL} {tool}", attributes


def step_back(name: str, attributes: Mapping[str, str | int]) -> SpanStart:
    """Return the `SpanStart` of a call that a framework makes an ``execute_tool`` span for: it is counted there."""
    rest = {key: value for key, value in attributes.items() if key != semconv.OPERATION}
    return name.replace(semconv.EXECUTE_TOOL, semconv.HOSTED_CALL, 1), rest


def _start_attributes(tool: str) -> dict[str, str | int]:
    # Nearly every call has one attempt. Setting that at the start, and correcting it for the others at the end, costs a
    # tenth of a span less than setting it at the end of every call.
    return {
        semconv.OPERATION: semconv.EXECUTE_TOOL,
        semconv.TOOL_NAME: tool,
        semconv.TOOL_TYPE: semconv.FUNCTION,
        semconv.ATTEMPTS: 1,
    }


@lru_cache(maxsize=1_000)  # a lookup takes a fifth of the time, and the attempts of a tool differ little
def make_attempt_start(  # the arguments are the key of the cache
    number: int, tool: str | None, effect: str | None, executor: str | None, landed: str | None
) -> SpanStart:
    """Return the name and the initial attributes of the span of an attempt.

    Args:
        number: Number of the attempt.
        tool: Name of the tool, or None if it is not known.
        effect: Effect of the tool.
        executor: Where the attempt runs, or None if unknown.
        landed: Whether it took effect. None: unknown, because it has not ended.
    """
    attributes: dict[str, str | int] = {semconv.ATTEMPT: number}
    if tool is not None and effect is not None:
        attributes[semconv.EFFECT] = effect
    if executor is not None:
        attributes[semconv.EXECUTOR] = executor
    if landed is not None:
        attributes[semconv.LANDED] = landed
    return "attempt" if tool is None else f"attempt {tool}", attributes


UNKNOWN_TOOL: SpanStart = (f"{semconv.EXECUTE_TOOL} {semconv.OTHER}", _start_attributes(semconv.OTHER))


def set_call_attributes(span: Span, report: LiveReport) -> None:
    """Set on a call span the attributes known at the end of the call. They hold neither arguments nor results."""
    call = report.call
    rows = report.attempt_rows
    if report.replayed:
        span.set_attribute(semconv.REPLAYED, value=True)
    if len(rows) != 1 or rows[0][1] == NO_EXECUTOR:
        span.set_attribute(semconv.ATTEMPTS, sum(executor != NO_EXECUTOR for _, executor, *_ in rows))
    if len(rows) > 1 and (waited := report.waited):
        span.set_attribute(semconv.RETRY_WAIT, waited)
    decision = find_decision(report.rows, kind_of(report.outcome))
    if decision is not None:
        span.set_attribute(semconv.DECIDED_BY, to_wire_text(decision[0]))
        if note := decision[5]:  # a reason of the error itself takes its place
            span.set_attribute(semconv.REASON, to_wire_text(note))
    if call.id:
        span.set_attribute(semconv.CALL_ID, to_wire_text(call.id))
    if call.conversation or call.state is not None:
        _set_origin(span, call)
    requested: Any = call.name
    if report.tool is None or requested != report.tool.name:
        text = to_wire_text(requested) if isinstance(requested, str) else type(requested).__name__
        span.set_attribute(semconv.REQUESTED_NAME, text)
    if report.repairs:
        span.set_attribute(semconv.REPAIRS, list_repairs(report))


def _set_origin(span: Span, call: Call) -> None:
    if call.conversation:
        span.set_attribute(semconv.CONVERSATION_ID, to_wire_text(call.conversation))
    if (facts := call.get_state(OF_CALL, None)) is not None:
        span.set_attributes(facts)


def list_repairs(report: CallReport) -> list[str]:
    """Return ``path: rule`` for each repair. A name that the model made up is content: ``*``, as in ``amounts.*``."""
    tool = report.tool
    schema = tool.schema if tool is not None else None
    repairs = report.repairs[:_MAX_REPAIRS]
    shown = iter(show_paths(schema, [_place_of(each) for each in repairs if each.rule not in _OF_THE_NAME]))
    lines = [f"{each.path if each.rule in _OF_THE_NAME else next(shown)}: {each.rule}" for each in repairs]
    more = len(report.repairs) - _MAX_REPAIRS
    return [*lines, f"and {more} more"] if more > 0 else lines


def _place_of(repair: Repair) -> str:
    path, before, after = repair.path, repair.before, repair.after
    if repair.rule == "parameter_name" and isinstance(before, str) and isinstance(after, str):
        return path.removesuffix(before) + after  # the declared name, not the misspelt one
    return path


def to_wire_text(value: object, max_length: int = _MAX_NAME) -> str:
    """Return the value as text that OTLP can carry: truncated, and with lone surrogates replaced.

    An exporter drops an attribute that contains a lone surrogate.
    """
    return str(value)[:max_length].encode(errors="replace").decode()


def list_problems(error: InvalidParams, tool: Tool[..., Any] | None) -> list[tuple[str, str]]:
    """Return the parameters and the rules that they break, at most 20; "" stands for the arguments as a whole."""
    schema = error.schema if tool is None else tool.schema
    problems = error.problems[:_MAX_PROBLEMS]
    paths = show_paths(schema, [problem.path for problem in problems])
    return [(path, _name_rule(problem.rule)) for path, problem in zip(paths, problems, strict=True)]


def _name_rule(rule: str) -> str:
    """Return the rule if it is an identifier, as all of ours are. A custom stage may put a text with a value there."""
    return rule if len(rule) <= _MAX_RULE and rule.removeprefix("$").isidentifier() else _OF_A_CHECK


def describe_failure(error: object, tool: Tool[..., Any] | None, decided_by: str = "") -> Facts:
    """Return the attributes that say why a call or an attempt failed, beside its ``error.type``.

    Args:
        error: A `ToolError`, or the exception that a stage raised. None: nothing is known.
        tool: The tool, or None if it was not found.
        decided_by: The stage that decided, which is not named again. Default "": none.

    Returns:
        An empty mapping if there is nothing to add.
    """
    if error is None:
        return NO_FACTS
    with _DESCRIBES:  # a custom stage may make an error of any shape, and a schema may have any shape
        return _describe(error, tool, decided_by)
    return NO_FACTS


def _describe(error: object, tool: Tool[..., Any] | None, decided_by: str) -> Facts:
    facts: dict[str, str | list[str]] = {}
    if isinstance(error, InvalidParams):
        facts[semconv.PROBLEMS] = [
            to_wire_text(f"{path or 'arguments'}: {rule}") for path, rule in list_problems(error, tool)
        ]
    if reason := find_reason(error, tool, decided_by):
        facts[semconv.REASON] = reason
    cause: object = error if isinstance(error, BaseException) else getattr(error, "cause", None)
    kind = getattr(cause, "kind", None)  # the cause of an OutcomeUnknown is another error
    if isinstance(kind, str) and not isinstance(cause, BaseException):
        facts[semconv.CAUSE] = kind
        cause = getattr(cause, "cause", None)
    if isinstance(cause, BaseException):
        name = cause.type_name if isinstance(cause, RemoteCause) else type(cause).__name__
        facts[semconv.EXCEPTION_TYPE] = to_wire_text(name)
    return facts


def name_reason(error: object) -> str:
    """Low-cardinality reason from our fixed list; "" if unknown or author-supplied."""
    match error:
        case Unavailable(reason=reason) if reason in _REASONS:
            return reason
        case MalformedCall(truncated=True):
            return "truncated"
        case TimedOut(still_running=True):
            return "still_running"
        case _:
            return ""


def find_reason(error: object, tool: Tool[..., Any] | None, decided_by: str = "") -> str:
    """The reason of `name_reason`, or who refused; "" if the error has neither."""
    return name_reason(error) or _find_refuser(error, tool, decided_by)


def _find_refuser(error: object, tool: Tool[..., Any] | None, decided_by: str) -> str:
    """The party that refused, if it is a name as one writes it in code, and neither the tool nor the stage."""
    by: Any = error.by if isinstance(error, Denied) else ""  # a custom stage may put anything there
    if not (isinstance(by, str) and len(by) <= _MAX_RULE and by.isidentifier()):
        return ""
    return "" if by in (decided_by, None if tool is None else tool.name) else by


def describe_status(facts: Facts) -> str | None:
    """Return the description of a failed span's status: the facts. Its kind is its ``error.type``."""
    parts: list[str] = []
    for value in facts.values():
        parts += [value] if isinstance(value, str) else value
    return to_wire_text(", ".join(parts), _MAX_STATUS) if parts else None


def end_span(span: Span, verdict: str | None, end: int, facts: Facts | None = None) -> None:
    """End a span: red with ``error.type`` and the facts if there is a verdict, else with its status unset.

    Without facts, as for a stage, the status has no description. The status OK belongs to the application, says
    the specification. Exceptions of span processors are logged.
    """
    try:
        if verdict is not None:
            span.set_attribute(semconv.ERROR_TYPE, verdict)
            if facts:
                span.set_attributes(facts)
            span.set_status(StatusCode.ERROR, describe_status(facts) if facts else None)
        span.end(end)
    except BaseException as exc:
        if not _ENDS.stops(exc):
            raise
