"""What others see of calls: spans, metrics, log records and events, all computed from the report of a call."""

import importlib
import typing

from .spans import continued

if typing.TYPE_CHECKING:
    from .setup import Telemetry, configure

__all__ = ["Telemetry", "configure", "continued"]


def __getattr__(name: str) -> typing.Any:
    if name not in ("Telemetry", "configure"):  # only applications set telemetry up
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".setup", __name__), name)
