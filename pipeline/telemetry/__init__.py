"""Spans, metrics, log records and events, all computed from the report of a call.

README.md in this folder is the guide. Only `configure` and `FlushDeferred` load the SDK.
"""

import importlib
import typing

from ..report import LiveSink, Recorder, is_live_sink
from ..semconv import SUPPRESS
from .agents import Invocation, agent
from .call_spans import CallSpans
from .deferred import DeferredSpans
from .detail import Stages
from .fan_out import Sink
from .listeners import Listeners
from .logs import set_log_level
from .own_attributes import Describe
from .propagation import continued

if typing.TYPE_CHECKING:
    from .event_rows import Event, events_of
    from .events import Events, Reader
    from .following import follow
    from .sdk import FlushDeferred
    from .server_sent import encode_sse
    from .setup import Telemetry, configure

__all__ = [
    "SUPPRESS",
    "CallSpans",
    "DeferredSpans",
    "Describe",
    "Event",
    "Events",
    "FlushDeferred",
    "Invocation",
    "Listeners",
    "LiveSink",
    "Reader",
    "Recorder",
    "Sink",
    "Stages",
    "Telemetry",
    "agent",
    "configure",
    "continued",
    "encode_sse",
    "events_of",
    "follow",
    "is_live_sink",
    "set_log_level",
]
_LAZY = {  # name -> module: only applications set telemetry up, and few read events
    "Event": "event_rows",
    "Events": "events",
    "FlushDeferred": "sdk",
    "Reader": "events",
    "Telemetry": "setup",
    "configure": "setup",
    "encode_sse": "server_sent",
    "events_of": "event_rows",
    "follow": "following",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
