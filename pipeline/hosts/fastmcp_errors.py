"""What FastMCP raises for a call: an error of the tool, a refusal of its arguments, or an answer of the protocol."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError as PydanticError

from ..call import ValidCall
from .checked_arguments import refuse_arguments
from .extras import requires
from .host import ControlFlow, Host

with requires("fastmcp"):
    from fastmcp.exceptions import (
        AuthorizationError,
        DisabledError,
        FastMCPError,
        NotFoundError,
        ToolError,
        ValidationError,
    )
    from mcp import MCPError

# How FastMCP begins the text of a ToolError that it made itself of what the tool raised.
_MADE = ("Error calling tool", "Upstream request timed out, please retry", "Rate limited by upstream API")
_TIMED_OUT = "timed out"  # in the text of an MCPError: FastMCP's own time limit of a tool, and a proxy's of a request


FOREIGN = (MCPError, FastMCPError, NotFoundError, DisabledError)  # any other exception is the pipeline's to classify


def read_error(host: Host, call: ValidCall, exc: Exception) -> Any:
    """The failure that an exception of ``call_next`` stands for.

    Args:
        host: Of the middleware.
        call: As it was run.
        exc: What was raised.

    Returns:
        A Failure, in the words of the tool's author or of pydantic.

    Raises:
        ControlFlow: The protocol has an answer of its own: not authorized, not found, a capability that is missing.
        Exception: What the tool raised, for the pipeline to classify.
    """
    cause = exc.__cause__
    match exc:
        case MCPError() | AuthorizationError() | NotFoundError() | DisabledError():
            raise ControlFlow(exc) from None
        case ValidationError() if isinstance(cause, PydanticError):
            return refuse_arguments(call, cause)
        case ToolError() if cause is not None and str(exc).startswith(_MADE):
            if not isinstance(cause, MCPError):
                raise cause from None
            if _TIMED_OUT in str(cause):
                raise TimeoutError(str(cause)) from cause
            return host.refuse_foreign(cause, cause)
        case _:
            return host.refuse_foreign(exc, exc)
