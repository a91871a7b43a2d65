"""Spans, metrics, log records and events, all computed from the report of a call.

README.md in this folder is the guide. Only `configure` and `FlushDeferred` load the SDK.
"""

import typing

from .. import lazy_names
from ..report import LiveSink, Recorder, is_live_sink
from ..semconv import SUPPRESS
from .call_spans import CallSpans
from .deferred import DeferredSpans
from .detail import Stages
from .listeners import Listeners, Sink
from .logs import set_log_level
from .own_attributes import Describe
from .trace_context import Invocation, agent, continued

if typing.TYPE_CHECKING:
    from .event_rows import Event, encode_sse, events_of
    from .events import Events, Reader
    from .following import follow
    from .sdk import FlushDeferred
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
_NAMES = {  # module -> what it provides: only applications set telemetry up, and few read events
    "event_rows": "Event encode_sse events_of",
    "events": "Events Reader",
    "following": "follow",
    "sdk": "FlushDeferred",
    "setup": "Telemetry configure",
}
__getattr__ = lazy_names.import_at_first_use(__name__, _NAMES)
