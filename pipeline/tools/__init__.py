"""Tools, the registry that holds them by name, and the meaning of their exceptions."""

from ..base.introspection import is_async
from .canonical import CanonicalNames
from .classification import classify, classify_own, stays_crash
from .context import ToolContext
from .decorator import tool
from .definition import Tool
from .detectors import ReturnedError, exit_status, extract_error_text, is_error, returned_error
from .error_tables import ErrorEntry, Errors, ErrorTable, not_begun
from .failure import ToolFailed
from .matching import Spelling, SuggestionIndex, find_bare_name, suggest_names
from .registry import ToolRegistry
from .tool_options import Detector, Effect
from .transport_noise import find_command, list_readings, split_at_tokens
from .view import ToolView

__all__ = [
    "CanonicalNames",
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
    "find_bare_name",
    "find_command",
    "is_async",
    "is_error",
    "list_readings",
    "not_begun",
    "returned_error",
    "split_at_tokens",
    "stays_crash",
    "suggest_names",
    "tool",
]
