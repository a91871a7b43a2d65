"""The pipeline around tool calls that an agent framework runs itself: `Host`, and a module for each framework."""

from .exporting import Answer, ExportedTool, FailedCallError, export_tools
from .host import Host, HostTool

__all__ = ["Answer", "ExportedTool", "FailedCallError", "Host", "HostTool", "export_tools"]
