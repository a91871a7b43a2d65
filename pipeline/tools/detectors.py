"""Detectors: find a failure in the value that a tool returned, and return it as a `ToolError`.

For ``@tool(detect=…)``, tool by tool. `returned_error` reads every shape of the source document "Tool Error Handling
Analysis", and `exit_status` those of a command. Nothing here raises, whatever the value: a field that cannot be read
counts as absent. The texts that are found are foreign, so by default what a model should not see is removed from them.
A ``stack``, and the ``value`` that ``details`` may repeat, are never read.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

import attrs

from ..errors import Crashed, ExecutionFailed, FailureDetails, SetupError, ToolError
from ..messages.values import elide_middle
from ..privacy import PublicText, approved
from .client_rules import Kind
from .error_building import build_error
from .failure import FailureKind, ToolFailed, as_seconds
from .foreign_values import clean, extract_error_text, find_exit_code, find_text, is_error, read
from .http_status import kind_of_status
from .tool_options import Detector

# tell: as it came. scrub: without stacks, paths, addresses, class names, keys and passwords. hide: only a fixed text.
TextPolicy: TypeAlias = Literal["tell", "scrub", "hide"]

_MAX_TEXT = 8_000  # characters of a foreign text; the middle of a longer one is left out
_MAX_OUTPUT = 3_000  # of each output of a command
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
    - ``error`` is there and says something. None, False, 0 and an empty text or list say that there was no error; an
      empty mapping is an error, because that is what JSON makes of a JavaScript Error.

    The kind is what ``errorType`` names: ``validation``, ``not_found``, ``permission``, ``timeout``, ``configuration``,
    ``needs_input``, ``unavailable``, ``transient``; else what the ``type`` or the HTTP status of the error means; else
    ``execution``. Its text is that of `extract_error_text`, and ``parameter``, ``constraint`` and ``suggestion`` come
    from ``details``. An exception under ``error``, without a text beside it, counts as raised by the tool.

    A success in an envelope, ``{"ok": true, "data": …}``, becomes what the envelope holds.

    Args:
        text: What becomes of the texts that are found: ``"tell"`` them as they came; ``"scrub"``, the default, removes
            stacks, paths, addresses, class names, keys and passwords; ``"hide"`` tells the fixed text of the kind.

    Raises:
        SetupError: ``text`` is something else.
    """

    text: TextPolicy = attrs.field(default="scrub", converter=_check_policy, kw_only=True)

    def __call__(self, value: object) -> ToolError | None:
        """The failure that a value reports, or None."""
        return _build_error(value, self.text, find_text(value)) if is_error(value) else None

    def unwrap(self, value: object) -> object:
        """What the envelope of a success holds; any other value as it is."""
        given: Any = value
        if not isinstance(value, Mapping) or not (read(given, "ok") is True or read(given, "success") is True):
            return given
        try:
            envelope: dict[object, object] = dict(given)
        except Exception:  # noqa: BLE001  # a foreign mapping may raise anything
            return given
        inner = [name for name in ("data", "result") if name in envelope]
        return envelope[inner[0]] if len(inner) == 1 and _ENVELOPE.issuperset(envelope) else given


returned_error = ReturnedError()


def exit_status(*, allow_nonzero_exit: bool = False, text: TextPolicy = "scrub") -> Detector:
    """Make a detector for a tool that runs commands. If there is an exit code, it alone decides.

    The text tells the exit code, the command if the value has it (``args``, ``command`` or ``cmd``), then stderr and
    stdout, of each the head and the tail. A command that succeeded may have written to stderr.

    Args:
        allow_nonzero_exit: For commands that answer with their exit code, such as ``grep``: a value with an exit code
            is then never a failure. A value without one, from a command that never ran, is judged by `returned_error`.
            Default False.
        text: As for `ReturnedError`. The default, ``"scrub"``, leaves little of a stack trace: a tool that runs the
            model's own code may want ``"tell"``.

    Raises:
        SetupError: ``text`` is no policy.
    """
    returned = ReturnedError(text=text)

    def detect(value: object) -> ToolError | None:
        code = find_exit_code(value)
        if code is None:
            return returned(value)
        if allow_nonzero_exit or code == 0:
            return None
        return ExecutionFailed(approved(_describe_command(value, code, text)), _read_details(value, text))

    return detect


def _describe_command(value: object, code: int, policy: TextPolicy) -> str:
    failed = f"Command failed with exit code {code}"
    said = find_text({"error": read(value, "error"), "message": read(value, "message")})
    command = _publish(_read_command(value), policy, _MAX_COMMAND, command=True)
    parts = [said and _publish(said, policy, _MAX_OUTPUT), command and f"The command was: {command}"]
    outputs = ((name, _publish(clean(read(value, name)), policy, _MAX_OUTPUT)) for name in ("stderr", "stdout"))
    parts += [f"{name}:\n{text}" if "\n" in text else text and f"{name}: {text}" for name, text in outputs]
    shown = "\n".join(filter(None, parts))
    return f"{failed}. {shown}" if shown else failed


def _read_command(value: object) -> str:
    for name in ("command", "cmd", "args"):
        found = read(value, name)
        if isinstance(found, (list, tuple)):
            words = [each for each in cast("list[object]", found) if type(each) is str]
            return shlex.join(words)
        if text := clean(found):
            return text
    return ""


def _build_error(value: object, policy: TextPolicy, found: str) -> ToolError:
    cause = read(value, "error")
    exc = cause if isinstance(cause, BaseException) else None
    if exc is not None and not found:
        return Crashed(exc)  # for Classify; its text is private, as that of a raised exception
    kind = _find_kind(value)
    text = _publish(found, policy, _MAX_TEXT) if found else PublicText("Tool execution failed")
    if not text and (code := find_exit_code(value)):
        text = approved(f"Command failed with exit code {code}")
    if kind in ("timeout", "transient"):
        exc = ToolFailed(found or extract_error_text(value), kind=kind)  # a backend's, for the log
    return build_error(kind, "the tool", text, _read_details(value, policy), cause=exc)


def _find_kind(value: object) -> Kind:
    error = read(value, "error")
    for holder, name in ((value, "errorType"), (value, "error_type"), (error, "type"), (error, "code")):
        named = clean(read(holder, name)).lower().replace(" ", "_").replace("-", "_")
        if (kind := _NAMES.get(named)) is not None:
            return kind
    for holder in (value, error):
        for name in ("status", "statusCode", "status_code", "code"):
            if (status := kind_of_status(read(holder, name))) is not None:
                return status
    return "execution"


def _read_details(value: object, policy: TextPolicy) -> FailureDetails:
    details = read(value, "details")
    parameter = clean(read(details, "parameter"))
    constraint, suggestion = (
        _publish(clean(read(details, name)), policy, _MAX_OUTPUT) for name in ("constraint", "suggestion")
    )
    seconds = (read(holder, name) for holder in (value, details) for name in ("retryAfter", "retry_after"))
    wait = next((found for each in seconds if (found := as_seconds(each)) is not None), None)
    return FailureDetails(parameter or None, suggestion or None, constraint or None, retry_after=wait)


def _publish(text: str, policy: TextPolicy, limit: int, *, command: bool = False) -> PublicText:
    if policy == "hide" or not text:
        return PublicText("")
    text = elide_middle(text, limit)
    if policy == "scrub":
        from ..messages.scrub import mask, scrub  # 3 ms

        text = mask(text) if command else scrub(text)
    return approved(text)
