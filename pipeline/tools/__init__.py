"""What the pipeline knows of a tool, and the registry that holds tools by name."""

from .context import ToolContext
from .decorator import tool
from .definition import Detector, Effect, Tool
from .detectors import exit_status, returned_error
from .failure import ToolFailed
from .registry import ToolRegistry

__all__ = [
    "Detector",
    "Effect",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "ToolRegistry",
    "exit_status",
    "returned_error",
    "tool",
]
