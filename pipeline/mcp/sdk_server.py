"""SdkServer: what is needed of the package ``mcp`` to serve, found when it is first wanted."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import attrs

from ..base.setup_error import SetupError


@attrs.frozen
class SdkServer:
    """Parts of the package ``mcp``. It is not typed: it is not installed where this is checked."""

    server: Any  # the low-level class
    tool_changes: Any  # NotificationOptions
    bus: Any
    listen: Any  # the handler of subscriptions/listen
    changed: Any  # the event of that bus
    types: Any
    access_token: Any  # a function: returns the token of the current request
    list_principal: Any  # a function: client, issuer and subject of a token; a subject is unique for one issuer only
    message: Any  # SessionMessage
    security: Any  # TransportSecuritySettings
    error: Any  # MCPError: raised in a handler, it is an error of the protocol
    boundary: Any  # a middleware: seals the states that clients send back
    sealing: Any  # its policy

    @classmethod
    def load(cls) -> Self:
        """Import it; SetupError if the package is not installed, or too old."""
        try:
            lowlevel = import_module("mcp.server.lowlevel.server")
            subscriptions = import_module("mcp.server.subscriptions")
            request_state = import_module("mcp.server.request_state")
            return cls(
                lowlevel.Server,
                lowlevel.NotificationOptions,
                subscriptions.InMemorySubscriptionBus,
                subscriptions.ListenHandler,
                subscriptions.ToolsListChanged,
                import_module("mcp_types"),
                import_module("mcp.server.auth.middleware.auth_context").get_access_token,
                import_module("mcp.server.auth.provider").principal_components,
                import_module("mcp.shared.message").SessionMessage,
                import_module("mcp.server.transport_security").TransportSecuritySettings,
                import_module("mcp.shared.exceptions").MCPError,
                request_state.RequestStateBoundary,
                request_state.RequestStateSecurity,
            )
        except (ModuleNotFoundError, AttributeError) as exc:
            needed = "pip install 'toolcall-pipeline[mcp]'"
            raise SetupError(f"to serve needs the package mcp, 2.3 or later: {needed} ({exc})") from exc
