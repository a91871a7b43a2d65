"""For tests of your own tools, stages and agents. README.md in this folder is the guide."""

from .assertions import assert_failure, assert_success
from .clocks import FakeClock, no_waiting
from .conformance import assert_trace
from .executor_rules import check_executor
from .overhead import Overhead, assert_overhead, measure
from .recorded_calls import RecordedCall, RecordedPipeline, record_calls
from .recording import RecordedSpans, recorded_spans
from .scripted_model import ScriptedModel
from .scripts import Script, script
from .stage_rules import check_stage

__all__ = [
    "FakeClock",
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
    "measure",
    "no_waiting",
    "record_calls",
    "recorded_spans",
    "script",
]
