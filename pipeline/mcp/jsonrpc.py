"""JSON-RPC messages: how a line is read and written. Source: https://www.jsonrpc.org/specification."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from math import inf
from secrets import token_hex
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, cast

import attrs

from ..base.nesting import refuse_deep

Message: TypeAlias = dict[str, Any]
TOOLS_CALL: Final = "tools/call"
PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"  # in ``_meta``, in the versions without a handshake

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ENDED: Final = -32000  # the first of the codes that are left to implementations
REPEATED: Final = "the id is that of a request that has no answer yet"

_ID = rb'("(?:[^"\\]|\\.){0,500}"|-?\d{1,30})'
# The members of a message that SDKs write in front of a large one, in any order; all of them are short.
_SHORT = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*|"method"\s*:\s*"[^"\\]{0,200}"\s*,\s*)*'
_ID_IN_HEAD = re.compile(rb"\s*\{\s*" + _SHORT + rb'"id"\s*:\s*' + _ID + rb"\s*,")
_ID_IN_TAIL = re.compile(rb'[,{]\s*"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_END = 4_096  # bytes at the end of a line that are searched for its id
_METHOD = re.compile(rb'"method"\s*:')
_NUMBER = re.compile(r"-?[0-9.eE+-]+|-?Infinity|NaN|null|\[\]")  # what `key_of` writes of an id that is no text
_OUTCOME = re.compile(rb'"(?:result|error)"\s*:')
_TEXT_BEGUN = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+'  # nothing is tried twice: that would take n² steps for what is broken
_TEXT = re.compile(_TEXT_BEGUN + rb'(?:"|\Z)', re.DOTALL)
_ENDED_TEXTS = re.compile(rb'(?:[^"]*+%s")*+[^"]*+' % _TEXT_BEGUN, re.DOTALL)
# Each character of "tools/call" as it is, or escaped.
_SPELLED_CALL = re.compile(
    b'"%s"' % b"".join(rb"(?:\\?%s|\\u00(?i:%02x))" % (char.encode(), ord(char)) for char in TOOLS_CALL)
)


def parse(line: bytes) -> Any:
    """Read a line. Bytes that are not UTF-8 are read as U+FFFD, since some servers read them so.

    Raises:
        ValueError: It is not JSON, or nested in more than 200 levels.
    """
    return _decode(_STRICT, line)


def parse_leniently(line: bytes) -> Any:
    """Read a line as `parse` does, and also the constants and the long numbers that some servers write into results.

    Raises:
        ValueError: It is not even that.
    """
    try:
        return _decode(_STRICT, line)
    except ValueError:
        return _decode(_LENIENT, line)


def _decode(decoder: json.JSONDecoder, line: bytes) -> Any:
    return decoder.decode(refuse_deep(line.decode(errors="replace").strip()))


def split_array(line: bytes) -> list[bytes]:
    """The elements of an array, each byte for byte.

    Args:
        line: A list that `parse` or `parse_leniently` read.
    """
    text = line.decode(errors="surrogateescape")
    found: list[bytes] = []
    start = _skip_between(text, text.index("[") + 1)
    while text[start] != "]":
        _, end = _LENIENT.raw_decode(text, start)
        found.append(text[start:end].encode(errors="surrogateescape"))
        start = _skip_between(text, end)
    return found


def _skip_between(text: str, start: int) -> int:
    while text[start] in " \t\r\n,":
        start += 1
    return start


def join_array(elements: Iterable[bytes]) -> bytes:
    """The line that holds an array of these elements."""
    return b"[" + b",".join(elements) + b"]\n"


def hides_call(line: bytes) -> bool:
    """Whether another reader could find a call of a tool in a line where `parse` finds none.

    Readers differ in which of two equal keys counts, and some read ``Method`` as ``method``.

    Args:
        line: A line that `parse` could read.
    """
    if not _SPELLED_CALL.search(line):
        return False
    waiting: list[object] = [_PAIRS.decode(line.decode(errors="replace").strip())]
    while waiting:
        each = waiting.pop()
        if isinstance(each, _Pairs):
            if any(key.casefold() == "method" and value == TOOLS_CALL for key, value in each.pairs):
                return True
        elif isinstance(each, list):
            waiting.extend(cast("list[object]", each))
    return False


def dump(message: object) -> bytes:
    """Write a message as a line. An infinity is written as ``1e999``, from which it was read, and NaN as ``NaN``."""
    try:
        return _write(message, _STRICT_ENCODER)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape and UTF-8 cannot hold
        return _write(message, _ASCII_ENCODER)
    except ValueError:  # a number that is not finite
        line = _write(_mark_infinite(message), _ASCII_ENCODER)
        return line.replace(b'"-%s"' % _MARK.encode(), b"-1e999").replace(b'"%s"' % _MARK.encode(), b"1e999")


def _write(message: object, encoder: json.JSONEncoder) -> bytes:
    return encoder.encode(message).encode() + b"\n"


def _mark_infinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mark_infinite(each) for key, each in cast("Message", value).items()}
    if isinstance(value, list):
        return [_mark_infinite(each) for each in cast("list[Any]", value)]
    return _MARK if value == inf else f"-{_MARK}" if value == -inf else value


def key_of(request_id: object) -> str:
    """The key of a request in a table: the ids ``1`` and ``"1"`` are two; whatever is not an id has one key."""
    return json.dumps(request_id) if request_id is None or isinstance(request_id, (str, int, float)) else "[]"


def write_call_id(request_id: object) -> str:
    """The id of a call, from a request: a text as it is, unless it could be taken for a number's; injective."""
    if isinstance(request_id, str) and not request_id.startswith('"') and not _NUMBER.fullmatch(request_id):
        return request_id
    return key_of(request_id)


def is_message(value: object) -> TypeGuard[Message]:
    """Whether a value that was parsed is an object."""
    return isinstance(value, dict)


def is_request(message: Message) -> bool:
    """Whether a message wants an answer."""
    return "method" in message and "id" in message


def is_answer(message: Message) -> bool:
    """Whether a message is the answer to a request, or an error without one; be it an odd one."""
    return message.get("method") is None and ("id" in message or "error" in message)


def is_id(value: object) -> TypeGuard[str | int]:
    """Whether MCP permits this as the id of a request."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def read_object(message: Message, name: str) -> Message:
    """A member of a message that should be an object; an empty one for anything else."""
    found = message.get(name)
    return found if is_message(found) else {}


def make_error(request_id: object, code: int, text: str) -> Message:
    """The answer that a request failed as a request."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}


def find_id(head: bytes, tail: bytes) -> tuple[str | int | None, bool]:
    """Return the id of a message that is known at both ends only, and whether the message is an answer.

    Returns:
        None if the id is in neither end: it is never guessed, so an ``id`` within the params is not taken for it.
    """
    found = _ID_IN_HEAD.match(head) or _ID_IN_TAIL.search(tail)
    request_id = json.loads(found[1].decode(errors="replace"), strict=False) if found else None
    return request_id, _METHOD.search(head) is None and _METHOD.search(tail) is None


def find_unread_id(line: bytes) -> tuple[str | int | None, bool]:
    """The id of a line that `parse` cannot read, and whether the line is an answer.

    Returns:
        None if the line could be of another id: it is broken anywhere, or could be a request as well as an answer.
    """
    try:
        message: object = _decode(_LENIENT, line)
    except ValueError:
        rest = _TEXT.sub(b"", line)
        is_closed = rest.count(b"{") + rest.count(b"[") == rest.count(b"}") + rest.count(b"]")
        is_whole = is_closed and _ENDED_TEXTS.fullmatch(line)
        request_id, is_answered = find_id(line, line[-_END:] if is_whole else b"")
        is_clear = is_answered is (_OUTCOME.search(line) is not None)
        return request_id if is_clear else None, is_answered and is_clear
    if not is_message(message):
        return None, False
    request_id = message.get("id")
    return request_id if is_id(request_id) else None, is_answer(message)


def replace_id(line: bytes, sent: bytes, restored: bytes) -> bytes | None:
    """Put another id in the place of ours, byte for byte the same otherwise. None: ours is not there exactly once."""
    return line.replace(sent, restored, 1) if line.count(sent) == 1 else None


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def _read_int(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # Python reads no more than 4,300 digits
        return float(digits)


@attrs.frozen
class _Pairs:
    """Return an object with all its members, also under equal keys."""

    pairs: list[tuple[str, Any]]


_MARK: Final = f"toolcall-{token_hex(8)}"  # stands for infinity
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
_LENIENT = json.JSONDecoder(parse_int=_read_int)
_PAIRS = json.JSONDecoder(object_pairs_hook=_Pairs)
_STRICT_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII_ENCODER = json.JSONEncoder(separators=(",", ":"))


class CallBatch:
    """Collects the answers to a batch.

    Args:
        keys: The keys of its requests, see `key_of`; a key that occurs twice gets two answers.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._missing = Counter(keys)
        self._answers: list[bytes] = []

    def add(self, key: str, answer: bytes | None) -> bytes | None:
        """Add an answer; None for a request that gets none, since it was cancelled.

        Returns:
            The line with all answers, once the last one is there; None before, and if there is none at all.
        """
        if not self._missing[key]:
            return None
        self._missing[key] -= 1
        if answer is not None:
            self._answers.append(answer.rstrip(b"\r\n"))
        return join_array(self._answers) if self._answers and not self._missing.total() else None
