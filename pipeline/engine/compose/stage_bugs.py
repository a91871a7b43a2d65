"""Bugs of stages that only a call shows: the stage, what it did, and what to write instead."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, cast

from returns.result import Failure, Success

from ...base.setup_error import SetupError
from ..call import Call
from ..errors import ERROR_TYPES
from .stage import Stage


def explain_call(call: object) -> SetupError:
    """Explain that a pipeline was given something else than a call."""
    return SetupError(f"a pipeline takes a Call, not {_describe(call)}: pipeline.call(name, arguments) makes one")


def explain_verdict(checks: Sequence[Stage], verdict: object) -> SetupError | None:
    """Explain a verdict that is neither a call nor a failure; None: it is one of them."""
    if isinstance(verdict, Call):
        return None
    if type(verdict) is Failure:
        return _explain_failure(checks, verdict)
    return SetupError(f"{_name(checks)} returned {_describe(verdict)}, and a check returns the call or Failure(error)")


def explain_answer(stages: Sequence[Stage], answer: object) -> SetupError | None:
    """Explain an answer of a middleware or an end that is not an Outcome; None: it is one."""
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


def read_verdict(check: Stage, verdict: object) -> Call | Failure[Any]:
    """Return the verdict of a check; of a ``Success``, the call that it holds. SetupError if it is no verdict."""
    verdict = unwrap_call(verdict)
    if isinstance(verdict, Call):
        return verdict
    if (bug := explain_verdict((check,), verdict)) is not None:
        raise bug
    return cast("Failure[Any]", verdict)


def unwrap_call(verdict: object) -> object:
    """The call in a ``Success`` that a check returned; anything else as it is."""
    if type(verdict) is not Success:
        return verdict
    held = cast("Success[object]", verdict).unwrap()
    return held if isinstance(held, Call) else cast("object", verdict)


def check_answer(stage: Stage, answer: object) -> None:
    """Raise SetupError for an answer that is not an Outcome."""
    if (bug := explain_answer((stage,), answer)) is not None:
        raise bug


def _name(stages: Sequence[Stage]) -> str:
    """The stages that declare no kind: those that do are tested for such bugs."""
    names = [stage.name for stage in stages if not stage.placement.kind] or [stage.name for stage in stages]
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _describe(value: object) -> str:
    if isinstance(value, Coroutine):
        cast("Coroutine[Any, Any, Any]", value).close()  # it will not be awaited, and Python would warn of that
        return "a coroutine"
    return "None (is a `return` missing?)" if value is None else f"a value of type {type(value).__name__}"
