"""For tests of your own tools, stages and agents. README.md in this folder is the guide."""

from .assertions import assert_failure, assert_success
from .chaos import Chaos, Injected
from .clocks import FakeClock, no_waiting
from .executor_rules import check_executor
from .overhead import Overhead, assert_overhead, measure
from .recording import RecordedCall, RecordedPipeline, RecordedSpans, record_calls, recorded_spans
from .scripted_model import Script, ScriptedModel, script
from .span_rules import assert_trace
from .stage_rules import check_stage
from .store_rules import check_store

__all__ = [
    "Chaos",
    "FakeClock",
    "Injected",
    "Overhead",
    "RecordedCall",
    "RecordedPipeline",
    "RecordedSpans",
    "Script",
    "ScriptedModel",
    "assert_failure",
    "assert_overhead",
    "assert_success",
    "assert_trace",
    "check_executor",
    "check_stage",
    "check_store",
    "measure",
    "no_waiting",
    "record_calls",
    "recorded_spans",
    "script",
]
