"""The tools that the scenarios of the official conformance suite call, for ``toolcall serve``."""

from __future__ import annotations

import struct
import zlib
from functools import partial
from importlib import import_module
from typing import Any

import anyio

from toolcall_pipeline import Tool, ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.base import timing
from toolcall_pipeline.mcp import REQUEST
from toolcall_pipeline.messages import Audio
from toolcall_pipeline.middlewares import standard

types: Any = import_module("mcp_types")
tools = ToolRegistry()
_PAUSE = 0.05  # seconds; what the suite asks for between two steps
_TEXT = {"type": "string"}
_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
_LEVELS = {"type": "string", "enum": ["option1", "option2", "option3"]}
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def _resource(uri: str, media_type: str, text: str) -> Any:
    inside = types.TextResourceContents(uri=uri, mime_type=media_type, text=text)
    return types.EmbeddedResource(type="resource", resource=inside)


@tools.tool(effect="read")
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tools.tool(effect="read")
async def test_image_content() -> bytes:
    """Return an image."""
    return _png()


@tools.tool(effect="read")
async def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio("audio/wav", b"RIFF$\x00\x00\x00WAVEfmt ")


@tools.tool(effect="read")
async def test_embedded_resource() -> Any:
    """Return a resource."""
    return _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@tools.tool(effect="read")
async def test_multiple_content_types() -> Any:
    """Return a text, an image and a resource."""
    return [
        types.TextContent(type="text", text="Multiple content types test:"),
        types.ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png"),
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tools.tool(effect="read", context=True)
async def test_tool_with_progress(context: ToolContext) -> str:
    """Tell of three steps."""
    for done in (0, 50, 100):
        context.progress(done, 100, f"Completed step {done} of 100")
        await timing.sleep(_PAUSE)
    return "done"


@tools.tool(effect="read", context=True)
async def test_tool_with_logging(context: ToolContext) -> str:
    """Log to the client."""
    request = context.get_state(REQUEST)
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await request.session.send_log_message("info", text, related_request_id=request.request_id)
        await timing.sleep(_PAUSE)
    return "logged"


@tools.tool(effect="read")
async def test_error_handling() -> str:
    """Fail."""
    raise ToolFailed("This tool intentionally returns an error for testing")


@tools.tool(context=True)
async def test_sampling(context: ToolContext, prompt: str) -> str:
    """Ask the client's model."""
    request = context.get_state(REQUEST)
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await request.session.create_message([said], max_tokens=100, related_request_id=request.request_id)
    return f"LLM response: {answer.content.text}"


async def _elicit(context: ToolContext, message: str, properties: dict[str, Any], required: list[str]) -> str:
    request = context.get_state(REQUEST)
    schema = {"type": "object", "properties": properties, "required": required}
    answer = await request.session.elicit_form(message, schema, related_request_id=request.request_id)
    return f"User response: action={answer.action}, content={answer.content}"


@tools.tool(context=True)
async def test_elicitation(context: ToolContext, message: str) -> str:
    """Ask the user."""
    text = {"type": "string", "description": "User's response"}
    return await _elicit(context, message, {"username": text, "email": text}, ["username", "email"])


@tools.tool(context=True)
async def test_elicitation_sep1034_defaults(context: ToolContext) -> str:
    """Ask the user, with defaults."""
    properties: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit(context, "Who are you?", properties, [])


@tools.tool(context=True)
async def test_elicitation_sep1330_enums(context: ToolContext) -> str:
    """Ask the user, with all forms of enums."""
    properties: dict[str, Any] = {
        "untitledSingle": _LEVELS,
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": _LEVELS},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    }
    return await _elicit(context, "Which ones?", properties, [])


def _form(message: str, **properties: str) -> Any:
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _question(text: str) -> Any:
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[said], max_tokens=100))


def _ask_by_result(name: str, requests: dict[str, Any], *, state: str | None = None, done: str = "done") -> None:
    """A tool that asks with a result, and is begun again with the answers."""

    async def ask(context: ToolContext) -> Any:
        request = context.get_state(REQUEST)
        given: dict[str, Any] = request.params.get("inputResponses") or {}
        able = request.session.client_capabilities
        kinds = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
        asked = {key: each for key, each in requests.items() if getattr(able, kinds[each.method])}
        if asked.keys() <= given.keys() and (state is None or request.params.get("requestState") == state):
            return done
        return types.InputRequiredResult(input_requests=asked, request_state=state)

    tools.tool(name=name, context=True, description="Ask with a result.")(ask)


_NAME = {"user_name": _form("What is your name?", name="string")}
_ROOTS = {"client_roots": types.ListRootsRequest()}
_ask_by_result("test_input_required_result_elicitation", _NAME)
_ask_by_result("test_input_required_result_sampling", {"capital_question": _question("What is the capital of France?")})
_ask_by_result("test_input_required_result_list_roots", _ROOTS)
_ask_by_result(
    "test_input_required_result_request_state",
    {"confirm": _form("Please confirm", ok="boolean")},
    state="asked",
    done="state-ok",
)
_ask_by_result(
    "test_input_required_result_capabilities", {**_NAME, "greeting": _question("Generate a greeting")}, state="asked"
)


@tools.tool(context=True)
async def test_input_required_result_multiple_inputs(context: ToolContext) -> str:
    """Ask a person, a model and the client at once."""
    session = context.get_state(REQUEST).session
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Generate a greeting"))
    async with anyio.create_task_group() as group:
        group.start_soon(session.elicit_form, "What is your name?", _OBJECT)
        group.start_soon(partial(session.create_message, [said], max_tokens=50))
        group.start_soon(session.list_roots)
    return "done"


@tools.tool(context=True)
async def test_input_required_result_multi_round(context: ToolContext) -> str:
    """Ask twice, one after the other."""
    name = await _elicit(context, "Step 1: What is your name?", {"name": {"type": "string"}}, ["name"])
    colour = await _elicit(context, "Step 2: What is your favorite color?", {"color": {"type": "string"}}, ["color"])
    return f"{name} {colour}"


@tools.tool(context=True)
async def test_input_required_result_tampered_state(context: ToolContext) -> str:
    """Ask once."""
    return await _elicit(context, "Please confirm", {"ok": {"type": "boolean"}}, ["ok"])


@tools.tool(effect="read", context=True)
async def test_reconnection(context: ToolContext) -> str:
    """Close the stream in the middle, if the server keeps events for a client that comes back."""
    close = context.get_state(REQUEST).close_sse_stream
    if close is not None:
        await close()
    await timing.sleep(_PAUSE)
    return "reconnected"


@tools.tool(context=True)
async def test_missing_capability(context: ToolContext) -> str:
    """Ask the client's model, whether it has one or not."""
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Hello"))
    answer = await context.get_state(REQUEST).session.create_message([said], max_tokens=10)
    return str(answer.content.text)


@tools.tool(context=True)
async def test_streaming_elicitation(context: ToolContext) -> str:
    """Ask the user."""
    return await _elicit(context, "Who are you?", {"name": _TEXT}, ["name"])


@tools.tool
async def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    (tools.enable if "test_simple_text" in tools.closed else tools.disable)("test_simple_text")
    return "changed"


def _show(**arguments: object) -> str:
    return str(arguments)


_STREET = {"$anchor": "addressDef", "type": "object", "properties": {"street": _TEXT, "city": _TEXT}}
tools.register(
    Tool.from_schema(
        name="json_schema_2020_12_tool",
        description="Has keywords of JSON Schema 2020-12.",
        effect="read",
        handler=_show,
        parameters={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": _STREET},
            "properties": {
                "name": _TEXT,
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": _TEXT,
                "email": _TEXT,
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
    )
)
tools.register(
    Tool.from_schema(
        name="test_routed",
        description="Has a parameter that a gateway reads in a header.",
        effect="read",
        handler=_show,
        parameters={
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        },
    )
)
pipeline = standard(tools, timeout=30)
