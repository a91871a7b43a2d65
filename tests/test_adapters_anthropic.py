"""Anthropic: messages become calls, outcomes become tool results; and whole turns through the official client."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any, cast

import anthropic as sdk
import pytest
from anthropic.types import Message, MessageParam, RawMessageStreamEvent, ToolResultBlockParam
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import fake_providers as fake
from error_cases import EACH_KIND
from fake_providers import FakeProvider, adders
from toolcall_pipeline import (
    Call,
    Failure,
    Outcome,
    SetupError,
    Success,
    ToolError,
    ToolRegistry,
    UnknownTool,
    gather,
    render,
)
from toolcall_pipeline.adapters import anthropic
from toolcall_pipeline.messages import Audio, File, Image, Link
from toolcall_pipeline.messages.parts import read_bytes
from toolcall_pipeline.middlewares import standard

EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
TWO: tuple[tuple[str, str, dict[str, Any]], ...] = (("toolu_1", "add", {"a": 1}), ("toolu_2", "now", {}))


def events_as_objects(reply: dict[str, Any]) -> list[Any]:
    raw = (event for event in fake.message_events(reply) if event["type"] != "ping")
    return [EVENT.validate_python(event) for event in raw]


WHOLE: list[Any] = [pytest.param(dict, id="dict"), pytest.param(Message.model_validate, id="object")]
STREAMS: list[Any] = [
    pytest.param(fake.message_events, id="stream-dict"),
    pytest.param(events_as_objects, id="stream-object"),
]
Form = Callable[[dict[str, Any]], object]


def plain(calls: list[Call]) -> list[tuple[str, str, object]]:
    return [(call.id, call.name, call.arguments) for call in calls]


# --- replies -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", WHOLE)
def test_calls_of_a_message(form: Form) -> None:
    """The calls of a message come in order, with their ids and their input as a mapping."""
    assert plain(anthropic.calls(form(fake.message(*TWO, text="Let me see.")))) == list(TWO)


@pytest.mark.parametrize("form", STREAMS)
def test_calls_of_a_stream(form: Form) -> None:
    """The calls of a stream come in order, with the text of their input; an empty text is no arguments."""
    reply = fake.message(*TWO, text="Let me see.")
    assert plain(anthropic.calls(form(reply))) == [("toolu_1", "add", '{"a": 1}'), ("toolu_2", "now", "")]


@pytest.mark.parametrize("form", [*WHOLE, *STREAMS])
def test_no_calls(form: Form) -> None:
    """A reply without tool calls has none."""
    assert anthropic.calls(form(fake.message(text="Hello."))) == []


@pytest.mark.parametrize("form", [*WHOLE, *STREAMS])
@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("tool_use", "tool_use"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
def test_the_stop_reason(form: Form, stop: str, reason: str) -> None:
    """Calls of a message that was cut off have finish reason length; others have its stop reason."""
    assert [call.finish_reason for call in anthropic.calls(form(fake.message(*TWO, stop=stop)))] == [reason, reason]


def started(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "input": {}, **block}}


def piece(index: int, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


STOP = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}


@given(st.lists(st.tuples(st.text(), st.sets(st.integers(0, 20))), max_size=4), st.randoms())
def test_deltas_are_assembled(asked: list[tuple[str, set[int]]], random: Any) -> None:
    """The text of an input stays the same, however it is cut and however blocks are interleaved."""
    streams: list[list[dict[str, Any]]] = []
    for index, (text, cuts) in enumerate(asked):
        ends = sorted({0, len(text), *(place for place in cuts if place < len(text))})
        streams.append([piece(index, text[start:end]) for start, end in pairwise(ends)])
    events = [started(index, id=f"toolu_{index}", name="f") for index in range(len(asked))]
    while left := [stream for stream in streams if stream]:
        events.append(random.choice(left).pop(0))
    calls = anthropic.calls([*events, STOP])
    assert plain(calls) == [(f"toolu_{index}", "f", text) for index, (text, _) in enumerate(asked)]


@pytest.mark.parametrize(
    ("rest", "arguments", "reason"),
    [
        pytest.param([], "", "length", id="broke-off"),
        pytest.param([piece(0, ""), piece(0, " ")], " ", "length", id="broke-off-blank"),
        pytest.param([piece(0, '{"a": 1}')], '{"a": 1}', None, id="broke-off-with-all-of-it"),
        pytest.param([{"type": "content_block_stop", "index": 0}], "", None, id="block-done"),
        pytest.param([STOP], "", "tool_use", id="done"),
        pytest.param(
            [STOP, {"type": "message_delta", "delta": {"stop_reason": None}}], "", "tool_use", id="usage-last"
        ),
    ],
)
def test_a_stream_that_breaks_off(rest: list[Any], arguments: str, reason: str | None) -> None:
    """If a stream breaks off before the first input, the call counts as cut off, not as one without arguments."""
    (call,) = anthropic.calls([started(0, id="a", name="f"), *rest])
    assert (call.arguments, call.finish_reason) == (arguments, reason)


def test_an_input_that_comes_with_the_start() -> None:
    """The input of a streamed call is read if a server sends it with the start of the block."""
    start = started(0, id="a", name="f", input={"n": 1})
    assert plain(anthropic.calls([start, STOP])) == [("a", "f", {"n": 1})]
    assert plain(anthropic.calls([start, piece(0, '{"n": 2}'), STOP])) == [("a", "f", '{"n": 2}')]


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "text", "thinking"])
def test_tools_of_the_provider_are_no_calls(kind: str) -> None:
    """Tools that the provider runs itself, and blocks without a tool, are no calls, streamed or not."""
    block: dict[str, Any] = {"type": kind, "id": "x", "name": "web_search", "input": {}}
    assert anthropic.calls({"content": [block]}) == []
    assert anthropic.calls([{**started(0), "content_block": block}, piece(0, "{}"), STOP]) == []


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"id": "c", "name": None, "input": {"a": 1}}, id="no-name"),
        pytest.param({"id": "c", "name": ["add"], "input": {"a": 1}}, id="name-of-another-type"),
        pytest.param({"id": "c", "name": "add", "input": [1]}, id="input-of-another-type"),
        pytest.param({"id": "c", "name": "add", "input": '{"a": '}, id="input-cut"),
        pytest.param({"id": "c", "name": "add"}, id="no-input"),
        pytest.param({}, id="empty"),
    ],
)
async def test_a_malformed_call_is_refused_by_the_pipeline(block: dict[str, Any]) -> None:
    """A malformed tool call becomes a call that the pipeline refuses and that can be answered."""
    (call,) = anthropic.calls({"content": [{"type": "tool_use", **block}], "stop_reason": "tool_use"})
    outcome = await standard(adders())(call)
    assert isinstance(outcome, Failure)
    (block_sent,) = anthropic.message(call, outcome)["content"]
    assert (block_sent["tool_use_id"], block_sent["is_error"]) == (block.get("id", ""), True)


WORDS = ["content", "type", "id", "name", "input", "index", "content_block", "delta", "partial_json", "stop_reason"]
KINDS = ["tool_use", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 1), st.text(max_size=3), st.sampled_from(KINDS))
JUNK: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)


@given(JUNK.filter(lambda reply: isinstance(reply, (str, list, dict))))
def test_calls_never_raises(reply: Any) -> None:
    """Whatever stands in a reply, each call has text as its name and its id."""
    for call in anthropic.calls(reply):
        assert isinstance(call.name, str)
        assert isinstance(call.id, str)


async def test_what_has_to_be_awaited_is_refused() -> None:
    """An async stream is a SetupError, not a reply without calls."""

    async def stream() -> AsyncIterator[Any]:
        yield STOP

    with pytest.raises(SetupError, match="await the reply first"):
        anthropic.calls(stream())


# --- definitions and results -------------------------------------------------------------------------------------
def test_definitions() -> None:
    """A definition has name, description and schema."""
    tools = adders()
    add, read = anthropic.tools(tools)
    schema = tools.definitions()[0]["parameters"]
    assert add == {"name": "add", "description": "Add two numbers.", "input_schema": schema}
    assert list(read) == ["name", "input_schema"]
    assert [call.name for call in anthropic.calls(fake.message(("c", read["name"], {})), tools)] == ["fs.read"]


@pytest.mark.parametrize("error", EACH_KIND, ids=lambda error: error.kind)
def test_a_failure_of_any_kind_is_an_error(error: ToolError) -> None:
    """`is_error` is true for every kind of failure, and the content is the rendered error."""
    expected = {"type": "tool_result", "tool_use_id": "toolu_1", "content": render(error), "is_error": True}
    assert anthropic.result(Call("x", id="toolu_1"), Failure(error)) == expected


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ({"a": 1}, '{"a": 1}'),
        ("Error: not one of ours", "Error: not one of ours"),
        (b"\xff", "(1 bytes of binary data)"),
        *((value, render(Success(None))) for value in (None, "", "\n", b"")),
    ],
    ids=repr,
)
def test_a_success_is_not_an_error(value: object, content: str) -> None:
    """`is_error` is false for every success, whatever its text is, and no content is blank."""
    expected = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": False}
    assert anthropic.result(Call("x", id="toolu_1"), Success(value)) == expected


@pytest.mark.parametrize("data", [b"\0\0\0\0\0\0\0\0WEBP", b"RIFF\0\0\0\0WEBM", b"x\x89PNG\r\n\x1a"])
def test_bytes_that_only_look_like_an_image_are_none(data: bytes) -> None:
    """A type is told by all of its first bytes, at their places."""
    content = anthropic.result(Call("x"), Success(data))["content"]
    assert content == f"({len(data)} bytes of binary data)"


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"\x89PNG\r\n\x1a\n", Image("image/png", b"\x89PNG\r\n\x1a\n")),
        (b"\xff\xd8\xff\xe0", Image("image/jpeg", b"\xff\xd8\xff\xe0")),
        (b"GIF87a", Image("image/gif", b"GIF87a")),
        (b"GIF89a", Image("image/gif", b"GIF89a")),
        (b"RIFF....WEBP", Image("image/webp", b"RIFF....WEBP")),
        (b"%PDF-1.7", File("application/pdf", b"%PDF-1.7")),
        (b"OggS", Audio("audio/ogg", b"OggS")),
        (b"fLaC", Audio("audio/flac", b"fLaC")),
        (b"ID3", Audio("audio/mpeg", b"ID3")),
        (b"RIFF....WAVE", Audio("audio/wav", b"RIFF....WAVE")),
        (b"plain", "plain"),
        (b"a\0b", None),
        (b"\xff", None),
    ],
    ids=repr,
)
def test_bytes_are_what_they_begin_with(data: bytes, part: Any) -> None:
    """The media type is that of the first bytes, and the part is that of the media type."""
    assert read_bytes(data) == part


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n"),
        ("image/jpeg", b"\xff\xd8\xff\xe0"),
        ("image/gif", b"GIF87a"),
        ("image/webp", b"RIFF\0\0\0\0WEBP"),
    ],
)
def test_images(media_type: str, data: bytes) -> None:
    """An image is a block of its own, alone or in its place among texts."""
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    image = {"type": "image", "source": source}
    assert anthropic.result(Call("x"), Success(data))["content"] == [image]
    mixed = [{"type": "text", "text": "before"}, image, {"type": "text", "text": "(no output)"}]
    assert anthropic.result(Call("x"), Success(("before", data, None)))["content"] == mixed


PARTS: list[Any] = [
    "text",
    "",
    {"a": 1},
    [b"GIF87a", b"%PDF-1.7", "between", b"\x00", b"RIFF\0\0\0\0WAVE"],
    Image("image/svg+xml", b"<svg/>"),
    [
        Audio("audio/wav", b"a"),
        File("text/csv", b"a"),
        File("application/pdf", b"a", "a.pdf"),
        Link("https://a.b", "c"),
    ],
    {"content": [{"type": "text", "text": "a"}], "structuredContent": {"n": 1}, "isError": True},
    object(),
]
RESULT: TypeAdapter[Any] = TypeAdapter(ToolResultBlockParam)


@pytest.mark.parametrize("value", PARTS, ids=range(len(PARTS)))
def test_results_are_what_the_client_declares(value: Any) -> None:
    """A result with any parts comes back unchanged out of the client's own type."""
    for outcome in (Success(value), Failure(UnknownTool("x"))):
        told = anthropic.result(Call("x", id="c"), outcome)
        back = RESULT.validate_python(told)
        content = back["content"] if isinstance(back["content"], str) else list(back["content"])
        assert {**back, "content": content} == told


def test_all_results_go_into_one_message() -> None:
    """One user message has the results of all calls, in order; `message` is the same for a single call."""
    answered: list[tuple[Call, Outcome]] = [
        (Call("x", id="a"), Success(1)),
        (Call("x", id="b"), Failure(UnknownTool("x"))),
    ]
    results = [anthropic.result(call, outcome) for call, outcome in answered]
    assert anthropic.messages(answered) == {"role": "user", "content": results}
    assert anthropic.message(*answered[0]) == {"role": "user", "content": results[:1]}


# --- whole turns -------------------------------------------------------------------------------------------------
BAD = "Error: Invalid parameter value for a: must be an integer, not a string"


def replies(tools: ToolRegistry) -> list[dict[str, Any]]:
    name = anthropic.tools(tools)[1]["name"]
    calls = (("toolu_1", name, {"path": "a.txt"}), ("toolu_2", "add", {"a": "one"}))
    return [fake.message(*calls, text="Let me see."), fake.message(text="Done.")]


def asked(tools: ToolRegistry, history: list[Any], *, stream: bool) -> dict[str, Any]:
    about = {"model": "fake", "max_tokens": 99, "tools": anthropic.tools(tools)}
    return {**about, "messages": history, "stream": stream}


def check_requests(server: FakeProvider, tools: ToolRegistry) -> None:
    """The requests have the definitions; the second one answers a right and a wrong call in one message."""
    first, second = server.requests
    assert first["tools"] == second["tools"] == json.loads(json.dumps(anthropic.tools(tools)))
    told = [(each["tool_use_id"], each["content"], each["is_error"]) for each in second["messages"][-1]["content"]]
    assert told == [("toolu_1", "what a.txt holds", False), ("toolu_2", BAD, True)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_of_an_agent(stream: bool) -> None:
    """Through the official client: definitions, two calls of which one is wrong, both answers, and a final text."""
    tools = adders()
    run = standard(tools)
    whole = replies(tools)
    with FakeProvider(*whole) as server, sdk.Anthropic(api_key="none", base_url=server.url, max_retries=0) as client:
        ask: Any = client.messages.create
        history: list[Any] = [{"role": "user", "content": "Go."}]
        calls = anthropic.calls(ask(**asked(tools, history, stream=stream)), tools)
        history.append({"role": "assistant", "content": whole[0]["content"]})
        history.append(anthropic.messages(zip(calls, await gather(run, calls), strict=True)))
        assert anthropic.calls(ask(**asked(tools, history, stream=stream)), tools) == []
        check_requests(server, tools)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # in trio the client leaves its own generators open
async def test_a_turn_of_an_async_agent(stream: bool) -> None:
    """The same turn works with the async client, whose stream is collected first."""
    tools = adders()
    run = standard(tools)
    whole = replies(tools)
    with FakeProvider(*whole) as server:
        async with sdk.AsyncAnthropic(api_key="none", base_url=server.url, max_retries=0) as client:
            ask: Any = client.messages.create
            history: list[Any] = [{"role": "user", "content": "Go."}]
            while True:
                reply = await ask(**asked(tools, history, stream=stream))
                calls = anthropic.calls([event async for event in reply] if stream else reply, tools)
                if not calls:
                    break
                history.append({"role": "assistant", "content": whole[0]["content"]})
                history.append(anthropic.messages([(call, await run(call)) for call in calls]))
        check_requests(server, tools)


async def test_what_the_client_takes() -> None:
    """Definitions and messages fit the client's own types without a cast."""
    tools = adders()
    run = standard(tools)
    with (
        FakeProvider(fake.message(TWO[0]), fake.message(text="Done.")) as server,
        sdk.Anthropic(api_key="none", base_url=server.url, max_retries=0) as client,
    ):
        messages: list[MessageParam] = [{"role": "user", "content": "Go."}]
        reply = client.messages.create(model="fake", max_tokens=99, messages=messages, tools=anthropic.tools(tools))
        messages.append({"role": "assistant", "content": reply.content})
        (call,) = anthropic.calls(reply)
        answer: MessageParam = anthropic.message(call, await run(call))
        messages.append(answer)
        done = client.messages.create(model="fake", max_tokens=99, messages=messages, tools=anthropic.tools(tools))
        assert [cast("Any", block).text for block in done.content] == ["Done."]
        assert server.requests[1]["messages"][-1]["content"][0]["content"] == "1"


def test_the_clients_own_stream_helper() -> None:
    """The events of the client's stream helper, its own ones included, are read like the bare stream."""
    with (
        FakeProvider(fake.message(*TWO, text="Let me see.")) as server,
        sdk.Anthropic(api_key="none", base_url=server.url, max_retries=0) as client,
        client.messages.stream(model="fake", max_tokens=99, messages=[{"role": "user", "content": "Go."}]) as stream,
    ):
        assert plain(anthropic.calls(stream)) == [("toolu_1", "add", '{"a": 1}'), ("toolu_2", "now", "")]
