"""The loggers of the library. What came from outside is escaped and bounded in each of their records.

A record holds texts of a model, a backend or a tool: in its arguments, in its extra fields, and in its exception with
its causes, notes and group. A filter of the logger makes them safe, so that no handler and no formatter has to.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..semconv import SCOPE
from .escaping import neutralise
from .safe_exceptions import make_safe

_MAX_TEXT = 10_000  # characters of an argument: those of many problems are long
_MAX_EXTRA = 200  # characters of an extra field, such as the id of a call
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({})))  # those that every record has


class OutsideTextFilter(logging.Filter):
    """Lets every record pass, and makes its texts safe to print."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape and bound what came from outside."""
        if isinstance(record.args, tuple):
            record.args = tuple(_make_printable(each, _MAX_TEXT) for each in record.args)
        elif isinstance(record.args, Mapping):
            record.args = {key: _make_printable(each, _MAX_TEXT) for key, each in record.args.items()}
        for name, value in vars(record).items():
            if name not in _OWN_FIELDS:
                setattr(record, name, _make_printable(value, _MAX_EXTRA))
        if record.exc_info and record.exc_info[1] is not None:
            safe = make_safe(record.exc_info[1])
            record.exc_info = (type(safe), safe, safe.__traceback__)
        return True


def _make_printable(value: Any, limit: int) -> Any:
    return neutralise(value, limit=limit) if isinstance(value, str) else value


_FILTER = OutsideTextFilter()


def get_logger(name: str = "") -> logging.Logger:
    """The logger of the library, or the one of that name below it."""
    logger = logging.getLogger(f"{SCOPE}.{name}" if name else SCOPE)
    logger.addFilter(_FILTER)  # once: a logger has each filter only once
    return logger
