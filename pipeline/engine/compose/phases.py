"""The phase of a call that a stage takes and the one that it hands on, read from its annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from ...base.foreign_values import or_default
from ...base.introspection import unwrap
from ..call import Call, ResolvedCall, ValidCall

_PHASES: dict[str, Any] = {cls.__name__: cls for cls in (Call, ResolvedCall, ValidCall)}


def read_check_phases(check: Callable[..., Any], names: dict[str, Any]) -> tuple[type[Call], type[Call]]:
    """Return the phase that a check takes, and the one that it returns on success.

    An annotation that is missing, or that cannot be evaluated, means any call. ``names`` is what an annotation may
    use besides the globals of the function.
    """
    signature = inspect.signature(check)
    takes = _phase_of_parameter(check, signature, 0, names)
    returned = _evaluate(check, signature.return_annotation, names)
    return takes, max(takes, *(_phase_of(each) for each in get_args(returned) or (returned,)), key=depth)


def read_middleware_phases(middleware: Callable[..., Any], names: dict[str, Any]) -> tuple[type[Call], type[Call]]:
    """Return the phase that a middleware takes, and the one that it hands to ``call_next``; see `read_check_phases`."""
    signature = inspect.signature(middleware)
    takes = _phase_of_parameter(middleware, signature, 0, names)
    if len(signature.parameters) == 1:
        return takes, takes
    handler = _evaluate(middleware, list(signature.parameters.values())[1].annotation, names)
    while get_origin(handler) is Annotated:
        handler = get_args(handler)[0]
    arguments: Any = get_args(handler)
    handed_on = arguments[0] if arguments and isinstance(arguments[0], list) else ()
    return takes, max(takes, _phase_of(handed_on[0]) if handed_on else Call, key=depth)


def read_end_phase(end: Callable[..., Any], names: dict[str, Any]) -> type[Call]:
    """Return the phase that the end of a stack takes; see `read_check_phases`."""
    return _phase_of_parameter(end, inspect.signature(end), 0, names)


def depth(phase: type[Call]) -> int:
    """The place of a phase in a call: a later phase has more ancestors."""
    return len(phase.__mro__)


def _phase_of_parameter(
    function: Callable[..., Any], signature: inspect.Signature, place: int, names: dict[str, Any]
) -> type[Call]:
    parameters = list(signature.parameters.values())
    return _phase_of(_evaluate(function, parameters[place].annotation, names)) if parameters else Call


@or_default(None)
def _evaluate(function: Callable[..., Any], annotation: Any, names: dict[str, Any]) -> Any:
    """One annotation by itself: the others may use names that exist for the type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    known = {**_PHASES, **names, **getattr(unwrap(function), "__globals__", {})}
    return eval(annotation, known)  # noqa: S307  # the author's own source


def _phase_of(hint: Any) -> type[Call]:
    """The phase that an annotation means; of several, the earliest."""
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Union[hint.__constraints__ or (Call,)]  # noqa: UP007  # of as many as there are
    if get_origin(hint) is Annotated:
        return _phase_of(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return min(map(_phase_of, get_args(hint)), key=depth)
    return hint if isinstance(hint, type) and issubclass(hint, Call) else Call
