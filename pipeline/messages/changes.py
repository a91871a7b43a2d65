"""What changed since the same tool's last failure: what is fixed, what is still wrong, what is the same as before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..errors import ExecutionFailed, InvalidParams, MalformedCall, ResourceNotFound, ToolError, UnknownTool
from .text import short

_MOST = 3  # names of one sort
_LONGEST = 50  # characters of such a name
_READABLE = 1_000_000  # characters of JSON text that is read once more only to be compared


def changes(error: ToolError, previous: ToolError) -> str:
    """A sentence for the model, or "" where there is nothing to say."""
    match error, previous:
        case InvalidParams(), InvalidParams():
            return "These are the same arguments as before." if _same(error, previous) else _progress(error, previous)
        case UnknownTool(), UnknownTool():
            return "This is the same name as before." if error.requested == previous.requested else ""
        case MalformedCall(), MalformedCall():
            return _again(error, previous)
        case (ResourceNotFound(), ResourceNotFound()) | (ExecutionFailed(), ExecutionFailed()):
            return "This is the same error as before." if error == previous else ""
        case _:
            return ""


def canonical_arguments(arguments: object) -> str | None:
    """Arguments in one form: JSON text, a mapping and None are equal here if they have the same content.

    None if they are not JSON.
    """
    try:
        if isinstance(arguments, str):
            arguments = json.loads(arguments or "{}")
        elif isinstance(arguments, Mapping):
            arguments = dict(cast("Mapping[Any, Any]", arguments))
        # As text, because 1, 1.0 and True are equal as values.
        return json.dumps({} if arguments is None else arguments, sort_keys=True)
    except Exception:  # noqa: BLE001  # a foreign value may raise anything
        return None


def _again(error: MalformedCall, previous: MalformedCall) -> str:
    if error.truncated and previous.truncated:
        return "They were cut off before, too."
    if error == previous and error.position is not None:
        return "It is the same mistake in the same place as before."
    return ""


def _progress(error: InvalidParams, previous: InvalidParams) -> str:
    now = dict.fromkeys(problem.path for problem in error.problems)
    before = dict.fromkeys(problem.path for problem in previous.problems)
    if "" in now and "" not in before:  # they came to nothing as a whole: nobody looked at the single ones
        return ""
    fixed = [path for path in before if path and path not in now and not _hidden(path, now)]
    still = [path for path in now if path in before]
    new = [path for path in now if path not in before]
    told = [
        f"{_named(paths)} {'is' if len(paths) == 1 else 'are'} {state}"
        for paths, state in ((fixed, "fixed"), (still, "still wrong"), (new, "now wrong"))
        if paths
    ]
    text = ", ".join(told)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _hidden(path: str, now: Mapping[str, object]) -> bool:
    """Whether it is inside of something that is wrong now, and so nobody looked at it."""
    return any(path.startswith((f"{other}.", f"{other}[")) for other in now)


def _named(paths: Sequence[str]) -> str:
    names = [f"`{short(path, _LONGEST).replace('`', chr(39))}`" if path else "the whole" for path in paths[:_MOST]]
    more = len(paths) - len(names)
    if more:
        return f"{', '.join(names)} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _same(error: InvalidParams, previous: InvalidParams) -> bool:
    sent, before = error.sent, previous.sent
    if sent is None or before is None:
        return bool(error.problems) and error.problems == previous.problems
    if sent is before:
        return True
    now, then = _read(sent), _read(before)
    if now is not None or then is not None:
        return now == then
    try:
        return bool(sent == before)
    except Exception:  # noqa: BLE001  # a foreign value may raise anything when it is compared
        return False


def _read(sent: object) -> str | None:
    return None if isinstance(sent, str) and len(sent) > _READABLE else canonical_arguments(sent)
