"""Mistakes in stages that only a call shows: which stage it was, what it did, and what to write instead."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, cast

from returns.result import Failure, Success

from ..call import Call
from ..errors import ERROR_TYPES, SetupError
from .stage import Stage


def explain_call(call: object) -> SetupError:
    """What was given to a pipeline is no call."""
    return SetupError(f"a pipeline takes a Call, not {_describe(call)}: pipeline.call(name, arguments) makes one")


def explain_verdict(checks: Sequence[Stage], verdict: object) -> SetupError | None:
    """A check returned something else than a call or a failure; None: it did not.

    Args:
        checks: Those of which it is one. It is named for sure if there is one, or one of a user's own.
        verdict: What it returned.
    """
    if isinstance(verdict, Call):
        return None
    if type(verdict) is Failure:
        return _explain_failure(checks, verdict)
    return SetupError(f"{_name(checks)} returned {_describe(verdict)}, and a check returns the call or Failure(error)")


def explain_answer(stages: Sequence[Stage], answer: object) -> SetupError | None:
    """A middleware or an end answered with something else than an Outcome; None: it did not.

    Args:
        stages: Those of which it is one, as above.
        answer: What it answered.
    """
    if type(answer) is Success:
        return None
    if type(answer) is Failure:
        return _explain_failure(stages, answer)
    if isinstance(answer, Coroutine):
        what = _describe(cast("object", answer))
        return SetupError(f"{_name(stages)} answered with {what}: write `return await call_next(call)`")
    return SetupError(
        f"{_name(stages)} answered with {_describe(answer)}, and a stage answers with an Outcome: Success(value), "
        "Failure(error), or what `await call_next(call)` gave"
    )


def _explain_failure(stages: Sequence[Stage], failure: Any) -> SetupError | None:
    error = failure.failure()
    if type(error) in ERROR_TYPES:
        return None
    return SetupError(
        f"{_name(stages)} gave Failure({type(error).__name__}), and a Failure holds a ToolError, such as "
        'Denied("who", approved("why"))'
    )


def check_verdict(check: Stage, verdict: object) -> None:
    """Raise SetupError for what no check may return."""
    if (mistake := explain_verdict((check,), verdict)) is not None:
        raise mistake


def check_answer(stage: Stage, answer: object) -> None:
    """Raise SetupError for what no middleware and no end may answer."""
    if (mistake := explain_answer((stage,), answer)) is not None:
        raise mistake


def _name(stages: Sequence[Stage]) -> str:
    """Ours make no such mistakes, and declare a kind."""
    names = [stage.name for stage in stages if not stage.placement.kind] or [stage.name for stage in stages]
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _describe(value: object) -> str:
    if isinstance(value, Coroutine):
        cast("Coroutine[Any, Any, Any]", value).close()  # nobody will await it, and Python would warn of that
        return "a coroutine"
    return "None (is a `return` missing?)" if value is None else f"a value of type {type(value).__name__}"
