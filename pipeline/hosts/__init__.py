"""The pipeline around tool calls that an agent framework runs itself: `Host`, and a module for each framework."""

from .host import Host, HostTool

__all__ = ["Host", "HostTool"]
