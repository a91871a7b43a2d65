"""Where tools run: in the event loop, in threads, in processes of this machine, on a Ray cluster."""

import typing

from .. import lazy_names
from ..event_loops import is_stray_cancellation
from ..guards import Guards, NotBegunError, enter, run_inside
from .body import begin_body, context_args, end_body, run_body
from .loop import Loop
from .protocol import Executor
from .thread import Thread

if typing.TYPE_CHECKING:
    from .process import Process, get_default_process
    from .ray.executor import Ray

__all__ = [
    "Executor",
    "Guards",
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
_NAMES = {"process": "Process get_default_process", "ray.executor": "Ray"}
__getattr__ = lazy_names.import_at_first_use(__name__, _NAMES)
