"""An Outcome as JSON, to keep it: plain values exactly, typed ones by the annotation of their tool, others as text.

There is no pickle: who can write to the store runs no code here. A cause is kept as the name of its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast, get_type_hints
from weakref import WeakKeyDictionary

from returns.result import Failure, Success

from ..base.foreign_values import FaultBarrier, or_default
from ..base.introspection import unwrap
from ..engine.errors import ERROR_TYPES, OutcomeUnknown, Transient
from ..engine.report.json_form import dump_error, load_error
from ..messages import render
from ..privacy import make_mask

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from ..engine.call import Outcome, ValidCall
    from ..tools.definition import Tool

NOT_KEPT: Final[Mapping[str, Any]] = {"n": "not kept"}  # it ended with an answer that cannot be told again
_BARRIER = FaultBarrier()
_FLAT = (type(None), bool, int, float, str)
_DEPTH = 32
_LONGEST = 256 * 1024  # characters of a value that is kept as text
_ADAPTERS: WeakKeyDictionary[FunctionType, TypeAdapter[Any]] = WeakKeyDictionary()  # to make one takes up to 0.5 ms


def write_outcome(outcome: Outcome, call: ValidCall) -> Mapping[str, Any]:
    """The outcome as JSON of its own: ``e`` an error, ``v`` a plain value, ``j`` a typed one, ``t`` a model's text.

    A declared secret is masked in an error. A value with one is `NOT_KEPT`, for masked it would be another answer; so
    is one that JSON cannot hold, or that raises when it is read.
    """
    mask = make_mask(call, call.tool)
    if type(outcome) is Failure:
        error: Any = cast("Any", outcome).failure()
        return {"e": dump_error(error if mask is None else mask.error(error))}
    try:
        kept = _write_value(outcome, call.tool)
        return NOT_KEPT if mask is not None and any(mask.value(each) != each for each in kept.values()) else kept
    except BaseException as exc:  # the value may be of a foreign class
        if not _BARRIER.stops(exc):
            raise
    return NOT_KEPT


def _write_value(outcome: Outcome, tool: Tool[..., Any]) -> dict[str, Any]:
    value: Any = outcome.unwrap()
    try:
        return {"v": _copy_plain(value, _DEPTH)}
    except _NotPlainError:
        pass
    adapter = _find_adapter(tool)
    if adapter is not None:
        with _BARRIER:  # a value that its own annotation does not describe; the text is left
            typed = adapter.dump_python(value, mode="json", warnings="error")
            if adapter.validate_python(typed) == value:
                return {"j": _copy_plain(typed, _DEPTH)}
    return {"t": str(render(outcome))[:_LONGEST]}


def read_outcome(kept: Mapping[str, Any], tool: Tool[..., Any]) -> Outcome:
    """The outcome that was written. One that cannot be read any more, after a release, is `OutcomeUnknown`."""
    kept = _copy(kept)  # who gets it may change what it holds
    with _BARRIER:  # written by another release, whose classes differ
        if "e" in kept:
            error = load_error(kept["e"])
            if type(error) in ERROR_TYPES:
                return Failure(error)
        if "j" in kept:
            return Success(cast("TypeAdapter[Any]", _find_adapter(tool)).validate_python(kept["j"]))
        if "n" in kept:
            return Failure(OutcomeUnknown(Transient(landed="yes"), tool.verify_with))
        return Success(kept["v"] if "v" in kept else kept["t"])
    return Failure(OutcomeUnknown(Transient(landed="maybe"), tool.verify_with))


@or_default(None)
def _find_adapter(tool: Tool[..., Any]) -> TypeAdapter[Any] | None:
    """The adapter of what the tool returns.

    None: it has no annotation, one with names that exist for the type checkers alone, or a type without a schema.
    """
    from pydantic import TypeAdapter  # here, for a pipeline loads no validator before the first typed result

    function = unwrap(tool.fn)
    known = _ADAPTERS.get(function) if isinstance(function, FunctionType) else None
    if known is not None:
        return known
    holder = SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
    hints = get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)
    made: TypeAdapter[Any] = TypeAdapter(hints["return"])
    if isinstance(function, FunctionType):
        _ADAPTERS[function] = made
    return made


class _NotPlainError(Exception):
    """JSON would give another value back."""


def _copy_plain(value: Any, depth: int) -> Any:
    """A copy of plain JSON, which nobody changes later.

    Raises:
        _NotPlainError: It is none, or too deep.
    """
    kind = cast("type[Any]", type(value))
    if kind in _FLAT and (kind is not float or isfinite(value)):
        return value
    if depth and kind is list:
        return [_copy_plain(each, depth - 1) for each in value]
    if depth and kind is dict and all(type(name) is str for name in value):
        return {name: _copy_plain(each, depth - 1) for name, each in value.items()}
    raise _NotPlainError


def _copy(kept: Any) -> Any:
    """A copy of JSON."""
    if type(kept) is list:
        return [_copy(each) for each in cast("list[Any]", kept)]
    if isinstance(kept, Mapping):
        return {name: _copy(each) for name, each in cast("Mapping[str, Any]", kept).items()}
    return kept
