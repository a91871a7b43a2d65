"""JSON-RPC messages: how a line is read and written. Source: https://www.jsonrpc.org/specification."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard

Message: TypeAlias = dict[str, Any]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
SERVER_ENDED: Final = -32000  # the first of the codes that are left to implementations

_ID = rb'("(?:[^"\\]|\\.){0,500}"|-?\d{1,30})'
# The members of a message that SDKs write in front of a large one, in any order; all of them are short.
_SHORT = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*|"method"\s*:\s*"[^"\\]{0,200}"\s*,\s*)*'
_ID_IN_HEAD = re.compile(rb"\s*\{\s*" + _SHORT + rb'"id"\s*:\s*' + _ID + rb"\s*,")
_ID_IN_TAIL = re.compile(rb'[,{]\s*"id"\s*:\s*' + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_METHOD = re.compile(rb'"method"\s*:')


def parse(line: bytes) -> Any:
    """Read a line. Bytes that are not UTF-8 are read as U+FFFD, since some servers read them so.

    Raises:
        ValueError: It is not JSON, or nested more deeply than Python reads.
    """
    try:
        return _DECODER.decode(line.decode(errors="replace").strip())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump(message: object) -> bytes:
    """Write a message as a line.

    Raises:
        ValueError: It holds a number that JSON cannot hold, such as the infinity that ``1e999`` is read as.
    """
    try:
        return _ENCODER.encode(message).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape and UTF-8 cannot hold
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def key_of(request_id: object) -> str:
    """The key of a request in a table: the ids ``1`` and ``"1"`` are two."""
    return json.dumps(request_id)


def is_message(value: object) -> TypeGuard[Message]:
    """Whether a value that was parsed is an object."""
    return isinstance(value, dict)


def is_request(message: Message) -> bool:
    """Whether a message wants an answer."""
    return "method" in message and "id" in message


def is_answer(message: Message) -> bool:
    """Whether a message is the answer to a request, or an error without one."""
    return "method" not in message and ("result" in message or "error" in message)


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
    """The id of a message of which only both ends are known, and whether the message is an answer.

    Returns:
        None if the id is in neither end: it is never guessed, so an ``id`` within the params is not taken for it.
    """
    found = _ID_IN_HEAD.match(head) or _ID_IN_TAIL.search(tail)
    request_id = json.loads(found[1].decode(errors="replace"), strict=False) if found else None
    return request_id, _METHOD.search(head) is None and _METHOD.search(tail) is None


def replace_id(line: bytes, sent: bytes, restored: bytes) -> bytes | None:
    """Put another id in the place of ours, byte for byte the same otherwise. None: ours is not there exactly once."""
    return line.replace(sent, restored, 1) if line.count(sent) == 1 else None


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
