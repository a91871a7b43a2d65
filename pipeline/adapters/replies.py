"""Replies: what a provider answered, beside the calls in it, and whether it is an error."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

import attrs

from ..base.setup_error import SetupError
from ..engine.call import Call
from ..privacy import get_logger
from ..tools.view import ToolView
from .common import CUT_OFF, get_field, join_surrogates, list_items, read_source, restore_names, text_or_empty
from .gateway_wrappers import open_events
from .providers import Provider
from .renamed_properties import restore_arguments

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

_logger = get_logger()
_LONGEST = 300  # characters of words in an error
_REFUSED = "The model refused to answer"
_WITHHELD = "content_filter"
_MAY_HOLD_CALLS = re.compile(r"[<{\[]|```|Action:")
TextForms: TypeAlias = bool | str | Collection[str]  # which calls that are written as text are read
FAILED = "failed_generation"  # in an error of Groq: the text of the model that its server could not read
_UNREAD_BY_SERVER = "tool_use_failed"  # the code of that error
_SEVERAL = "multi_tool_use.parallel"  # several calls of OpenAI's models, as one
WITHHELD = frozenset((  # how Gemini says so
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
))  # fmt: skip
_KINDS = ("empty", "incomplete", "unreadable")
_HAS_CALLS = ("tool_calls", "function_call", "tool_use")  # the reasons of a reply with calls
_UNFINISHED = ("in_progress", "queued", "incomplete", "cancelled")  # statuses of a response


@attrs.frozen
class ReplyError:
    """Why a reply is not the answer that was asked for.

    Args:
        message: The text of an error of the backend, or what is wrong. "": it has none.
        type: The backend's kind of error, such as ``overloaded_error``; or ``refusal``, ``content_filter``, ``empty``,
            ``incomplete``, ``unreadable``, or that of an item which waits. "": unknown.
        code: The backend's code, such as ``rate_limit_exceeded`` or ``429``. "": unknown.
    """

    message: str
    type: str = ""
    code: str = ""

    @property
    def kind(self) -> str:
        """``refused``, ``empty``, ``incomplete`` or ``unreadable``; ``backend`` for its own error and what waits."""
        if self.type in _KINDS:
            return self.type
        return "refused" if self.type in (_WITHHELD, "refusal", *WITHHELD) else "backend"


class Unhandled(str):
    """The type of an item in a reply that is neither text nor a call of a tool, such as ``computer_call``.

    Attributes:
        item: The item as it came.
        waits: Whether the provider waits for an answer to it, or for its message back.
    """

    __slots__ = ("item", "waits")
    item: Any
    waits: bool

    def __new__(cls, kind: str, item: object = None, *, waits: bool = True) -> Self:
        """Make the text. A pickle makes it without its attributes, and sets these afterwards."""
        self = super().__new__(cls, kind)
        self.item, self.waits = item, waits
        return self


class OwnMessage(NamedTuple):
    """The message of the model as the provider sent it, or as the pieces of a stream make it.

    Attributes:
        form: The wire format that it has, such as ``chat``: another one cannot send it back.
        data: The message, its blocks or its items, as plain data. It is not changed.
    """

    form: str
    data: Any

    def __repr__(self) -> str:
        return f"OwnMessage({self.form!r})"  # the arguments of its calls may hold secrets


class Calls(list[Call]):
    """The calls of a reply, and what else it says.

    Attributes:
        error: Why the reply is not the answer that was asked for, in words: the backend answered with an error, the
            model refused, the reply was withheld, or an item in it waits for the client. None: nothing is wrong.
        text: The text beside the calls. "": none.
        finish_reason: Why the reply ended, as in `Call`. None: unknown.
        refusal: The words of a model that refused to answer. "": it did not.
        unhandled: The items that are neither text nor calls and that the application has to handle, by type.
        message: The model's own message, which ``send_back`` returns. None: ``send_back`` makes one of the calls.
    """

    __slots__ = ("__weakref__", "error", "finish_reason", "message", "refusal", "text", "unhandled")

    def __init__(
        self,
        calls: Iterable[Call] = (),
        *,
        error: ReplyError | None = None,
        text: str = "",
        finish_reason: str | None = None,
        refusal: str = "",
        unhandled: Iterable[Unhandled] = (),
        message: OwnMessage | None = None,
    ) -> None:
        self.extend(calls)  # of a new list; `super` takes as long as all the rest
        self.error = error
        self.text = text
        self.finish_reason = finish_reason
        self.refusal = refusal
        self.unhandled = list(unhandled)
        self.message = message

    def with_calls(self, calls: Iterable[Call]) -> Calls:
        """These calls, with all else of this reply."""
        copy = Calls.__new__(Calls)
        copy.extend(calls)
        copy.error, copy.text, copy.finish_reason = self.error, self.text, self.finish_reason
        copy.refusal, copy.unhandled, copy.message = self.refusal, [*self.unhandled], self.message
        return copy


def _make_unhandled() -> list[Unhandled]:
    return []  # list[Unhandled]() takes nine times as long: it tries to note the type on the list


@attrs.define
class Reading:
    """The parts of a reply; `Calls` has the meaning of most. ``id`` is the provider's id of the reply."""

    calls: list[Call]
    text: str = ""
    error: ReplyError | None = None
    finish_reason: str | None = None
    refusal: str = ""
    unhandled: list[Unhandled] = attrs.field(factory=_make_unhandled)
    message: OwnMessage | None = None
    id: str = ""

    def to_calls(self, source: Pipeline | ToolView | None, provider: Provider, *, text: TextForms) -> Calls:
        """The calls, with the tools' own names. Errors, and calls as text that are not read, are logged."""
        registry, wording = read_source("calls", source)
        found, said, message = self.calls, join_surrogates(self.text, "replace"), self.message
        error = self.error
        if not found or not isinstance(text, bool):
            written, rest = _read_text("" if found else said, text, registry)
            if written:
                found, said, message = written, rest, None  # the text of the message holds the calls
                error = None if error is not None and error.code == _UNREAD_BY_SERVER else error
        self.text = said
        error = error or self._explain(found)
        if error is not None and _logger.hasHandlers():
            _logger.warning("The reply has an error of type %.100r", error.type or error.code)
        for call in found:
            if isinstance(call.arguments, str) and not call.arguments.isascii():
                cast("Any", call).arguments = join_surrogates(call.arguments)
        if self.id:
            for call in found:
                cast("Any", call).reply = self.id  # it was made here, and is not shared yet
        if _SEVERAL in [call.name for call in found] and (registry is None or _SEVERAL not in registry):
            from ..tools.wrapped_calls import unwrap_calls  # few models write it

            unwrapped = unwrap_calls(found, _SEVERAL)
            message = message if unwrapped == found else None  # `send_back` writes one with these calls
            found = unwrapped
        for call in found if wording is not None else ():
            cast("Any", call).wording = wording  # as above
        named = restore_names(found, registry, provider.longest)
        return Calls(
            restore_arguments(named, registry, provider.name),
            error=error,
            text=said,
            finish_reason=self.finish_reason,
            refusal=self.refusal,
            unhandled=self.unhandled,
            message=message,
        )

    def _explain(self, found: list[Call]) -> ReplyError | None:
        """The reason why a reply without an error of the backend is not an answer; None: it is one."""
        self.calls = found
        if self.calls and not (self.refusal or self.unhandled):
            return None
        return self._explain_words() or (None if self.calls else self._explain_end())

    def _explain_words(self) -> ReplyError | None:
        if self.refusal:
            words = "" if self.refusal.startswith(_REFUSED) else f": {self.refusal}"
            return ReplyError(f"{_REFUSED}{words}", "refusal")
        if self.finish_reason == _WITHHELD and not self.calls:  # `Validate` refuses calls, and says why
            return ReplyError("The provider withheld the reply, or a part of it", _WITHHELD)
        if self.finish_reason == "error":
            return ReplyError("The provider ended the reply with an error", "error")
        open_ = [each for each in self.unhandled if each.waits or not (self.calls or self.text)]
        if "pause_turn" in open_:
            return ReplyError("The provider paused its turn: send the message back as it is to go on", "pause_turn")
        if open_:
            return ReplyError(f"The reply has items that the client has to handle: {', '.join(open_)}", open_[0])
        return None

    def _explain_end(self) -> ReplyError | None:
        """The reason why a reply without calls is not an answer; None: it is one."""
        if self.text.strip() and self.finish_reason not in _HAS_CALLS:
            return None
        if self.finish_reason in _HAS_CALLS and not self.unhandled:
            return ReplyError("The reply says that it has calls, and has none", "incomplete")
        if self.finish_reason is None:
            return ReplyError("The reply says nothing, and not that it ended", "incomplete")
        if self.finish_reason in _UNFINISHED:
            return ReplyError(f"The reply is not finished: its status is {self.finish_reason}", "incomplete")
        if self.finish_reason == CUT_OFF:
            return ReplyError("The reply was cut off before it said anything", "incomplete")
        return None if self.text.strip() else ReplyError("The reply is empty", "empty")


def _read_text(said: str, text: TextForms, registry: ToolView | None) -> tuple[list[Call], str]:
    """The calls that are written as text, and the text around them; one warning for a form that is not read."""
    may_hold = bool(said) and _MAY_HOLD_CALLS.search(said) is not None
    if not may_hold and isinstance(text, bool):
        return [], said
    from .text_calls import check_forms, read_text_calls

    forms = check_forms(text)
    if not may_hold or (forms is None and not _logger.hasHandlers()):
        return [], said
    read = read_text_calls(said, registry, forms)
    if forms is not None and read.calls:
        return read.calls, read.said
    if read.seen and _logger.hasHandlers():
        form = read.seen
        if not read.is_read:
            why = "no reader knows it"
        elif read.calls or (forms is not None and form not in forms):
            why = "calls(reply, text=True) reads it"
        else:
            why = "it is not closed, names no offered tool, or is part of prose"
        _logger.warning("The reply has no calls, but its text looks like one, in the form of %s: %s", form, why)
    return [], said


def refusal_of(said: str) -> str:
    """The words of a refusal, of which a provider may have sent none."""
    return said or _REFUSED


def read_error(reply: object, *, named: bool = False) -> ReplyError | None:
    """The error that a reply, or an event, is; None: none. With ``named`` only one in a field of that name counts."""
    if isinstance(reply, str):  # in the middle of a stream
        return ReplyError(reply.strip()[:_LONGEST], "unreadable") if reply.strip() else None
    found = get_field(reply, "error")
    if (
        found is None
        and not named
        and ("error" in (get_field(reply, "type"), get_field(reply, "object")) or get_field(reply, FAILED) is not None)
    ):
        found = reply
    if not found or found is True:
        return None
    if isinstance(found, str):
        return ReplyError(found)
    code: Any = get_field(found, "code")
    message = text_or_empty(get_field(found, "message")) or text_or_empty(get_field(found, "detail"))
    code = str(code) if type(code) in (int, str) else ""
    kind = text_or_empty(get_field(found, "type")) or text_or_empty(get_field(found, "status"))  # Gemini's
    return ReplyError(message, kind, code)


def read_chunks(reply: object, ours: Provider) -> tuple[list[object], ReplyError | None]:
    """The chunks of a stream, or a whole reply as the only one; and the error of an answer that is neither.

    Raises:
        SetupError: ``reply`` has to be awaited first, is one of another provider, or is none.
    """
    is_whole = ours.has_field(reply)
    events = [] if is_whole else list(open_events(reply))
    ours.refuse_others(reply, events)
    refuse_no_reply(reply, ours)
    nothing = None if is_whole or isinstance(reply, str) else find_nothing(reply, events, ours)
    return ([reply] if is_whole else events), nothing


def refuse_no_reply(reply: object, ours: Provider) -> None:
    """Raise SetupError for what no client of a provider returns: without calls the agent would just end."""
    is_bytes = isinstance(reply, (bytes, bytearray))
    is_response = is_bytes or get_field(reply, "status_code") is not None  # of an HTTP client
    if not is_response and (isinstance(reply, Iterable) or ours.has_field(reply)):
        return
    what = "None" if reply is None else f"a {type(reply).__name__}"
    hint = f": parse it first, calls({'json.loads(body)' if is_bytes else 'response.json()'})" if is_response else ""
    raise SetupError(
        f"calls() reads what the client of {ours.name} returns, such as a message or a stream, not {what}{hint}"
    )


def find_nothing(reply: object, events: Iterable[object], ours: Provider) -> ReplyError | None:
    """An error for an answer that has nothing of a reply in it, such as ``{}``; None: it has."""
    each: list[Any] = [reply] if isinstance(reply, Mapping) else list(events)
    if not each:
        return ReplyError("The reply is empty", "empty")
    if any(ours.has_field(one) for one in each):
        return None
    words = _find_words(each[0])
    said = f"; it says: {words[:_LONGEST]}" if words else ""
    return ReplyError(f"The answer has nothing that a reply of {ours.name} has{said}", "unreadable")


def _find_words(answer: object) -> str:
    """What an answer says that is no reply, in the fields where gateways have it."""
    first = next(iter(list_items(get_field(answer, "errors"))), None)
    places = [(answer, name) for name in ("message", "detail", "msg", "error_description", "title")]
    return next((text for place in [*places, (first, "message")] if (text := text_or_empty(get_field(*place)))), "")
