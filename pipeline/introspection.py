"""What stands behind a callable: its own function, its docstring, and the parameters that are left to fill."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .errors import SetupError


def behind(function: Callable[..., Any]) -> Any:
    """The function whose code runs in the end: of a partial, a wrapper, a bound method, a class, a callable object."""
    plain: Any = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    if hasattr(plain, "__globals__"):
        return plain
    if isinstance(plain, type):
        return vars(plain).get("__init__")
    return inspect.unwrap(getattr(plain, "__func__", None) or type(plain).__call__)


def docstring(function: Callable[..., Any]) -> str:
    """What its author says of calling it; "" for nothing."""
    if isinstance(function, functools.partial):  # whose own docstring is about partial
        return docstring(function.func)
    if inspect.isroutine(function) or isinstance(function, type):
        return inspect.getdoc(function) or ""
    return inspect.getdoc(type(function).__call__) or inspect.getdoc(function) or ""


def bound(function: Callable[..., Any]) -> frozenset[str]:
    """The keyword arguments that a partial has filled: not the model's to see or to change."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that are left to fill. Raises SetupError where there is no telling."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise SetupError(f"{function!r} has no signature that could be read: wrap it in a function") from exc
    filled = bound(function)
    return [parameter for name, parameter in signature.parameters.items() if name not in filled]


def named(function: Callable[..., Any], skip: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a model gives them, by name, past the first ``skip`` parameters. Raises TypeError for too many."""
    if not args:
        return dict(kwargs)
    found = inspect.signature(function).bind_partial(*[None] * skip, *args, **kwargs)
    names = list(found.signature.parameters)[skip : skip + len(args)]
    return dict(kwargs) | {name: found.arguments[name] for name in names}
