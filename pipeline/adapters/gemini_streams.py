"""Gemini's responses, whole or streamed: calls that come at once, or path by path in ``partialArgs``, become whole."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

import attrs

from ..call import Call
from .common import CUT_OFF, find_field, get_field, list_items, text_or_empty, with_wire
from .replies import Reading, ReplyError, read_error

Path: TypeAlias = tuple[str | int, ...]

# The provider answers with these in place of a reply, for a call that it cannot read.
_MALFORMED = frozenset((
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
))  # fmt: skip
_WITHHELD = frozenset((
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
))  # fmt: skip
_STEP = re.compile(r"\.([^\W\d][\w-]*)|\[([0-9]{1,9})\]|\[\"([^\"\\]*)\"\]|\['([^'\\]*)'\]")
_DEEPEST = 100  # steps of a path; a pipeline refuses far less
_LARGEST_WHOLE = 2**53  # up to here a double holds each integer


def read_responses(chunks: Iterable[object]) -> Reading:
    """Return the calls and the text of the first candidate, of a response or a stream, and the error if any."""
    calls: list[_StreamedCall] = []
    said: list[str] = []
    reason = why = ""
    error: ReplyError | None = None
    for chunk in chunks:
        error = error or read_error(chunk) or _find_block(chunk)
        for candidate in _list_candidates(chunk):
            reason = _read_name(find_field(candidate, "finish_reason", "finishReason")) or reason
            why = text_or_empty(find_field(candidate, "finish_message", "finishMessage")) or why
            for part in list_items(get_field(get_field(candidate, "content"), "parts")):
                if (asked := find_field(part, "function_call", "functionCall")) is not None:
                    _add(calls, asked, part)
                elif get_field(part, "thought") is not True:
                    said.append(text_or_empty(get_field(part, "text")))
    if reason in _MALFORMED or (reason in _WITHHELD and not calls and not any(said)):
        error = error or ReplyError(why or ("The provider withheld the reply" if reason in _WITHHELD else ""), reason)
    finish_reason = CUT_OFF if reason == "MAX_TOKENS" else "content_filter" if reason in _WITHHELD else reason or None
    return Reading([call.to_call(finish_reason) for call in calls], "".join(said), error)


def _list_candidates(chunk: object) -> Iterable[Any]:
    """The first candidate, if the chunk has something of it; a content, a part or a call alone stands in one."""
    if find_field(chunk, "function_call", "functionCall") is not None:
        return ({"content": {"parts": [chunk]}},)
    if get_field(chunk, "args") is not None:
        return ({"content": {"parts": [{"function_call": chunk}]}},)
    if get_field(chunk, "candidates") is None and get_field(chunk, "parts") is not None:
        return ({"content": chunk},)
    return [each for each in list_items(get_field(chunk, "candidates")) if not get_field(each, "index")][:1]


def _read_name(value: object) -> str:
    """The name of a member of an enum, as the SDK gives it, or the text of the API."""
    return text_or_empty(getattr(value, "value", value))


def _find_block(chunk: object) -> ReplyError | None:
    feedback = find_field(chunk, "prompt_feedback", "promptFeedback")
    reason = _read_name(find_field(feedback, "block_reason", "blockReason"))
    why = text_or_empty(find_field(feedback, "block_reason_message", "blockReasonMessage"))
    return ReplyError(why or "The prompt was blocked", reason) if reason else None


@attrs.define
class _StreamedCall:
    """A call as far as it came."""

    name: str
    id: str
    wire: dict[str, Any]
    whole: Any = None  # arguments that came at once
    pieces: list[Any] = attrs.field(factory=list[Any])  # of `partialArgs`, in their order
    is_open: bool = False  # another piece is to come

    def to_call(self, finish_reason: str | None) -> Call:
        """The call. One without an end is marked as cut off; pieces that do not fit stay as they are."""
        arguments = self.whole
        if self.pieces:
            joined = join_partial_args(self.pieces)
            arguments = self.pieces if arguments and arguments != joined else joined
        reason = CUT_OFF if self.is_open else finish_reason
        return with_wire(Call(self.name, arguments, self.id, finish_reason=reason), self.wire)


def _add(calls: list[_StreamedCall], asked: object, part: object) -> None:
    """Add a call, or a piece to the one that it goes on with: the last open one, or that with its id."""
    name, id_ = text_or_empty(get_field(asked, "name")), text_or_empty(get_field(asked, "id"))
    whole, pieces = get_field(asked, "args"), find_field(asked, "partial_args", "partialArgs")
    still_open = [call for call in calls if call.is_open and (not id_ or not call.id or call.id == id_)]
    call = still_open[-1] if still_open else None
    if call is None and calls and not (name or whole or pieces):
        return  # the end of a call that had ended
    if call is None or (name and name != call.name):
        wire = {} if not name else {"name": name}
        call = _StreamedCall(name, id_, wire)
        calls.append(call)
    call.id = call.id or id_
    signature = find_field(part, "thought_signature", "thoughtSignature")
    if isinstance(signature, bytes):  # the SDK has decoded what the API sends
        signature = b64encode(signature).decode()
    if isinstance(signature, str):
        call.wire["thought_signature"] = signature
    call.whole = call.whole if whole is None else whole
    call.pieces += list_items(pieces)
    call.is_open = find_field(asked, "will_continue", "willContinue") is True


def join_partial_args(pieces: Iterable[object]) -> Any:
    """The arguments of the pieces of ``partialArgs``, each a value at a JSON path (RFC 9535), as an object.

    Returns:
        The object; or the list of the pieces, which a pipeline refuses, where they make none: a path that is none, an
        index behind a gap, a value that came twice, or no value at all, as the provider sends an empty array.
    """
    given = list(pieces)
    leaves: dict[Path, Any] = {}
    begun: set[Path] = set()  # a text is to come
    for piece in given:
        path, value = _read_path(find_field(piece, "json_path", "jsonPath")), _read_value(piece)
        if path is None or (
            path in leaves and not (type(leaves[path]) is _Pieces and isinstance(value, (str, _Nothing)))
        ):
            return given
        if isinstance(value, str):
            leaves.setdefault(path, _Pieces()).append(value)
        elif not isinstance(value, _Nothing):
            leaves[path] = value
        elif path not in leaves:
            begun.add(path)
    tree: dict[str, Any] = {}
    whole = {path: "".join(leaf) if type(leaf) is _Pieces else leaf for path, leaf in leaves.items()}
    fits = all(_put(tree, path, value) for path, value in whole.items())
    return tree if fits and begun <= leaves.keys() else given


class _Pieces(list[str]):
    """A text, as far as it came."""


class _Nothing:
    """The piece has no value: it begins a text, or ends one."""


def _read_value(piece: object) -> Any:
    text = find_field(piece, "string_value", "stringValue")
    number = find_field(piece, "number_value", "numberValue")
    boolean = find_field(piece, "bool_value", "boolValue")
    if isinstance(text, str):
        return text
    if type(number) is float and number.is_integer() and abs(number) < _LARGEST_WHOLE:
        return int(number)  # it is a double on the wire, whatever it was
    if number is not None or boolean is not None:
        return number if boolean is None else boolean
    nulls = ("null_value", "nullValue")
    is_null = find_field(piece, *nulls) is not None or (isinstance(piece, dict) and any(key in piece for key in nulls))
    return None if is_null else _Nothing()


def _read_path(text: object) -> Path | None:
    """The steps of a path such as ``$.items[0].name``; None: it is none, or the whole of the arguments."""
    if not isinstance(text, str) or not text.startswith("$"):
        return None
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None or len(steps) == _DEEPEST:
            return None
        name, index, double, single = step.groups()
        steps.append(
            int(index) if index is not None else next(key for key in (name, double, single) if key is not None)
        )
        place = step.end()
    return tuple(steps) or None


def _put(tree: Any, path: Path, value: Any) -> bool:
    """Put a value into the object; whether it has a place there."""
    inside: Any = tree
    for step, following in zip(path, (*path[1:], None), strict=True):
        new: Any = value if following is None else [] if isinstance(following, int) else {}
        if isinstance(step, int):
            if not isinstance(inside, list) or step > len(cast("list[Any]", inside)):
                return False
            if step == len(cast("list[Any]", inside)):
                cast("list[Any]", inside).append(new)
            elif following is None:
                return False
        elif not isinstance(inside, dict) or (following is None and step in inside):
            return False
        else:
            cast("dict[str, Any]", inside).setdefault(step, new)
        inside = cast("Any", inside)[step]
    return True
