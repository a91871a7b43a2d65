"""The address of a tool's function, ``module:name``: how a worker process finds it.

A function that a decorator has replaced by a `Tool` cannot be pickled, so it is sent by its address. The worker imports
the module and takes the function out of the `Tool` that it finds there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias, cast

from ..errors import SetupError
from ..tools.definition import Tool

Function: TypeAlias = Callable[..., Any]


def find_address(tool: Tool[..., Any]) -> str | None:
    """Find the address of the tool's function; None if no module has it under its own name, as for a closure."""
    module, name = getattr(tool.fn, "__module__", None), getattr(tool.fn, "__qualname__", None)
    if not module or not name:
        return None
    if _look_up(sys.modules.get(module), name) is not tool.fn:
        return None
    if module == "__main__" and (spec := getattr(sys.modules[module], "__spec__", None)) is not None:
        module = spec.name  # started by python -m: a worker knows it by its own name
    return f"{module}:{name}"


@cache
def load_function(address: str) -> Function:
    """Import the module of an address and return the function.

    Raises:
        SetupError: The module does not import, or has no such function.
    """
    module, _, name = address.partition(":")
    try:
        found = _look_up(import_module(module), name)
    except BaseException as exc:  # foreign code, which may even call sys.exit
        raise SetupError(f"{address} cannot be imported in the worker: {type(exc).__name__}: {exc}") from exc
    if not callable(found):
        raise SetupError(f"{address} does not exist in the worker: its {module} has no function {name}")
    return cast("Function", found)


def _look_up(module: object, name: str) -> object:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found.fn if isinstance(found, Tool) else cast("object", found)
