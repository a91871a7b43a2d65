"""The observer of a pipeline that has none: it logs the flow of each call while that log is on."""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry.context import get_current

from ..report import Recorder
from ..semconv import SUPPRESS
from ..tools.definition import Tool
from .fan_out import FanOutRecorder
from .logs import flow, log_flow

is_enabled_for = flow.isEnabledFor  # asked for each call of a pipeline without Trace


def observe_flow(tool: Tool[..., Any] | None, started: int) -> Recorder | None:  # noqa: ARG001  # as an Observer begins
    """As ``Observer.begin``: a recorder that logs the call when it ends, or None if nobody would read that."""
    if not is_enabled_for(logging.DEBUG) or not flow.hasHandlers() or get_current().get(SUPPRESS):
        return None
    return FanOutRecorder(None, tool, None, (log_flow,))
