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

    Args:
        exc: The exception that was raised in the current task.
    """
    asyncio = sys.modules.get("asyncio")  # a program that runs on trio may not have it
    if asyncio is None or not isinstance(exc, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop of asyncio runs here: this is trio, which raises its own
        return True
    return task is not None and not task.cancelling() and anyio.current_effective_deadline() != -inf


def is_failure_of_body(exc: BaseException) -> bool:
    """Whether a BaseException that a tool's body raised is a failure of that call alone.

    It is ``SystemExit``, by which argparse and click end a command, also in a group; or a stray cancellation. A
    KeyboardInterrupt and the cancellation of the caller pass.
    """
    if isinstance(exc, BaseExceptionGroup):
        return all(map(is_failure_of_body, cast("BaseExceptionGroup[BaseException]", exc).exceptions))
    if isinstance(exc, Exception):  # one of a group
        return True
    return isinstance(exc, SystemExit) or is_stray_cancellation(exc)
