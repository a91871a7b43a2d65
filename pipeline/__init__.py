"""A middleware pipeline for the tool calls that language models make."""

from returns.result import Failure, Success

from .batch import gather
from .budget import Budget
from .call import Call, Outcome, ResolvedCall, ValidCall, is_failure, is_success
from .compose import Pipeline, Stack, start
from .context import Progress
from .detect import command_result, foreign_error
from .errors import (
    Crashed,
    Denied,
    Details,
    ExecutionFailed,
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
from .messages import ToolCallError, raise_for_error, say, tell
from .planner import Policy
from .private import RemoteCause
from .public import PublicText, approved
from .registry import ToolRegistry
from .report import Attempt, CallReport, Decision, StageRecord
from .stage import Check, Handler, Middleware
from .tool import Effect, Tool, ToolContext, ToolFailed, tool

__all__ = [
    "Attempt",
    "Budget",
    "Call",
    "CallReport",
    "Check",
    "Crashed",
    "Decision",
    "Denied",
    "Details",
    "Effect",
    "ExecutionFailed",
    "Failure",
    "Handler",
    "InvalidParams",
    "MalformedCall",
    "Middleware",
    "NeedsSetup",
    "NeedsUserInput",
    "NotExecuted",
    "Outcome",
    "OutcomeUnknown",
    "Pipeline",
    "Policy",
    "Problem",
    "Progress",
    "PublicText",
    "RemoteCause",
    "Repair",
    "ResolvedCall",
    "ResourceNotFound",
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
    "command_result",
    "foreign_error",
    "gather",
    "is_failure",
    "is_success",
    "raise_for_error",
    "say",
    "start",
    "tell",
    "tool",
]
