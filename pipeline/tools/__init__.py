"""Tools, the registry that holds them by name, and the meaning of their exceptions."""

from ..base.introspection import is_async
from .classification import classify, classify_own, stays_crash
from .context import ToolContext
from .decorator import tool
from .definition import Tool
from .detectors import ReturnedError, exit_status, extract_error_text, is_error, returned_error
from .error_tables import ErrorEntry, Errors, ErrorTable, not_begun
from .failure import ToolFailed
from .matching import Spelling, SuggestionIndex, suggest_names
from .registry import ToolRegistry
from .tool_options import Detector, Effect
from .view import ToolView

__all__ = [
    "Detector",
    "Effect",
    "ErrorEntry",
    "ErrorTable",
    "Errors",
    "ReturnedError",
    "Spelling",
    "SuggestionIndex",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "ToolRegistry",
    "ToolView",
    "classify",
    "classify_own",
    "exit_status",
    "extract_error_text",
    "is_async",
    "is_error",
    "not_begun",
    "returned_error",
    "stays_crash",
    "suggest_names",
    "tool",
]
