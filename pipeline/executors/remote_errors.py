"""An exception of a tool travels between processes as itself, else as its parts, else as its name."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from ..base.foreign_values import FaultBarrier, or_default
from ..privacy import make_safe

Dumps: TypeAlias = Callable[[Any], bytes]  # as pickle.dumps
# The exception, or what it is made of: its type, its ``args`` and its attributes. And its stack, as text.
EncodedError: TypeAlias = tuple[Any, str]


class RemoteError(Exception):
    """Stands for an exception that cannot be pickled at all, and has the name of its type as its text."""


class RemoteTraceback(Exception):  # noqa: N818  # no error: where one came from
    """The stack of an exception in the process that raised it, as the ``__cause__`` of the exception here."""

    is_stack: ClassVar = True  # a log keeps its lines

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


def encode_error(exc: BaseException, dumps: Dumps) -> EncodedError:
    """Give an exception a form that ``dumps`` can pickle and that can be read again. Never raises."""
    return _make_picklable(exc, dumps), _format_stack(exc)


def decode_error(encoded: EncodedError) -> BaseException:
    """Make the exception again, with the other process's stack as its cause."""
    sent, stack = encoded
    exc = sent if isinstance(sent, BaseException) else _rebuild(*sent)
    exc.__cause__ = RemoteTraceback(stack)
    return exc


def _make_picklable(exc: BaseException, dumps: Dumps) -> object:
    if _survives(exc, dumps, type(exc)):
        return exc
    parts = (type(exc), _keep_picklable_args(exc.args, dumps), _keep_picklable_attributes(vars(exc), dumps))
    return parts if _survives(parts, dumps, tuple) else RemoteError(type(exc).__name__)


@or_default(default=False)  # a foreign __reduce__ may raise anything
def _survives(value: object, dumps: Dumps, kind: type | None = None) -> bool:
    """Whether it can be pickled and read again, and then is of that type."""
    read: object = pickle.loads(dumps(value))  # noqa: S301  # pickled right here
    return kind is None or type(read) is kind


def _keep_picklable_args(args: tuple[Any, ...], dumps: Dumps) -> tuple[Any, ...]:
    return tuple(value if _survives(value, dumps) else None for value in args)


def _keep_picklable_attributes(attributes: dict[str, Any], dumps: Dumps) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if _survives(value, dumps)}


def _format_stack(exc: BaseException) -> str:
    with FaultBarrier():  # a foreign __str__ may raise anything
        return "".join(traceback.format_exception(make_safe(exc)))
    return type(exc).__name__


def _rebuild(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    exc = kind.__new__(kind, *args)  # not kind(*args): its __init__ may want other arguments
    exc.args = args
    vars(exc).update(state)
    return exc
