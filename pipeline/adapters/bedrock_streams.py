"""Bedrock's streams: the events of the blocks of one message become whole calls."""

from __future__ import annotations

from .common import CUT_OFF, PartialCall, get_field, int_or_none, text_or_empty
from .replies import BEDROCK_ERRORS, Reading, ReplyError, read_error

_CUT_OFF_REASONS = ("max_tokens", "model_context_window_exceeded")  # of `stopReason`
_WITHHELD = ("guardrail_intervened", "content_filtered")
_MALFORMED = ("malformed_tool_use", "malformed_model_output")  # the provider could not read what the model wrote


def read_reason(stop: object) -> tuple[str | None, ReplyError | None]:
    """The finish reason of a reply, or of the event that ends a stream; and the error that it stands for."""
    reason = text_or_empty(get_field(stop, "stopReason"))
    if reason in _MALFORMED:
        return reason, ReplyError("The model wrote a call that the provider could not read", reason)
    return (
        CUT_OFF if reason in _CUT_OFF_REASONS else "content_filter" if reason in _WITHHELD else reason or None
    ), None


def read_events_of_stream(events: list[object]) -> Reading:
    """The calls of the events, their text, and what went wrong."""
    calls: list[PartialCall] = []
    blocks: dict[int | None, PartialCall | None] = {}  # by index; None for a block of another type
    said: list[str] = []
    reason: str | None = None
    error: ReplyError | None = None
    for event in events:
        started, delta = get_field(event, "contentBlockStart"), get_field(event, "contentBlockDelta")
        stopped, ended = get_field(event, "contentBlockStop"), get_field(event, "messageStop")
        index = next(
            (int_or_none(get_field(each, "contentBlockIndex")) for each in (started, delta, stopped) if each), None
        )
        if started is not None:
            use = get_field(get_field(started, "start"), "toolUse")
            call = blocks[index] = _begin_call(use)
            if call is not None:
                calls.append(call)
        elif delta is not None:
            piece = get_field(delta, "delta")
            call = blocks.get(index)
            if call is not None:
                call.pieces.append(text_or_empty(get_field(get_field(piece, "toolUse"), "input")))
            said.append(text_or_empty(get_field(piece, "text")))
        elif stopped is not None and (call := blocks.get(index)) is not None:
            call.done = True
        elif ended is not None:
            reason, stop_error = read_reason(ended)
            error = error or stop_error
        error = error or read_error(event) or _read_exception(event)
    found = [call.to_call(reason, ended=reason is not None) for call in calls]
    return Reading(found, "".join(said), error)


def _begin_call(use: object) -> PartialCall | None:
    if use is None or get_field(use, "type") == "server_tool_use":
        return None
    return PartialCall(id=text_or_empty(get_field(use, "toolUseId")), name=text_or_empty(get_field(use, "name")))


def _read_exception(event: object) -> ReplyError | None:
    for kind in BEDROCK_ERRORS:
        if (found := get_field(event, kind)) is not None:
            return ReplyError(text_or_empty(get_field(found, "message")), kind)
    return None
