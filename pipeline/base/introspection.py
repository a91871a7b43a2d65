"""Reads a callable for the pipeline: its function, whether that is async, its docstring and open parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .setup_error import SetupError


def unwrap(function: Callable[..., Any]) -> Any:
    """Find the function whose code runs: of a partial, a wrapper, a bound method, a class or a callable object.

    A class gives its ``__init__``, or None if it has none of its own.
    """
    inner: Any = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    if hasattr(inner, "__globals__"):
        return inner
    if isinstance(inner, type):
        return vars(inner).get("__init__")
    return inspect.unwrap(getattr(inner, "__func__", None) or type(inner).__call__)


def is_async(function: object) -> bool:
    """Whether calling it returns a coroutine, as far as its definition shows."""
    called = function if isinstance(function, type) else getattr(function, "__call__", None)  # noqa: B004  # it is not asked whether
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def get_docstring(function: Callable[..., Any]) -> str:
    """Return the docstring about calling it; "" if there is none."""
    if isinstance(function, functools.partial):  # its own docstring is the one of functools.partial
        return get_docstring(function.func)
    if inspect.isroutine(function) or isinstance(function, type):
        return inspect.getdoc(function) or ""
    own = inspect.getdoc(type(function).__call__)
    return (own if own != type.__call__.__doc__ else None) or inspect.getdoc(function) or ""  # of every __call__


def get_bound_names(function: Callable[..., Any]) -> frozenset[str]:
    """List the keyword arguments that a partial has filled: the model neither sees nor changes them."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def get_open_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """List the parameters that a partial has not filled; SetupError if Python cannot read the signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise SetupError(f"{function!r} has no signature that Python can read; wrap it in a function") from exc
    bound = get_bound_names(function)
    return [parameter for name, parameter in signature.parameters.items() if name not in bound]


def bind_by_name(
    function: Callable[..., Any], skip: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Convert positional and keyword arguments to the form that a model sends: all by name.

    Raises:
        TypeError: There are more arguments than parameters, or one is given twice.
    """
    if not args:
        return dict(kwargs)
    found = inspect.signature(function).bind_partial(*[None] * skip, *args, **kwargs)
    names = list(found.signature.parameters)[skip : skip + len(args)]
    return dict(kwargs) | {name: found.arguments[name] for name in names}
