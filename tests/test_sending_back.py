"""Sending back: a model's calls become a message that providers and chat templates take, whatever the calls are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionAssistantMessageParam
from openai.types.responses import ResponseFunctionToolCallParam
from pydantic import TypeAdapter

import fake_providers as fake
from toolcall_pipeline import Call, Success
from toolcall_pipeline.adapters import anthropic, openai
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
