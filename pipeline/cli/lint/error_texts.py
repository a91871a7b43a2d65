"""What a model would be told, under each profile, of every error that a tool can come to: no tool is run for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import attrs

from ...errors import (
    Crashed,
    Denied,
    ExecutionFailed,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    OutcomeUnknown,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)
from ...messages import PROFILES, render
from ...messages.scrub import flaws
from ...privacy import approved
from ...tools.definition import Tool

_UNDECLARED = "no_such_parameter"
_VALUES: tuple[object, ...] = (None, {"no_such_key": 0}, [[0]], True, 0.5, "?")  # one of them is of a wrong type
_flaws = lru_cache(maxsize=1_000)(flaws)  # most texts are the same for all tools


@attrs.frozen
class Rendered:
    """The texts of one tool's errors."""

    texts: int  # under all profiles
    errors: int  # one text of each under the agentopia profile
    questions: int  # of those, how many are in question form
    flawed: tuple[tuple[str, str, str], ...]  # kind of the error, flaw (see `flaws`), text


def rendered(tool: Tool[..., Any], names: Sequence[str]) -> Rendered:
    """Each of `errors_of`, told under each profile."""
    errors = list(errors_of(tool, names))
    told = [
        (error.kind, profile, render(error, profile=profile, tool=tool.name))
        for error in errors
        for profile in PROFILES
    ]
    questions = sum(profile == "agentopia" and text.startswith("Question:") for _, profile, text in told)
    flawed = tuple((kind, flaw, text) for kind, _, text in told for flaw in _flaws(text))
    return Rendered(len(told), len(errors), questions, flawed)


def errors_of(tool: Tool[..., Any], names: Sequence[str]) -> Iterator[ToolError]:
    """Each kind of the union, those of the arguments once for each parameter. The tool is not run for it.

    Its arguments are checked, and with them what validators its author wrote. ``names`` are all that may be called.
    """
    yield UnknownTool(f"{tool.name}_", (tool.name,), tuple(names))
    yield Unavailable(tool.name, "disabled")
    yield NotExecuted("an earlier call of the batch failed")
    yield MalformedCall("expected `,` or `}`", (1, 12))
    yield MalformedCall("EOF while parsing a string", (1, 12), truncated=True)
    yield from _of_arguments(tool)
    yield NeedsUserInput("Which one is meant?")
    yield ResourceNotFound()
    yield Denied(tool.name)
    yield NeedsSetup(approved(tool.name))
    yield TimedOut(30.0)
    yield Transient(retry_after=5.0)
    yield ExecutionFailed()
    if tool.effect == "mutating":
        yield OutcomeUnknown(TimedOut(30.0), tool.verify_with)
    yield Crashed()


def _of_arguments(tool: Tool[..., Any]) -> Iterator[InvalidParams]:
    """Each parameter missing, if it has to be there; each of a wrong type; one that is not declared."""
    yield from _refused(tool, {}, "")
    for name in tool.definition()["parameters"].get("properties") or ():
        wrong = (each for value in _VALUES for each in _refused(tool, {name: value}, name))
        yield from islice(wrong, 1)
    yield from _refused(tool, {_UNDECLARED: 0}, _UNDECLARED)


def _refused(tool: Tool[..., Any], arguments: dict[str, object], name: str) -> Iterator[InvalidParams]:
    """One error for each of the problems at a parameter; "" is for those that are missing."""
    try:
        found: Any = tool.parse(arguments)
    except Exception:  # noqa: BLE001  # a validator of the user's own, and its bug is found elsewhere
        return
    if type(found) is InvalidParams:
        for problem in found.problems:
            here = problem.path == name or problem.path.startswith((f"{name}.", f"{name}["))
            if problem.rule == "required" if not name else here and problem.rule != "required":
                yield attrs.evolve(found, problems=(problem,))
