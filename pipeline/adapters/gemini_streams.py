"""Gemini's responses, whole or streamed: calls that come at once, or path by path in ``partialArgs``, become whole."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

import attrs

from ..engine.call import Call
from .common import CUT_OFF, dict_or_empty, find_field, get_field, is_dict, list_items, text_or_empty, with_wire
from .replies import WITHHELD, OwnMessage, Reading, ReplyError, Unhandled, read_error

FORM = "gemini"
Path: TypeAlias = tuple[str | int, ...]

# The provider answers with these in place of a reply, for a call that it cannot read.
_MALFORMED = frozenset((
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
))  # fmt: skip
_STEP = re.compile(r"\.([^\W\d][\w-]*)|\[([0-9]{1,9})\]|\[\"([^\"\\]*)\"\]|\['([^'\\]*)'\]")
_DEEPEST = 100  # steps of a path; a pipeline refuses far less
_LARGEST_WHOLE = 2**53  # up to here a double holds each integer


def read_responses(chunks: Iterable[object]) -> Reading:
    """The calls of the first candidate, of a response or a stream, and all else that it says."""
    calls: list[_StreamedCall] = []
    parts: list[Any] = []  # of the model's own message; a call stands in it as a `_StreamedCall`
    reason = why = id_ = ""
    error: ReplyError | None = None
    has_candidate = True
    for chunk in chunks:
        error = error or read_error(chunk) or _find_block(chunk)
        id_ = id_ or text_or_empty(find_field(chunk, "response_id", "responseId"))
        candidates = _list_candidates(chunk)
        has_candidate = bool(candidates)
        for candidate in candidates:
            reason = _read_name(find_field(candidate, "finish_reason", "finishReason")) or reason
            why = text_or_empty(find_field(candidate, "finish_message", "finishMessage")) or why
            for part in map(_encode, list_items(get_field(get_field(candidate, "content"), "parts"))):
                if (asked := find_field(part, "function_call", "functionCall")) is None:
                    _add_part(parts, part)
                elif (call := _add(calls, asked, part)) is not None:
                    parts.append(call)
    finish_reason = CUT_OFF if reason == "MAX_TOKENS" else "content_filter" if reason in WITHHELD else reason or None
    others = [part for part in parts if type(part) is not _StreamedCall]
    said = "".join(text_or_empty(get_field(each, "text")) for each in others if get_field(each, "thought") is not True)
    reading = Reading([call.to_call(finish_reason) for call in calls], said, error, finish_reason, id=id_)
    reading.unhandled = [found for part in others if (found := _find_unhandled(part)) is not None]
    if all(type(part) in (dict, _StreamedCall) for part in parts):
        made = iter(reading.calls)
        data = [part.to_part(next(made)) if type(part) is _StreamedCall else part for part in parts]
        reading.message = OwnMessage(FORM, data) if data else None
    if error is None:
        is_answer = bool(calls) and reason not in _MALFORMED
        reading.error = None if is_answer else _explain(reason, why, said, has_candidate=has_candidate)
    return reading


def _encode(part: Any) -> Any:
    """A part as the API sends it: of its bytes, and of those of a blob in it, the SDK has decoded the base64."""
    if isinstance(part, bytes):
        return b64encode(part).decode()
    if not is_dict(part):
        return part
    given = dict_or_empty(part)
    if not any(type(value) in (bytes, dict) for value in given.values()):
        return given
    plain = {key: _encode(value) if isinstance(value, bytes) else value for key, value in given.items()}
    blobs = {key: dict_or_empty(given[key]) for key in _BLOBS if is_dict(given.get(key))}
    return plain | {key: {**blob, "data": _encode(blob.get("data"))} for key, blob in blobs.items()}


_BLOBS = ("inline_data", "inlineData")


def _explain(reason: str, why: str, said: str, *, has_candidate: bool) -> ReplyError | None:
    """The reason why the text of a candidate is not the answer; None: it is one."""
    if reason in _MALFORMED:
        return ReplyError(why or "The model wrote a call that the provider could not read", reason)
    if reason in WITHHELD:
        return ReplyError(why or "The provider withheld the reply", reason)
    if not said and reason and reason not in ("STOP", "MAX_TOKENS"):
        return ReplyError(why or f"The reply ended with {reason}", reason)
    return None if has_candidate else ReplyError("The reply has no candidate", "empty")


def _add_part(parts: list[Any], part: Any) -> None:
    """Add a part; one of plain text, or of plain thoughts, goes on with the last one, and a blank one is left out."""
    last = parts[-1] if parts else None
    given, before = dict_or_empty(part), dict_or_empty(last)
    are_plain = given and before and _PLAIN.issuperset(given) and _PLAIN.issuperset(before)
    if are_plain and given.get("thought") == before.get("thought"):
        parts[-1] = {**before, "text": text_or_empty(before.get("text")) + text_or_empty(given.get("text"))}
        return
    says = any(value is not None and (value != "" or name not in _KNOWN) for name, value in given.items())
    if says or not is_dict(part):
        parts.append(part)


_PLAIN = frozenset(("text", "thought"))
_KNOWN = frozenset((  # of a part: what was read, what the provider has done itself, and what says more about a part
    "text", "thought", "thought_signature", "thoughtSignature", "executable_code", "executableCode",
    "code_execution_result", "codeExecutionResult", "video_metadata", "videoMetadata", "part_metadata", "partMetadata",
    "media_resolution", "mediaResolution", "tool_response", "toolResponse",
))  # fmt: skip
_PRODUCTS = frozenset(("inline_data", "inlineData", "file_data", "fileData"))


def _find_unhandled(part: object) -> Unhandled | None:
    given = dict_or_empty(part)
    kind = next((key for key, value in given.items() if key not in _KNOWN and value is not None), None)
    return None if kind is None else Unhandled(kind, part, waits=kind not in _PRODUCTS)


def _list_candidates(chunk: object) -> Sequence[Any]:
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
    part: dict[str, Any] = attrs.field(factory=dict[str, Any])  # what stands beside it in its part

    def to_part(self, call: Call) -> dict[str, Any]:
        """The part of the model's own message that holds the call."""
        return {**self.part, "function_call": {"id": call.id, "args": call.arguments}}

    def to_call(self, finish_reason: str | None) -> Call:
        """The call. One without an end is marked as cut off; pieces that do not fit stay as they are."""
        arguments = self.whole
        if self.pieces:
            joined = join_partial_args(self.pieces)
            arguments = self.pieces if arguments and arguments != joined else joined
        reason = CUT_OFF if self.is_open else finish_reason
        return with_wire(Call(self.name, arguments, self.id, finish_reason=reason), self.wire)


def _add(calls: list[_StreamedCall], asked: object, part: object) -> _StreamedCall | None:
    """Add a call, which is returned, or a piece to the one that it continues: the last open one, or that of its id."""
    name, id_ = text_or_empty(get_field(asked, "name")), text_or_empty(get_field(asked, "id"))
    whole, pieces = get_field(asked, "args"), find_field(asked, "partial_args", "partialArgs")
    still_open = [call for call in calls if call.is_open and (not id_ or not call.id or call.id == id_)]
    call = still_open[-1] if still_open else None
    if call is None and calls and not (name or whole or pieces):
        return None  # the end of a call that had ended
    is_new = call is None or (name and name != call.name)
    if is_new or call is None:
        wire = {} if not name else {"name": name}
        call = _StreamedCall(name, id_, wire)
        calls.append(call)
    call.id = call.id or id_
    call.part |= {key: value for key, value in dict_or_empty(part).items() if key not in _READ}
    signature = _encode(find_field(part, "thought_signature", "thoughtSignature"))
    if isinstance(signature, str):
        call.wire["thought_signature"] = signature
    call.whole = call.whole if whole is None else whole
    call.pieces += list_items(pieces)
    call.is_open = find_field(asked, "will_continue", "willContinue") is True
    return call if is_new else None


_READ = frozenset(("function_call", "functionCall", "thought_signature", "thoughtSignature"))


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
