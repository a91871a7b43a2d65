"""A pipeline as an MCP server: what it lists, and what it answers to a call. No package of MCP is needed here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for
from opentelemetry.trace import get_current_span
from returns.result import Failure, Success

from error_cases import EACH_KIND
from scripted_mcp import ScriptedServer, Tell, add, definition
from support import PATIENT, Exported, a_tool
from toolcall_pipeline import (
    Effect,
    Pipeline,
    SetupError,
    Tool,
    ToolContext,
    ToolError,
    ToolFailed,
    ToolRegistry,
    Wording,
)
from toolcall_pipeline.cli.serve_command import serve as run_serve
from toolcall_pipeline.cli.terminal_text import CommandError
from toolcall_pipeline.mcp import REQUEST, make_server, stdio_transport
from toolcall_pipeline.mcp.asking import AskingCalls
from toolcall_pipeline.mcp.client_wordings import ClientWordings
from toolcall_pipeline.mcp.known_clients import KnownClients
from toolcall_pipeline.mcp.result_blocks import make_result
from toolcall_pipeline.mcp.sdk_server import SdkServer
from toolcall_pipeline.mcp.served_calls import ServedCalls, with_odd_arguments
from toolcall_pipeline.mcp.served_tools import ServedTools
from toolcall_pipeline.mcp.stdio_transport import StdioTransport
from toolcall_pipeline.messages import Audio, File, Image, Link
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.tools.output_forms import find_form
from turns import OTHER, RUNS, Turn, check_turns, send

LEGACY, MODERN = "2025-11-25", "2026-07-28"
Message = dict[str, Any]


class Streams:
    """A pair of streams."""


@dataclass
class Session:
    """The session of a request, which hears the progress."""

    told: list[tuple[float, float | None, str | None]] = field(default_factory=list[Any])
    client_capabilities: Any = None
    client_params: Any = None
    session_id: str | None = None
    has_standalone_channel: bool = True
    outbound: Any = field(default_factory=Streams)

    @property
    def _connection(self) -> Session:
        return self

    async def send_request(self, request: Any, _result_type: Any) -> Any:
        return request

    async def report_progress(self, done: float, total: float | None, message: str | None) -> None:
        self.told.append((done, total, message))


@dataclass
class Request:
    """What the SDK knows of a request."""

    params: Mapping[str, Any]
    meta: Mapping[str, Any] | None = None
    protocol_version: str = LEGACY
    request_id: int = 7
    request: object = None
    session: Session = field(default_factory=Session)
    lifespan_context: Any = field(default_factory=lambda: SimpleNamespace(asking=AskingCalls()))


@dataclass
class Params:
    """The params as the SDK reads them."""

    name: str
    arguments: Any


async def ask(tools: ToolRegistry, name: str, arguments: Any = None, **about: Any) -> Message:
    """The result of a call, as JSON gives it back."""
    served = about.pop("served", None) or serve(tools)
    request = with_odd_arguments(Request({"name": name, "arguments": arguments}, **about))
    return plain(await served.call_tool(request, Params(name, request.params["arguments"])))


def plain(result: Message) -> Message:
    found: Message = json.loads(json.dumps(result, allow_nan=False).encode())
    return found


def serve(tools: ToolRegistry, edit: Callable[[Pipeline], Pipeline] = lambda run: run, **options: Any) -> ServedCalls:
    return ServedCalls(
        edit(standard(tools, **options)),
        ServedTools([tools]),
        KnownClients(),
        deps="the deps",
        read_principal=lambda: "somebody",
        error=ProtocolError,
    )


class ProtocolError(Exception):
    """An error of the protocol: its code and its text."""


def text_of(result: Message) -> str:
    return "\n".join(block["text"] for block in result["content"])


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("error", EACH_KIND, ids=lambda error: error.kind)
async def test_each_kind_of_failure_is_a_result(error: ToolError, version: str) -> None:
    """It says isError, its kind stands in _meta, its text is the model's, and nothing private is in it."""
    tools = ToolRegistry()

    async def fail() -> object:
        return Failure(error)

    tools.register(a_tool("read", fn=fail))
    result = await ask(tools, "read", {}, served=serve(tools, attempts=1), protocol_version=version)
    assert (result["isError"], result["_meta"]["toolcall/kind"]) == (True, error.kind)
    assert text_of(result).strip()
    assert "hunter2" not in json.dumps(result)
    assert result.get("resultType") == ("complete" if version == MODERN else None)
    assert "structuredContent" not in result


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("reed", {}, "unknown_tool"),
        ("", {}, "unknown_tool"),
        ("x" * 10_000, {}, "unknown_tool"),
        ("shut", {}, "unavailable"),
        ("add", '{"x": 1, ', "malformed_call"),
        ("add", [1, 2], "malformed_call"),
        ("add", 5, "malformed_call"),
        ("add", True, "malformed_call"),
        ("add", None, "validation"),
        ("add", {"x": 1}, "validation"),
        ("add", {"x": 1, "y": "many"}, "validation"),
        ("add", {"x": 1, "y": 2, "z": 3}, "validation"),
    ],
)
async def test_what_a_model_does_wrong_is_a_result(name: str, arguments: object, kind: str) -> None:
    """Nothing that a model writes as a name or as arguments is an error of the protocol."""
    result = await ask(some_tools(), name, arguments)
    assert (result["isError"], result["_meta"]["toolcall/kind"]) == (True, kind)


@pytest.mark.parametrize("arguments", [{"x": 1, "y": 2}, '{"x": 1, "y": 2}', {"x": "1", "y": 2.0}, ' {"x": 1, "y": 2}'])
async def test_arguments_as_text_and_repairs(arguments: object) -> None:
    """JSON text at the top is read, and what the pipeline repairs is repaired."""
    result = await ask(some_tools(), "add", arguments)
    assert (result["isError"], result["structuredContent"]) == (False, {"result": 3})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
        max_leaves=20,
    ),
    st.text(st.characters(codec=None)),
)
def test_any_arguments_have_a_result(arguments: object, name: str) -> None:
    """Whatever comes as a name and arguments, the answer is a result that JSON in UTF-8 can hold."""
    tools = some_tools()
    for each in (name, "add", "echo"):
        result = anyio.run(ask, tools, each, arguments)
        assert result["isError"] is True or each == "echo"
        json.dumps(result, ensure_ascii=False).encode()


def some_tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def add(x: int, y: int) -> int:
        return x + y

    tools.register(a_tool("shut"))
    tools.disable("shut")

    async def echo(**given_: object) -> object:
        return given_

    tools.register(Tool.from_schema(name="echo", parameters=None, handler=echo, output_schema={"type": "object"}))
    return tools


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    day: date


class Pair(NamedTuple):
    left: int
    right: int


NAIVE = datetime.fromisoformat("2026-01-02")
VALUES: list[tuple[Any, object, object]] = [
    (Point, Point(1, date(2026, 1, 2)), {"x": 1, "day": "2026-01-02"}),
    (Point | None, None, {"result": None}),
    (list[Point], [Point(1, date(2026, 1, 2))], {"result": [{"x": 1, "day": "2026-01-02"}]}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict, {"a": [None]}, {"a": [None]}),
    (Pair, Pair(1, 2), {"result": [1, 2]}),
    (tuple[int, str], (1, "a"), {"result": [1, "a"]}),
    (Color, Color.RED, {"result": "red"}),
    (int, 3, {"result": 3}),
    (bool, True, {"result": True}),
    (float, 0.5, {"result": 0.5}),
    (int | str, "\ud800", {"result": "?"}),
    (set[int], {2, 1}, {"result": [1, 2]}),
    (date, date(2026, 1, 2), {"result": "2026-01-02"}),
    (datetime, NAIVE, {"result": "2026-01-02T00:00:00"}),
    (dict[str, time], {"at": time(3)}, {"at": "03:00:00"}),
    (list[timedelta], [timedelta(-1)], {"result": ["-P1D"]}),
]


@pytest.mark.parametrize(("hint", "value", "structured"), VALUES, ids=lambda each: str(each)[:30])
async def test_structured_content_fits_the_schema_that_is_listed(hint: Any, value: object, structured: object) -> None:
    """A declared type is listed as outputSchema, an object; the value fits it, and stands as text too."""
    tools = ToolRegistry()

    async def give() -> object:
        return value

    give.__annotations__["return"] = hint
    tools.tool(give)
    listed = ServedTools([tools]).list_tools()[0]
    result = await ask(tools, "give")
    assert result["structuredContent"] == structured
    assert listed["outputSchema"]["type"] == "object"
    assert validator_for(listed["outputSchema"], validate_formats=True).is_valid(result["structuredContent"])
    assert result["isError"] is False
    assert text_of(result).strip()


@pytest.mark.parametrize(
    "hint", [str, str | None, None, Any, object, bytes, list, Image, list[Image | str], "Missing"], ids=str
)
async def test_types_that_need_no_form(hint: Any) -> None:
    """Text, parts, and what says nothing, have no outputSchema."""
    tools = ToolRegistry()

    async def give() -> object:
        return "text"

    give.__annotations__["return"] = hint
    tools.tool(give)
    assert "outputSchema" not in ServedTools([tools]).list_tools()[0]
    assert await ask(tools, "give") == {"content": [{"type": "text", "text": "text"}], "isError": False}


@pytest.mark.parametrize(
    ("schema", "listed"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, None),
        (
            {"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}},
            {
                "$defs": {"n": {"type": "integer"}},
                "type": "object",
                "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
                "required": ["result"],
            },
        ),
        (
            {"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}},
            {"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}, "type": "object"},
        ),
    ],
)
def test_a_declared_schema_is_listed_as_an_object(schema: Message, listed: Message | None) -> None:
    """The protocol wants an object at the root; what is none stands under ``result``."""
    form = find_form(a_tool(output_schema=schema))
    assert form is not None
    assert form.schema == (schema if listed is None else listed)


@pytest.mark.parametrize("value", [{"a": "text"}, {"at": NAIVE}, [1], "text", b""])
async def test_a_value_of_another_form_is_an_error_with_the_value(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A client would refuse a result that does not fit, and nobody would know that the tool ran."""
    tools = ToolRegistry()

    async def give() -> object:
        return value

    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "at": {"format": "date-time"}}}
    tools.register(Tool.from_schema(name="give", parameters=None, handler=give, output_schema=schema))
    checked = await ask(tools, "give")
    result = await ask(tools, "give", served=serve(tools, edit=lambda run: run.without("check_result")))
    for each in (checked, result):
        assert (each["isError"], each["_meta"]) == (True, {"toolcall/kind": "execution"})
        assert text_of(each).startswith(("The tool ran, but its result", "Error: The tool ran, but its result"))
    assert len(result["content"]) == 2
    assert "structuredContent" not in result
    assert "give" in caplog.text


async def test_a_tool_of_another_server_keeps_its_picture_and_its_structured_value() -> None:
    """What came by `add_server` is served as it came, though its content is not text alone."""
    content = [
        {"type": "text", "text": "See:"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///a.csv", "name": "a"},
    ]
    answer = {"content": content, "structuredContent": {"a": 1}, "isError": False}

    async def give(name: str, arguments: Message, tell: Tell) -> Message:
        return answer

    tools = ToolRegistry()
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    async with add(tools, ScriptedServer(definition(outputSchema=schema), answer=give)):
        assert answer == await ask(tools, "read")


PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", [{"type": "text", "text": "text"}]),
        ("", [{"type": "text", "text": "(no output)"}]),
        (None, [{"type": "text", "text": "(no output)"}]),
        ("\ud800", [{"type": "text", "text": "?"}]),
        (PNG, [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]),
        (Audio("audio/wav", b"a"), [{"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}]),
        (
            File("application/pdf", b"a", "my \ud800.pdf"),
            [
                {
                    "type": "resource",
                    "resource": {
                        "uri": "attachment:///my%20%3F.pdf",
                        "mimeType": "application/pdf",
                        "blob": "YQ==",
                    },
                }
            ],
        ),
        (Link("http://a/b", "B"), [{"type": "resource_link", "uri": "http://a/b", "name": "B"}]),
        (
            ["a", Image("image/png", b"a"), Link("u", "", "d", "text/csv")],
            [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "YQ==", "mimeType": "image/png"},
                {"type": "resource_link", "uri": "u", "name": "u", "description": "d", "mimeType": "text/csv"},
            ],
        ),
        ({"content": [{"type": "text", "text": "of a dict"}]}, [{"type": "text", "text": "of a dict"}]),
    ],
)
def test_parts_are_blocks(value: object, content: object) -> None:
    """Each part is a block of its own type."""
    assert plain(make_result(Success(value))) == {"content": content, "isError": False}


def test_a_result_of_mcp_that_says_that_it_failed() -> None:
    """It is an error here too, with a kind."""
    result = make_result(Success({"content": [{"type": "text", "text": "no"}], "isError": True}))
    assert (result["isError"], result["_meta"]) == (True, {"toolcall/kind": "execution"})


@pytest.mark.parametrize(
    ("effect", "hints"),
    [
        ("read", {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}),
        ("idempotent", {"readOnlyHint": False, "idempotentHint": True}),
        ("keyed", {"readOnlyHint": False, "idempotentHint": False}),
        ("mutating", {"readOnlyHint": False, "idempotentHint": False}),
    ],
)
def test_effects_are_annotations(effect: Effect, hints: Message) -> None:
    """What an effect says of repeats is told; what it does not say is left out."""
    tools = ToolRegistry()
    tools.register(a_tool("probe", effect, context=effect == "keyed"))
    assert ServedTools([tools]).list_tools() == [
        {"name": "probe", "inputSchema": {"type": "object", "properties": {}}, "annotations": hints}
    ]


def test_the_list_follows_the_registry() -> None:
    """Closed, hidden and removed tools are not listed, and a list is made once for each state."""
    tools = ToolRegistry()
    for name in ("one", "two", "three"):
        tools.register(a_tool(name))
    tools.register(a_tool("secret", hidden=True))
    served = ServedTools([tools])

    def names() -> list[str]:
        return [each["name"] for each in served.list_tools()]

    assert names() == ["one", "two", "three"]
    assert served.list_tools() is served.list_tools()
    tools.disable("two")
    tools.unregister("three")
    assert names() == ["one"]
    assert served.find_schema("one") == {"type": "object", "properties": {}}
    assert served.find_schema("two") is None
    tools.enable("two")
    assert names() == ["one", "two"]


async def test_names_that_providers_refuse() -> None:
    """They are listed in a form that clients can pass on, are found by it, and are told in it."""
    tools = ToolRegistry()

    async def say() -> str:
        return "here"

    for name in ("files.read", "files.rename"):
        tools.register(a_tool(name, fn=say))
    sent, other = (each["name"] for each in ServedTools([tools]).list_tools())
    assert sent.replace("_", "").isalnum()
    assert text_of(await ask(tools, sent)) == "here"
    assert text_of(await ask(tools, "files.read")) == "here"
    told = text_of(await ask(tools, "files_reed"))
    assert sent in told
    assert other in told
    assert "files.re" not in told


async def test_a_name_of_another_form_has_its_structured_value() -> None:
    """A tool that is found by a canonical name answers as by its own."""
    tools = ToolRegistry()

    @tools.tool(effect="read", aliases=("plus",))
    async def add_numbers(x: int, y: int) -> int:
        return x + y

    served = serve(tools, canonical_names=True)
    for name in ("add_numbers", "plus", "addNumbers"):
        result = await ask(tools, name, {"x": 1, "y": 2}, served=served)
        assert result["structuredContent"] == {"result": 3}


async def test_what_a_tool_knows_of_its_request() -> None:
    """The id, the deps, the principal over HTTP alone, and the request itself."""
    tools = ToolRegistry()
    seen: list[Any] = []

    @tools.tool(context=True)
    async def look(context: ToolContext) -> str:
        seen.append((context.call_id, context.deps, context.principal, context.get_state(REQUEST).request_id))
        return context.tool

    assert text_of(await ask(tools, "look")) == "look"
    await ask(tools, "look", request="an HTTP request")
    assert seen == [("7", "the deps", "", 7), ("7", "the deps", "somebody", 7)]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([(0, 2, "a"), (1, 2, ""), (2, 2, "c")], [(0, 2, "a"), (1, 2, None), (2, 2, "c")]),
        ([(1, None, ""), (1, None, ""), (0.5, None, ""), (2, None, "")], [(1, None, None), (2, None, None)]),
        ([(float("nan"), 1, ""), (float("inf"), 1, ""), (1, float("inf"), "\ud800")], [(1, None, "?")]),
    ],
)
async def test_progress_is_told(steps: list[Any], told: list[Any]) -> None:
    """To a client that asks for it, as numbers that grow, as the specification demands. To others nothing is."""
    tools = ToolRegistry()

    @tools.tool(context=True)
    async def work(context: ToolContext) -> str:
        for step in steps:
            context.progress(*step)
        return "done"

    for meta, expected in (({"progress_token": 0}, told), (None, []), ({"other": 1}, [])):
        session = Session()
        assert text_of(await ask(tools, "work", meta=meta, session=session)) == "done"
        assert session.told == expected


async def test_progress_comes_while_the_tool_runs() -> None:
    """The tool waits until its first step has been told."""
    tools, heard = ToolRegistry(), anyio.Event()

    class Hearing(Session):
        async def report_progress(self, done: float, total: float | None, message: str | None) -> None:
            heard.set()

    @tools.tool(context=True)
    async def work(context: ToolContext) -> str:
        context.progress(1)
        with anyio.fail_after(PATIENT):
            await heard.wait()
        return "done"

    assert text_of(await ask(tools, "work", meta={"progress_token": "t"}, session=Hearing())) == "done"


@pytest.mark.parametrize("meta", [{}, {"progress_token": 1}], ids=["plain", "with progress"])
async def test_a_tool_that_exits_ends_its_call(meta: Message) -> None:
    """A tool that calls ``sys.exit`` does not end the server."""
    tools = ToolRegistry()

    @tools.tool(context=True)
    async def leave(context: ToolContext) -> str:
        sys.exit(3)

    result = await ask(tools, "leave", meta=meta)
    assert result["_meta"] == {"toolcall/kind": "internal"}


@pytest.mark.parametrize("meta", [{}, {"progress_token": 1}], ids=["plain", "with progress"])
async def test_a_cancellation_reaches_the_tool(meta: Message) -> None:
    """The SDK cancels the task of a request that its client cancels."""
    tools, begun, ended = ToolRegistry(), anyio.Event(), anyio.Event()

    @tools.tool(context=True)
    async def hang(context: ToolContext) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: ask(tools, "hang", meta=meta))
        await begun.wait()
        group.cancel_scope.cancel()
    assert ended.is_set()


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("meta", "parent"),
    [
        ({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, True),
        ({"traceparent": "nonsense", "tracestate": 5}, False),
        ({"traceparent": 5}, False),
        ({"other": None}, False),
    ],
)
async def test_the_parent_of_the_trace(meta: Message, parent: bool) -> None:
    """``traceparent`` in ``_meta`` is the parent of the call's one span; nonsense is ignored."""
    exported = Exported()
    tools = ToolRegistry()
    seen: list[bool] = []

    @tools.tool(effect="read")
    async def look() -> str:
        seen.append(get_current_span().get_span_context().trace_id == int(TRACE, 16))
        return "done"

    run = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))
    known = KnownClients()
    served = ServedCalls(run, ServedTools([tools]), known, deps=None, read_principal=str, error=ProtocolError)
    await ask(tools, "look", served=served, meta=meta)
    assert seen == [parent]
    calls = [span for span in exported.spans if span.name == "execute_tool look"]
    assert len(calls) == 1
    assert (calls[0].parent is not None) is parent
    facts = dict(calls[0].attributes or {})
    assert (facts["mcp.method.name"], bool(facts["gen_ai.conversation.id"])) == ("tools/call", True)
    assert facts["jsonrpc.request.id"]


async def test_a_secret_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Neither a result nor the log has the text of an exception, nor arguments."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def fail(token: str) -> str:
        raise ValueError(f"wrong: {token}")

    @tools.tool(effect="read")
    async def tell(token: str) -> str:
        raise ToolFailed("The token was refused.")

    for name in ("fail", "tell", "fial"):
        for arguments in ({"token": "canary"}, {"tokn": "canary"}, '{"token": "canary"', ["canary"]):
            assert "canary" not in json.dumps(await ask(tools, name, arguments))
    outside = [record for record in caplog.records if record.exc_info is None]
    assert "canary" not in "".join(record.getMessage() for record in outside)


async def test_200_calls_at_once() -> None:
    """Each has its own answer."""
    tools, results = some_tools(), dict[int, Message]()
    served = serve(tools)

    async def call(number: int) -> None:
        results[number] = await ask(tools, "add", {"x": number, "y": 1}, served=served)

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(call, number)
    assert {number: each["structuredContent"]["result"] for number, each in results.items()} == {
        number: number + 1 for number in range(200)
    }


def test_what_cannot_be_served() -> None:
    """No pipeline, a pipeline without tools, and a missing package are told when the server is made."""
    with pytest.raises(SetupError, match="`pipeline` must be"):
        make_server(ToolRegistry())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SetupError, match=r"toolcall-pipeline\[mcp\]"):
        make_server(standard(ToolRegistry()))


@pytest.mark.parametrize("name", ["", "*", "http://tools.example.com", "tools.example.com/mcp", "a b", "::1"])
def test_a_name_that_no_client_sends(name: str) -> None:
    """A name that can stand in no Host header is told: it would let nobody in."""
    with pytest.raises(CommandError, match="--allow-host must be the name of a host, such as"):
        run_serve("nowhere:pipeline", http="8000", allowed=["tools.example.com:8443", "[::1]", name])


@dataclass
class Wired:
    """A message as the SDK reads and writes it."""

    id: int
    text: str = ""

    def model_dump_json(self, **_: object) -> str:
        return json.dumps({"id": self.id, "text": self.text})


class Adapter:
    def validate_json(self, line: bytes, *, by_name: bool) -> Wired:
        return Wired(json.loads(line)["id"])


async def test_a_client_that_does_not_read_is_not_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over stdio answers do not pile up: beyond a bound no further request is taken, until the client reads."""
    monkeypatch.setattr(stdio_transport, "_MOST_WAITING", 1_000)
    sdk = SimpleNamespace(message=deepcopy, types=SimpleNamespace(jsonrpc_message_adapter=Adapter()))
    monkeypatch.setattr(SdkServer, "load", lambda: sdk)
    (from_client, client_writes), (client_reads, to_client) = os.pipe(), os.pipe()
    taken: list[int] = []
    try:
        transport = StdioTransport(from_client, to_client)

        async def take() -> None:
            taken.append((await transport.receive()).id)

        async with anyio.create_task_group() as group:
            group.start_soon(transport.send, SimpleNamespace(message=Wired(1, "x" * 200_000)))
            await anyio.wait_all_tasks_blocked()  # a pipe holds less
            os.write(client_writes, b'{"id":2}\n')
            group.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            assert taken == []
            read = 0
            with anyio.fail_after(PATIENT):
                while read < 200_000:
                    await anyio.wait_readable(client_reads)
                    read += len(os.read(client_reads, 65_536))
        assert taken == [2]
    finally:
        for end in (from_client, client_writes, client_reads, to_client):
            os.close(end)


@dataclass
class Asked:
    """A request or a notification as the SDK reads it."""

    method: str
    params: Any = None
    id: int | None = None

    @classmethod
    def validate_json(cls, line: bytes, *, by_name: bool) -> Asked:
        return cls(**json.loads(line))


async def test_no_two_open_requests_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over stdio an id may come again once its request is answered or cancelled; till then it is refused."""
    sdk = SimpleNamespace(message=deepcopy, types=SimpleNamespace(jsonrpc_message_adapter=Asked))
    monkeypatch.setattr(SdkServer, "load", lambda: sdk)
    (from_client, client_writes), (client_reads, to_client) = os.pipe(), os.pipe()
    ask, tell = Asked("ask", id=1), Asked("tell")
    cancel = Asked("notifications/cancelled", {"requestId": 1})
    try:
        transport = StdioTransport(from_client, to_client)
        for message in (ask, ask, tell, tell, cancel, ask):
            os.write(client_writes, json.dumps(vars(message)).encode() + b"\n")
        with anyio.fail_after(PATIENT):
            assert [await transport.receive() for _ in range(5)] == [ask, tell, tell, cancel, ask]
            refused = {"code": -32600, "message": "the id is that of a request that has no answer yet"}
            assert json.loads(os.read(client_reads, 65_536)) == {"jsonrpc": "2.0", "id": 1, "error": refused}
            await transport.send(SimpleNamespace(message=Wired(1)))
            os.write(client_writes, json.dumps(vars(ask)).encode() + b"\n")
            assert await transport.receive() == ask
            assert json.loads(os.read(client_reads, 65_536)) == {"id": 1, "text": ""}
    finally:
        for end in (from_client, client_writes, client_reads, to_client):
            os.close(end)


@pytest.mark.parametrize("is_known", [True, False])
async def test_no_two_running_calls_of_a_conversation_have_one_id(is_known: bool) -> None:
    """A second call with the id of one that runs is refused; of a client that is not known an id says nothing."""
    tools, both, running = ToolRegistry(), anyio.Event(), list[str]()
    served, session = serve(tools), Session(has_standalone_channel=is_known)

    @tools.tool(effect="read")
    async def wait() -> str:
        running.append("wait")
        if len(running) == 2:
            both.set()
        await both.wait()
        return "done"

    async def call() -> None:
        try:
            assert text_of(await ask(tools, "wait", served=served, session=session, request=object())) == "done"
        except ProtocolError as exc:
            running.append(str(exc.args[1]))
            both.set()

    with anyio.fail_after(PATIENT):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            group.start_soon(call)
    assert running == ["wait", "the id is that of a request that has no answer yet" if is_known else "wait"]
    await call()
    assert running[2:] == ["wait"]


async def test_a_client_reads_what_changed_since_its_last_failure() -> None:
    """A connection is a conversation; another one begins anew."""
    tools = ToolRegistry()
    tools.tool(effect="read")(send)
    served, mine, other, last = serve(tools), Session(), Session(), iter(range(100))

    async def play(session: Session, turns: tuple[Turn, ...]) -> list[str]:
        who: Any = {"served": served, "session": session}
        return [text_of(await ask(tools, "send", turn.sent, request_id=next(last), **who)) for turn in turns]

    first = await play(mine, RUNS[0])
    check_turns(await play(other, OTHER), OTHER)
    check_turns(first + await play(mine, RUNS[1]))


@pytest.mark.parametrize(
    ("client", "meta", "lines", "is_json"),
    [
        ("claude-code", {}, 1, False),
        ("cursor", {}, 2, False),
        ("cursor", {"toolcall/verbosity": "terse"}, 1, False),
        ("claude-code", {"toolcall/verbosity": "normal"}, 2, False),
        ("claude-code", {"toolcall/verbosity": "loud", "toolcall/profile": 7}, 1, False),
        ("other", {"toolcall/profile": "structured"}, 1, True),
        (None, None, 2, False),
    ],
)
async def test_each_client_has_a_wording_of_its_own(client: Any, meta: Any, lines: int, is_json: bool) -> None:
    """By what it asks for, else by its name; what is unknown counts as unsaid."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def send(to: str) -> str:
        return "sent"

    served = ServedCalls(
        standard(tools),
        ServedTools([tools]),
        KnownClients(),
        deps=None,
        read_principal=str,
        error=ProtocolError,
        wordings={"claude-*": Wording(verbosity="terse")},
    )
    session = Session()
    session.client_params = client and SimpleNamespace(client_info=SimpleNamespace(name=client))
    text = text_of(await ask(tools, "send", {}, served=served, session=session, meta=meta))
    assert (len(text.splitlines()), text.startswith("{")) == (lines, is_json)
    assert text_of(await ask(tools, "send", {"to": "a"}, served=served, session=session)) in ("sent", '"sent"')


@pytest.mark.parametrize("wordings", [7, {"a": "terse"}, {7: Wording()}])
def test_a_wording_that_is_none_is_refused(wordings: Any) -> None:
    """At set-up."""
    with pytest.raises(SetupError, match="wordings"):
        ClientWordings(wordings, None)
