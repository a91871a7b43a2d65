"""Spans, metrics, log records and events, all computed from the report of a call.

README.md in this folder is the guide. Only `configure` and `FlushDeferred` load the SDK.
"""

import importlib
import typing

from ..report import Recorder
from ..semconv import SUPPRESS
from .call_spans import CallSpans
from .deferred import DeferredSpans
from .detail import Stages
from .fan_out import Sink
from .listeners import Listeners
from .logs import set_log_level
from .propagation import continued

if typing.TYPE_CHECKING:
    from .events import Event, Events, events_of
    from .sdk import FlushDeferred
    from .setup import Telemetry, configure

__all__ = [
    "SUPPRESS",
    "CallSpans",
    "DeferredSpans",
    "Event",
    "Events",
    "FlushDeferred",
    "Listeners",
    "Recorder",
    "Sink",
    "Stages",
    "Telemetry",
    "configure",
    "continued",
    "events_of",
    "set_log_level",
]
_LAZY = {  # name -> module: only applications set telemetry up, and few read events
    "Event": "events",
    "Events": "events",
    "FlushDeferred": "sdk",
    "Telemetry": "setup",
    "configure": "setup",
    "events_of": "events",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
