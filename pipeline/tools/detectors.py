"""Detectors: find a failure in the value that a tool returned, and return it as a `ToolError`.

For ``@tool(detect=…)``, tool by tool. `returned_error` reads every shape of the source document "Tool Error Handling
Analysis", and `exit_status` those of a command. Nothing here raises, whatever the value: a field that cannot be read
counts as absent. The texts that are found come from the tool and so are approved for the model, except the text of an
exception. A ``stack``, and the ``value`` that ``details`` may repeat, are never read.
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

_TEXTS = ("error", "stderr", "message", "detail", "details", "reason")  # in the document's order
_CODES = ("exitCode", "exit_code", "returncode")
_MAX_DEPTH = 8  # levels of errors within errors that are read: one may contain itself
_MAX_CODE = 2**63
_FALLBACK = "Tool execution failed"  # the document's


def returned_error(value: object) -> ToolError | None:
    """The failure that a value reports, or None. The value may be a mapping, or an object with such attributes.

    Each of these is a failure:

    - ``ok`` or ``success`` is False;
    - ``isError`` or ``is_error`` is True;
    - an exit code is not 0: ``exitCode``, ``exit_code``, ``returncode``, or ``code`` beside an output;
    - ``error`` is there and says something. None, False, 0 and an empty text or list say that there was no error; an
      empty mapping is an error, because that is what JSON makes of a JavaScript Error.

    Returns:
        An error of the kind that ``errorType`` names: ``validation``, ``not_found``, ``permission``, ``timeout``, else
        ``execution``; with the text of `extract_error_text`, and the ``parameter`` and ``suggestion`` of ``details``. A
        crash for an exception under ``error``, unless a text stands beside it: it counts as raised by the tool.
    """
    return _build_error(value) if is_error(value) else None


def exit_status(*, allow_nonzero_exit: bool = False) -> Detector:
    """Make a detector for a tool that runs commands. If there is an exit code, it alone decides.

    A command that succeeded may have written to stderr.

    Args:
        allow_nonzero_exit: For commands that answer with their exit code, such as ``grep``: a value with an exit code
            is then never a failure. A value without one, from a command that never ran, is judged by `returned_error`.
            Default False.
    """

    def detect(value: object) -> ToolError | None:
        code = _find_exit_code(value)
        if code is None:
            return returned_error(value)
        return None if allow_nonzero_exit or code == 0 else _build_error(value)

    return detect


def is_error(value: object) -> bool:
    """Whether a value reports a failure, see `returned_error`."""
    if _read(value, "ok") is False or _read(value, "success") is False or _has_error_flag(value):
        return True
    return _find_exit_code(value) not in (None, 0) or _says_something(_read(value, "error"))


def extract_error_text(value: object, top_level: str | None = None) -> str:
    """Find the text in which a value describes its failure; without blanks around it, and never empty.

    The first of these that is not blank: ``top_level``; the value itself, if it is text; its ``error`` (and the errors
    within that error), ``stderr``, ``message``, ``detail``, ``details``, ``reason``; the texts of an MCP result's
    ``content``; ``stdout``; "Command failed with exit code N"; "Tool execution failed".

    Args:
        value: Whatever a tool returned.
        top_level: A text that came beside the value. Default None: none did.
    """
    return _clean(top_level) or _find_text(value) or _FALLBACK


def _build_error(value: object) -> ToolError:
    found, details = _find_text(value), _read(value, "details")
    cause = _read(value, "error")
    if isinstance(cause, BaseException) and not found:
        return Crashed(cause)  # for Classify; its text is private, as that of a raised exception
    text = approved(found or _FALLBACK)
    parameter, suggestion = _clean(_read(details, "parameter")), _clean(_read(details, "suggestion"))
    known = FailureDetails(parameter or None, approved(suggestion) if suggestion else None)
    match _clean(_read(value, "errorType")) or _clean(_read(value, "error_type")):
        case "validation":
            return InvalidParams((Problem(parameter, "validator", _append(text, suggestion)),))
        case "not_found":
            return ResourceNotFound(text, known)
        case "permission":
            return Denied("the tool", _append(text, suggestion))
        case "timeout":
            # The time-out of a backend, so nobody knows whether the call took effect there. The text is for the log.
            return TimedOut(cause=ToolFailed(text, kind="timeout"))
        case _:
            return ExecutionFailed(text, known, cause=cause if isinstance(cause, BaseException) else None)


def _append(text: PublicText, suggestion: str) -> PublicText:
    """The text with the suggestion, for an error that has no field for it."""
    if not suggestion:
        return text
    return approved(f"{text if text.endswith(('.', '!', '?')) else text + '.'} {suggestion}")


def _find_text(value: object) -> str:
    if issubclass(type(value), (str, bytes)):
        return _clean(value)
    code = _find_exit_code(value)
    failed = "" if code in (None, 0) else f"Command failed with exit code {code}"
    content = _clean(_read(value, "content")) if _has_error_flag(value) else ""
    return _search_keys(value, 0) or content or _clean(_read(value, "stdout")) or failed


def _search_keys(value: object, depth: int) -> str:
    for key in _TEXTS:
        found = _read(value, key)
        text = _clean(found)
        if not text and key == "error" and depth < _MAX_DEPTH and not isinstance(found, BaseException):
            text = _search_keys(found, depth + 1)
        if text:
            return text
    return ""


def _clean(value: object) -> str:
    """A text without the blanks around it, or a list of texts as lines; "" for anything else."""
    try:
        if isinstance(value, (bytes, bytearray)):
            return value.decode(errors="replace").strip()
        if isinstance(value, str):
            return str.strip(value)  # a subclass may have a strip of its own
        if isinstance(value, (list, tuple)):
            items = cast("list[object]", value)
            return "\n".join(filter(None, (_clean_item(item) for item in items)))
    except Exception:  # noqa: BLE001, S110  # a foreign value may raise anything
        pass
    return ""


def _clean_item(item: object) -> str:
    text = item if issubclass(type(item), str) else _read(item, "text")  # MCP: {"type": "text", "text": …}
    return str.strip(text) if isinstance(text, str) else ""


def _has_error_flag(value: object) -> bool:
    return _read(value, "isError") is True or _read(value, "is_error") is True


def _says_something(error: object) -> bool:
    if error is None or error is False or callable(error):  # a method of that name is not an error
        return False
    try:
        if isinstance(error, (int, float)):
            return error != 0
        if isinstance(error, (str, bytes, list, tuple)):
            return bool(str.strip(error) if isinstance(error, str) else len(cast("list[object]", error)))
    except Exception:  # noqa: BLE001, S110  # a foreign value may raise anything
        pass
    return True


def _find_exit_code(value: object) -> int | None:
    for key in _CODES:
        if (code := _as_integer(_read(value, key))) is not None:
            return code
    # ``code`` is what Node's child_process has. Without an output beside it, it may be the code of anything.
    has_output = isinstance(_read(value, "stdout"), (str, bytes)) or isinstance(_read(value, "stderr"), (str, bytes))
    return _as_integer(_read(value, "code")) if has_output else None


def _as_integer(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    plain = int.__int__(value)  # a subclass may have an __int__ of its own
    return plain if abs(plain) < _MAX_CODE else None


def _read(value: object, key: str) -> Any:
    """A mapping's value or an object's attribute; None if there is none, or if reading it raises."""
    try:
        if isinstance(value, Mapping):
            found: Any = cast("Mapping[str, Any]", value).get(key)
        else:
            found = getattr(value, key, None)
        _ = found.__class__  # a proxy may raise even here
    except Exception:  # noqa: BLE001  # a foreign value may raise anything
        return None
    return found
