"""The names that leave the process: attributes, metrics, spans, their units and the schema that they follow.

``gen_ai.*`` and ``error.type`` are OpenTelemetry's (semantic conventions 1.41.1, the last to define both),
``openinference.*`` and its kin are OpenInference's, ``toolcall.*`` are ours.
"""

from __future__ import annotations

SCOPE = "toolcall_pipeline"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
SUPPRESS = "suppress_instrumentation"  # the plain key that instrumentations look at
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"  # environment: the one opt-in to arguments and results

OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_DESCRIPTION = "gen_ai.tool.description"
CALL_ID = "gen_ai.tool.call.id"
CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
CALL_RESULT = "gen_ai.tool.call.result"
FUNCTION = "function"  # of the types of tool: run by the client
ERROR_TYPE = "error.type"
OTHER = "_OTHER"  # for a name that no tool has: models invent them without bound

ATTEMPTS = "toolcall.attempts"
ATTEMPT = "toolcall.attempt"
REPAIRS = "toolcall.repairs"
REQUESTED_NAME = "toolcall.tool.requested_name"
REASON = "toolcall.reason"
STAGE = "toolcall.stage"
STAGE_DURATION = "toolcall.stage.{}.duration"  # seconds, all runs of that stage in one call
RULE = "toolcall.repair.rule"

DURATION_METRIC = "gen_ai.execute_tool.duration"
RETRIES_METRIC = "toolcall.tool.retries"
REPAIRS_METRIC = "toolcall.tool.repairs"
ACTIVE_METRIC = "toolcall.tool.active_calls"
STAGE_METRIC = "toolcall.stage.duration"
# Seconds, as the conventions advise for the duration of a tool.
BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)

SPAN_KIND = "openinference.span.kind"
INPUT = "input.value"
INPUT_TYPE = "input.mime_type"
OUTPUT = "output.value"
OUTPUT_TYPE = "output.mime_type"
OI_NAME = "tool.name"
OI_ID = "tool.id"
OI_DESCRIPTION = "tool.description"
OI_PARAMETERS = "tool.parameters"
