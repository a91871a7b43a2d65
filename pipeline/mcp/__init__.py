"""MCP: a relay in front of a server, and the tools of a server in a registry. README.md in this folder is the guide.

Nothing here needs the package ``mcp``, except `http_server`, which reaches a server by its URL, and `sdk_session`.
"""
