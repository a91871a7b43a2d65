"""Exceptions that an error keeps: the stack as files, lines and functions, and no longer the frames themselves.

A traceback holds the frames of its functions with all their variables. From Python 3.12 on it also holds the frames of
their callers. One of these holds the outcome, which is a cycle: a failing call would stay in memory until the next
collection of garbage, with its arguments and its variables. The variables may hold secrets, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final, cast

HOLDS_CALLERS: Final[bool] = sys.version_info >= (3, 12)  # before, most failing calls are freed by themselves
_MOST = 1_000
_frames: dict[int, tuple[CodeType, FrameType]] = {}  # by the id of a code, with the code, so that no other one gets it
_OF_A_MODULE = ("__name__", "__spec__", "__loader__")  # `traceback` finds the source by them


def release_frames(cause: Any) -> Any:
    """Replace the stack of an exception by one that prints the same and holds no variables.

    It is the same for its causes, its contexts and the exceptions of a group.
    """
    if isinstance(cause, BaseException):
        exc: BaseException = cause
        try:
            _release_one(exc)
            if exc.__context__ is not None or exc.__cause__ is not None or hasattr(exc, "exceptions"):
                _release_led(exc)
        except Exception:  # noqa: BLE001, S110  # one that overrides its attributes keeps its stack
            pass
    return cause


def _release_led(cause: BaseException) -> None:
    waiting, seen = [cause], {id(cause)}
    for each in waiting:
        _release_one(each)
        for led in _list_led(each):
            if led is not None and id(led) not in seen:
                seen.add(id(led))
                waiting.append(led)


def _list_led(exc: BaseException) -> list[BaseException | None]:
    inner = cast("BaseExceptionGroup[BaseException]", exc).exceptions if isinstance(exc, BaseExceptionGroup) else ()
    return [exc.__cause__, exc.__context__, *inner]


def _release_one(exc: BaseException) -> None:
    stack = exc.__traceback__
    if stack is None or ((found := _frames.get(id(stack.tb_frame.f_code))) and found[1] is stack.tb_frame):
        return
    links: list[TracebackType] = []
    while stack is not None:
        links.append(stack)
        stack = stack.tb_next
    for link in reversed(links):
        frame = link.tb_frame
        code = frame.f_code
        found = _frames.get(id(code))
        stack = TracebackType(stack, found[1] if found else _make_frame(frame), link.tb_lasti, link.tb_lineno)
    exc.__traceback__ = stack


def _make_frame(stands_for: FrameType) -> FrameType:
    """A frame at the place of another one, of a generator that never runs: it has no variables, and no caller."""
    of, module, code = stands_for.f_code, stands_for.f_globals, _never.__code__
    missing = max(0, len(of.co_code) - len(code.co_code))
    code = code.replace(
        co_filename=of.co_filename,
        co_name=of.co_name,
        co_qualname=of.co_qualname,
        co_firstlineno=of.co_firstlineno,
        co_linetable=of.co_linetable,
        # As long as the table of lines says: a debugger's trace function reads both, and a shorter code is a crash.
        co_code=code.co_code + code.co_code[-2:] * (missing // 2),
    )
    known = {name: module[name] for name in _OF_A_MODULE if name in module}
    frame = cast("FrameType", FunctionType(code, known)().gi_frame)
    if len(_frames) >= _MOST:
        _frames.clear()
    _frames[id(code)] = code, frame
    _frames[id(of)] = of, frame
    return frame


def _never() -> Iterator[None]:
    yield
