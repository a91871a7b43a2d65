"""No silent end: a reply without a call and without a text has an error that says why, whatever came."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from anthropic.types import Message, MessageParam, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionAssistantMessageParam, ChatCompletionChunk
from openai.types.responses import Response, ResponseInputItemParam, ResponseStreamEvent
from pydantic import TypeAdapter

import fake_providers as fake
from toolcall_pipeline import SetupError, Success
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai
from toolcall_pipeline.adapters.replies import Calls, OwnMessage
from toolcall_pipeline.parameters.schema import is_array, is_object
from wire_replies import TWO, WIRES

ASKED = ("call_1", "add", '{"a": 1}')
COMPLETION, RESPONSE = fake.completion(ASKED, text="I add."), fake.response(ASKED, text="I add.")
MESSAGE = fake.message(("toolu_1", "add", {"a": 1}), text="I add.")


def dump(kind: Any, replies: Any) -> Any:
    """What the type of an SDK makes of replies."""
    return [
        TypeAdapter(kind).validate_python(each).model_dump(mode="json", by_alias=True)
        for each in replies
        if each.get("type") != "ping"
    ]


# The reply that an adapter reads, as the SDK's own types have it, whole and as a stream.
OF_SDKS: list[tuple[Any, Any, Any]] = [
    (openai, dump(ChatCompletion, [COMPLETION])[0], dump(ChatCompletionChunk, fake.chat_chunks(COMPLETION))),
    (openai, dump(Response, [RESPONSE])[0], dump(ResponseStreamEvent, fake.response_events(RESPONSE))),
    (anthropic, dump(Message, [MESSAGE])[0], dump(RawMessageStreamEvent, fake.message_events(MESSAGE))),
    *((wire.adapter, wire.reply(TWO, "I add."), wire.chunks(TWO, "I add.")) for wire in WIRES.values()),
]
EVERY = [(adapter, reply) for adapter, *forms in OF_SDKS for reply in forms]
SENT: dict[Any, Any] = {
    "chat": TypeAdapter(ChatCompletionAssistantMessageParam),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
    "anthropic": TypeAdapter(MessageParam),
}
ODDITIES: Any = [None, "", {}, [], "text", 0, False, [None], "\ud83d"]
ODD: Any = st.sampled_from(ODDITIES)
# Of other types the release of an SDK knows nothing: they go back as they came.
ITEMS, PARTS = ("message", "function_call", "reasoning"), ("text", "refusal", "thinking", "tool_use", "output_text")
CHANGES: Any = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["replace", "delete", "cut", "stray", "again"]), ODD),
    min_size=1,
    max_size=4,
)


def list_places(value: Any) -> Iterator[Any]:
    """Each place in a reply: what holds it, and its key."""
    every: Any = value.items() if is_object(value) else enumerate(value) if is_array(value) else ()
    for key, inner in [*every]:
        yield value, key
        yield from list_places(inner)


def damage(reply: Any, changes: Any) -> Any:
    """A reply with parts replaced, left out and repeated; a stream also cut, and with a text in it."""
    made = copy.deepcopy(reply)
    for number, what, odd in changes:
        places: list[Any] = list(list_places(made))
        if not places:
            break
        holder: Any
        holder, key = places[number % len(places)]
        if what == "replace":
            holder[key] = copy.deepcopy(odd)
        elif what == "delete":
            del holder[key]
        elif is_array(holder):
            if what == "cut":
                del holder[key:]
            else:
                holder.insert(key, "busy" if what == "stray" else copy.deepcopy(holder[key]))
    return made


def refuse_silence(found: Calls) -> None:
    assert found or found.text.strip() or found.error is not None
    assert found.error is None or found.error.kind in ("refused", "empty", "incomplete", "unreadable", "backend")


def send_back(adapter: Any, found: Calls) -> None:
    """What goes back is JSON in UTF-8, and fits the provider's own types."""
    for api in ("chat", "responses") if adapter is openai else ("",):
        said, fitted = adapter.send_back(found, api=api) if api else adapter.send_back(found)
        json.dumps(said, ensure_ascii=False).encode()
        assert len(fitted) == len(found)
        if adapter in (openai, anthropic, mistral):
            SENT[api or ("anthropic" if adapter is anthropic else "chat")].validate_python(without_new(said))


def without_new(said: Any, types: Sequence[str] = ITEMS) -> Any:
    """A message, or the items in its place, without those and without parts whose types are unknown."""
    if isinstance(said, list):
        every = cast("list[Any]", said)
        known = [each for each in every if "type" not in each or each["type"] in types]
        return [without_new(each, PARTS) for each in known]
    parts = said.get("content")
    return {**said, "content": without_new(parts, PARTS)} if isinstance(parts, list) else said


@pytest.mark.parametrize("place", range(len(EVERY)))
@settings(max_examples=60)
@given(CHANGES)
def test_damaged_replies_are_told(place: int, changes: Any) -> None:
    """Whatever is missing or odd in a reply, reading raises nothing, and no answer is empty without its error."""
    adapter, reply = EVERY[place]
    try:
        found = adapter.calls(damage(reply, changes))
    except SetupError as error:
        assert "this is a reply of" in str(error) or "returns, such as" in str(error)  # noqa: PT017
        return
    refuse_silence(found)
    send_back(adapter, found)


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SAID: Any = {"role": "assistant", "content": "I look."}
HI: Any = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
ASKS: Any = {"choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}
MESSAGE_OF_TEXT: Any = fake.message(text="Hi")
SEARCHED: Any = {"type": "server_tool_use", "id": [], "tool_use_id": {}}
RAN: Any = [{"toolUse": {"type": "server_tool_use", "toolUseId": []}}, {"toolResult": {"toolUseId": []}}]


def delta(index: int | None = 0, **fields: Any) -> Any:
    """A chunk of a choice."""
    return {"choices": [{**({} if index is None else {"index": index}), "delta": fields}]}


def event(text: str) -> Any:
    """A whole choice in a line of server-sent events."""
    return "data: " + json.dumps(delta(content=text)) + "\n\n"


@pytest.mark.parametrize(
    ("adapter", "reply", "names", "text", "kind"),
    [
        (openai, {"choices": [{"message": SAID}, {"message": {"tool_calls": [CALL]}}]}, ["f"], "I look.", ""),
        (openai, [delta(0, content="I look."), delta(1, tool_calls=[{"index": 0, **CALL}])], ["f"], "I look.", ""),
        (openai, {"choices": [{"index": n, **ASKS["choices"][0]} for n in range(3)]}, ["f"], "", ""),
        (openai, {"choices": [{"message": SAID, "finish_reason": "tool_calls"}]}, [], "I look.", "incomplete"),
        (openai, {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}, [], "", "empty"),
        (openai, {"choices": [{"message": None}]}, [], "", "incomplete"),
        (openai, {"choices": [{"text": "Hi", "finish_reason": "stop"}]}, [], "Hi", ""),
        (openai, {"object": "response", "status": "completed", "output": None}, [], "", "empty"),
        (openai, {"object": "response", "status": "queued", "output": []}, [], "", "incomplete"),
        (openai, {"message": {"role": "assistant", "content": "Hi"}}, [], "Hi", ""),
        (openai, {"message": "Unauthorized"}, [], "", "unreadable"),
        (openai, {"success": False, "errors": [{"code": 7, "message": "no"}], "result": None}, [], "", "unreadable"),
        (openai, [delta(content=""), "overloaded"], [], "", "unreadable"),
        (openai, [delta(content="")], [], "", "incomplete"),
        (openai, {"data": HI}, [], "Hi", ""),
        (openai, {"success": True, "result": ASKS}, ["f"], "", ""),
        (openai, {"statusCode": 200, "body": json.dumps(ASKS)}, ["f"], "", ""),
        (openai, {"custom_id": "a", "response": {"status_code": 200, "body": ASKS}}, ["f"], "", ""),
        (openai, {"status": "COMPLETED", "output": [HI]}, [], "Hi", ""),
        (openai, [HI], [], "Hi", ""),
        (openai, json.dumps(ASKS), ["f"], "", ""),
        (openai, event("H") + event("i") + "data: [DONE]\n", [], "Hi", ""),
        (openai, [": ping", event("Hi").encode(), b"data: [DONE]"], [], "Hi", ""),
        (mistral, [{"data": delta(content="H")}, {"data": delta(content="i")}], [], "Hi", ""),
        (anthropic, {**MESSAGE_OF_TEXT, "content": None}, [], "", "empty"),
        (anthropic, {"result": {"type": "succeeded", "message": MESSAGE_OF_TEXT}}, [], "Hi", ""),
        (anthropic, {"result": {"type": "errored", "error": {"error": {"message": "bad"}}}}, [], "", "backend"),
        (anthropic, [{"type": "message_start", "message": {"id": "m"}}, "oops"], [], "", "unreadable"),
        (anthropic, {**fake.message(text="I call."), "stop_reason": "tool_use"}, [], "I call.", "incomplete"),
        (
            anthropic,
            {**MESSAGE_OF_TEXT, "content": [*MESSAGE_OF_TEXT["content"], "busy", SEARCHED]},
            [],
            "Hi",
            "backend",
        ),
        (bedrock, {"output": {"message": {"content": RAN}}}, [], "", "incomplete"),
        (gemini, {"response": {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}}, [], "Hi", ""),
        (gemini, {"candidates": [{"finishReason": "SAFETY"}]}, [], "", "refused"),
        (gemini, {"candidates": [None]}, [], "", "incomplete"),
        (bedrock, {"output": {"message": {"role": "assistant", "content": []}}}, [], "", "incomplete"),
        (bedrock, [{"messageStart": {"role": "assistant"}}, "busy"], [], "", "unreadable"),
        (ollama, [{"message": {"role": "assistant", "content": ""}, "done": False}], [], "", "incomplete"),
    ],
)
def test_what_comes_of_it(adapter: Any, reply: Any, names: list[str], text: str, kind: str, caplog: Any) -> None:
    """All choices are read, what gateways put around a reply is opened, and an end without a word is told, and why."""
    found = adapter.calls(reply)
    assert [call.name for call in found] == names
    assert (found.text, "" if found.error is None else found.error.kind) == (text, kind)
    assert len(caplog.records) == bool(kind)


def started(*deltas: Any) -> list[Any]:
    """A stream of Anthropic with these pieces in the block of a call."""
    block: Any = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    events = [{"type": "content_block_delta", "index": 0, "delta": each} for each in deltas]
    start: Any = {"type": "content_block_start", "index": 0, "content_block": block}
    return [start, *events, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}]


def test_text_in_the_block_of_a_call() -> None:
    """It is a block of its own, and no part of the call."""
    piece = {"type": "input_json_delta", "partial_json": '{"a": 1}'}
    said, (call,) = anthropic.send_back(anthropic.calls(started({"type": "text_delta", "text": "Hm."}, piece)))
    assert call.arguments == '{"a": 1}'
    assert said["content"][0] == {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
    assert said["content"][1] == {"type": "text", "text": "Hm."}
    MESSAGE_PARAM.validate_python(said)


MESSAGE_PARAM: Any = TypeAdapter(MessageParam)


@pytest.mark.parametrize(
    ("pieces", "arguments", "sent"),
    [
        (["{}", '{"a": ', "1}"], '{"a": 1}', '{"a": 1}'),
        (['{"a": 1}', '{"a": 2}'], '{"a": 1}{"a": 2}', '{"invalid_json": "{\\"a\\": 1}{\\"a\\": 2}"}'),
        (['{"a": 1}<|call|>'], '{"a": 1}<|call|>', '{"invalid_json": "{\\"a\\": 1}<|call|>"}'),
        (['{"a": "\ud83d', '\ude00"}'], '{"a": "\U0001f600"}', '{"a": "\U0001f600"}'),
        (['{"a": "\\ud83d"}'], '{"a": "\\ud83d"}', '{"a": "\ufffd"}'),
    ],
)
def test_arguments_in_pieces(pieces: list[str], arguments: str, sent: str) -> None:
    """An empty object that begins a call is none of its arguments, a pair of surrogates is joined, half of one goes."""
    head = {"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}
    chunks = [delta(tool_calls=[{"index": 0, "function": {"arguments": each}}]) for each in pieces]
    calls = openai.calls([delta(tool_calls=[head]), *chunks])
    assert [call.arguments for call in calls] == [arguments]
    said, _ = openai.send_back(calls)
    assert said["tool_calls"][0]["function"]["arguments"] == sent


def test_text_in_pieces() -> None:
    """A character that was cut in two deltas is whole, and half of one is told as such."""
    found = openai.calls([delta(content="\ud83d"), delta(content="\ude00 \ud83d")])
    assert found.text == "\U0001f600 \ufffd"
    assert openai.send_back(found)[0]["content"] == "\U0001f600 \ufffd"


@pytest.mark.parametrize(("levels", "is_kept"), [(150, True), (200, False), (300, False), (50_000, False)])
@pytest.mark.parametrize("half", ["", "\ud83d"])
@pytest.mark.parametrize("place", range(len(EVERY)))
def test_what_is_nested_too_deeply_does_not_go_back(place: int, levels: int, is_kept: bool, half: str) -> None:
    """A message with more than 200 levels is made of its calls anew, and half of a pair of surrogates goes from any."""
    adapter, reply = EVERY[place]
    deep: Any = [half]
    for _ in range(levels):
        deep = [deep]
    found = adapter.calls(reply)
    assert found.message is not None
    data: Any = copy.deepcopy(found.message.data)
    (data if is_object(data) else data[0])["further"] = deep
    found.message = OwnMessage(found.message.form, data)
    api = {"api": "responses"} if found.message.form == "responses" else {}
    said, fitted = adapter.send_back(found, **api)
    assert ("further" in json.dumps(said, ensure_ascii=False).encode().decode()) == is_kept
    assert [call.name for call in fitted] == [call.name for call in found]


@pytest.mark.parametrize(
    ("caller", "is_kept"),
    [
        ({"type": "direct"}, True),
        ({"type": "program", "caller_id": "p"}, True),
        ({"type": "of a later release"}, True),
        ({"type": "program"}, False),
        ({}, False),
        (False, False),
        ("direct", False),
        (None, False),
    ],
)
def test_whose_call_it_is(caller: Any, is_kept: bool) -> None:
    """It goes back with the call, and with its answer, where it is what the provider takes, in a stream as well."""
    item: Any = {**fake.response(ASKED)["output"][0], "caller": caller, "namespace": [caller]}
    for reply in ({"object": "response", "output": [item]}, [{"type": "response.output_item.done", "item": item}]):
        said, (call,) = openai.send_back(openai.calls(reply), api="responses")
        answer = openai.message(call, Success(1), api="responses")
        assert [each.get("caller") for each in (*said, answer)] == [caller if is_kept else None] * 2
        assert all("namespace" not in each for each in (*said, answer))
