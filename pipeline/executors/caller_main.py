"""The ``__main__`` of the caller, in a worker process: tools and values may come from it."""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from types import ModuleType

from ..errors import SetupError


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
