"""The loggers of the library: text from outside is escaped and cut in each of their records.

A record holds texts of a model, a backend or a tool: in its arguments, in its extra fields, and in its exception with
its causes, notes and group. A filter of the logger makes them safe, so handlers and formatters need not. It replaces an
exception by a stand-in of the same name, whose text is one line and whose chain is cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, cast

from ..base.foreign_values import safe_str
from ..base.semconv import SCOPE
from .escaping import neutralise

_MAX_TEXT = 2_000  # characters of the text of an exception
_MAX_STACK = 20_000  # characters of a stack from another process, which is the text of an exception here
_MAX_NOTE = 500  # characters of a note
_MAX_NOTES = 10  # of one exception
_MAX_NAME = 200  # characters of the name of a class
_KEPT_IN_CHAIN = 5  # of a longer chain of causes and contexts, at its beginning and at its end
_MAX_GROUP = 10  # exceptions of one group
_MAX_ALL = 30  # exceptions of one record, those in groups included
_KEPT_FRAMES = 15  # of a longer traceback, at its beginning and at its end
_LEFT_OUT = "further exceptions are left out"
_MAX_ARGUMENT = 10_000  # characters of an argument of a record: a list of problems is long
_MAX_EXTRA = 200  # characters of an extra field, such as the id of a call
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({})))


class StandIn(Exception):  # noqa: N818  # it stands for an exception of any name
    """Stands for an exception whose text came from outside."""

    def __str__(self) -> str:
        return str(self.args[0])


class StandInGroup(ExceptionGroup[Exception]):
    """Stands for an exception group."""

    def __str__(self) -> str:
        return str(self.args[0])


def make_safe(exc: BaseException, rewrite: Callable[[str], str] | None = None) -> Exception:
    """Make the stand-in of an exception, with stand-ins of its causes and contexts.

    It has the name, the traceback, the notes and the group of the exception. Each text is on one line, escaped and
    cut; a long chain, a wide or deep group and a long traceback are cut too, and a note says so. The stack of another
    process (an exception class with a true ``is_stack``) keeps its lines, and each of them is indented.

    Args:
        exc: Any exception. It is not changed. A stand-in comes back as it is.
        rewrite: Applied to each text first, for instance to mask secrets. Default None: texts are taken as they are.
    """
    if isinstance(exc, (StandIn, StandInGroup)):
        return exc
    return _Copying(rewrite or str).copy_chain(exc)


def cut_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Keep the first and the last 15 frames of a traceback; a short one comes back unchanged."""
    links: list[TracebackType] = []
    while traceback is not None:
        links.append(traceback)
        traceback = traceback.tb_next
    if len(links) <= 2 * _KEPT_FRAMES:
        return links[0] if links else None
    made: TracebackType | None = None
    for link in reversed(links[:_KEPT_FRAMES] + links[-_KEPT_FRAMES:]):
        made = TracebackType(made, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return made


class _Copying:
    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._left = _MAX_ALL
        self._seen: set[int] = set()  # ids, since an exception may be its own context

    def copy_chain(self, exc: BaseException) -> Exception:
        """Copy an exception and its chain. There is no recursion along the chain, because it may be of any length."""
        links = self._list_links(exc)
        cut = len(links) > 2 * _KEPT_IN_CHAIN
        if cut:
            links = links[:_KEPT_IN_CHAIN] + links[-_KEPT_IN_CHAIN:]
        first = last = self._copy_one(exc)
        for number, (led, is_cause) in enumerate(links, 1):
            if self._left <= 0:
                last.add_note(_LEFT_OUT)
                break
            copy = self._copy_one(led)
            if cut and number == _KEPT_IN_CHAIN:
                copy.add_note(_LEFT_OUT)
            if is_cause:
                last.__cause__ = copy
            else:
                last.__context__ = copy
            last = copy
        return first

    def _list_links(self, exc: BaseException) -> list[tuple[BaseException, bool]]:
        """List the causes and contexts that Python's traceback shows, each with whether it is a cause."""
        links: list[tuple[BaseException, bool]] = []
        self._seen.add(id(exc))
        while True:
            is_cause = exc.__cause__ is not None
            led = exc.__cause__ if is_cause else None if exc.__suppress_context__ else exc.__context__
            if led is None or id(led) in self._seen:
                return links
            self._seen.add(id(led))
            links.append((led, is_cause))
            exc = led

    def _copy_one(self, exc: BaseException) -> Exception:
        self._left -= 1
        is_stack = getattr(type(exc), "is_stack", False) is True
        text = _indent(self._describe(exc, _MAX_STACK, keep_lines=True)) if is_stack else self._describe(exc, _MAX_TEXT)
        names = (type(exc).__module__, type(exc).__qualname__)
        made: Exception
        if isinstance(exc, BaseExceptionGroup):
            made = self._copy_group(cast("BaseExceptionGroup[BaseException]", exc), text, *names)
        else:
            made = _make_class(*names)(text)
        notes: Any = getattr(cast("object", exc), "__notes__", None)
        if isinstance(notes, (list, tuple)):
            for note in cast("list[object]", notes)[:_MAX_NOTES]:
                made.add_note(self._describe(note, _MAX_NOTE))
            if len(cast("list[object]", notes)) > _MAX_NOTES:
                made.add_note("further notes are left out")
        return made.with_traceback(cut_traceback(exc.__traceback__))

    def _copy_group(
        self, group: BaseExceptionGroup[BaseException], text: str, module: str, name: str
    ) -> ExceptionGroup[Exception]:
        inner: list[Exception] = []
        for each in group.exceptions[:_MAX_GROUP]:
            if self._left <= 0:
                break
            inner.append(self.copy_chain(each))
        made = _make_group_class(module, name)(text, inner or [StandIn(_LEFT_OUT)])
        if len(inner) < len(group.exceptions):
            made.add_note(_LEFT_OUT)
        return made

    def _describe(self, value: object, limit: int, *, keep_lines: bool = False) -> str:
        text = safe_str(value)
        if len(text) > limit:  # of a secret that is cut here, the beginning is masked
            text = text[: 2 * limit]
        return neutralise(self._rewrite(text), keep_lines=keep_lines, limit=limit)


def _indent(text: str) -> str:
    """Indent all lines but the first, so that none looks like the first line of a record."""
    return text.replace("\n", "\n    ")


@lru_cache(maxsize=256)
def _make_class(module: str, name: str) -> type[StandIn]:
    return cast("type[StandIn]", _name_alike(type("StandIn", (StandIn,), {}), module, name))


@lru_cache(maxsize=64)
def _make_group_class(module: str, name: str) -> type[StandInGroup]:
    return cast("type[StandInGroup]", _name_alike(type("StandInGroup", (StandInGroup,), {}), module, name))


def _name_alike(made: Any, module: object, name: str) -> Any:
    made.__module__ = neutralise(str(module), limit=_MAX_NAME)
    made.__qualname__ = neutralise(name, limit=_MAX_NAME)
    made.__name__ = made.__qualname__.rpartition(".")[2]
    return made


class OutsideTextFilter(logging.Filter):
    """Escapes the texts of every record. It rejects none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape and cut the arguments, the extra fields and the exception of a record. Return True."""
        if isinstance(record.args, tuple):
            record.args = tuple(_make_printable(each, _MAX_ARGUMENT) for each in record.args)
        elif isinstance(record.args, Mapping):
            record.args = {key: _make_printable(each, _MAX_ARGUMENT) for key, each in record.args.items()}
        for name, value in vars(record).items():
            if name not in _STANDARD_FIELDS:
                setattr(record, name, _make_printable(value, _MAX_EXTRA))
        if record.exc_info and record.exc_info[1] is not None:
            safe = make_safe(record.exc_info[1])
            record.exc_info = (type(safe), safe, safe.__traceback__)
        return True


def _make_printable(value: Any, limit: int) -> Any:
    return neutralise(value, limit=limit) if isinstance(value, str) else value


_FILTER = OutsideTextFilter()


def get_logger(name: str = "") -> logging.Logger:
    """Return the logger of the library, or its child of that name."""
    logger = logging.getLogger(f"{SCOPE}.{name}" if name else SCOPE)
    logger.addFilter(_FILTER)  # once: a logger has each filter only once
    return logger
