"""Sending back: a model's calls become a message that providers and chat templates take, whatever the calls are."""

from __future__ import annotations

import copy
import json
import re
from functools import partial
from operator import is_not
from typing import Any, TypeAlias

import pytest
from anthropic.types import MessageParam
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionAssistantMessageParam
from openai.types.responses import ResponseFunctionToolCallParam
from pydantic import TypeAdapter

import fake_providers as fake
from toolcall_pipeline import Call, Success, Tool, ToolRegistry
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, ollama, openai
from toolcall_pipeline.adapters.replies import Calls

CHAT: TypeAdapter[Any] = TypeAdapter(ChatCompletionAssistantMessageParam)
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseFunctionToolCallParam)
MESSAGE: TypeAdapter[Any] = TypeAdapter(MessageParam)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"a":  1}', '{"a":  1}'),
        ({"a": 1}, '{"a": 1}'),
        (None, "{}"),
        ("", "{}"),
        (" ", "{}"),
        ('{"a": 1', '{"invalid_json": "{\\"a\\": 1"}'),
        ("[1]", '{"invalid_json": [1]}'),
        ('"a"', '{"invalid_json": "a"}'),
        ([1], '{"invalid_json": [1]}'),
        ("null", "{}"),
        ('{"a": NaN}', '{"invalid_json": "{\\"a\\": NaN}"}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
        ("[" * 100_000, None),
    ],
    ids=range(13),
)
def test_arguments(arguments: Any, text: str | None) -> None:
    """An object stays as it was written; anything else stands in an object."""
    (asked,) = openai.send_back(Calls([Call("f", arguments, "c")]))[0]["tool_calls"]
    assert text is None or asked["function"]["arguments"] == text
    assert isinstance(json.loads(asked["function"]["arguments"]), dict)


@pytest.mark.parametrize("id_", ["", "c", "a b", "x" * 50, None, 7])
def test_ids(id_: Any) -> None:
    """Calls without an id, of one id, or with one that providers refuse get ids of their own, as in the message."""
    calls = Calls([Call("f", "{}", id_), Call("f", "{}", id_)])
    said, fitted = openai.send_back(calls)
    ids = [call.id for call in fitted]
    assert ids == [asked["id"] for asked in said["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,40}", each) for each in ids)
    assert (ids[0] == "c") == (id_ == "c")
    told = [openai.message(call, Success(1))["tool_call_id"] for call in fitted]
    assert told == ids


def test_names_are_those_of_the_provider() -> None:
    """A tool's own name is sent as the provider knows it, and a name that it refuses in a form that it takes."""
    tools = fake.adders()
    sent = openai.tools(tools)[1]["function"]["name"]
    calls = openai.calls(fake.completion(("c", sent, "{}"), ("d", "no such!", "{}"), ("e", "", "{}")), tools)
    said, _ = openai.send_back(calls, tools)
    assert [asked["function"]["name"] for asked in said["tool_calls"]] == [sent, "no_such_", "unknown"]


def test_a_long_name_goes_back_whole() -> None:
    """A name that is as long as the provider takes is not cut to the length of another provider."""
    tools = ToolRegistry()
    tools.register(Tool.from_schema(name="a" * 100, parameters={}, handler=print, effect="read"))
    calls = anthropic.calls(fake.message(("c", "a" * 100, {"a": 1, "b": 2})), tools)
    said, _ = anthropic.send_back(calls, tools)
    assert said["content"][0]["name"] == anthropic.tools(tools)[0]["name"] == "a" * 100


def test_text_and_errors_are_kept() -> None:
    """The text that the model said stands in the message; without calls it is all of it."""
    said, fitted = openai.send_back(openai.calls(fake.completion(("c", "now", "{}"), text="I look.")))
    assert (said["content"], fitted.text, said["role"]) == ("I look.", "I look.", "assistant")
    assert openai.send_back(openai.calls("Hello."))[0] == {"role": "assistant", "content": "Hello."}
    assert openai.send_back(openai.calls("Hello."), api="responses")[0] == [{"role": "assistant", "content": "Hello."}]
    block = {"type": "text", "text": "Hello."}
    assert anthropic.send_back(anthropic.calls("Hello."))[0] == {"role": "assistant", "content": [block]}
    assert openai.send_back(openai.calls({"error": "no"}))[1].error is not None


ODD: Any = st.none() | st.integers() | st.text(max_size=8) | st.lists(st.integers()) | st.builds(object)


CALLS = st.lists(st.builds(Call, ODD | st.just("f"), ODD | st.just('{"a": 1}'), ODD | st.just("c")), max_size=3)


@given(CALLS, st.text(max_size=5))
def test_it_is_what_the_clients_declare(calls: list[Call], text: str) -> None:
    """Whatever the calls are, nothing is raised, and the message fits the clients' own types."""
    asked = Calls(calls, text=text)
    said, fitted = openai.send_back(asked)
    back = CHAT.validate_python(said)
    assert {**back, "tool_calls": list(back.get("tool_calls", []))} == {"tool_calls": [], **said}
    items, _ = openai.send_back(asked, api="responses")
    for item in items[len(items) - len(calls) :]:
        assert ITEM.validate_python(item) == item
    said, _ = anthropic.send_back(fitted)
    MESSAGE.validate_python(said)
    assert [block["id"] for block in said["content"] if block["type"] == "tool_use"] == [call.id for call in fitted]


# --- what came and what goes back -------------------------------------------------------------------------------------
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OBJECT: Any = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
FIELDS: Any = st.dictionaries(
    st.sampled_from(("reasoning_content", "reasoning_details", "extra_content", "provider_specific_fields", "x")),
    JSON.filter(partial(is_not, None)),
    max_size=3,
)
ARGUMENTS: Any = st.lists(st.tuples(OBJECT, FIELDS), max_size=3)
SERVER: Any = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
Sent: TypeAlias = "tuple[Any, Any]"  # a reply, and the message in it


def chat(asked: Any, fields: Any) -> Sent:
    """A chat completion with fields of a server's own, in the message and in each call."""
    calls = [
        {**own, "id": f"c{place}", "type": "function", "function": {"name": "f", "arguments": json.dumps(given)}}
        for place, (given, own) in enumerate(asked)
    ]
    said = {**fields, "role": "assistant", "content": "I look.", **({"tool_calls": calls} if calls else {})}
    return {"choices": [{"message": said, "finish_reason": "stop"}]}, said


def response(asked: Any, fields: Any) -> Sent:
    """A response with reasoning and an item of another type."""
    calls = [
        {**own, "type": "function_call", "id": "f", "call_id": f"c{place}", "name": "f", "arguments": json.dumps(given)}
        for place, (given, own) in enumerate(asked)
    ]
    items: list[Any] = [
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        *calls,
        {"type": "shell_call", **fields},
    ]
    return {"object": "response", "status": "completed", "output": items}, items


def blocks(asked: Any, fields: Any) -> Sent:
    """A message of Anthropic with thoughts, and tools of the provider."""
    calls = [
        {**own, "type": "tool_use", "id": f"c{place}", "name": "f", "input": given}
        for place, (given, own) in enumerate(asked)
    ]
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    content = [thought, {"type": "text", "text": "I look.", **fields}, *calls, SERVER]
    said = {"role": "assistant", "content": content}
    return {**said, "type": "message", "stop_reason": "tool_use"}, said


def parts(asked: Any, fields: Any) -> Sent:
    """A response of Gemini with thoughts and signatures."""
    calls = [
        {**own, "function_call": {"id": f"c{place}", "name": "f", "args": given}, "thought_signature": "c2lnbmVk"}
        for place, (given, own) in enumerate(asked)
    ]
    said = [{"text": "Hm.", "thought": True}, {"text": "", "thought_signature": "c2lnbmVk"}, *calls, {"x": 1, **fields}]
    content = {"role": "model", "parts": said}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}, content


def converse(asked: Any, fields: Any) -> Sent:
    """A reply of Bedrock with reasoning."""
    calls = [
        {**own, "toolUse": {"toolUseId": f"c{place}", "name": "f", "input": given}}
        for place, (given, own) in enumerate(asked)
    ]
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
    said = {"role": "assistant", "content": [thought, {"text": "I look."}, *calls, {"x": 1, **fields}]}
    return {"output": {"message": said}, "stopReason": "tool_use"}, said


def local(asked: Any, fields: Any) -> Sent:
    """A reply of Ollama with thoughts."""
    calls = [
        {**own, "function": {"index": place, "name": "f", "arguments": given}}
        for place, (given, own) in enumerate(asked)
    ]
    said = {
        **fields,
        "role": "assistant",
        "content": "I look.",
        "thinking": "Hm.",
        **({"tool_calls": calls} if calls else {}),
    }
    return {"message": said, "done": True}, said


@pytest.mark.parametrize(
    ("make", "adapter", "options"),
    [
        (chat, openai, {}),
        (response, openai, {"api": "responses"}),
        (blocks, anthropic, {}),
        (parts, gemini, {}),
        (converse, bedrock, {}),
        (local, ollama, {}),
    ],
    ids=["chat", "responses", "anthropic", "gemini", "bedrock", "ollama"],
)
@given(asked=ARGUMENTS, fields=FIELDS)
@example(asked=[], fields={"x": ""})
def test_what_came_goes_back(make: Any, adapter: Any, options: Any, asked: Any, fields: Any) -> None:
    """A message whose calls are well formed goes back as it came, with all that stood in it, and is not changed."""
    reply, came = make(asked, fields)
    before = copy.deepcopy(reply)
    said, calls = adapter.send_back(adapter.calls(reply), **options)
    assert said == came
    assert reply == before
    assert [call.name for call in calls] == ["f"] * len(asked)


def chat_of(asked: Any) -> Any:
    return {"choices": [{"message": {"role": "assistant", "tool_calls": [asked]}, "finish_reason": "tool_calls"}]}


def response_of(asked: Any) -> Any:
    return {"object": "response", "status": "completed", "output": [asked]}


RESPONSES: dict[str, Any] = {"api": "responses"}
NAMELESS: list[tuple[dict[str, Any], Any, dict[str, Any]]] = [  # options, what makes a reply, and a call in it
    ({}, chat_of, {"type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}, "x": 1}),
    (RESPONSES, response_of, {"type": "custom_tool_call", "name": "sql", "input": "SELECT 1", "x": 1}),
    (RESPONSES, response_of, {"type": "function_call", "name": "f", "arguments": "{}", "x": 1}),
]


@pytest.mark.parametrize(("options", "make", "asked"), NAMELESS, ids=["chat", "custom item", "item"])
def test_a_call_without_an_id_is_found_by_its_arguments(options: Any, make: Any, asked: Any) -> None:
    """Its part of the message goes back with all that came in it, and an id."""
    said, (call,) = openai.send_back(openai.calls(make(asked)), **options)
    (part,) = said if options else said["tool_calls"]
    assert call.id
    assert part == {**asked, "call_id" if options else "id": call.id}


def test_what_only_a_client_library_adds_does_not_go_back() -> None:
    """Fields without a value, a parsed form and the legacy form of a call are not sent; all others are."""
    asked = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": "Hm.", "tool_calls": [asked]}
    of_library = {"parsed": {"a": 1}, "function_call": {"name": "f", "arguments": "{}"}, "audio": None, "refusal": None}
    reply = {"choices": [{"message": {**said, "x": 1, **of_library}, "finish_reason": "tool_calls"}]}
    assert openai.send_back(openai.calls(reply))[0] == {**said, "x": 1}


REASONING: Any = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
HI = {"type": "response.output_text.delta", "delta": "Hi"}


@pytest.mark.parametrize(
    ("events", "items"),
    [
        ([HI], [{"role": "assistant", "content": "Hi"}]),
        ([{"type": "response.output_item.done", "item": REASONING}, HI], [REASONING]),
    ],
    ids=["text", "an item"],
)
def test_a_response_stream_that_is_cut_goes_back(events: list[Any], items: list[Any]) -> None:
    """The items that ended go back as they came; if none did, the text that had come goes back."""
    calls = openai.calls(events)
    assert calls.text == "Hi"
    assert openai.send_back(calls, api="responses")[0] == items


@pytest.mark.parametrize("make", [chat, blocks], ids=["chat", "anthropic"])
def test_a_call_that_was_taken_out(make: Any) -> None:
    """A call that the program took out of the list is not in the message, and one that it put in stands at the end."""
    adapter: Any = openai if make is chat else anthropic
    reply, _ = make([({"a": 1}, {}), ({"a": 2}, {}), ({"a": 3}, {})], {})
    calls = adapter.calls(reply)
    del calls[1]
    calls.append(Call("g", {}, "new"))
    said, _ = adapter.send_back(calls)
    asked = said["tool_calls"] if make is chat else [each for each in said["content"] if each["type"] == "tool_use"]
    assert [each["id"] for each in asked] == ["c0", "c2", "new"]


def test_ids_of_litellm_stay() -> None:
    """LiteLLM hides a signature of Gemini in the id of a call, and needs it again."""
    id_ = "call_1234__thought__c2lnbmVk+/=="
    said, (call,) = openai.send_back(openai.calls(fake.completion((id_, "f", "{}"))))
    assert (call.id, said["tool_calls"][0]["id"]) == (id_, id_)


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": "text", "text": "hello"},
        {"content": [{"type": "text", "text": "a"}]},
        {"type": "image", "data": "aGk="},
    ],
    ids=["text", "result", "image"],
)
def test_arguments_are_no_mcp_result(arguments: Any) -> None:
    """Arguments that look like a result of MCP are arguments."""
    calls = Calls([Call("f", arguments, "c")])
    assert json.loads(openai.send_back(calls)[0]["tool_calls"][0]["function"]["arguments"]) == arguments
    assert anthropic.send_back(calls)[0]["content"][0]["input"] == arguments


def test_a_stream_of_chat_chunks() -> None:
    """Reasoning, signatures and fields of a server's own come in pieces, and go back whole."""
    google = {"google": {"thought_signature": "s"}}
    piece: Any = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    deltas: list[Any] = [
        {"role": "assistant", "reasoning_content": "Let "},
        {"reasoning_content": "me see.", "reasoning_details": [{"text": "a"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "H"}]},
        {
            "thinking_blocks": [{"type": "thinking", "thinking": "m.", "signature": "s"}],
            "reasoning_details": [{"text": "b"}],
        },
        {"tool_calls": [{**piece, "extra_content": google}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
    ]
    said, _ = openai.send_back(openai.calls([fake.delta(**delta) for delta in deltas] + [fake.delta("tool_calls")]))
    assert said == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Let me see.",
        "reasoning_details": [{"text": "a"}, {"text": "b"}],
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}],
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": google}
        ],
    }


def test_a_stream_of_anthropic() -> None:
    """Thoughts, their signature, citations and the tools of the provider come in pieces, and go back whole."""
    starts: list[Any] = [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    ]
    deltas: list[tuple[int, Any]] = [
        (0, {"type": "thinking_delta", "thinking": "Hm"}),
        (0, {"type": "thinking_delta", "thinking": "."}),
        (0, {"type": "signature_delta", "signature": "signed"}),
        (1, {"type": "text_delta", "text": "I look."}),
        (1, {"type": "citations_delta", "citation": {"cited_text": "x"}}),
        (2, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
        (3, {"type": "input_json_delta", "partial_json": '{"a": 1}'}),
    ]
    events: list[Any] = [
        {"type": "content_block_start", "index": place, "content_block": each} for place, each in enumerate(starts)
    ]
    events += [{"type": "content_block_delta", "index": place, "delta": each} for place, each in deltas]
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    said, (call,) = anthropic.send_back(anthropic.calls(events))
    assert said["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "text", "text": "I look.", "citations": [{"cited_text": "x"}]},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
    ]
    assert call.arguments == '{"a": 1}'
    MESSAGE.validate_python(said)


def test_a_stream_of_bedrock() -> None:
    """Reasoning with its signature and citations come in pieces, and go back whole."""
    deltas: list[tuple[int, Any]] = [
        (0, {"reasoningContent": {"text": "Hm"}}),
        (0, {"reasoningContent": {"text": "."}}),
        (0, {"reasoningContent": {"signature": "s"}}),
        (1, {"text": "Cited."}),
        (1, {"citation": {"title": "t"}}),
        (2, {"text": "I "}),
        (2, {"text": "look."}),
    ]
    events = [{"contentBlockDelta": {"delta": delta, "contentBlockIndex": place}} for place, delta in deltas]
    found = bedrock.calls([*events, {"messageStop": {"stopReason": "end_turn"}}])
    assert found.text == "Cited.I look."
    assert bedrock.send_back(found)[0]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"citationsContent": {"content": [{"text": "Cited."}], "citations": [{"title": "t"}]}},
        {"text": "I look."},
    ]
