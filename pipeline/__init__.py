"""A middleware pipeline for the tool calls that language models make. Each name is imported when it is first used."""

import typing

if __name__ == "pipeline":
    raise ImportError("import toolcall_pipeline: pipeline is only the folder of its source", name=__name__)

from returns.result import Failure, Success

from . import lazy_names, semconv

if typing.TYPE_CHECKING:
    from .batch import gather, gather_sync
    from .call import Call, Outcome, ResolvedCall, ValidCall, is_failure, is_success
    from .call_state import StateKey
    from .compose import Check, Handler, Middleware, Pipeline, Placement, Stack
    from .errors import (
        Crashed,
        Denied,
        ExecutionFailed,
        FailureDetails,
        InvalidParams,
        MalformedCall,
        NeedsSetup,
        NeedsUserInput,
        NotExecuted,
        OutcomeUnknown,
        Problem,
        Repair,
        ResourceNotFound,
        SetupError,
        TimedOut,
        ToolError,
        Transient,
        Unavailable,
        UnknownTool,
    )
    from .forking import register_after_fork
    from .messages import ToolCallError, raise_for_error, render
    from .outside_text import neutralise
    from .parameters import Limits
    from .privacy import PublicText, Redact, RemoteCause, Secret, approved
    from .report import Attempt, CallReport, Progress, RetryDecision, StageRecord
    from .retries import RetryBudget, RetryPolicy
    from .tools import (
        Effect,
        ErrorEntry,
        Errors,
        ErrorTable,
        ReturnedError,
        Tool,
        ToolContext,
        ToolFailed,
        ToolRegistry,
        ToolView,
        classify_own,
        exit_status,
        not_begun,
        returned_error,
        tool,
    )

__version__ = semconv.VERSION

__all__ = [
    "Attempt",
    "Call",
    "CallReport",
    "Check",
    "Crashed",
    "Denied",
    "Effect",
    "ErrorEntry",
    "ErrorTable",
    "Errors",
    "ExecutionFailed",
    "Failure",
    "FailureDetails",
    "Handler",
    "InvalidParams",
    "Limits",
    "MalformedCall",
    "Middleware",
    "NeedsSetup",
    "NeedsUserInput",
    "NotExecuted",
    "Outcome",
    "OutcomeUnknown",
    "Pipeline",
    "Placement",
    "Problem",
    "Progress",
    "PublicText",
    "Redact",
    "RemoteCause",
    "Repair",
    "ResolvedCall",
    "ResourceNotFound",
    "RetryBudget",
    "RetryDecision",
    "RetryPolicy",
    "ReturnedError",
    "Secret",
    "SetupError",
    "Stack",
    "StageRecord",
    "StateKey",
    "Success",
    "TimedOut",
    "Tool",
    "ToolCallError",
    "ToolContext",
    "ToolError",
    "ToolFailed",
    "ToolRegistry",
    "ToolView",
    "Transient",
    "Unavailable",
    "UnknownTool",
    "ValidCall",
    "approved",
    "classify_own",
    "exit_status",
    "gather",
    "gather_sync",
    "is_failure",
    "is_success",
    "neutralise",
    "not_begun",
    "raise_for_error",
    "register_after_fork",
    "render",
    "returned_error",
    "tool",
]
_NAMES = {  # module -> what it provides; as the imports above, which the type checkers read
    "batch": "gather gather_sync",
    "call": "Call Outcome ResolvedCall ValidCall is_failure is_success",
    "call_state": "StateKey",
    "compose": "Check Handler Middleware Pipeline Placement Stack",
    "errors": (
        "Crashed Denied ExecutionFailed FailureDetails InvalidParams MalformedCall NeedsSetup NeedsUserInput "
        "NotExecuted OutcomeUnknown Problem Repair ResourceNotFound SetupError TimedOut ToolError Transient "
        "Unavailable UnknownTool"
    ),
    "forking": "register_after_fork",
    "messages": "ToolCallError raise_for_error render",
    "outside_text": "neutralise",
    "parameters": "Limits",
    "privacy": "PublicText Redact RemoteCause Secret approved",
    "report": "Attempt CallReport Progress RetryDecision StageRecord",
    "retries": "RetryBudget RetryPolicy",
    "tools": (
        "Effect ErrorEntry Errors ErrorTable ReturnedError Tool ToolContext ToolFailed ToolRegistry "
        "ToolView classify_own exit_status not_begun returned_error tool"
    ),
    "middlewares": "",
    "telemetry": "",
}
__getattr__ = lazy_names.import_at_first_use(__name__, _NAMES)
