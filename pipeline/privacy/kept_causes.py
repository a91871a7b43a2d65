"""Exceptions that an error keeps: the stack as files, lines and functions, and no longer the frames themselves.

A traceback holds the frames of its functions with all their variables. From Python 3.12 on it also holds those of their
callers, one of which holds the outcome: a cycle. A failing call would stay in memory until the next collection of
garbage, with its arguments and all that its body had read. The variables may hold secrets, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, cast

from ..foreign_values import or_default

# Past a subclass that overrides them.
_STACK, _CAUSE, _CONTEXT = (vars(BaseException)[f"__{name}__"] for name in ("traceback", "cause", "context"))
_GROUP = vars(BaseExceptionGroup)["exceptions"]
_MOST = 1_000
_frames: dict[tuple[str, str, int, bytes], FrameType] = {}  # by the place that they stand for
_OF_A_MODULE = ("__name__", "__spec__", "__loader__")  # `traceback` finds the source by them


def release_frames(cause: Any) -> Any:
    """Replace the stack of an exception by one that prints the same and holds no variables.

    It is the same for its causes, its contexts and the exceptions of a group.

    Args:
        cause: An exception; anything else comes back as it is.
    """
    if isinstance(cause, BaseException):
        _release(cause)
    return cause


@or_default(None)  # a stack that cannot be copied stays
def _release(cause: BaseException) -> None:
    waiting, seen = [cause], {id(cause)}
    for each in waiting:
        stack = _STACK.__get__(each)
        if stack is not None and not _is_released(stack):
            _STACK.__set__(each, _copy(stack))
        for led in _list_led(each):
            if id(led) not in seen:
                seen.add(id(led))
                waiting.append(led)


def _list_led(exc: BaseException) -> Iterator[BaseException]:
    for led in (_CAUSE.__get__(exc), _CONTEXT.__get__(exc)):
        if led is not None:
            yield led
    if isinstance(exc, BaseExceptionGroup):
        yield from _GROUP.__get__(exc)


def _is_released(stack: TracebackType) -> bool:
    return stack.tb_frame.f_code.co_names == _MARKS


def _copy(stack: TracebackType | None) -> TracebackType | None:
    links: list[TracebackType] = []
    while stack is not None:
        links.append(stack)
        stack = stack.tb_next
    made: TracebackType | None = None
    for link in reversed(links):
        made = TracebackType(made, _stand_for(link.tb_frame), link.tb_lasti, link.tb_lineno)
    return made


def _stand_for(frame: FrameType) -> FrameType:
    code = frame.f_code
    if code.co_names == _MARKS:
        return frame
    place = code.co_filename, code.co_qualname, code.co_firstlineno, code.co_linetable
    found = _frames.get(place)
    if found is None:
        if len(_frames) >= _MOST:
            _frames.clear()
        found = _frames[place] = _make_frame(code, frame.f_globals)
    return found


def _make_frame(of: CodeType, module: dict[str, Any]) -> FrameType:
    """A frame at the place of another one, of a generator that never runs: it has no variables, and no caller."""
    code = _never.__code__
    missing = max(0, len(of.co_code) - len(code.co_code))
    code = code.replace(
        co_filename=of.co_filename,
        co_name=of.co_name,
        co_qualname=of.co_qualname,
        co_firstlineno=of.co_firstlineno,
        co_linetable=of.co_linetable,
        co_code=code.co_code + code.co_code[-2:] * (missing // 2),  # as long as the table of lines says
    )
    known = {name: module[name] for name in _OF_A_MODULE if name in module}
    return cast("FrameType", FunctionType(code, known)().gi_frame)


def _never() -> Iterator[object]:
    yield _NEVER_RAN


_NEVER_RAN = None
_MARKS = _never.__code__.co_names
