"""A middleware pipeline for the tool calls that language models make."""

from returns.result import Failure, Success

from .batch import gather, gather_sync
from .call import Call, Outcome, ResolvedCall, ValidCall, is_failure, is_success
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
from .parameters import Limits
from .privacy import PublicText, RemoteCause, approved
from .report import Attempt, CallReport, Progress, RetryDecision, StageRecord
from .retries import RetryBudget, RetryPolicy
from .tools import Effect, Tool, ToolContext, ToolFailed, ToolRegistry, exit_status, returned_error, tool

__version__ = "0.1.0"  # as in pyproject.toml; tests/test_packaging.py compares them

__all__ = [
    "Attempt",
    "Call",
    "CallReport",
    "Check",
    "Crashed",
    "Denied",
    "Effect",
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
    "RemoteCause",
    "Repair",
    "ResolvedCall",
    "ResourceNotFound",
    "RetryBudget",
    "RetryDecision",
    "RetryPolicy",
    "SetupError",
    "Stack",
    "StageRecord",
    "Success",
    "TimedOut",
    "Tool",
    "ToolCallError",
    "ToolContext",
    "ToolError",
    "ToolFailed",
    "ToolRegistry",
    "Transient",
    "Unavailable",
    "UnknownTool",
    "ValidCall",
    "approved",
    "exit_status",
    "gather",
    "gather_sync",
    "is_failure",
    "is_success",
    "raise_for_error",
    "register_after_fork",
    "render",
    "returned_error",
    "tool",
]
