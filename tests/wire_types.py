"""Run with `make test-wires`: replies, messages and definitions of the adapters through the SDKs' own types.

The dicts of `wire_replies` become objects of each SDK, which have the same calls. What answers them and what is sent
back fits the types of the SDK's requests, with nothing lost; what is offered fits its tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic.types as anthropic_types
import litellm
import ollama as ollama_sdk
import openai.types.chat as chat_types
import openai.types.responses as responses_types
import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from google.genai import types as google
from hypothesis import given, settings
from hypothesis import strategies as st
from mistralai.client import models as mistral_types
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

import fake_providers as fake
from test_history import FORMS, TURNS, damage, refuse_gaps
from toolcall_pipeline import Failure, Outcome, Success, ToolError, ToolRegistry, UnknownTool
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai
from toolcall_pipeline.adapters.replies import Calls
from wire_replies import TWO, WIRES, Json, message_events, mistral_events

PNG = b"\x89PNG\r\n\x1a\n and so on \xfb\xef\xbe\xff\xfe"  # with each character of base64
PDF = b"%PDF-1.7 and so on"
OUTCOMES: list[Outcome[Any]] = [Success(["a plot", PNG, PDF]), Failure[ToolError](UnknownTool("add"))]
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
BEDROCK = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def bedrock_fits(shape: str, value: Any) -> Any:
    """The value, which botocore takes for a shape of its own model of the service."""
    report = ParamValidator().validate(value, BEDROCK.shape_for(shape))
    assert not report.has_errors(), report.generate_report()
    return value


pytestmark = pytest.mark.filterwarnings("ignore")  # the packages' own

# Each reply, and each chunk of a stream, as an object of the SDK.
OBJECTS: dict[str, tuple[Callable[[Json], Any], Callable[[Json], Any]]] = {
    "openai": (chat_types.ChatCompletion.model_validate, chat_types.ChatCompletionChunk.model_validate),
    "responses": (
        responses_types.Response.model_validate,
        TypeAdapter[Any](responses_types.ResponseStreamEvent).validate_python,
    ),
    "anthropic": (
        anthropic_types.Message.model_validate,
        TypeAdapter[Any](anthropic_types.RawMessageStreamEvent).validate_python,
    ),
    "gemini": (google.GenerateContentResponse.model_validate, google.GenerateContentResponse.model_validate),
    "gemini-partial": (google.GenerateContentResponse.model_validate, google.GenerateContentResponse.model_validate),
    "bedrock": (
        lambda reply: bedrock_fits("ConverseResponse", reply),
        lambda event: bedrock_fits("ConverseStreamOutput", event),
    ),
    "ollama": (ollama_sdk.ChatResponse.model_validate, ollama_sdk.ChatResponse.model_validate),
    "mistral": (
        lambda reply: mistral_types.ChatCompletionResponse.model_validate({**reply, "usage": USAGE}),
        mistral_types.CompletionEvent.model_validate,
    ),
    "litellm": (lambda reply: litellm.ModelResponse(**reply), lambda chunk: litellm.ModelResponseStream(**chunk)),
}


def read(name: str, form: str) -> Calls:
    """The calls of a reply, or of a stream, of the SDK's objects."""
    wire = WIRES["openai" if name == "litellm" else name]
    calls: Callable[[Any], Calls] = wire.adapter.calls
    whole, chunk = OBJECTS[name]
    if form == "whole":
        return calls(whole(wire.reply(TWO, "I add.")))
    events = message_events(TWO, "I add.") if name == "anthropic" else wire.chunks(TWO, "I add.")
    return calls([chunk(event) for event in events if event.get("type") != "ping"])


@pytest.mark.parametrize("form", ["whole", "stream"])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_the_sdk_have_the_same_calls(name: str, form: str) -> None:
    """Two calls and a text are read from the SDK's own objects."""
    found = read(name, form)
    read_ = [json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments for call in found]
    assert list(zip((call.name for call in found), read_, strict=True)) == [(name, each) for _, name, each in TWO]
    assert (found.text, found.error) == ("I add.", None)
    has_ids = name != "ollama" and (name, form) != ("mistral", "stream")
    assert [call.id for call in found] == ([key for key, _, _ in TWO] if has_ids else ["", ""])


def keeps(model: Any, given: Json) -> None:
    """The model takes the dict and has all of it; Google's has another alphabet for base64."""
    alphabet = str.maketrans("-_", "+/")
    kept = json.loads(
        model.model_validate(given).model_dump_json(exclude_none=True, by_alias=False).translate(alphabet)
    )
    expected = json.loads(json.dumps(given).translate(alphabet))
    assert {key: kept[key] for key in expected} == expected


def test_gemini() -> None:
    """Google's `Content` keeps answers with their parts, and the model's own message with its signatures."""
    for form in ("whole", "stream"):
        said, calls = gemini.send_back(read("gemini-partial", form))
        keeps(google.Content, said)
        asked = [part for part in google.Content.model_validate(said).parts if part.function_call is not None]
        assert {part.thought_signature for part in asked} == {b"signed"}
        keeps(google.Content, gemini.messages(zip(calls, OUTCOMES, strict=True)))
    (part, _) = google.Content.model_validate(gemini.messages(zip(calls, OUTCOMES, strict=True))).parts
    blobs = [(each.inline_data.mime_type, each.inline_data.data) for each in part.function_response.parts]
    assert blobs == [("image/png", PNG), ("application/pdf", PDF)]
    for each in gemini.tools(fake.adders()):
        keeps(google.Tool, each)


def test_bedrock() -> None:
    """The model of the service takes answers, the model's own message and definitions."""
    for form in ("whole", "stream"):
        said, calls = bedrock.send_back(read("bedrock", form))
        answers = bedrock.messages(zip(calls, OUTCOMES, strict=True))
        request = {
            "modelId": "m",
            "messages": [said, answers],
            "toolConfig": {"tools": bedrock.tools(fake.adders())},
        }
        bedrock_fits("ConverseRequest", request)
    first, second = answers["content"]
    assert [next(iter(each)) for each in first["toolResult"]["content"]] == ["text", "image", "document"]
    assert (first["toolResult"]["status"], second["toolResult"]["status"]) == ("success", "error")


def test_ollama() -> None:
    """The package's `Message` and `Tool` keep what they know of."""
    said, calls = ollama.send_back(read("ollama", "stream"))
    keeps(ollama_sdk.Message, said)
    for call, outcome in zip(calls, OUTCOMES, strict=True):
        keeps(ollama_sdk.Message, ollama.message(call, outcome))
    for each in ollama.tools(odd_types()):
        properties = ollama_sdk.Tool.model_validate(each).function.parameters.properties
        assert {name: one.type for name, one in properties.items()} == {
            "count": ["integer", "null"],
            "unit": "string",
            "items": "array",
        }


MISTRAL = {
    "user": mistral_types.UserMessage,
    "assistant": mistral_types.AssistantMessage,
    "tool": mistral_types.ToolMessage,
}
TAKES: dict[str, Callable[[list[Json]], object]] = {
    "mistral": lambda history: [MISTRAL[each["role"]].model_validate(each) for each in history],
    "bedrock": lambda history: bedrock_fits("ConverseRequest", {"modelId": "m", "messages": history}),
    "gemini": lambda history: [google.Content.model_validate(each) for each in history],
    "ollama": lambda history: [ollama_sdk.Message.model_validate(each) for each in history],
}


@pytest.mark.parametrize("form", TAKES)
@settings(max_examples=500)
@given(TURNS, st.data())
def test_a_repaired_history_fits(form: str, turns: list[list[str]], data: Any) -> None:
    """The package takes a history that was cut, moved or repeated, as it is repaired."""
    make, adapter, _ = FORMS[form]
    found, _ = adapter.repair(damage(make(turns), data))
    TAKES[form](found)
    refuse_gaps(found)


def odd_types() -> ToolRegistry:
    """A tool with parameters whose types stand in variants."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(count: int | None = None, unit: str = "c", items: list[int] = []) -> int:  # noqa: B006
        """Look."""
        return (count or 0) + len(unit) + len(items)

    return tools


def test_mistral() -> None:
    """The package's messages keep answers and the model's own message, with ids of nine characters."""
    for form in ("whole", "stream"):
        said, calls = mistral.send_back(read("mistral", form))
        kept = mistral_types.AssistantMessage.model_validate(said).model_dump(mode="json")
        assert [each["id"] for each in kept["tool_calls"]] == [call.id for call in calls]
        assert all(len(call.id) == 9 for call in calls)
        for call, outcome in zip(calls, OUTCOMES, strict=True):
            keeps(mistral_types.ToolMessage, mistral.message(call, outcome))
    for each in mistral.tools(fake.adders()):
        keeps(mistral_types.Tool, each)


def test_responses() -> None:
    """What the Responses API wants back with an answer fits the types of its input."""
    program = {"type": "program", "caller_id": "prog_1"}
    item = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}", "caller": program}
    custom = {"type": "custom_tool_call", "call_id": "d", "name": "sql", "input": "SELECT 1", "caller": program}
    reply = fake.response(output=[{**item, "namespace": "crm"}, custom])
    calls = openai.calls(responses_types.Response.model_validate(reply))
    output, custom_output = (openai.message(call, Success(PNG), api="responses") for call in calls)
    TypeAdapter(FunctionCallOutput).validate_python(output, strict=True)
    TypeAdapter(responses_types.ResponseCustomToolCallOutputParam).validate_python(custom_output)
    assert (output["caller"], output["namespace"], custom_output["caller"]) == (program, "crm", program)
    said, _ = openai.send_back(calls, api="responses")
    assert said == [{**item, "namespace": "crm"}, custom]


def test_anthropic() -> None:
    """The toolset of a call stands in its block and in the block that answers it."""
    reply = fake.message(("toolu_1", "left_click", {}))
    reply["content"][0] |= {"toolset_name": "browser", "caller": {"type": "direct"}}
    events: Iterator[Json] = fake.message_events(reply)
    event: TypeAdapter[Any] = TypeAdapter(anthropic_types.RawMessageStreamEvent)
    stream = [event.validate_python(each) for each in events if each["type"] != "ping"]
    for form in (anthropic_types.Message.model_validate(reply), stream):
        (call,) = calls = anthropic.calls(form)
        block = anthropic.result(call, Success(PNG))
        TypeAdapter(anthropic_types.ToolResultBlockParam).validate_python(block)
        assert block["toolset_name"] == "browser"
        assert anthropic.send_back(calls)[0]["content"] == reply["content"]


def test_ids_that_mistral_leaves_out() -> None:
    """A stream without ids, which the package marks with a text, has calls without ids."""
    events = [mistral_types.CompletionEvent.model_validate(each) for each in mistral_events(TWO)]
    assert [call.id for call in mistral.calls(events)] == ["", ""]
