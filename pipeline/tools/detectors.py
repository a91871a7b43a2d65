"""Detectors: find a failure in the value that a tool returned, and return it as a `ToolError`.

For ``@tool(detect=…)``, tool by tool. `returned_error` reads every shape of the source document "Tool Error Handling
Analysis", and `exit_status` reads results of commands. Nothing here raises, whatever the value: a field that cannot be
read counts as absent. The found texts are foreign, so by default they are scrubbed for the model.
A ``stack``, and the ``value`` that ``details`` may repeat, are never read.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal, TypeAlias, cast, get_args

import attrs

from ..base.foreign_values import FaultBarrier, or_default
from ..base.setup_error import SetupError
from ..engine.errors import Crashed, ExecutionFailed, FailureDetails, ToolError
from ..messages.values import elide_middle
from ..privacy import PublicText, approved
from .error_tables import build_error
from .failure import FailureKind, ToolFailed, as_seconds
from .http_failures import Kind, kind_of_status
from .tool_options import Detector

# "tell": as it came. "scrub": no stacks, paths, addresses, class names, keys and passwords. "hide": a fixed text.
TextPolicy: TypeAlias = Literal["tell", "scrub", "hide"]

_MAX_TEXT = 8_000  # characters of a foreign text; the middle of a longer one is left out
_MAX_OUTPUT = 3_000  # of each output of a command
_MOST_FACTS, _LONGEST_KEY = 20, 100  # of further details
# Read as what they are; and ``value``, which is what was sent, and may be a secret.
_READ_BY_NAME = frozenset(("parameter", "constraint", "suggestion", "retryAfter", "retry_after", "value"))
_MAX_COMMAND = 500
_ENVELOPE = frozenset(("ok", "success", "data", "result", "error", "message"))
# Names for a kind in the payloads of the usual services, beside the kinds themselves.
_NAMES: Mapping[str, Kind] = {
    **{kind: kind for kind in get_args(FailureKind)},
    **dict.fromkeys(("authentication_error", "unauthorized", "unauthenticated", "missing_api_key"), "configuration"),
    **dict.fromkeys(("invalid_api_key", "not_configured"), "configuration"),
    **dict.fromkeys(("permission_error", "permission_denied", "forbidden", "access_denied"), "permission"),
    "not_found_error": "not_found",
    **dict.fromkeys(("rate_limit_error", "rate_limited", "rate_limit_exceeded", "overloaded_error"), "transient"),
}


_TEXTS = ("error", "stderr", "message", "detail", "details", "reason")  # in the order of "Tool Error Handling Analysis"
_CODES = ("exitCode", "exit_code", "returncode")
_MAX_DEPTH = 8  # levels of errors within errors that are read: one may contain itself
_MAX_CODE = 2**63
_FALLBACK = "Tool execution failed"  # the document's


def _check_policy(text: TextPolicy) -> TextPolicy:
    if text not in get_args(TextPolicy):
        raise SetupError(f"`text` of a detector must be tell, scrub or hide, not {text!r}")
    return text


@attrs.frozen
class ReturnedError:
    """A detector for values that report their failure: mappings, or objects with such attributes.

    Each of these is a failure:

    - ``ok`` or ``success`` is False;
    - ``isError`` or ``is_error`` is True;
    - an exit code is not 0: ``exitCode``, ``exit_code``, ``returncode``, or ``code`` beside an output;
    - ``error`` is there and says something. None, False, 0 and an empty text or list mean success; an
      empty mapping is an error, because JSON makes it from a JavaScript Error.

    ``errorType`` names the kind: ``validation``, ``not_found``, ``permission``, ``timeout``, ``configuration``,
    ``needs_input``, ``unavailable``, ``transient``; else the ``type`` or the HTTP status of the error means one; else
    it is ``execution``. Its text comes from `extract_error_text`, and ``parameter``, ``constraint`` and ``suggestion``
    come from ``details``, as do its other texts, numbers and truth values. An exception under ``error``, without a text
    beside it, counts as raised by the tool.

    A success in an envelope, ``{"ok": true, "data": …}``, becomes the value in the envelope.

    Args:
        text: How the found texts reach the model: ``"tell"``, as they came; ``"scrub"``, the default, without
            stacks, paths, addresses, class names, keys and passwords; ``"hide"``, the fixed text of the kind.

    Raises:
        SetupError: ``text`` has another value.
    """

    text: TextPolicy = attrs.field(default="scrub", converter=_check_policy, kw_only=True)

    def __call__(self, value: object) -> ToolError | None:
        """Return the failure that a value reports, or None."""
        return _build_error(value, self.text, _find_text(value)) if is_error(value) else None

    def unwrap(self, value: object) -> object:
        """Return the value in the envelope of a success; any other value as it is."""
        given: Any = value
        if not isinstance(value, Mapping) or not (_read(given, "ok") is True or _read(given, "success") is True):
            return given
        envelope: dict[object, object] = {}
        with FaultBarrier():  # a foreign mapping may raise anything
            envelope = dict(given)
        inner = [name for name in ("data", "result") if name in envelope]
        return envelope[inner[0]] if len(inner) == 1 and _ENVELOPE.issuperset(envelope) else given


returned_error = ReturnedError()


def exit_status(*, allow_nonzero_exit: bool = False, text: TextPolicy = "scrub") -> Detector:
    """Make a detector for a tool that runs commands. If there is an exit code, it alone decides.

    The text has the exit code, the command if the value has it (``args``, ``command`` or ``cmd``), then stderr and
    stdout, of each the head and the tail. A command that succeeded may have written to stderr.

    Args:
        allow_nonzero_exit: For commands that answer with their exit code, such as ``grep``: a value with an exit code
            is then never a failure. A value without one, from a command that never ran, is judged by `returned_error`.
            Default False.
        text: As for `ReturnedError`. The default, ``"scrub"``, leaves little of a stack trace: a tool that runs the
            model's own code may want ``"tell"``.

    Raises:
        SetupError: ``text`` is not a `TextPolicy`.
    """
    returned = ReturnedError(text=text)

    def detect(value: object) -> ToolError | None:
        code = _find_exit_code(value)
        if code is None:
            return returned(value)
        if allow_nonzero_exit or code == 0:
            return None
        return ExecutionFailed(approved(_describe_command(value, code, text)), _read_details(value, text))

    return detect


def _describe_command(value: object, code: int, policy: TextPolicy) -> str:
    failed = f"Command failed with exit code {code}"
    said = _find_text({"error": _read(value, "error"), "message": _read(value, "message")})
    command = _publish(_read_command(value), policy, _MAX_COMMAND, command=True)
    parts = [said and _publish(said, policy, _MAX_OUTPUT), command and f"The command was: {command}"]
    outputs = ((name, _publish(_clean(_read(value, name)), policy, _MAX_OUTPUT)) for name in ("stderr", "stdout"))
    parts += [f"{name}:\n{text}" if "\n" in text else text and f"{name}: {text}" for name, text in outputs]
    shown = "\n".join(filter(None, parts))
    return f"{failed}. {shown}" if shown else failed


def _read_command(value: object) -> str:
    for name in ("command", "cmd", "args"):
        found = _read(value, name)
        if isinstance(found, (list, tuple)):
            words = [each for each in cast("list[object]", found) if type(each) is str]
            return shlex.join(words)
        if text := _clean(found):
            return text
    return ""


def _build_error(value: object, policy: TextPolicy, found: str) -> ToolError:
    cause = _read(value, "error")
    exc = cause if isinstance(cause, BaseException) else None
    if exc is not None and not found:
        return Crashed(exc)  # for Classify; its text is private, as if the tool had raised it
    kind = _find_kind(value)
    text = _publish(found, policy, _MAX_TEXT) if found else PublicText(_FALLBACK)
    if not text and (code := _find_exit_code(value)):
        text = approved(f"Command failed with exit code {code}")
    if kind in ("timeout", "transient"):
        exc = ToolFailed(found or extract_error_text(value), kind=kind)  # a backend's, for the log
    return build_error(kind, "the tool", text, _read_details(value, policy), cause=exc)


def _find_kind(value: object) -> Kind:
    error = _read(value, "error")
    for holder, name in ((value, "errorType"), (value, "error_type"), (error, "type"), (error, "code")):
        named = _clean(_read(holder, name)).lower().replace(" ", "_").replace("-", "_")
        if (kind := _NAMES.get(named)) is not None:
            return kind
    for holder in (value, error):
        for name in ("status", "statusCode", "status_code", "code"):
            if (status := kind_of_status(_read(holder, name))) is not None:
                return status
    return "execution"


def _read_details(value: object, policy: TextPolicy) -> FailureDetails:
    details = _read(value, "details")
    parameter = _clean(_read(details, "parameter"))
    constraint, suggestion = (
        _publish(_clean(_read(details, name)), policy, _MAX_OUTPUT) for name in ("constraint", "suggestion")
    )
    seconds = (_read(holder, name) for holder in (value, details) for name in ("retryAfter", "retry_after"))
    wait = next((found for each in seconds if (found := as_seconds(each)) is not None), None)
    more = _read_more(details, policy) or {}
    return FailureDetails(parameter or None, suggestion or None, constraint or None, retry_after=wait, more=more)


@or_default(None)
def _read_more(details: object, policy: TextPolicy) -> dict[str, object] | None:
    """The other plain facts of ``details``: numbers and truth values as they are, texts as the policy says."""
    found: dict[str, object] = {}
    if policy == "hide" or not isinstance(details, Mapping):
        return found
    for key, value in islice(cast("Mapping[object, object]", details).items(), _MOST_FACTS):
        if type(key) is not str or key in _READ_BY_NAME or len(key) > _LONGEST_KEY:
            continue
        if type(value) in (bool, int, float):
            found[key] = value
        elif type(value) is str and (text := _publish(_clean(value), policy, _MAX_OUTPUT)):
            found[key] = text
    return found


def _publish(text: str, policy: TextPolicy, limit: int, *, command: bool = False) -> PublicText:
    if policy == "hide" or not text:
        return PublicText("")
    text = elide_middle(text, limit)
    if policy == "scrub":
        from ..privacy import mask, scrub  # 3 ms

        text = mask(text) if command else scrub(text)
    return approved(text)


# --- reading a foreign value: nothing here raises, and a field that cannot be read counts as absent ---


def is_error(value: object) -> bool:
    """Whether a value reports a failure, see `toolcall_pipeline.tools.detectors.returned_error`."""
    if _read(value, "ok") is False or _read(value, "success") is False or _has_error_flag(value):
        return True
    return _find_exit_code(value) not in (None, 0) or _says_something(_read(value, "error"))


def extract_error_text(value: object, top_level: str | None = None) -> str:
    """Find the text with which a value describes its failure, stripped and never empty.

    The first of these that is not blank: ``top_level``; the value itself, if it is text; its ``error`` (and the errors
    within that error), ``stderr``, ``message``, ``detail``, ``details``, ``reason``; the texts of an MCP result's
    ``content``; ``stdout``; "Command failed with exit code N"; "Tool execution failed".

    Args:
        value: A value that a tool returned.
        top_level: A text that came beside the value. Default None: none did.
    """
    return _clean(top_level) or _find_text(value) or _FALLBACK


def _find_text(value: object) -> str:
    """As `extract_error_text`, but "" without a text."""
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


@or_default("")
def _clean(value: object) -> str:
    """A text without the blanks around it, or a list of texts as lines; "" for anything else."""
    if isinstance(value, (bytes, bytearray)):
        return value.decode(errors="replace").strip()
    if isinstance(value, str):
        return str.strip(value)  # a subclass may have a strip of its own
    if isinstance(value, (list, tuple)):
        items = cast("list[object]", value)
        return "\n".join(filter(None, (_clean_item(item) for item in items)))
    return ""


def _clean_item(item: object) -> str:
    text = item if issubclass(type(item), str) else _read(item, "text")  # MCP: {"type": "text", "text": …}
    return str.strip(text) if isinstance(text, str) else ""


def _has_error_flag(value: object) -> bool:
    return _read(value, "isError") is True or _read(value, "is_error") is True


@or_default(default=True)
def _says_something(error: object) -> bool:
    if error is None or error is False or callable(error):  # a method of that name is not an error
        return False
    if isinstance(error, (int, float)):
        return error != 0
    if isinstance(error, (str, bytes, list, tuple)):
        return bool(str.strip(error) if isinstance(error, str) else len(cast("list[object]", error)))
    return True


def _find_exit_code(value: object) -> int | None:
    """The exit code of a command; None without one."""
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


@or_default(None)
def _read(value: object, key: str) -> Any:
    """A mapping's value or an object's attribute; None if there is none, or if reading it raises."""
    if isinstance(value, Mapping):
        found: Any = cast("Mapping[str, Any]", value).get(key)
    else:
        found = getattr(value, key, None)
    _ = found.__class__  # a proxy may raise even here
    return found
