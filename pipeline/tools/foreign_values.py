"""What a foreign value says of its failure. Nothing here raises: a field that cannot be read counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_TEXTS = ("error", "stderr", "message", "detail", "details", "reason")  # in the order of "Tool Error Handling Analysis"
_CODES = ("exitCode", "exit_code", "returncode")
_MAX_DEPTH = 8  # levels of errors within errors that are read: one may contain itself
_MAX_CODE = 2**63
_FALLBACK = "Tool execution failed"  # the document's


def is_error(value: object) -> bool:
    """Whether a value reports a failure, see `toolcall_pipeline.tools.detectors.returned_error`."""
    if read(value, "ok") is False or read(value, "success") is False or _has_error_flag(value):
        return True
    return find_exit_code(value) not in (None, 0) or _says_something(read(value, "error"))


def extract_error_text(value: object, top_level: str | None = None) -> str:
    """Find the text in which a value describes its failure; without blanks around it, and never empty.

    The first of these that is not blank: ``top_level``; the value itself, if it is text; its ``error`` (and the errors
    within that error), ``stderr``, ``message``, ``detail``, ``details``, ``reason``; the texts of an MCP result's
    ``content``; ``stdout``; "Command failed with exit code N"; "Tool execution failed".

    Args:
        value: Whatever a tool returned.
        top_level: A text that came beside the value. Default None: none did.
    """
    return clean(top_level) or find_text(value) or _FALLBACK


def find_text(value: object) -> str:
    """As `extract_error_text`, but "" if there is no text."""
    if issubclass(type(value), (str, bytes)):
        return clean(value)
    code = find_exit_code(value)
    failed = "" if code in (None, 0) else f"Command failed with exit code {code}"
    content = clean(read(value, "content")) if _has_error_flag(value) else ""
    return _search_keys(value, 0) or content or clean(read(value, "stdout")) or failed


def _search_keys(value: object, depth: int) -> str:
    for key in _TEXTS:
        found = read(value, key)
        text = clean(found)
        if not text and key == "error" and depth < _MAX_DEPTH and not isinstance(found, BaseException):
            text = _search_keys(found, depth + 1)
        if text:
            return text
    return ""


def clean(value: object) -> str:
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
    text = item if issubclass(type(item), str) else read(item, "text")  # MCP: {"type": "text", "text": …}
    return str.strip(text) if isinstance(text, str) else ""


def _has_error_flag(value: object) -> bool:
    return read(value, "isError") is True or read(value, "is_error") is True


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


def find_exit_code(value: object) -> int | None:
    """The exit code of a command; None without one."""
    for key in _CODES:
        if (code := _as_integer(read(value, key))) is not None:
            return code
    # ``code`` is what Node's child_process has. Without an output beside it, it may be the code of anything.
    has_output = isinstance(read(value, "stdout"), (str, bytes)) or isinstance(read(value, "stderr"), (str, bytes))
    return _as_integer(read(value, "code")) if has_output else None


def _as_integer(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    plain = int.__int__(value)  # a subclass may have an __int__ of its own
    return plain if abs(plain) < _MAX_CODE else None


def read(value: object, key: str) -> Any:
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
