"""OpenAI: replies become calls, outcomes become messages, registries become definitions."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionToolMessageParam
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

import fake_providers as fake
from counting import count_instructions
from toolcall_pipeline import Call, Failure, Outcome, SetupError, Success, Tool, ToolRegistry, UnknownTool, render
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.messages import Audio, File, Image, Link
from toolcall_pipeline.middlewares import standard

Api = Literal["chat", "responses"]
PNG = b"\x89PNG\r\n\x1a\n and so on"
IMAGES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a...",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}
TWO = (("call_1", "fs_read", '{"path":  "a"}'), ("call_2", "add", '{"a": 1, "b": "\\u00e9"}'))
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def events_as_objects(reply: dict[str, Any]) -> list[Any]:
    return [EVENT.validate_python(event) for event in fake.response_events(reply)]


def chunks_as_objects(reply: dict[str, Any]) -> list[Any]:
    return [ChatCompletionChunk.model_validate(each) for each in fake.chat_chunks(reply)]


# The forms of a reply: whole or streamed, dicts or the SDK's own objects.
FORMS: list[Any] = [
    pytest.param(fake.completion, dict, id="chat-dict"),
    pytest.param(fake.completion, ChatCompletion.model_validate, id="chat-object"),
    pytest.param(fake.completion, fake.chat_chunks, id="chat-stream-dict"),
    pytest.param(fake.completion, chunks_as_objects, id="chat-stream-object"),
    pytest.param(fake.response, dict, id="responses-dict"),
    pytest.param(fake.response, Response.model_validate, id="responses-object"),
    pytest.param(fake.response, fake.response_events, id="responses-stream-dict"),
    pytest.param(fake.response, events_as_objects, id="responses-stream-object"),
]
Make = Callable[..., dict[str, Any]]
Form = Callable[[dict[str, Any]], object]


def plain(calls: list[Call]) -> list[tuple[str, str, object]]:
    return [(call.id, call.name, call.arguments) for call in calls]


# --- replies -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("make", "form"), FORMS)
def test_parallel_calls(make: Make, form: Form) -> None:
    """Parallel calls come in order, with the ids and argument texts that were sent."""
    assert plain(openai.calls(form(make(*TWO)))) == list(TWO)


@pytest.mark.parametrize(("make", "form"), FORMS)
def test_no_calls(make: Make, form: Form) -> None:
    """A reply without tool calls has none."""
    assert openai.calls(form(make(text="Hello."))) == []


@pytest.mark.parametrize(("make", "form"), FORMS[:4])
@pytest.mark.parametrize("reason", ["tool_calls", "length", "content_filter"])
def test_the_finish_reason_of_a_choice(make: Make, form: Form, reason: str) -> None:
    """Each call has the finish reason of its choice."""
    calls = openai.calls(form(make(*TWO, finish=reason)))
    assert [call.finish_reason for call in calls] == [reason, reason]


@pytest.mark.parametrize(("make", "form"), FORMS[4:])
@pytest.mark.parametrize(
    ("status", "why", "reason"),
    [
        ("completed", None, "completed"),
        ("incomplete", "max_output_tokens", "length"),
        ("incomplete", "content_filter", "content_filter"),
        ("failed", None, "failed"),
    ],
)
def test_the_finish_reason_of_a_response(make: Make, form: Form, status: str, why: str | None, reason: str) -> None:
    """Calls of a response that ran out of tokens have finish reason length; others have its reason or status."""
    details = None if why is None else {"reason": why}
    calls = openai.calls(form(make(*TWO, status=status, incomplete_details=details)))
    assert [call.finish_reason for call in calls] == [reason, reason]


@pytest.mark.parametrize(
    ("of_item", "of_response", "reason"),
    [
        ("incomplete", "completed", "length"),
        ("in_progress", "in_progress", "length"),
        ("in_progress", "completed", "completed"),
        ("completed", "in_progress", "in_progress"),
        (None, None, None),
    ],
)
def test_an_incomplete_item_was_cut_off(of_item: str | None, of_response: str | None, reason: str | None) -> None:
    """An item that is incomplete, or still in progress, counts as cut off."""
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "", "status": of_item}
    (call,) = openai.calls({"output": [item], "status": of_response})
    assert call.finish_reason == reason


CUTS = st.lists(st.integers(min_value=0, max_value=30), max_size=4)


def cut(text: str, places: list[int]) -> list[str]:
    ends = [0, *sorted({place for place in places if 0 < place < len(text)}), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


@given(st.lists(st.tuples(st.text(min_size=1), st.text(), CUTS, CUTS, st.booleans()), max_size=4), st.randoms())
def test_deltas_are_assembled(asked: list[tuple[str, str, list[int], list[int], bool]], random: Any) -> None:
    """Ids, names and arguments in any pieces, interleaved in any way, become whole calls."""
    streams: list[list[dict[str, Any]]] = []
    for index, (name, arguments, name_cuts, cuts, split_id) in enumerate(asked):
        ids = ["call_", str(index)] if split_id else [f"call_{index}"]
        heads: list[dict[str, Any]] = [{"index": index, "id": piece, "function": {}} for piece in ids]
        names = [{"index": index, "function": {"name": piece}} for piece in cut(name, name_cuts)]
        tail = [{"index": index, "function": {"arguments": piece}} for piece in cut(arguments, cuts)]
        streams.append([*heads, *names, *tail])
    chunks: list[dict[str, Any]] = []
    while left := [stream for stream in streams if stream]:
        chunks.append(fake.delta(tool_calls=[random.choice(left).pop(0)]))
    calls = openai.calls([*chunks, fake.delta("tool_calls")])
    assert plain(calls) == [(f"call_{index}", name, text) for index, (name, text, *_) in enumerate(asked)]


def piece(arguments: object = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


ONE, OTHER = ("a", "f", '{"n": 1}'), ("b", "f", '{"n": 2}')


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [piece('{"n": 1}', "f", index=0, id="a"), piece('{"n": 2}', "f", index=0, id="b")],
            [ONE, OTHER],
            id="index-0-for-all",
        ),
        pytest.param(
            [
                piece("", "f", index=0, id="a"),
                piece('{"n": 1}', index=0),
                piece("", "f", index=0, id="b"),
                piece('{"n"', index=0),
                piece(": 2}", index=0),
            ],
            [ONE, OTHER],
            id="index-0-for-all-in-pieces",
        ),
        pytest.param(
            [piece("", "f", id="a"), piece('{"n": 1}'), piece("", "f", id="b"), piece('{"n": 2}')],
            [ONE, OTHER],
            id="no-index",
        ),
        pytest.param([piece("", "f", id="a"), piece("", "f", id="b")], [("a", "f", ""), ("b", "f", "")], id="none-yet"),
        pytest.param(
            [piece('{"n"', "f", index=0, id="a"), piece(": 1}", "f", index=0, id="a")], [ONE], id="all-comes-again"
        ),
        pytest.param(
            [piece(None, "f", index=0, id="a"), piece('{"n"', index=0, id="x"), piece(": 1}", index=0, id="y")],
            [ONE],
            id="a-new-id-each-time",
        ),
        pytest.param(
            [piece("", "f", index=0, id="a"), piece("", "f", index=0, id="a"), piece('{"n": 1}', index=0)],
            [ONE],
            id="the-head-comes-again",
        ),
        pytest.param(
            [piece('{"n"', "f", index=0, id="a"), piece(": 1}", "f", index=0), piece(index=0, id="x")],
            [ONE],
            id="the-name-comes-again",
        ),
        pytest.param(
            [piece('{"n": 1}', "f", index=0, id="a"), piece('{"n": 2}', "f", id="b")],
            [ONE, OTHER],
            id="an-index-missing",
        ),
        pytest.param(
            [
                piece('{"n"', "f", index=0, id="a"),
                piece('{"n"', "f", index=0, id="b"),
                piece(": 1}", index=0, id="a"),
                piece(": 2}", index=0, id="b"),
            ],
            [ONE, OTHER],
            id="told-apart-by-id",
        ),
        pytest.param([piece({"n": 1}, "f", index=0, id="a")], [("a", "f", {"n": 1})], id="a-mapping"),
        pytest.param([piece('{"n": 1}', "f", index=0)], [("", "f", '{"n": 1}')], id="no-id"),
        pytest.param([piece('{"n": 1}', index=0, id="a")], [("a", "", '{"n": 1}')], id="no-name"),
        pytest.param(
            [piece('{"n": 2}', "f", index=1, id="b"), piece('{"n": 1}', "f", index=0, id="a")],
            [ONE, OTHER],
            id="out-of-order",
        ),
        pytest.param(
            [piece('{"n": 1}', "f"), piece('{"n": 2}', "f")],
            [("", *ONE[1:]), ("", *OTHER[1:])],
            id="whole-without-index-and-id",
        ),
        pytest.param(
            [piece('{"n": 1}', "f", index=0), piece('{"n": 2}', "f", index=0)],
            [("", *ONE[1:]), ("", *OTHER[1:])],
            id="whole-with-index-0-and-no-id",
        ),
        pytest.param(
            [piece("{}", "f"), piece("{}", "f"), piece("{}", "g")],
            [("", "f", "{}"), ("", "f", "{}"), ("", "g", "{}")],
            id="whole-and-empty",
        ),
        pytest.param(
            [piece({"n": 1}, "f"), piece({"n": 2}, "f")], [("", "f", {"n": 1}), ("", "f", {"n": 2})], id="two-mappings"
        ),
        pytest.param(
            [piece("", "f", index=0, id="a"), piece("", "g", index=0, id="b")],
            [("a", "f", ""), ("b", "g", "")],
            id="index-0-twice-before-any-argument",
        ),
        pytest.param(
            [piece("", "f", index=0), piece("", "g", index=0), piece('{"n": 1}', index=0)],
            [("", "f", ""), ("", "g", '{"n": 1}')],
            id="index-0-twice-and-no-id",
        ),
        pytest.param(
            [
                piece("", "f"),
                piece('{"n"'),
                piece(": 1}"),
                piece("", "f"),
                piece('{"n"'),
                piece(": 2}"),
            ],
            [("", *ONE[1:]), ("", *OTHER[1:])],
            id="in-pieces-without-index-and-id",
        ),
        pytest.param(
            [
                piece("", "f", index=0, id="a"),
                piece('{"n": 1}', index=0),
                piece("", "f", index=0, id="a"),
                piece('{"n": 2}', index=0),
            ],
            [ONE, ("a", *OTHER[1:])],
            id="one-id-for-all",
        ),
        pytest.param(
            [piece('{"n": 1}', "f", index=0, id="a"), piece('{"n": 2}', "f", index=0, id="a")],
            [ONE, ("a", *OTHER[1:])],
            id="one-id-for-all-and-whole",
        ),
        pytest.param(
            [
                piece("", "f", index=0, id="a"),
                piece('{"n": 1}', index=0),
                piece('{"n": 1}', "f", index=0, id="a"),
                piece("", "f", index=0, id="a"),
            ],
            [ONE],
            id="the-whole-comes-again",
        ),
        pytest.param([piece('{"n": 1}', "f"), piece("", "f")], [("", *ONE[1:])], id="the-head-comes-again-at-the-end"),
        pytest.param(
            [piece('{"o": {}', "f"), piece("", "f"), piece("}")],
            [("", "f", '{"o": {}}')],
            id="the-name-comes-in-between",
        ),
    ],
)
def test_streams_of_other_servers(deltas: list[dict[str, Any]], expected: list[Any]) -> None:
    """Calls are told apart even if a server deviates from the format of the stream."""
    chunks = [fake.delta(tool_calls=[each]) for each in deltas]
    calls = openai.calls([*chunks, fake.delta("stop"), fake.delta()])
    assert plain(calls) == expected
    assert {call.finish_reason for call in calls} == {"stop"}


@pytest.mark.parametrize(("arguments", "reason"), [("", "length"), (" ", "length"), ('{"n"', None), ('{"n": 1}', None)])
def test_a_stream_that_breaks_off(arguments: str, reason: str | None) -> None:
    """If a stream breaks off before the first argument, the call counts as cut off, not as one without arguments."""
    chunks = [fake.delta(tool_calls=[piece(arguments, "f", index=0, id="a")])]
    item = {"type": "function_call", "id": "i", "call_id": "a", "name": "f", "arguments": ""}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "i", "delta": arguments},
    ]
    for stream in (chunks, events):
        (call,) = openai.calls(stream)
        assert (call.id, call.name, call.arguments, call.finish_reason) == ("a", "f", arguments, reason)
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    assert openai.calls([*events, done]) == [Call("f", "", "a")]


@pytest.mark.parametrize("place", [{"output_index": 1}, {"item_id": "i"}])
def test_a_response_stream_without_its_last_event(place: dict[str, Any]) -> None:
    """If no event repeats the whole response, calls are put together from the events alone, custom ones included."""
    item = {"id": "i", "call_id": "a", "name": "f"}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.output_item.added", **place, "item": {**item, "type": "custom_tool_call", "input": ""}},
        {"type": "response.custom_tool_call_input.delta", **place, "delta": "SELECT"},
        {"type": "response.custom_tool_call_input.delta", **place, "delta": " 1"},
    ]
    assert plain(openai.calls(events)) == [("a", "f", "SELECT 1")]
    done = {"type": "response.custom_tool_call_input.done", **place, "input": "SELECT 2"}
    end: dict[str, Any] = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    (call,) = openai.calls([*events, done, end])
    assert (call.arguments, call.finish_reason) == ("SELECT 2", "completed")


def test_a_response_stream_with_one_index_for_all() -> None:
    """Items of one index are told apart by their ids of the call."""
    events: list[dict[str, Any]] = []
    for id_, name, arguments in (ONE, OTHER):
        item = {"type": "function_call", "call_id": id_, "name": name, "arguments": ""}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": arguments},
        ]
    assert plain(openai.calls(events)) == [ONE, OTHER]


def test_the_legacy_function_call() -> None:
    """The function call of the legacy API is a call without an id, streamed or not."""
    said = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"n": 1}'}}
    whole = {"choices": [{"message": said, "finish_reason": "function_call"}]}
    stream = [
        fake.delta(function_call={"name": "f", "arguments": ""}),
        fake.delta(function_call={"arguments": '{"n"'}),
        fake.delta(function_call={"arguments": ": 1}"}),
        fake.delta("function_call"),
    ]
    for reply in (whole, stream):
        (call,) = openai.calls(reply)
        assert (call.name, call.arguments, call.id, call.finish_reason) == ("f", '{"n": 1}', "", "function_call")


def test_tool_calls_come_before_the_legacy_one() -> None:
    """A server that sends a call in both forms asks for it once."""
    reply = fake.completion(TWO[0])
    reply["choices"][0]["message"]["function_call"] = {"name": "fs_read", "arguments": "{}"}
    assert plain(openai.calls(reply)) == [TWO[0]]


def test_the_last_event_alone() -> None:
    """The last event of a response stream alone has all calls."""
    assert plain(openai.calls(fake.response_events(fake.response(*TWO))[-1:])) == list(TWO)


def test_the_first_choice_counts() -> None:
    """Of several choices the first is read, streamed or not."""
    reply = fake.completion(TWO[0])
    other = fake.completion(TWO[1])["choices"][0] | {"index": 1}
    assert plain(openai.calls({**reply, "choices": [*reply["choices"], other]})) == [TWO[0]]
    chunks: list[dict[str, Any]] = []
    for mine, theirs in zip(fake.chat_chunks(reply), fake.chat_chunks({"choices": [other]}), strict=False):
        chunks += [{**theirs, "choices": [each | {"index": 1} for each in theirs["choices"]]}, mine]
    assert plain(openai.calls(chunks)) == [TWO[0]]


def test_the_message_alone() -> None:
    """A choice, its message and its tool calls are read like the whole completion; so are a chunk and an output."""
    choice = fake.completion(*TWO)["choices"][0]
    assert plain(openai.calls(choice)) == plain(openai.calls(choice["message"]["tool_calls"])) == list(TWO)
    assert plain(openai.calls(fake.response(*TWO)["output"])) == list(TWO)
    assert plain(openai.calls(fake.completion(*TWO)["choices"][0]["message"])) == list(TWO)
    assert plain(openai.calls(fake.delta(tool_calls=[piece("{}", "f", index=0, id="a")]))) == [("a", "f", "{}")]


STRANGE: list[Any] = [
    pytest.param({"id": None, "function": {"name": None, "arguments": "{}"}}, id="nothing-in-it"),
    pytest.param({"id": 7, "function": {"name": ["add"], "arguments": "{}"}}, id="of-other-types"),
    pytest.param({"id": "c", "function": None}, id="no-function"),
    pytest.param({"id": "c", "type": "custom", "custom": {"name": "add", "input": "one and two"}}, id="custom"),
    pytest.param({"id": "c", "function": {"name": "add", "arguments": [1, 2]}}, id="a-list"),
    pytest.param({"id": "c", "function": {"name": "add", "arguments": '{"a": 1'}}, id="cut"),
    pytest.param({}, id="empty"),
    pytest.param(None, id="null"),
    pytest.param("add(1, 2)", id="text"),
]


@pytest.mark.parametrize("each", STRANGE)
async def test_a_malformed_call_is_refused_by_the_pipeline(each: Any) -> None:
    """A malformed tool call becomes a call that the pipeline refuses and that can be answered."""
    said = {"role": "assistant", "content": None, "tool_calls": [each]}
    (call,) = openai.calls({"choices": [{"message": said, "finish_reason": "tool_calls"}]})
    outcome = await standard(fake.adders())(call)
    assert isinstance(outcome, Failure)
    assert openai.message(call, outcome)["tool_call_id"] == call.id


WORDS = """
    choices message delta tool_calls function_call function custom name arguments input id index type output
    call_id status finish_reason incomplete_details reason item output_index response chunk content
""".split()  # noqa: SIM905  # one word a line fills a page
KINDS = """
    function_call custom_tool_call response.output_item.added response.output_item.done response.completed
    response.function_call_arguments.delta response.custom_tool_call_input.done chunk
""".split()  # noqa: SIM905  # one word a line fills a page
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 2), st.floats(), st.text(max_size=3), st.sampled_from(KINDS)
)
JUNK: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)


@given(JUNK.filter(lambda reply: isinstance(reply, (str, list, dict))))
def test_calls_never_raises(reply: Any) -> None:
    """Whatever stands in a reply, each call has text as its name and its id."""
    for call in openai.calls(reply):
        assert isinstance(call.name, str)
        assert isinstance(call.id, str)


async def test_what_has_to_be_awaited_is_refused() -> None:
    """A coroutine or an async stream is a SetupError, not a reply without calls."""

    async def stream() -> AsyncIterator[Any]:
        yield fake.delta()

    async def reply() -> Any:
        return fake.completion()

    coroutine = reply()
    for each in (stream(), coroutine):
        with pytest.raises(SetupError, match="await the reply first"):
            openai.calls(each)
    assert openai.calls(await coroutine) == []


# --- definitions and messages ------------------------------------------------------------------------------------
def test_definitions_of_chat_completions() -> None:
    """A definition is a function with name, description and schema; an empty description is left out."""
    add, read = openai.tools(fake.adders())
    parameters = fake.adders().definitions()[0]["parameters"]
    assert add == {
        "type": "function",
        "function": {"name": "add", "description": "Add two numbers.", "parameters": parameters},
    }
    assert re.fullmatch("fs_read_[0-9a-f]{8}", read["function"].pop("name"))
    assert list(read["function"]) == ["parameters"]


def test_definitions_of_responses() -> None:
    """A definition is flat and says strict: False, since this API takes a missing ``strict`` for true."""
    add, _ = openai.tools(fake.adders(), api="responses")
    parameters = fake.adders().definitions()[0]["parameters"]
    assert add == {
        "type": "function",
        "name": "add",
        "description": "Add two numbers.",
        "parameters": parameters,
        "strict": False,
    }


@pytest.mark.parametrize("parameters", [None, {}, {"type": ["object", "null"]}, {"additionalProperties": False}])
def test_schemas_have_what_providers_require(parameters: Any) -> None:
    """Each schema has type object and properties; the tool's own schema stays as it is."""
    tools = ToolRegistry()
    tool = Tool.from_schema(name="t", parameters=parameters, handler=dict)
    tools.register(tool)
    before = tool.definition()
    (offered,) = openai.tools(tools)
    assert offered["function"]["parameters"] == {**(parameters or {}), "type": "object", "properties": {}}
    assert tool.definition() == before


def test_only_open_tools_are_offered() -> None:
    """A closed tool is not offered, and closing it changes the name of no other."""
    tools = fake.adders()
    names = [each["function"]["name"] for each in openai.tools(tools)]
    tools.disable("add")
    assert [each["function"]["name"] for each in openai.tools(tools)] == names[1:]


FAILURE = Failure(UnknownTool("x"))
VALUES: list[Any] = [
    pytest.param(Success("text"), "text", id="text"),
    pytest.param(Success({"a": 1}), '{"a": 1}', id="json"),
    pytest.param(Success([1, "a"]), '[1, "a"]', id="list"),
    pytest.param(Success(b"plain"), "plain", id="bytes-of-text"),
    pytest.param(Success(b"\x00\xff\xfe"), "(3 bytes of binary data)", id="bytes"),
    pytest.param(Success(["a", b"\x00", {"b": 1}]), 'a\n(1 bytes of binary data)\n{"b": 1}', id="parts"),
    *(pytest.param(Success(value), render(Success(None)), id=f"blank-{value!r}") for value in (None, "", " \n", b"")),
    pytest.param(FAILURE, render(FAILURE), id="failure"),
]


@pytest.mark.parametrize(("outcome", "content"), VALUES)
def test_messages(outcome: Outcome[Any], content: str) -> None:
    """A message has the id of its call and a text that is never blank."""
    call = Call("x", id="call_9")
    assert openai.message(call, outcome) == {"role": "tool", "tool_call_id": "call_9", "content": content}
    output = {"type": "function_call_output", "call_id": "call_9", "output": content}
    assert openai.message(call, outcome, api="responses") == output


@pytest.mark.parametrize(("media_type", "data"), IMAGES.items())
def test_images(media_type: str, data: bytes) -> None:
    """An image is a part of a Responses output, in its place among the texts; chat only mentions it."""
    outcome = Success(["before", data, {"a": 1}])
    before, image, after = openai.message(Call("x"), outcome, api="responses")["output"]
    assert (before, after) == ({"type": "input_text", "text": "before"}, {"type": "input_text", "text": '{"a": 1}'})
    url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    assert image == {"type": "input_image", "image_url": url}
    mention = f"(an image, {media_type}, {len(data)} bytes)"
    assert openai.message(Call("x"), Success(bytearray(data)))["content"] == mention
    assert openai.message(Call("x"), outcome)["content"] == f'before\n{mention}\n{{"a": 1}}'


PARTS: list[Any] = [
    "text",
    "",
    {"a": 1},
    PNG,
    [PNG, b"%PDF-1.7", "between", b"\x00", b"RIFF\0\0\0\0WAVE"],
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
CHAT: TypeAdapter[Any] = TypeAdapter(ChatCompletionToolMessageParam)
OUTPUT: TypeAdapter[Any] = TypeAdapter(FunctionCallOutput)


@pytest.mark.parametrize("value", PARTS, ids=range(len(PARTS)))
@pytest.mark.parametrize("text", [None, "instead"])
def test_messages_are_what_the_client_declares(value: Any, text: str | None) -> None:
    """A message with any parts comes back unchanged out of the client's own types."""
    for outcome in (Success(value), Failure(UnknownTool("x"))):
        said = openai.message(Call("x", id="c"), outcome, text=text)
        assert CHAT.validate_python(said, strict=True) == said
        assert isinstance(said["content"], str)
        said = openai.message(Call("x", id="c"), outcome, api="responses", text=text)
        assert OUTPUT.validate_python(said, strict=True) == said


def test_a_pdf_file_is_a_part_of_its_own() -> None:
    """A PDF file is an input file of a Responses output; other files and other types of image are only mentioned."""
    parts = [
        File("application/pdf", b"%PDF-1", "a.pdf"),
        File("text/csv", b"1"),
        Image("image/svg+xml", b"1"),
        b"%PDF-1",
    ]
    pdf, csv, svg, plain_pdf = openai.message(Call("x"), Success(parts), api="responses")["output"]
    url = f"data:application/pdf;base64,{base64.b64encode(b'%PDF-1').decode()}"
    assert pdf == {"type": "input_file", "filename": "a.pdf", "file_data": url}
    assert plain_pdf == {"type": "input_file", "filename": "file.pdf", "file_data": url}
    assert csv == {"type": "input_text", "text": "(a file, text/csv, 1 bytes)"}
    assert svg == {"type": "input_text", "text": "(an image, image/svg+xml, 1 bytes)"}


@pytest.mark.parametrize(("make", "form"), FORMS)
def test_names_are_restored(make: Make, form: Form) -> None:
    """With the registry, a name that was changed for the provider is the tool's own again; without, it stays."""
    tools = fake.adders()
    sent = openai.tools(tools)[1]["function"]["name"]
    reply = make(("c1", sent, "{}"), ("c2", "add", "{}"), ("c3", "no.such", "{}"))
    assert [call.name for call in openai.calls(form(reply), tools)] == ["fs.read", "add", "no.such"]
    assert [call.name for call in openai.calls(form(reply))] == [sent, "add", "no.such"]


@pytest.mark.parametrize("index", [None, 0])
def test_two_calls_in_one_delta_are_two(index: int | None) -> None:
    """Whole calls that come side by side stay two calls, whatever their indices and ids."""
    both = [piece(text, "f", index=index) for text in (ONE[2], OTHER[2])]
    found = openai.calls([fake.delta(tool_calls=both), fake.delta("tool_calls")])
    assert [call.arguments for call in found] == [ONE[2], OTHER[2]]


def test_many_calls_of_one_index_are_read_in_linear_time() -> None:
    """A stream of twice as many calls takes about twice the time: no piece is compared with each call before it."""

    def read(count: int) -> int:
        pieces = [{"index": 0, "id": str(n), "function": {"name": "f", "arguments": "{"}} for n in range(count)]
        chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
        found: list[Call] = []
        instructions = count_instructions(lambda: found.extend(openai.calls(chunks)))
        assert len(found) == count
        return instructions

    read(1)  # what is imported at first use
    assert read(800) < 9 * read(100)  # 8 if linear, 64 if quadratic


def test_a_tool_that_leaves_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions are those of one moment, also while another thread unregisters a tool."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def stays(a: int) -> int:
        return a

    @tools.tool(effect="read")
    def leaves(a: int) -> int:
        return a

    shown = tools.list_shown

    def list_shown_then_leave() -> Any:
        found = shown()
        if "leaves" in tools:
            tools.unregister("leaves")
        return found

    monkeypatch.setattr(tools, "list_shown", list_shown_then_leave)
    assert [each["function"]["name"] for each in openai.tools(tools)] == ["stays"]
