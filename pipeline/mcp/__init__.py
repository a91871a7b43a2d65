"""MCP: a relay in front of a server, the tools of a server in a registry, and a pipeline as a server.

README.md in this folder is the guide. The package ``mcp`` is imported where it is used: by `make_server`, and for
servers that are reached by a URL or added to a registry.
"""

from .adding import add_server
from .served_calls import REQUEST
from .serving import make_server

__all__ = ["REQUEST", "add_server", "make_server"]
