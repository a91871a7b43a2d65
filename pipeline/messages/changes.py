"""Compares a failure with the previous one of the same tool: fixed problems, remaining ones, unchanged arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ..base.foreign_values import or_default
from ..engine.errors import ExecutionFailed, InvalidParams, MalformedCall, ResourceNotFound, ToolError, UnknownTool
from .text import shorten

SAME_ARGUMENTS = "These are the same arguments as before."
SAME_NAME = "This is the same name as before."
SAME_ERROR = "This is the same error as before."
SAME_MISTAKE = "It is the same mistake in the same place as before."
CUT_BEFORE = "They were cut off before, too."
_STOP = 10  # equal calls
_MAX_PATHS = 3  # paths in one list
_MAX_PATH = 50  # characters of a path
_MAX_COMPARED = 1_000_000  # characters of JSON text; a longer one is compared as it stands


def describe_change(error: ToolError, previous: ToolError) -> str:
    """Return a sentence for the model, or "" if there is nothing to say."""
    match error, previous:
        case InvalidParams(), InvalidParams():
            if _has_same_arguments(error, previous):
                return SAME_ARGUMENTS
            return compare_paths(*([problem.path for problem in each.problems] for each in (error, previous)))
        case UnknownTool(), UnknownTool():
            return SAME_NAME if error.requested == previous.requested else ""
        case MalformedCall(), MalformedCall():
            return _compare_malformed(error, previous)
        case (ResourceNotFound(), ResourceNotFound()) | (ExecutionFailed(), ExecutionFailed()):
            return SAME_ERROR if error == previous else ""
        case _:
            return ""


def describe_repetition(times: int) -> str:
    """Say that a call was sent again as it was, and was refused as it was: times is 3 or more."""
    advice = "Change it, or go on without it." if times < _STOP else "Stop sending it, and tell the user."
    return f"This is the same call again: it was refused {times} times. {advice}"


@or_default(None)
def canonical_arguments(arguments: object) -> str | None:
    """Return arguments as normalised JSON text; None if they are not JSON.

    JSON text, a mapping and None have the same normal form if their content is the same.
    """
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    elif isinstance(arguments, Mapping):
        arguments = dict(cast("Mapping[Any, Any]", arguments))
    # As text, because 1, 1.0 and True are equal as values.
    return json.dumps({} if arguments is None else arguments, sort_keys=True)


def _compare_malformed(error: MalformedCall, previous: MalformedCall) -> str:
    if error.truncated and previous.truncated:
        return CUT_BEFORE
    if error == previous and error.position is not None:
        return SAME_MISTAKE
    return ""


def compare_paths(wrong: Iterable[str], were_wrong: Iterable[str]) -> str:
    """A sentence about which parameters are fixed, still wrong and now wrong, or ""."""
    now, before = dict.fromkeys(wrong), dict.fromkeys(were_wrong)
    if "" in now and "" not in before:  # wrong as a whole: the single parameters were not checked
        return ""
    fixed = [path for path in before if path and path not in now and not _is_inside(path, now)]
    still = [path for path in now if path in before]
    new = [path for path in now if path not in before]
    parts = [
        f"{_list_paths(paths)} {'is' if len(paths) == 1 else 'are'} {state}"
        for paths, state in ((fixed, "fixed"), (still, "still wrong"), (new, "now wrong"))
        if paths
    ]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _is_inside(path: str, others: Mapping[str, object]) -> bool:
    """Whether the path is inside a value that is wrong now, so that it was not checked."""
    return any(path.startswith((f"{other}.", f"{other}[")) for other in others)


def _list_paths(paths: Sequence[str]) -> str:
    names = [
        f"`{shorten(path, _MAX_PATH).replace('`', chr(39))}`" if path else "the whole" for path in paths[:_MAX_PATHS]
    ]
    more = len(paths) - len(names)
    if more:
        return f"{', '.join(names)} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _has_same_arguments(error: InvalidParams, previous: InvalidParams) -> bool:
    sent, before = error.sent, previous.sent
    if sent is None or before is None:
        return bool(error.problems) and error.problems == previous.problems
    if sent is before:
        return True
    now, then = _read(sent), _read(before)
    if now is not None or then is not None:
        return now == then
    return _are_equal(sent, before)


@or_default(default=False)
def _are_equal(one: object, other: object) -> bool:
    return bool(one == other)


def _read(sent: object) -> str | None:
    return None if isinstance(sent, str) and len(sent) > _MAX_COMPARED else canonical_arguments(sent)
