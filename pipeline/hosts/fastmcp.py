"""FastMCP: ``server.add_middleware(ToolcallMiddleware())``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import Annotated, Any, cast
from weakref import WeakKeyDictionary

from opentelemetry import trace
from pydantic import PlainSerializer, PlainValidator, TypeAdapter
from pydantic import ValidationError as PydanticError
from returns.result import Failure

from ..adapters.common import is_dict
from ..base.foreign_values import FaultBarrier, or_default
from ..engine.call import Call, Outcome, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import Unavailable
from ..mcp.jsonrpc import name_request
from ..mcp.known_clients import KnownClients
from ..mcp.result_blocks import make_result
from ..messages import render
from ..messages.result_parts import find_parts
from ..messages.values import to_data
from ..privacy import get_logger
from ..telemetry.attributes import OF_CALL
from ..tools import Effect, ToolView
from .framework import list_offered, refuse_arguments, requires
from .framework_reading import ValidatorReader, find_arguments_validator
from .framework_spans import mark_failed
from .host import ControlFlow, Host, HostTool
from .signed_calls import Find, Signer

with requires("fastmcp"):
    from fastmcp.exceptions import (
        AuthorizationError,
        DisabledError,
        FastMCPError,
        NotFoundError,
        ToolError,
        ValidationError,
    )
    from fastmcp.server.dependencies import get_access_token, get_context, without_injected_parameters
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.providers.addressing import parse_hashed_backend_name
    from fastmcp.server.providers.openapi.components import OpenAPITool
    from fastmcp.server.telemetry import server_span
    from fastmcp.telemetry import suppress_fastmcp_telemetry
    from fastmcp.tools.base import Tool, ToolResult
    from fastmcp.tools.function_tool import FunctionTool
    from fastmcp.utilities.types import get_cached_typeadapter
    from fastmcp.utilities.versions import VersionSpec
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED, CallToolResult, ContentBlock


__all__ = ["ToolcallMiddleware", "export_tools"]

_logger = get_logger()
_BLOCKS = TypeAdapter(list[ContentBlock])


def _read_kept(kept: Any) -> ToolResult:
    """The result of a tool from the JSON in which a store keeps it: its own class would read blocks as data."""
    if isinstance(kept, ToolResult):
        return kept
    made: dict[str, Any] = {**kept, "content": _BLOCKS.validate_python(kept["content"])}
    return ToolResult(**made)


def _write_kept(result: ToolResult) -> dict[str, Any]:
    kept: dict[str, Any] = result.model_dump(mode="json")
    return kept


_KEPT: Any = Annotated[ToolResult, PlainValidator(_read_kept), PlainSerializer(_write_kept)]


class ToolcallMiddleware(Middleware):
    """Puts the pipeline around every tool call of a FastMCP server.

    Args:
        effects: The effects of tools by name; else their annotations ``readOnlyHint`` and ``idempotentHint``, which
            the author of this very server wrote; else ``mutating``.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the
            `MiddlewareContext`. Without them the principal is the client and the subject of the access token, and the
            conversation what the guide of a served pipeline says.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, **options: Any) -> None:
        self.host = self._make_host(effects, answers=_KEPT, **options)
        self._listed: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by server
        self._clients = KnownClients()

    def _make_host(self, effects: Mapping[str, Effect] | None, /, **options: Any) -> Host:
        return Host(effects, **options)

    async def on_call_tool(self, context: Any, call_next: Any) -> ToolResult:
        """Run one call."""
        server, sent = context.fastmcp_context.fastmcp, context.message
        version = _read_version(sent.meta)
        with suppress_fastmcp_telemetry():  # the client has asked for no list
            name, offered = await self._find_offered(server, sent.name, version)
        strict = bool(getattr(server, "strict_input_validation", False))
        pipeline = self.host.offer({name: describe_tool(tool, strict=strict) for name, tool in offered.items()})
        request = context.fastmcp_context.request_context
        call = _make_call(context.fastmcp_context, name, sent.arguments)
        found: Any = pipeline.resolve(call)
        if not is_failure(found) and found.tool.name != name:  # what decides by name has let another one pass
            again: ToolResult = await server.call_tool(found.tool.name, sent.arguments, version=version)
            return again

        told: list[ToolResult] = []
        ran: list[ValidCall] = []
        around = trace.get_current_span()

        async def body(valid: ValidCall) -> object:
            ran.append(valid)
            message = sent.model_copy(update={"arguments": dict(valid.params)})
            try:
                with trace.use_span(around):  # FastMCP writes what it ran on the span of the request, if it is current
                    answer = await call_next(context.copy(message=message))
            except FOREIGN as exc:
                return read_error(self.host, valid, exc)
            if getattr(answer, "is_error", False):  # the tool's own result, which the client gets as it is
                told.append(answer)
                return self.host.refuse_authored("\n".join(getattr(block, "text", "") for block in answer.content))
            return answer

        run = _run_signed(self._clients, pipeline, request)
        outcome = await self.host.run(run, call, body, context, counts_inside=around.is_recording())
        if is_failure(outcome):
            if told:
                return told[-1]
            kind = outcome.failure().kind
            if not ran and around.is_recording():
                _count(server, sent.name)
            mark_failed(around, kind)
            return ToolResult(content=render(outcome, call=call), is_error=True, meta={"toolcall/kind": kind})
        answered: Any = outcome.unwrap()
        result: ToolResult = answered if isinstance(answered, ToolResult) else ToolResult(content=answered)
        return result

    async def _find_offered(self, server: Any, sent: str, version: Any) -> tuple[str, dict[str, Any]]:
        """The name that the pipeline knows a call by, and the tools by their names.

        What a client may call need not be listed, so the server is asked for it by name. Of a name that nobody has,
        only tools that this client is shown are suggested. Else the others are there so that each call has the same
        pipeline: as the first call found them, for a list may be a request to another server.
        """
        name, asked = await find_tool(server, sent, version)
        if asked is None:
            return sent, {tool.name: tool for tool in await server.list_tools()}
        if server not in self._listed:
            with FaultBarrier(_logger, "the tools of the server cannot be listed"):
                self._listed[server] = {tool.name: tool for tool in await server.list_tools(run_middleware=False)}
        return name, {**self._listed.get(server, {}), name: asked}


def _count(server: Any, name: str) -> None:
    """Write on the span of the request which tool it called, as FastMCP does when it looks for the tool of a call."""
    asked = "tools/call"
    with server_span(f"{asked} {name}", asked, server.name, "tool", name, tool_name=name):
        pass


async def find_tool(server: Any, sent: str, version: Any) -> tuple[str, Any]:
    """The tool that FastMCP would run, with its name, which is not the one that was sent for a tool of an app.

    None: there is no such tool.
    """
    tool: Any = await server.get_tool(sent, version)
    hashed = None if tool is not None else parse_hashed_backend_name(sent)
    if hashed is not None and (tool := await server.get_tool_by_hash(*hashed)) is not None:
        return tool.name, tool
    return sent, tool


def describe_tool(tool: Any, *, strict: bool = False) -> HostTool:
    """The facts that FastMCP knows of one of its tools; ``strict``: as its server validates the arguments."""
    validator = find_validator(tool.fn) if isinstance(tool, FunctionTool) else None
    read = None if validator is None else ValidatorReader(validator, strict=strict)
    client: Any = getattr(tool, "_client", None) if isinstance(tool, OpenAPITool) else None
    is_one = client is not None and not getattr(client, "follow_redirects", True)
    return HostTool(tool.description or "", tool.parameters, _read_hints(tool.annotations), read, is_one)


@lru_cache(maxsize=1_000)
@or_default(None)  # FastMCP has the last word on it
def find_validator(function: Any) -> Any:
    """Return the validator of the arguments that a client may send for a function; None if it has none."""
    return find_arguments_validator(get_cached_typeadapter(without_injected_parameters(function)))


def _make_call(context: Any, name: str, arguments: Any) -> Call:
    """A call as FastMCP hands it over; ``context`` is None where its server is called without a client."""
    request = find_request_id(context)
    state: Any = {OF_CALL: name_request(request)} if request else None
    return Call(name, arguments, request, principal=_find_principal(), state=state)


def _run_signed(clients: KnownClients, pipeline: Pipeline, request: Any) -> Any:
    """What runs a call in the place of a pipeline, once the functions of the user have signed it."""

    def run(call: Call) -> Awaitable[Outcome]:
        return pipeline(clients.sign(call, request, pipeline))

    return run


def _find_principal() -> str:
    token: Any = get_access_token()
    if token is None:
        return ""
    claims: Mapping[str, Any] = getattr(token, "claims", None) or {}
    subject = getattr(token, "subject", None) or claims.get("sub") or ""
    return json.dumps([token.client_id, claims.get("iss") or "", subject])  # a subject is one of its issuer's


def _read_hints(hints: Any) -> str | None:
    if hints is None:
        return None
    return "read" if hints.read_only_hint else "idempotent" if hints.idempotent_hint else None


def _read_version(meta: Any) -> Any:
    """The version of the tool that the client asks for; None: any."""
    sent: Mapping[str, Any] = meta or {}
    own: Mapping[str, Any] = sent.get("fastmcp") or {}
    asked: Any = own.get("version")
    return VersionSpec(**asked) if is_dict(asked) else VersionSpec(eq=asked) if asked else None


# How FastMCP begins the text of a ToolError that it made itself of what the tool raised.
_MADE = ("Error calling tool", "Upstream request timed out, please retry", "Rate limited by upstream API")
# How a tool made from OpenAPI begins a ValueError: of arguments that make no request, and of a client's own exception.
_NO_REQUEST = "Error building request for "
_NO_ANSWER = ("HTTP request timed out (", "Request error (")
_UNCONNECTED = "Client failed to connect"  # as the client of FastMCP begins it
_CLOSED = "Connection closed"  # as the SDK says it; servers have errors of their own under its code
_LOST = "the connection to the server of this tool was lost"
_TIMED_OUT = "timed out"  # in the text of an MCPError: FastMCP's own time limit of a tool, and a proxy's of a request


class ServerAwayError(Exception):
    """The server behind a proxy could not be reached, so a call of it was not sent."""


FOREIGN = (MCPError, FastMCPError, NotFoundError, DisabledError)  # any other exception is the pipeline's to classify


def read_error(host: Host, call: ValidCall, exc: Exception) -> Any:
    """The failure that an exception of ``call_next`` stands for.

    Returns:
        A Failure, in the words of the tool's author, of FastMCP or of pydantic.

    Raises:
        ControlFlow: The protocol has an answer of its own: not authorized, not found, a capability that is missing.
        Exception: The exception of the tool, for the pipeline to classify.
    """
    cause = exc.__cause__
    match exc:
        case MCPError() | AuthorizationError() | NotFoundError() | DisabledError():
            raise ControlFlow(exc) from None
        case ValidationError() if isinstance(cause, PydanticError):
            return refuse_arguments(call, cause)
        case ToolError() if cause is not None and str(exc).startswith(_MADE):
            return _read_cause(host, call, exc, cause)
        case _:
            return host.refuse_authored(exc)


def _read_cause(host: Host, call: ValidCall, exc: ToolError, cause: BaseException) -> Any:
    told = cause if str(cause) in str(exc) else exc  # the author of a server may hide what errors say
    match cause:
        case ServerAwayError():
            return Failure(Unavailable(call.tool.name, "disconnected", body_landed="no"))
        case MCPError() if cause.error.code == CONNECTION_CLOSED and str(cause).startswith(_CLOSED):
            raise ConnectionResetError(_LOST) from cause
        case RuntimeError() if str(cause).startswith(_UNCONNECTED):  # also told of a session that ended in a call
            raise ConnectionResetError(_LOST) from cause
        case MCPError() if _TIMED_OUT in str(cause):
            raise TimeoutError(str(cause)) from cause
        case MCPError() | NotFoundError() | DisabledError():
            return host.refuse_foreign(told, cause)
        case ValueError() if str(cause).startswith(_NO_REQUEST):
            return host.refuse_foreign(told)  # without a cause: nothing has had an effect
        case ValueError() if str(cause).startswith(_NO_ANSWER) and cause.__cause__ is not None:
            raise cause.__cause__ from None
        case _:
            raise cause from None


def find_request_id(context: Any) -> str:
    """The id of the request that FastMCP answers; "" where its server is called without a client."""
    return "" if context is None or context.request_context is None else str(context.request_id)


class _Exported(Tool):
    """Runs a call through the pipeline."""

    own: str
    pipeline: Any
    signer: Any
    clients: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        try:
            context = get_context()
        except RuntimeError:  # it was not called through a server
            context = None
        call = _make_call(context, self.own, arguments)
        around = trace.get_current_span()
        run = _run_signed(self.clients, self.pipeline, None if context is None else context.request_context)
        outcome = await self.signer.run(run, call, context, counts_inside=around.is_recording())
        if is_failure(outcome):
            mark_failed(around, outcome.failure().kind)
        value: object = None if is_failure(outcome) else outcome.unwrap()
        if type(value).__module__.startswith("fastmcp"):
            return self.convert_result(value)
        made = make_result(outcome, call=call)
        read = CallToolResult.model_validate(made)
        structured = made.get("structuredContent")
        held = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
        if held is not None and find_parts(held, with_bytes=True) is None:
            structured = to_data(held)[0]
        meta = made.get("_meta")
        return ToolResult(content=read.content, structured_content=structured, is_error=read.is_error, meta=meta)


def export_tools(
    registry: ToolView, pipeline: Pipeline, *, principal: Find | None = None, conversation: Find | None = None
) -> list[Tool]:
    """The tools that may be called now, for ``server.add_tool`` one by one.

    The pipeline gets the id of each request, its sender and its conversation. Parts that a tool returns are content
    blocks. A failure is a result with ``isError``; its kind stands in ``_meta``.

    Args:
        registry: The tools. Their effects become ``readOnlyHint`` and ``idempotentHint``.
        pipeline: Runs their calls.
        principal: Finds who asks, in the `Context`. Default None: as in `ToolcallMiddleware`.
        conversation: Finds the conversation there. Default None: as there.
    """
    signer, clients = Signer("export_tools", principal, conversation), KnownClients()
    return [
        _Exported(
            name=each["name"],
            description=each.get("description"),
            parameters=each["parameters"],
            annotations=_hint(registry[own].effect),
            own=own,
            pipeline=pipeline,
            signer=signer,
            clients=clients,
        )
        for each, own in list_offered(registry)
    ]


def _hint(effect: str) -> Any:
    return {"readOnlyHint": effect == "read", "idempotentHint": effect in ("read", "idempotent")}
