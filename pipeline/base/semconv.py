"""The names of spans, attributes and metrics, with their units and the schema that they follow.

``gen_ai.*``, ``mcp.*``, ``jsonrpc.*`` and ``error.type`` come from OpenTelemetry. Its GenAI group keeps the first two
in a repository of its own since 1.42.0, without a schema of their own; the URL is of the newest release of the rest.
``openinference.*``, ``input.*``, ``output.*`` and ``tool.*`` come from OpenInference. ``toolcall.*`` are ours.
"""

from __future__ import annotations

SCOPE = "toolcall_pipeline"  # the instrumentation scope, and the name of the logger
VERSION = "0.1.0"  # of that scope and of the package; as in pyproject.toml, which tests/test_packaging.py compares
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
SUPPRESS = "suppress_instrumentation"  # the context key that switches other instrumentations off as well
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"  # environment variable: record arguments and results

OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
HOSTED_CALL = "toolcall"  # in its place, where a framework makes a span `execute_tool` for the same call
INVOKE_AGENT = "invoke_agent"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CALL_ID = "gen_ai.tool.call.id"
CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
CALL_RESULT = "gen_ai.tool.call.result"
FUNCTION = "function"  # the tool type for tools that the client runs
ERROR_TYPE = "error.type"
OTHER = "_OTHER"  # stands for every name that no tool has: models invent names without bound

EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"  # this and the next one in log records only
EXCEPTION_STACKTRACE = "exception.stacktrace"
TOOL_DESCRIPTION = "gen_ai.tool.description"
MCP_METHOD = "mcp.method.name"
REQUEST_ID = "jsonrpc.request.id"

ATTEMPTS = "toolcall.attempts"
ATTEMPT = "toolcall.attempt"
REPAIRS = "toolcall.repairs"
REQUESTED_NAME = "toolcall.tool.requested_name"
PRINCIPAL = "toolcall.principal"
REASON = "toolcall.reason"
DECIDED_BY = "toolcall.decided_by"  # the name of the stage that decided a failure
RETRY_WAIT = "toolcall.retry.wait"  # seconds that a call waited between its attempts
CAUSE = "toolcall.cause"  # of a call of unknown outcome: the kind of error that lost it
PROBLEMS = "toolcall.problems"  # ``parameter: rule`` for each
TOLD = "toolcall.told"  # content: the text of a failure, as the model got it
EFFECT = "toolcall.tool.effect"
EXECUTOR = "toolcall.executor"
LANDED = "toolcall.landed"
REPLAYED = "toolcall.replayed"  # the outcome is that of an earlier call: no body ran
STAGE = "toolcall.stage"
STAGE_DURATION = "toolcall.stage.{}.duration"  # seconds, the sum of all runs of that stage in one call
STAGE_VERDICT = "toolcall.stage.verdict"  # of a stage that passed on what another one decided
STAGE_SECONDS = "toolcall.stage.duration"  # on the span of a stage whose time has parts before and after its span
RULE = "toolcall.repair.rule"
STORE = "toolcall.store"  # the class of a store
STORE_OPERATION = "toolcall.store.operation"  # "get", "write" or "scan"

DURATION_METRIC = "gen_ai.execute_tool.duration"
RETRIES_METRIC = "toolcall.tool.retries"
RETRY_WAIT_METRIC = "toolcall.tool.retry_wait"
REPAIRS_METRIC = "toolcall.tool.repairs"
ANSWERS_METRIC = "toolcall.tool.answers"
ANSWER_ATTEMPT = "toolcall.answer.attempt"  # "2", "3" or "4+"; the first one failed
ANSWER_MENDED = "toolcall.answer.mended"
ACTIVE_METRIC = "toolcall.tool.active_calls"
DROPPED_METRIC = "toolcall.trace.dropped_calls"
STAGE_METRIC = "toolcall.stage.duration"
STORE_METRIC = "toolcall.store.duration"
PENDING_METRIC = "toolcall.approvals.pending"
PENDING_AGE_METRIC = "toolcall.approvals.pending_age"
UNDECIDED_METRIC = "toolcall.calls.undecided"
UNDECIDED_AGE_METRIC = "toolcall.calls.undecided_age"
# Seconds: the buckets that the conventions advise for the duration of a tool call.
BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
# Seconds: those that the conventions advise for an operation of a database.
STORE_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)

SPAN_KIND = "openinference.span.kind"
INPUT = "input.value"
INPUT_TYPE = "input.mime_type"
OUTPUT = "output.value"
OUTPUT_TYPE = "output.mime_type"
OI_SESSION = "session.id"
OI_USER = "user.id"
OI_NAME = "tool.name"
OI_ID = "tool.id"
OI_DESCRIPTION = "tool.description"
OI_PARAMETERS = "tool.parameters"
