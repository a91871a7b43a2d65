"""JSON-RPC messages: how a line is read and written. Source: https://www.jsonrpc.org/specification."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from secrets import token_hex
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, cast

from ..base import semconv
from ..base.nesting import refuse_deep
from ..parameters.exact_json import is_exact
from ..telemetry.attributes import to_wire_text

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
# A number that a double may round: 17 characters of digits and a point, or an exponent. Nothing is tried twice.
_MAY_BE_ROUNDED = re.compile(r"[0-9](?:[0-9.]{16}|[0-9.]*[eE])")
_MOST_DIGITS: Final = 4_300  # of an integer that Python reads
# Line ends for readers that go by Unicode; JSON may hold them in strings as they are.
_LINE_ENDS: Final = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def parse(line: bytes) -> Any:
    """Read a line. Bytes that are not UTF-8 are read as U+FFFD, since some servers read them so.

    Raises:
        ValueError: It is not JSON, or nested in more than 200 levels.
    """
    return _decode(_STRICT, line)


def _decode(decoder: json.JSONDecoder, line: bytes) -> Any:
    return decoder.decode(refuse_deep(line.decode(errors="replace").strip()))


class Number(str):
    """A number that no int and no float of Python holds, as it was written. `dump` writes it so."""

    __slots__ = ()

    @classmethod
    def of(cls, token: str) -> Number:
        """The number of a token of JSON."""
        return cls(_MARK + token)

    @property
    def value(self) -> float:
        """The nearest float, or 0 for -0."""
        written = self.removeprefix(_MARK)
        return int(written) if written == "-0" else float(written)


def read(line: bytes, *, leniently: bool = False) -> Any:
    """Read a line as `parse` does, each number as it was written: `dump` then writes the same values.

    Of equal keys in an object the last one counts.

    Args:
        line: The line.
        leniently: Whether the constants and the long integers are read that some servers write. Default False.

    Raises:
        ValueError: It is not JSON, or nested more deeply than Python reads.
    """
    if leniently:
        return _decode(_LENIENT, line)
    may_be_rounded = b"-0" in line or _MAY_BE_ROUNDED.search(line.decode(errors="replace")) is not None
    return _decode(_EXACT if may_be_rounded else _STRICT, line)


def make_plain(value: Any) -> Any:
    """A value with Python's own numbers in place of each `Number`; the same object if there is none."""
    return _replace_numbers(value) if _holds_number(value) else value


def _replace_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_numbers(each) for key, each in cast("Message", value).items()}
    if isinstance(value, list):
        return [_replace_numbers(each) for each in cast("list[Any]", value)]
    return value.value if isinstance(value, Number) else value


def find_rounded(value: object) -> str | None:
    """The path of a number in a value that a float rounds, such as ``prices[1]``. None: there is none."""
    if not _holds_number(value):
        return None
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, Number):
            if each != Number.of("-0"):
                return path
        elif isinstance(each, dict):
            waiting.extend((f"{path}.{key}" if path else key, held) for key, held in cast("Message", each).items())
        elif isinstance(each, list):
            waiting.extend((f"{path}[{index}]", held) for index, held in enumerate(cast("list[object]", each)))
    return None


def _holds_number(value: object) -> bool:
    return _MARK in _ENCODER.encode(value)  # in C, which a look at each value in Python is not


def join_array(elements: Iterable[bytes]) -> bytes:
    """The line that holds an array of these elements."""
    return b"[" + b",".join(elements) + b"]\n"


def hides_call(message: object) -> bool:
    """Whether another reader could find a call of a tool in a message: see `fold_key`."""
    waiting = [message]
    while waiting:
        each: object = waiting.pop()
        if is_message(each):
            if any(fold_key(key) == "method" and _cut(value) == TOOLS_CALL for key, value in each.items()):
                return True
        elif isinstance(each, list):
            waiting.extend(cast("list[object]", each))
    return False


def fold_key(key: str) -> str:
    """A key as other readers may take it: in any case, and up to a NUL, at which a text of C ends."""
    return key.partition("\0")[0].casefold()


def _cut(value: object) -> object:
    return value.partition("\0")[0] if isinstance(value, str) else value


def dump(message: object) -> bytes:
    """Write a message as a line that each reader takes for one line and one message.

    What Unicode calls the end of a line is escaped, and half of a surrogate pair, which UTF-8 cannot hold.

    Raises:
        ValueError: It is nested more deeply than Python writes.
    """
    try:
        text = _ENCODER.encode(message)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _MARK in text:
        text = _MARKED.sub(r"\1", text)
    for end, escaped in _LINE_ENDS.items():
        if end in text:
            text = text.replace(end, escaped)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _HALF_PAIR.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"


def key_of(request_id: object) -> str:
    """The key of a request in a table: the ids ``1`` and ``"1"`` are two; whatever is not an id has one key."""
    return json.dumps(request_id) if request_id is None or isinstance(request_id, (str, int, float)) else "[]"


def loose_key_of(request_id: object) -> str:
    """As `key_of`, for the answers of servers that write the number of an id as a text, or with a fraction."""
    if isinstance(request_id, str) and request_id.isdecimal():
        request_id = int(request_id[:_MOST_DIGITS])
    elif isinstance(request_id, float) and request_id.is_integer():
        request_id = int(request_id)
    return key_of(request_id)


def write_call_id(request_id: object) -> str:
    """The id of a call, from a request: a text as it is, unless it could be taken for a number's; injective."""
    if isinstance(request_id, str) and not request_id.startswith('"') and not _NUMBER.fullmatch(request_id):
        return request_id
    return key_of(request_id)


def name_request(request_id: object) -> dict[str, str]:
    """The attributes of the span of a call that name its request."""
    return {semconv.MCP_METHOD: TOOLS_CALL, semconv.REQUEST_ID: to_wire_text(request_id)}


def is_message(value: object) -> TypeGuard[Message]:
    """Whether a value that was parsed is an object."""
    return isinstance(value, dict)


def is_request(message: Message) -> bool:
    """Whether a message wants an answer."""
    return "method" in message and "id" in message


def is_answer(message: Message) -> bool:
    """Whether a message is the answer to a request, or an error without one; be it an odd one."""
    return message.get("method") is None and ("id" in message or "error" in message)


def is_spoken(message: Message) -> bool:
    """Whether an object is a message of JSON-RPC, and not a line of a log."""
    return message.get("jsonrpc") == "2.0" and (isinstance(message.get("method"), str) or is_answer(message))


def write_answer(answer: Message, request_id: object) -> Message | None:
    """An answer with this id, in the one form that each client reads; None: it has neither a result nor an error.

    Some clients drop an answer with a further member, be it a null, and wait for ever.
    """
    result, error = answer.get("result"), answer.get("error")
    envelope: Message = {"jsonrpc": "2.0", "id": request_id}
    if is_message(result) and error is None:
        return {**envelope, "result": result}
    is_error = is_message(error) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    return {**envelope, "error": error} if is_error and result is None else None


def is_id(value: object) -> TypeGuard[str | int]:
    """Whether MCP permits this as the id of a request."""
    return isinstance(value, (str, int)) and not isinstance(value, (bool, Number))


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


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def _read_int(digits: str) -> int | Number:
    return Number.of(digits) if len(digits) > _MOST_DIGITS or digits == "-0" else int(digits)


def _read_short_int(digits: str) -> int | Number:
    return Number.of(digits) if digits == "-0" else int(digits)  # a longer one is refused


def _read_float(token: str) -> float | Number:
    value = float(token)
    return value if repr(value) == token or is_exact(token) else Number.of(token)


_MARK: Final = f"toolcall-{token_hex(8)}:"  # begins the text that stands for a number; nobody else knows it
_MARKED: Final = re.compile(rf'"{_MARK}(-?[0-9.eE+-]+|-?Infinity|NaN)"')
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
_EXACT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_float, parse_int=_read_short_int)
_LENIENT = json.JSONDecoder(parse_constant=Number.of, parse_float=_read_float, parse_int=_read_int)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class CallBatch:
    """Collects the answers to a batch."""

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
