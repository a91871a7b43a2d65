"""What other systems return instead of raising: found in a tool's value, and put into our words.

For ``@tool(detect=…)``, declared tool by tool: `returned_error` reads every shape of the source document ("Tool Error
Handling Analysis"), and `exit_status` those of a command. Nothing here raises, whatever the value: a field that
cannot be read is one that is not there. What is found is its author's word and approved for the model, all but the
text of an exception; and never read are a ``stack``, and the ``value`` that ``details`` may repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..errors import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    Problem,
    ResourceNotFound,
    TimedOut,
    ToolError,
)
from ..privacy import PublicText, approved
from .definition import Detector
from .failure import ToolFailed

_TEXTS = ("error", "stderr", "message", "detail", "details", "reason")  # the document's order
_CODES = ("exitCode", "exit_code", "returncode")
_DEEPEST = 8  # errors within errors that are followed: one may hold itself
_LONGEST_CODE = 2**63
_FALLBACK = "Tool execution failed"  # the document's


def returned_error(value: object) -> ToolError | None:
    """The failure that a value tells of, or None. It may be a mapping, or an object with such attributes.

    Any one of these is a failure: ``ok`` or ``success`` is False, ``isError`` (``is_error``) is True, an exit code
    (``exitCode``, ``exit_code``, ``returncode``, or ``code`` beside an output) is not 0, ``error`` says something.
    Null, False, 0 and an empty text or list are how others say that there was none; ``{}`` is what JSON makes of a
    JavaScript Error. The text is that of `error_text`, and ``errorType`` chooses the kind: ``validation``,
    ``not_found``, ``permission``, ``timeout``, else ``execution``, each with the ``parameter`` and ``suggestion`` of
    ``details``. An ``error`` that is an exception counts as raised by the tool, unless a text stands beside it.
    """
    return _told(value) if is_error(value) else None


def exit_status(*, allow_nonzero_exit: bool = False) -> Detector:
    """A detector for what runs commands: where there is an exit code, that alone decides.

    A command that did well may write to stderr. ``allow_nonzero_exit=True`` is for those that answer with their exit
    code, as ``grep`` does: then only what has no exit code, since it never ran, can be a failure, see `returned_error`.
    """

    def detect(value: object) -> ToolError | None:
        code = _exit_code(value)
        if code is None:
            return returned_error(value)
        return None if allow_nonzero_exit or code == 0 else _told(value)

    return detect


def is_error(value: object) -> bool:
    """Whether a value tells of a failure, see `returned_error`."""
    if _read(value, "ok") is False or _read(value, "success") is False or _flagged(value):
        return True
    return _exit_code(value) not in (None, 0) or _says_something(_read(value, "error"))


def error_text(value: object, top_level: str | None = None) -> str:
    """What it says of its failure: the first text that is left when blanks are cut off, else a fixed one.

    ``top_level``, which came beside the value; a value that is text itself; its ``error`` (followed into errors within
    errors), ``stderr``, ``message``, ``detail``, ``details``, ``reason``; the texts of an MCP result's ``content``;
    ``stdout``; ``Command failed with exit code N``; ``Tool execution failed``.
    """
    return _text(top_level) or _own_text(value) or _FALLBACK


def _told(value: object) -> ToolError:
    said, details = _own_text(value), _read(value, "details")
    cause = _read(value, "error")
    if isinstance(cause, BaseException) and not said:
        return Crashed(cause)  # to be classified: that nobody has approved of its text is as true here
    text = approved(said or _FALLBACK)
    parameter, suggestion = _text(_read(details, "parameter")), _text(_read(details, "suggestion"))
    known = FailureDetails(parameter or None, approved(suggestion) if suggestion else None)
    match _text(_read(value, "errorType")) or _text(_read(value, "error_type")):
        case "validation":
            return InvalidParams((Problem(parameter, "validator", _advised(text, suggestion)),))
        case "not_found":
            return ResourceNotFound(text, known)
        case "permission":
            return Denied("the tool", _advised(text, suggestion))
        case "timeout":
            # Of what the tool asked: whether that took effect it cannot know. The text is for the log.
            return TimedOut(cause=ToolFailed(text, kind="timeout"))
        case _:
            return ExecutionFailed(text, known, cause=cause if isinstance(cause, BaseException) else None)


def _advised(text: PublicText, suggestion: str) -> PublicText:
    """Of the kinds that have no place for a suggestion, the text."""
    if not suggestion:
        return text
    return approved(f"{text if text.endswith(('.', '!', '?')) else text + '.'} {suggestion}")


def _own_text(value: object) -> str:
    if issubclass(type(value), (str, bytes)):
        return _text(value)
    code = _exit_code(value)
    failed = "" if code in (None, 0) else f"Command failed with exit code {code}"
    content = _text(_read(value, "content")) if _flagged(value) else ""
    return _keyed_text(value, 0) or content or _text(_read(value, "stdout")) or failed


def _keyed_text(value: object, depth: int) -> str:
    for key in _TEXTS:
        found = _read(value, key)
        text = _text(found)
        if not text and key == "error" and depth < _DEEPEST and not isinstance(found, BaseException):
            text = _keyed_text(found, depth + 1)
        if text:
            return text
    return ""


def _text(value: object) -> str:
    """A text without the blanks around it, or a list of texts as lines; "" for what is neither."""
    try:
        if isinstance(value, (bytes, bytearray)):
            return value.decode(errors="replace").strip()
        if isinstance(value, str):
            return str.strip(value)  # of a type of its own it may have another one
        if isinstance(value, (list, tuple)):
            items = cast("list[object]", value)
            return "\n".join(filter(None, (_line(item) for item in items)))
    except Exception:  # noqa: BLE001, S110  # the value is anybody's
        pass
    return ""


def _line(item: object) -> str:
    text = item if issubclass(type(item), str) else _read(item, "text")  # MCP: {"type": "text", "text": …}
    return str.strip(text) if isinstance(text, str) else ""


def _flagged(value: object) -> bool:
    return _read(value, "isError") is True or _read(value, "is_error") is True


def _says_something(error: object) -> bool:
    if error is None or error is False or callable(error):  # a method of that name is none
        return False
    try:
        if isinstance(error, (int, float)):
            return error != 0
        if isinstance(error, (str, bytes, list, tuple)):
            return bool(str.strip(error) if isinstance(error, str) else len(cast("list[object]", error)))
    except Exception:  # noqa: BLE001, S110  # the value is anybody's
        pass
    return True


def _exit_code(value: object) -> int | None:
    for key in _CODES:
        if (code := _integer(_read(value, key))) is not None:
            return code
    # As Node's child_process says it; alone it may be the code of anything.
    beside = isinstance(_read(value, "stdout"), (str, bytes)) or isinstance(_read(value, "stderr"), (str, bytes))
    return _integer(_read(value, "code")) if beside else None


def _integer(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    plain = int.__int__(value)  # of a type of its own it may do anything
    return plain if abs(plain) < _LONGEST_CODE else None


def _read(value: object, key: str) -> Any:
    """A mapping's value or an object's attribute; None where there is none, or where looking raises."""
    try:
        if isinstance(value, Mapping):
            found: Any = cast("Mapping[str, Any]", value).get(key)
        else:
            found = getattr(value, key, None)
        _ = found.__class__  # of a proxy even that may raise
    except Exception:  # noqa: BLE001  # the value is anybody's
        return None
    return found
