"""Find the code of a tool in a worker process: the address of its function, and the ``__main__`` of the caller.

A function that a decorator has replaced by a `Tool` cannot be pickled, so it is sent by its address. The worker imports
the module and takes the function out of the `Tool` that it finds there.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias, cast

from ..base.setup_error import SetupError
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
    """Import the module of an address and return the function; SetupError if either fails."""
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


class _CallerMain:
    """The ``__main__`` of the caller's process.

    It is loaded only for what refers to it, and under another name, so that ``if __name__ == "__main__":`` holds.
    """

    def __init__(self) -> None:
        self.loading = False
        self.misused = False  # it wants worker processes of its own while it is loaded
        self._source = ("", "")
        self._loaded = False
        self._failure: SetupError | None = None

    def set_source(self, name: str, file: str) -> None:
        """Say where it is: a module's name if it was started by ``python -m``, else a file; "" for neither."""
        self._source = name, file

    def load(self) -> None:
        """Load it, once. Raises SetupError if that fails, each time."""
        if not self._loaded:
            self._loaded = self.loading = True
            try:
                self._run()
            except BaseException as exc:  # noqa: BLE001  # foreign code, which may even call sys.exit
                self._failure = SetupError(f"__main__ cannot be imported in the worker: {type(exc).__name__}: {exc}")
            if self.misused:
                self._failure = SetupError(MISUSED)
            self.loading = False
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        name, file = self._source
        if name:
            main = import_module(name)
        elif file:
            main = ModuleType("__mp_main__")
            main.__dict__.update(runpy.run_path(file, run_name="__mp_main__"))
        else:
            return
        sys.modules["__main__"] = sys.modules["__mp_main__"] = main


CALLER_MAIN = _CallerMain()
MISUSED = 'a script that uses worker processes needs `if __name__ == "__main__":`, since its workers import it'
