"""Where tools run: in the event loop, in threads, in processes of this machine, on a Ray cluster."""

import importlib
import typing

from .executor import Executor
from .local import Local
from .thread import Thread

if typing.TYPE_CHECKING:
    from .process import Process
    from .ray import Ray

__all__ = ["Executor", "Local", "Process", "Ray", "Thread"]
_LATER = {"Process": "process", "Ray": "ray"}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
