"""The developer's log of the demo, in a file."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_LOGGERS = ("toolcall_pipeline", "opentelemetry")  # the second one logs why spans could not be sent


@contextmanager
def log_to_file(path: Path | None) -> Generator[Path]:
    """Send what the library logs to a file, and nowhere else. Yields the path.

    Args:
        path: The file to append to; None for a new temporary file, which is kept.
    """
    if path is None:
        with tempfile.NamedTemporaryFile(prefix="toolcall-demo-", suffix=".log", delete=False) as file:
            path = Path(file.name)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield path
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        handler.close()
