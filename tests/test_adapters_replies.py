"""Replies: those of another provider are refused, errors of the backend are values, plain text has no calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

import fake_providers as fake
from toolcall_pipeline import Call, SetupError
from toolcall_pipeline.adapters import anthropic, ollama, openai
from toolcall_pipeline.adapters.replies import Calls, ReplyError

Read = Callable[[Any], Calls]
ASKED = ("call_1", "add", "{}")
ANTHROPIC = fake.message(("toolu_1", "add", {}))
COMPLETION, RESPONSE = fake.completion(ASKED), fake.response(ASKED)
OTHERS: dict[str, Any] = {
    "Gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "add"}}]}}]},
    "Bedrock": {"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "tool_use"},
    "Ollama": {"message": {"role": "assistant", "tool_calls": [{"function": {"name": "add"}}]}, "done": True},
}
FOREIGN: list[Any] = [
    pytest.param(openai.calls, ANTHROPIC, "Anthropic", id="openai-message"),
    pytest.param(openai.calls, Message.model_validate(ANTHROPIC), "Anthropic", id="openai-message-object"),
    pytest.param(openai.calls, fake.message(text="Hello."), "Anthropic", id="openai-message-of-text"),
    pytest.param(openai.calls, ANTHROPIC["content"], "Anthropic", id="openai-content"),
    pytest.param(openai.calls, list(fake.message_events(ANTHROPIC)), "Anthropic", id="openai-events"),
    pytest.param(openai.calls, fake.message_events(ANTHROPIC), "Anthropic", id="openai-stream"),
    pytest.param(
        openai.calls, {"role": "assistant", "content": ANTHROPIC["content"]}, "Anthropic", id="openai-sent-back"
    ),
    pytest.param(anthropic.calls, COMPLETION, "OpenAI", id="anthropic-completion"),
    pytest.param(anthropic.calls, ChatCompletion.model_validate(COMPLETION), "OpenAI", id="anthropic-object"),
    pytest.param(anthropic.calls, fake.completion(text="Hello."), "OpenAI", id="anthropic-completion-of-text"),
    pytest.param(anthropic.calls, COMPLETION["choices"][0]["message"], "OpenAI", id="anthropic-message"),
    pytest.param(anthropic.calls, fake.chat_chunks(COMPLETION), "OpenAI", id="anthropic-chunks"),
    pytest.param(anthropic.calls, RESPONSE, "OpenAI", id="anthropic-response"),
    pytest.param(anthropic.calls, Response.model_validate(RESPONSE), "OpenAI", id="anthropic-response-object"),
    pytest.param(anthropic.calls, RESPONSE["output"], "OpenAI", id="anthropic-output"),
    pytest.param(anthropic.calls, list(fake.response_events(RESPONSE)), "OpenAI", id="anthropic-events"),
    *(
        pytest.param(read, reply, theirs, id=f"{name}-{theirs}")
        for name, read in (("openai", openai.calls), ("anthropic", anthropic.calls))
        for theirs, reply in OTHERS.items()
    ),
]


@pytest.mark.parametrize(("read", "reply", "theirs"), FOREIGN)
def test_a_reply_of_another_provider_is_refused(read: Read, reply: Any, theirs: str) -> None:
    """It would have no calls, and the agent would end in silence: both providers are named, and the right adapter."""
    ours = "OpenAI" if read is openai.calls else "Anthropic"
    with pytest.raises(SetupError) as caught:
        read(reply)
    hint = f"use toolcall_pipeline.adapters.{theirs.lower()}"
    assert str(caught.value) == f"calls() reads replies of {ours}, and this is a reply of {theirs}: {hint}"


ERRORS: list[Any] = [
    pytest.param(
        {"error": {"message": "Too many", "type": "rate_limit_error", "code": "rate_limited"}},
        ReplyError("Too many", "rate_limit_error", "rate_limited"),
        id="openai",
    ),
    pytest.param({"error": "out of memory"}, ReplyError("out of memory"), id="text"),
    pytest.param({"error": {"code": 502, "message": "no"}}, ReplyError("no", "", "502"), id="number"),
    pytest.param(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ReplyError("Overloaded", "overloaded_error"),
        id="anthropic",
    ),
    pytest.param(
        {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
        ReplyError("no", "BadRequestError", "400"),
        id="vllm",
    ),
    pytest.param(SimpleNamespace(error=SimpleNamespace(message="no")), ReplyError("no"), id="object"),
]


@pytest.mark.parametrize("read", [openai.calls, anthropic.calls], ids=["openai", "anthropic"])
@pytest.mark.parametrize("form", ["whole", "list", "stream"])
@pytest.mark.parametrize(("reply", "error"), ERRORS)
def test_an_error_of_the_backend_is_a_value(read: Read, form: str, reply: Any, error: ReplyError, caplog: Any) -> None:
    """An error in place of a reply, or in a stream, is no exception: it stands beside the calls, and is logged."""
    forms: dict[str, Any] = {"whole": reply, "list": [reply], "stream": iter([reply])}
    found = read(forms[form])
    assert (found, found.error) == ([], error)
    (record,) = caplog.records
    assert record.levelname == "WARNING"


def test_calls_before_an_error_are_kept() -> None:
    """A stream that ends in an error keeps the calls that came before it."""
    chunks = [*fake.chat_chunks(COMPLETION), {"error": {"message": "gone"}}]
    found = openai.calls(chunks)
    assert [call.name for call in found] == ["add"]
    assert found.error == ReplyError("gone")
    failed = fake.response(ASKED, status="failed", error={"code": "server_error", "message": "gone"})
    for reply in (failed, fake.response_events(failed)):
        assert openai.calls(reply).error == ReplyError("gone", "", "server_error")


NO_ERROR: list[Any] = [
    {**COMPLETION, "error": None},
    {**RESPONSE, "error": None},
    ChatCompletion.model_validate(COMPLETION),
    Response.model_validate(RESPONSE),
]


@pytest.mark.parametrize("reply", NO_ERROR, ids=range(len(NO_ERROR)))
def test_a_reply_without_an_error(reply: Any) -> None:
    """A reply whose error is null has none."""
    found = openai.calls(reply)
    assert (len(found), found.error) == (1, None)


class HttpResponse:
    """Of an HTTP client, as httpx and requests have it: its body is not parsed yet."""

    status_code = 200
    content = b"{}"

    def __iter__(self) -> Iterator[bytes]:
        return iter([self.content])


NO_REPLY: list[Any] = [
    (None, "None"),
    (5, "a int"),
    (True, "a bool"),
    (0.5, "a float"),
    (object(), "a object"),
    (print, "a builtin_function_or_method"),
    (SimpleNamespace(), "a SimpleNamespace"),
    (b"{}", "a bytes: parse it first, calls(json.loads(body))"),
    (bytearray(b"{}"), "a bytearray: parse it first, calls(json.loads(body))"),
    (HttpResponse(), "a HttpResponse: parse it first, calls(response.json())"),
]


@pytest.mark.parametrize(("read", "ours"), [(openai.calls, "OpenAI"), (anthropic.calls, "Anthropic")])
@pytest.mark.parametrize(("reply", "what"), NO_REPLY, ids=[what for _, what in NO_REPLY])
def test_what_no_client_returns_is_refused(read: Read, ours: str, reply: Any, what: str) -> None:
    """It would have no calls, and the agent would end in silence: the mistake of a caller says itself."""
    with pytest.raises(SetupError) as caught:
        read(reply)
    expected = f"calls() reads what the client of {ours} returns, such as a message or a stream, not {what}"
    assert str(caught.value) == expected


@pytest.mark.parametrize("read", [openai.calls, anthropic.calls], ids=["openai", "anthropic"])
@pytest.mark.parametrize("reply", [{}, {"detail": "not found"}, [{}], [None], ["data: {}"], [b"data"]], ids=repr)
def test_an_answer_without_a_reply_in_it(read: Read, reply: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A backend that answers with something else is no exception of ours: the calls have an error, and it is logged."""
    found = read(reply)
    assert found == []
    assert found.error is not None
    assert found.error.type == "unreadable"
    assert len(caplog.records) == 1


@pytest.mark.parametrize("read", [openai.calls, anthropic.calls], ids=["openai", "anthropic"])
@pytest.mark.parametrize("reply", [[], iter(()), ""], ids=["list", "stream", "text"])
def test_nothing_at_all_is_empty(read: Read, reply: Any) -> None:
    """No event and no text is an answer of nothing."""
    found = read(reply)
    assert found == []
    assert found.error is not None
    assert found.error.kind in ("empty", "incomplete")


TEXT: list[Any] = [
    pytest.param(openai.calls, "Hello.", id="text"),
    pytest.param(anthropic.calls, "Hello.", id="text-for-anthropic"),
    pytest.param(ollama.calls, "Hello.", id="text-for-ollama"),
    pytest.param(openai.calls, fake.completion(text="Hello."), id="completion"),
    pytest.param(openai.calls, fake.chat_chunks(fake.completion(text="Hello.")), id="chunks"),
    pytest.param(openai.calls, {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}, id="message"),
    pytest.param(openai.calls, fake.response(text="Hello."), id="response"),
    pytest.param(openai.calls, fake.response_events(fake.response(text="Hello.")), id="events"),
    pytest.param(anthropic.calls, fake.message(text="Hello."), id="anthropic"),
    pytest.param(anthropic.calls, fake.message_events(fake.message(text="Hello.")), id="anthropic-events"),
]


@pytest.mark.parametrize(("read", "reply"), TEXT)
def test_plain_text_has_no_calls(read: Read, reply: Any) -> None:
    """A reply of text has no calls and no error, and its text can be read."""
    found = read(reply)
    assert (found, found.error, found.text) == ([], None, "Hello.")


def test_an_anthropic_stream_with_one_index_or_none() -> None:
    """Each start of a block is another call, though a server gives all blocks one index, or none."""
    for place in ({}, {"index": 0}):
        events: list[dict[str, Any]] = []
        for number in (1, 2):
            block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{number}", "name": "add", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": f'{{"n": {number}}}'}
            events += [
                {"type": "content_block_start", **place, "content_block": block},
                {"type": "content_block_delta", **place, "delta": delta},
                {"type": "content_block_stop", **place},
            ]
        assert anthropic.calls(events) == [Call("add", '{"n": 1}', "toolu_1"), Call("add", '{"n": 2}', "toolu_2")]
