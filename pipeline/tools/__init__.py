"""What the pipeline knows of a tool, and the registry that holds tools by name."""

from .classification import classify, classify_own
from .context import ToolContext
from .decorator import tool
from .definition import Detector, Effect, Tool, is_async
from .detectors import ReturnedError, exit_status, returned_error
from .error_tables import ErrorEntry, Errors, ErrorTable, not_begun
from .failure import ToolFailed
from .matching import SuggestionIndex, find_canonical, strip_noise, suggest_names
from .plain_data import estimate_bytes, freeze
from .registry import ToolRegistry

__all__ = [
    "Detector",
    "Effect",
    "ErrorEntry",
    "ErrorTable",
    "Errors",
    "ReturnedError",
    "SuggestionIndex",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "ToolRegistry",
    "classify",
    "classify_own",
    "estimate_bytes",
    "exit_status",
    "find_canonical",
    "freeze",
    "is_async",
    "not_begun",
    "returned_error",
    "strip_noise",
    "suggest_names",
    "tool",
]
