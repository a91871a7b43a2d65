"""Bedrock, Ollama, Mistral and servers of open models: what is their own."""

from __future__ import annotations

import pickle
from typing import Any

import httpx
import pytest
from attrs import evolve

import fake_providers as fake
from toolcall_pipeline import Call, Failure, Outcome, SetupError, Success, ToolRegistry, UnknownTool
from toolcall_pipeline.adapters import anthropic, bedrock, mistral, ollama, openai
from toolcall_pipeline.adapters.replies import ReplyError
from wire_replies import TWO, bedrock_events, bedrock_reply, mistral_events, ollama_chunks, ollama_reply

PNG = b"\x89PNG\r\n\x1a\n and so on"
PDF = b"%PDF-1.7 and so on"
OUTCOMES: list[Outcome[Any]] = [Success(["a plot", PNG, PDF]), Failure(UnknownTool("add"))]


# --- Bedrock -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("stop", "reason", "error"),
    [
        ("tool_use", "tool_use", None),
        ("max_tokens", "length", None),
        ("model_context_window_exceeded", "length", None),
        ("guardrail_intervened", "content_filter", None),
        ("malformed_tool_use", "malformed_tool_use", "malformed_tool_use"),
    ],
)
def test_the_stop_reason_of_bedrock(stop: str, reason: str, error: str | None) -> None:
    """What was cut off and what was withheld is refused; what the provider could not read is an error."""
    for reply in (
        bedrock_reply(TWO, stop=stop),
        bedrock_events(TWO, stop=stop),
        {"stream": bedrock_events(TWO, "", stop)},
    ):
        found = bedrock.calls(reply)
        assert {call.finish_reason for call in found} == {reason}
        assert (None if found.error is None else found.error.type) == error


def test_forms_of_bedrock() -> None:
    """A message, and its content, are read as well; what the provider runs itself is no call."""
    reply = bedrock_reply(TWO)
    said = reply["output"]["message"]
    for form in (reply, said, said["content"]):
        assert [call.id for call in bedrock.calls(form)] == [key for key, _, _ in TWO]
    said["content"][0]["toolUse"]["type"] = "server_tool_use"
    assert [call.id for call in bedrock.calls(reply)] == ["id0000002"]


def test_an_error_in_the_stream_of_bedrock() -> None:
    """It is an event; the calls before it are kept."""
    found = bedrock.calls([*bedrock_events(TWO)[:-2], {"throttlingException": {"message": "slow down"}}])
    assert found.error == ReplyError("slow down", "throttlingException")
    assert len(found) == 2


def test_answers_for_bedrock() -> None:
    """One message answers all calls, with images and PDF files as blocks of their own."""
    calls = bedrock.calls(bedrock_reply(TWO))
    first, second = bedrock.messages(zip(calls, OUTCOMES, strict=True))["content"]
    assert first["toolResult"] == {
        "toolUseId": "id0000001",
        "content": [
            {"text": "a plot"},
            {"image": {"format": "png", "source": {"bytes": PNG}}},
            {"document": {"format": "pdf", "name": "file 3", "source": {"bytes": PDF}}},
        ],
        "status": "success",
    }
    assert second["toolResult"]["status"] == "error"
    (spec,) = [each["toolSpec"] for each in bedrock.tools(fake.adders())][:1]
    assert list(spec) == ["name", "description", "inputSchema"]
    assert bedrock.message(calls[0], Success(1))["content"][0]["toolResult"]["content"] == [{"text": "1"}]


# --- Ollama ------------------------------------------------------------------------------------------------------
def test_forms_of_ollama() -> None:
    """A message and its calls are read as well; a reply that was cut off says so."""
    reply = ollama_reply(TWO, reason="length")
    for form in (reply, reply["message"], reply["message"]["tool_calls"], ollama_chunks(TWO)):
        assert [call.arguments for call in ollama.calls(form)] == [each for _, _, each in TWO]
    assert {call.finish_reason for call in ollama.calls(reply)} == {"length"}


def test_answers_for_ollama() -> None:
    """A message has the name that was sent, and the id of a server that gives one; images are mentioned."""
    tools = fake.adders()
    sent = ollama.tools(tools)[1]["function"]["name"]
    (call,) = ollama.calls(ollama_reply([("", sent, {"path": "a"})]), tools)
    assert call.name == "fs.read"
    content = f"(an image, image/png, {len(PNG)} bytes)"
    assert ollama.message(call, Success(PNG)) == {"role": "tool", "tool_name": sent, "content": content}
    assert ollama.message(Call("add", id="c"), Success(1))["tool_call_id"] == "c"


def test_types_that_stand_in_variants() -> None:
    """The package drops `anyOf` and `$ref`: the types are said beside them."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(count: int | None = None, unit: str = "c", either: list[int] | str = "") -> int:
        """Look."""
        return (count or 0) + len(unit) + len(either)

    (offered,) = ollama.tools(tools)
    properties = offered["function"]["parameters"]["properties"]
    types = {name: each["type"] for name, each in properties.items()}
    assert types == {"count": ["integer", "null"], "unit": "string", "either": ["array", "string"]}
    assert "anyOf" in properties["count"]


# --- Mistral and servers of open models --------------------------------------------------------------------------
def test_finish_reasons_of_mistral() -> None:
    """``model_length`` is a length limit, whole and streamed, in either adapter."""
    reply = fake.completion(("x", "add", '{"a": 1'), finish="model_length")
    for adapter in (mistral, openai):
        for form in (reply, list(fake.chat_chunks(reply))):
            assert [call.finish_reason for call in adapter.calls(form)] == ["length"]


@pytest.mark.parametrize(
    "reply", [None, 5, b"{}", httpx.Response(200)], ids=["None", "a number", "bytes", "a response"]
)
def test_no_reply_of_mistral(reply: object) -> None:
    """The error names Mistral, whose format is read as OpenAI's."""
    with pytest.raises(SetupError, match=r"client of Mistral"):
        mistral.calls(reply)


def test_other_answers_than_a_reply_of_mistral() -> None:
    """An answer that has nothing of a reply, and a reply of another provider, name Mistral as well."""
    error = mistral.calls({"x": 1}).error
    assert error is not None
    assert error.message == "The answer has nothing that a reply of Mistral has"
    with pytest.raises(SetupError, match=r"reads replies of Mistral, and this is a reply of Gemini"):
        mistral.calls({"candidates": []})


def test_ids_of_mistral() -> None:
    """Ids that say that there is none are left out, and calls that are sent back have nine letters or digits."""
    calls = mistral.calls(mistral_events([TWO[0], TWO[0]]))
    assert [call.id for call in calls] == ["", ""]
    said, fitted = mistral.send_back(calls)
    ids = [each["id"] for each in said["tool_calls"]]
    assert ids == [call.id for call in fitted]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert len({*ids}) == 2
    assert mistral.message(fitted[0], Success(1)) == {
        "role": "tool",
        "tool_call_id": ids[0],
        "content": "1",
        "name": "add",
    }


class Dumped:
    """As an object of Mistral's package: its dump leaves out what is not set, and its attributes do not."""

    choices = object()

    def __init__(self, **plain: Any) -> None:
        self._plain = plain

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return self._plain


def test_an_object_of_mistrals_package_is_read_by_its_dump() -> None:
    """A reply, and the chunk in an event of a stream."""
    asked = {"id": "a1b2c3d4e", "function": {"name": "add", "arguments": "{}"}}
    whole = Dumped(choices=[{"message": {"tool_calls": [asked]}, "finish_reason": "tool_calls"}])
    chunk = Dumped(data={"choices": [{"delta": {"tool_calls": [asked]}, "finish_reason": "tool_calls"}]})
    for reply in (whole, [chunk]):
        assert mistral.calls(reply) == [Call("add", "{}", "a1b2c3d4e", finish_reason="tool_calls")]


def test_text_in_blocks() -> None:
    """The text of a message or of a chunk may be a list of blocks, of which those with thoughts are none."""
    blocks: list[Any] = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Hello."}]
    assert mistral.calls([fake.delta(content=blocks)]).text == "Hello."
    assert mistral.calls({"role": "assistant", "content": blocks}).text == "Hello."


@pytest.mark.parametrize(
    "functions",
    [
        [{"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": {"a": 2}}],
        [{"name": "add", "arguments": '{"a": 1}'}, {"name": "add", "arguments": '{"a": 2}'}],
    ],
    ids=["objects", "texts"],
)
@pytest.mark.parametrize("ids", [[None, None], ["", ""], ["call_0", "call_0"], ["call_0", "call_1"]], ids=str)
def test_servers_of_open_models(functions: list[Any], ids: list[Any]) -> None:
    """Arguments may be objects; ids may be missing, or one for all: two calls are two, with two ids."""
    asked = [{"id": key, "type": "function", "function": each} for key, each in zip(ids, functions, strict=True)]
    reply = {"choices": [{"message": {"role": "assistant", "tool_calls": asked}, "finish_reason": "tool_calls"}]}
    stream = [fake.delta(tool_calls=[{"index": 0, **each}]) for each in asked]
    for form in (reply, [*stream, fake.delta("tool_calls")]):
        calls = openai.calls(form)
        assert [call.arguments for call in calls] == [each["arguments"] for each in functions]
        said, _ = openai.send_back(calls)
        assert len({each["id"] for each in said["tool_calls"]}) == 2
        assert {type(each["function"]["arguments"]) for each in said["tool_calls"]} == {str}


# --- what a provider wants back ----------------------------------------------------------------------------------
PROGRAM = {"type": "program", "caller_id": "prog_1"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "SELECT 1", "caller": PROGRAM}
ITEM = {
    "type": "function_call",
    "call_id": "d",
    "name": "add",
    "arguments": "{}",
    "namespace": "crm",
    "caller": PROGRAM,
}


def response_stream() -> list[Any]:
    """The events of a response whose last one is missing."""
    return [
        {"type": f"response.output_item.{when}", "output_index": place, "item": item}
        for place, item in enumerate((CUSTOM, ITEM))
        for when in ("added", "done")
    ]


@pytest.mark.parametrize("reply", [fake.response(output=[CUSTOM, ITEM]), response_stream()], ids=["whole", "stream"])
def test_items_of_responses_go_back(reply: Any) -> None:
    """A custom tool is answered as one, and `caller` and `namespace` of a call stand in its answer."""
    calls = openai.calls(reply)
    custom, function = (openai.message(call, Success("ok"), api="responses") for call in calls)
    assert custom == {"type": "custom_tool_call_output", "call_id": "c", "output": "ok", "caller": PROGRAM}
    assert function == {
        "type": "function_call_output",
        "call_id": "d",
        "output": "ok",
        "caller": PROGRAM,
        "namespace": "crm",
    }
    assert openai.send_back(calls, api="responses")[0] == [CUSTOM, ITEM]


def test_custom_tools_of_chat_completions_go_back() -> None:
    """A custom tool has its input as text, and goes back as one."""
    asked = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    reply = {"choices": [{"message": {"role": "assistant", "content": "", "tool_calls": [asked]}}]}
    said, calls = openai.send_back(openai.calls(reply))
    assert (calls[0].arguments, said["tool_calls"]) == ("SELECT 1", [asked])


@pytest.mark.parametrize("form", [dict, fake.message_events], ids=["whole", "stream"])
def test_the_toolset_of_anthropic_goes_back(form: Any) -> None:
    """The block of a call and the block that answers it name its toolset."""
    reply = fake.message(("toolu_1", "left_click", {}))
    reply["content"][0] |= {"toolset_name": "browser", "caller": {"type": "direct"}}
    calls = anthropic.calls(form(reply))
    assert anthropic.result(calls[0], Success(1))["toolset_name"] == "browser"
    assert anthropic.send_back(calls)[0]["content"] == reply["content"]
    assert "toolset_name" not in anthropic.result(Call("left_click"), Success(1))


def test_what_goes_back_stays_with_the_call() -> None:
    """A copy of a call keeps it, and neither a comparison nor a `repr` knows it; most calls have nothing of it."""
    (call,) = openai.calls(fake.response(output=[CUSTOM]))
    copy = pickle.loads(pickle.dumps(evolve(call, timeout=3)))
    assert copy.wire == {"type": "custom_tool_call", "caller": PROGRAM}
    assert call == Call("sql", "SELECT 1", "c", finish_reason="completed", reply="resp_1")
    assert "prog_1" not in repr(call)
    (plain,) = openai.calls(fake.completion(("c", "add", "{}")))
    assert (plain.wire, plain.state) == ({}, None)
