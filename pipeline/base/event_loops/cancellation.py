"""A BaseException that is not an Exception: a cancelled task, or a failure of the call that raised it."""

from __future__ import annotations

import sys
from math import inf
from typing import cast

import anyio


def is_stray_cancellation(exc: BaseException) -> bool:
    """Whether asyncio's CancelledError came from something else that was cancelled, such as a task that was awaited.

    The task that sees it was not cancelled, so for this task it is a failure. The answer is True only where that is
    certain: no native cancellation of the task and no scope of anyio is under way. A trio.Cancelled is never stray.
    """
    asyncio = sys.modules.get("asyncio")  # a program that runs on trio may not have it
    if asyncio is None or not isinstance(exc, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop of asyncio runs here: this is trio, which raises its own
        return True
    return task is not None and not task.cancelling() and anyio.current_effective_deadline() != -inf


class Passes(BaseException):
    """An exception of our own that leaves a pipeline, for whoever raised it catches it around the call."""


def is_failure_of_body(exc: BaseException) -> bool:
    """Whether what a body or a stage raised is a failure of that call alone.

    It is any exception but a KeyboardInterrupt, a GeneratorExit, the cancellation of the caller, and one that
    `Passes`; so SystemExit, by which argparse and click end a command, and the classes with which packages avoid an
    ``except Exception``. A group is one if each exception in it is.
    """
    if isinstance(exc, Exception):
        return True
    if isinstance(exc, BaseExceptionGroup):
        return all(map(is_failure_of_body, cast("BaseExceptionGroup[BaseException]", exc).exceptions))
    if isinstance(exc, (KeyboardInterrupt, GeneratorExit, Passes)):
        return False
    return is_stray_cancellation(exc) or not isinstance(exc, _list_cancellations())


def _list_cancellations() -> tuple[type[BaseException], ...]:
    """The classes by which event loops cancel a task; of those that this program has loaded."""
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio")
    loaded = (getattr(asyncio, "CancelledError", None), getattr(trio, "Cancelled", None))
    return tuple(each for each in loaded if each is not None)
