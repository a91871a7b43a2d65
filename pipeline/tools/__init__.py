"""What the pipeline knows of a tool, and the registry that holds tools by name."""

from .classification import classify
from .context import ToolContext
from .decorator import tool
from .definition import Detector, Effect, Tool, is_async
from .detectors import exit_status, returned_error
from .failure import ToolFailed
from .matching import SuggestionIndex, find_canonical, strip_noise, suggest_names
from .plain_data import estimate_bytes, freeze
from .registry import ToolRegistry

__all__ = [
    "Detector",
    "Effect",
    "SuggestionIndex",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "ToolRegistry",
    "classify",
    "estimate_bytes",
    "exit_status",
    "find_canonical",
    "freeze",
    "is_async",
    "returned_error",
    "strip_noise",
    "suggest_names",
    "tool",
]
