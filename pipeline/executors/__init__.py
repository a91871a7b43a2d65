"""Where tools run: in the event loop, in threads, in processes of this machine, on a Ray cluster."""

import importlib
import typing

from ..event_loops import is_stray_cancellation
from ..guards import NotBegunError, enter, run_inside
from .body import begin_body, context_args, end_body, run_body
from .loop import Loop
from .protocol import Executor
from .thread import Thread

if typing.TYPE_CHECKING:
    from .process import Process, get_default_process
    from .ray.executor import Ray

__all__ = [
    "Executor",
    "Loop",
    "NotBegunError",
    "Process",
    "Ray",
    "Thread",
    "begin_body",
    "context_args",
    "end_body",
    "enter",
    "get_default_process",
    "is_stray_cancellation",
    "run_body",
    "run_inside",
]
_IMPORTED_AT_FIRST_USE = {"Process": "process", "Ray": "ray.executor", "get_default_process": "process"}


def __getattr__(name: str) -> typing.Any:
    if name not in _IMPORTED_AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_IMPORTED_AT_FIRST_USE[name]}", __name__), name)
