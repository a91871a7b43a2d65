"""Refuse functions that a model could not call, when they are made tools. The texts say how to fix them."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter
from typing import Any, Final, get_args, get_origin

from ..base.introspection import unwrap
from ..base.setup_error import SetupError
from .context import ToolContext

_BOUND: Final = ("self", "cls")
_PLAIN: Final = (bool, int, float, str, bytes, list, tuple, set, dict)
_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)


def check_parameters(name: str, function: Callable[..., Any], left: Sequence[Parameter], *, context: bool) -> None:
    """Raise SetupError for parameters that no model can fill, or that the pipeline does not know how to fill."""
    _refuse_unbound_method(name, function, left)
    if context and not left:
        raise SetupError(f"{name}: context=True needs a first parameter for the ToolContext")
    for parameter in left[context:]:
        if parameter.kind in _BY_POSITION:
            star = "*" if parameter.kind is Parameter.VAR_POSITIONAL else ""
            kind = "takes arguments by position" if star else "is positional-only"
            wanted = f"; make it a list: `{parameter.name}: list[...]`" if star else ""
            raise SetupError(f"{name}: {star}{parameter.name} {kind}, and a model sends arguments by name{wanted}")
    functions_globals: dict[str, Any] = getattr(unwrap(function), "__globals__", {})
    for place, parameter in enumerate(left):
        if _mentions_context(parameter.annotation, functions_globals) and not (context and place == 0):
            way = "must be the first parameter" if context else "needs the option context=True of @tool"
            raise SetupError(f"{name}: {parameter.name} is a ToolContext, which {way}")
    if context and _is_plain(left[0].annotation):
        first = left[0].name
        raise SetupError(f"{name}: context=True makes its first parameter the ToolContext, and {first} is another type")
    _refuse_local_names(name, function, left[context:], functions_globals)


def _refuse_unbound_method(name: str, function: Callable[..., Any], left: Sequence[Parameter]) -> None:
    holder = getattr(function, "__qualname__", "").rpartition(".")[0]
    in_class = bool(holder) and not holder.endswith("<locals>")
    if in_class and inspect.isfunction(function) and left and left[0].name in _BOUND:
        cls = holder.rpartition(".")[2]
        raise SetupError(
            f"{name}: {left[0].name} would be asked of the model; make a tool of the bound method, "
            f"when there is an object: tools.tool({cls}(...).{function.__name__})"
        )


def _is_plain(annotation: Any) -> bool:
    """Whether a parameter is for arguments for sure; a user-defined class may be a context."""
    kind = get_origin(annotation) or annotation
    return kind in _PLAIN or (isinstance(kind, str) and kind.partition("[")[0] in [each.__name__ for each in _PLAIN])


def _mentions_context(annotation: Any, known: dict[str, Any]) -> bool:
    if isinstance(annotation, str):
        return any(each == "ToolContext" or known.get(each) is ToolContext for each in _list_names(annotation))
    return (get_origin(annotation) or annotation) is ToolContext or any(
        _mentions_context(each, known) for each in get_args(annotation)
    )


def _refuse_local_names(
    name: str, function: Callable[..., Any], wanted: Sequence[Parameter], known: dict[str, Any]
) -> None:
    """A function inside of another one is made when its module is complete, so a name that is missing now stays so."""
    if "<locals>" not in getattr(function, "__qualname__", ""):
        return
    for parameter in wanted:
        if isinstance(parameter.annotation, str):
            for each in _list_names(parameter.annotation, attributes=False):
                if each not in known and not hasattr(builtins, each):
                    raise SetupError(
                        f"{name}: the type of {parameter.name} is not found: {each} is no name of the module. Move "
                        f"{each} out of the function, or leave out `from __future__ import annotations`"
                    )


def _list_names(annotation: str, *, attributes: bool = True) -> Iterator[str]:
    try:
        tree = ast.parse(annotation, mode="eval")
    except SyntaxError:  # found when the annotation is read
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif attributes and isinstance(node, ast.Attribute):
            yield node.attr
