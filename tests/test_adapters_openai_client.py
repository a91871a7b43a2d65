"""Whole turns of an agent through OpenAI's official client, against a server that speaks its wire formats."""

from __future__ import annotations

import json
from typing import Any, Literal, cast

import openai as sdk
import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam

import fake_providers as fake
from fake_providers import FakeProvider, adders
from toolcall_pipeline import ToolRegistry, gather
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import standard

Api = Literal["chat", "responses"]
TWO = (("call_1", "read", '{"path":  "a"}'), ("call_2", "add", '{"a": 1}'))


def replies(api: Api, name: str) -> list[dict[str, Any]]:
    calls = (("call_1", name, '{"path": "a.txt"}'), ("call_2", "add", '{"a": "one"}'))
    make = fake.completion if api == "chat" else fake.response
    return [make(*calls), make(text="Done.")]


def asked(api: Api, tools: ToolRegistry, history: list[Any], *, stream: bool) -> dict[str, Any]:
    what = {"messages": history} if api == "chat" else {"input": history}
    return {"model": "fake", "tools": openai.tools(tools, api=api), "stream": stream, **what}


def turn(api: Api, reply: dict[str, Any]) -> list[Any]:
    return [reply["choices"][0]["message"]] if api == "chat" else reply["output"]


BAD = "Error: Invalid parameter value for a: must be an integer, not a string"


def check_requests(api: Api, server: FakeProvider, tools: ToolRegistry) -> None:
    """The requests have the definitions; the second one answers a right and a wrong call."""
    first, second = server.requests
    assert first["tools"] == second["tools"] == json.loads(json.dumps(openai.tools(tools, api=api)))
    told = second["messages" if api == "chat" else "input"][-2:]
    key, text = ("tool_call_id", "content") if api == "chat" else ("call_id", "output")
    assert [each[key] for each in told] == ["call_1", "call_2"]
    assert [each[text] for each in told] == ["what a.txt holds", BAD]


TURNS = pytest.mark.parametrize(("api", "stream"), [(api, on) for api in ("chat", "responses") for on in (False, True)])


@TURNS
async def test_a_turn_of_an_agent(api: Api, stream: bool) -> None:
    """Through the official client: definitions, two calls of which one is wrong, both answers, and a final text."""
    tools = adders()
    run = standard(tools)
    whole = replies(api, openai.tools(tools)[1]["function"]["name"])
    with (
        FakeProvider(*whole) as server,
        sdk.OpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        ask: Any = client.chat.completions.create if api == "chat" else client.responses.create
        history: list[Any] = [{"role": "user", "content": "Go."}]
        calls = openai.calls(ask(**asked(api, tools, history, stream=stream)), tools)
        history += turn(api, whole[0])
        for call, outcome in zip(calls, await gather(run, calls), strict=True):
            history.append(openai.message(call, outcome, api=api))
        last = ask(**asked(api, tools, history, stream=stream))
        assert openai.calls(list(last) if stream else last) == []
        check_requests(api, server, tools)


@TURNS
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # in trio the client leaves its own generators open
async def test_a_turn_of_an_async_agent(api: Api, stream: bool) -> None:
    """The same turn works with the async client, whose stream is collected first."""
    tools = adders()
    run = standard(tools)
    whole = replies(api, openai.tools(tools)[1]["function"]["name"])
    with FakeProvider(*whole) as server:
        async with sdk.AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client:
            ask: Any = client.chat.completions.create if api == "chat" else client.responses.create
            history: list[Any] = [{"role": "user", "content": "Go."}]
            while True:
                reply = await ask(**asked(api, tools, history, stream=stream))
                calls = openai.calls([event async for event in reply] if stream else reply, tools)
                if not calls:
                    break
                history += turn(api, whole[0])
                history += [openai.message(call, await run(call), api=api) for call in calls]
        check_requests(api, server, tools)


async def test_what_the_client_takes() -> None:
    """Definitions and messages fit the client's own types without a cast."""
    tools = adders()
    run = standard(tools)
    replies = (
        fake.completion(TWO[1]),
        fake.completion(text="Done."),
        fake.response(TWO[1]),
        fake.response(text="Done."),
    )
    with (
        FakeProvider(*replies) as server,
        sdk.OpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Go."}]
        reply = client.chat.completions.create(model="fake", messages=messages, tools=openai.tools(tools))
        (call,) = openai.calls(reply)
        messages.append(
            cast("ChatCompletionMessageParam", reply.choices[0].message)
        )  # the client's own types do not accept its message
        messages.append(openai.message(call, await run(call)))
        done = client.chat.completions.create(model="fake", messages=messages, tools=openai.tools(tools))
        assert done.choices[0].message.content == "Done."

        given: ResponseInputParam = [{"role": "user", "content": "Go."}]
        response = client.responses.create(model="fake", input=given, tools=openai.tools(tools, api="responses"))
        (call,) = openai.calls(response)
        given += cast("ResponseInputParam", response.output)  # as above
        given.append(openai.message(call, await run(call), api="responses"))
        end = client.responses.create(model="fake", input=given, tools=openai.tools(tools, api="responses"))
        assert end.output_text == "Done."
    assert server.requests[1]["messages"][-1] == {"role": "tool", "tool_call_id": "call_2", "content": "1"}
    assert server.requests[3]["input"][-1] == {"type": "function_call_output", "call_id": "call_2", "output": "1"}


@pytest.mark.parametrize("helper", ["chat", "responses"])
def test_the_clients_own_stream_helpers(helper: str) -> None:
    """The events of the client's stream helpers are read like the bare stream."""
    with (
        FakeProvider(fake.completion(*TWO) if helper == "chat" else fake.response(*TWO)) as server,
        sdk.OpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        opened: Any = (
            client.chat.completions.stream(model="fake", messages=[{"role": "user", "content": "Go."}])
            if helper == "chat"
            else client.responses.stream(model="fake", input=[{"role": "user", "content": "Go."}])
        )
        with opened as stream:
            assert [(call.id, call.name, call.arguments) for call in openai.calls(stream)] == list(TWO)
