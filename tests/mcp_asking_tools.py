"""Tools that ask the client, and requests that come twice, with the official SDK. ``make test-mcp`` runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_served_tools import (
    MODERN,
    anyio_backend,
    both_eras,
    connect,
    environment,
    every_way,
    kind_of,
    make_client,
    open_desk,
    serve_http,
    text_of,
)
from support import PATIENT
from toolcall_pipeline import Approvals, Call, CallReport, Failure, SetupError, Success, ToolContext, ToolRegistry
from toolcall_pipeline.mcp import REQUEST, add_server, make_server
from toolcall_pipeline.mcp.asking import ASKED, serve_end
from toolcall_pipeline.mcp.sdk_session import Callbacks, connect_sdk
from toolcall_pipeline.mcp.serving import join_principal
from toolcall_pipeline.middlewares import Approve, standard
from toolcall_pipeline.stores import Memory

__all__ = ["anyio_backend"]
pytestmark = pytest.mark.filterwarnings("default")  # those of the packages of others
REPEATED = "the id is that of a request that has no answer yet"


def answering(*asked: str, action: str = "accept") -> dict[str, Any]:
    """Callbacks of a client that answers, and notes what it is asked."""
    types: Any = import_module("mcp_types")
    heard: list[str] = list(asked)

    async def elicit(_context: Any, params: Any) -> Any:
        heard.append(params.message)
        field = next(iter(params.requested_schema["properties"]))
        return types.ElicitResult(action=action, content={field: f"a {field}"} if action == "accept" else None)

    async def sample(_context: Any, _params: Any) -> Any:
        said = types.TextContent(type="text", text="hello")
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async def list_roots(_context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])

    return {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": list_roots,
    }


@every_way
async def test_a_tool_asks_and_goes_on(transport: str, mode: str, anyio_backend: str) -> None:
    """Two questions, one after the other, and the body begins once."""
    async with connect(transport, mode, **answering()) as client:
        item = f"hat {transport} {mode} {anyio_backend}"
        result = await client.call_tool("order", {"item": item})
        assert text_of(result) == f"{item}, a size, a colour, begun 1"
        assert result.is_error is False


@every_way
async def test_a_tool_asks_several_at_once(transport: str, mode: str) -> None:
    """A person, the client's model and the client itself."""
    async with connect(transport, mode, **answering()) as client:
        result = await client.call_tool("ask_all", {})
        assert result.structured_content == {"result": ["a size", "hello", "file:///work"]}


@every_way
async def test_a_person_who_declines(transport: str, mode: str, anyio_backend: str) -> None:
    """The tool reads the action."""
    async with connect(transport, mode, **answering(action="decline")) as client:
        item = f"cap {transport} {mode} {anyio_backend}"
        result = await client.call_tool("order", {"item": item})
        assert text_of(result) == f"{item}, decline, decline, begun 1"


@every_way
async def test_a_client_that_cannot_be_asked(transport: str, mode: str) -> None:
    """Its model gets the question, to ask the user itself."""
    async with connect(transport, mode) as client:
        result = await client.call_tool("order", {"item": "scarf"})
        assert (result.is_error, kind_of(result), text_of(result)) == (True, "needs_input", "Question: Which size?")


@every_way
async def test_a_result_that_asks_is_no_success(transport: str, mode: str) -> None:
    """Of a version that has such results it is one, and the next request has the answer; else it is needs_input."""
    async with connect(transport, mode, **answering()) as client:
        result = await client.call_tool("confirm", {})
        if mode == "legacy":
            assert (kind_of(result), text_of(result)) == ("needs_input", "Question: Are you sure?")
        else:
            assert (result.is_error, text_of(result)) == (False, "accept {'ok': 'a ok'}")


async def test_a_result_that_asks_in_the_report() -> None:
    """The outcome of the call is a failure, needs_input, so no trace is green and no cache keeps it."""
    desk = import_module("mcp_served_desk")
    asked: list[Any] = []
    state: Any = {ASKED: asked, REQUEST: type("Request", (), {"params": {}})}
    pipeline = serve_end(standard(desk.tools))
    report: CallReport = await pipeline.report(Call("confirm", {}, state=state))
    assert isinstance(report.outcome, Failure)
    assert report.outcome.failure().kind == "needs_input"
    assert asked[0]["resultType"] == "input_required"
    assert pipeline.stages == standard(desk.tools).stages


async def ask_over_http(send: Callable[[dict[str, Any]], Awaitable[Any]], **params: Any) -> Any:
    answer = await send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return answer.json()


async def test_states_that_are_not_ours() -> None:
    """A state that was changed, used up or sent with other arguments is refused, and nothing runs."""
    able: dict[str, Any] = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    web: Any = import_module("httpx2")
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
    headers |= {"mcp-method": "tools/call", "mcp-name": "order"}
    with serve_http() as (_, url):
        async with web.AsyncClient() as client:

            async def send(message: dict[str, Any]) -> Any:
                return await client.post(url, json=message, headers=headers)

            order: dict[str, Any] = {"name": "order", "arguments": {"item": "tie"}, "_meta": able}
            first = (await ask_over_http(send, **order))["result"]
            assert (first["resultType"], list(first["inputRequests"])) == ("input_required", ["question_1"])
            state = first["requestState"]
            size = {"question_1": {"action": "accept", "content": {"size": "L"}}}
            for changed in (
                {"requestState": state + "x"},
                {"requestState": "toolcall-" + "x" * 32},
                {"requestState": state, "arguments": {"item": "two ties"}},
            ):
                refused = await ask_over_http(send, **{**order, "inputResponses": size, **changed})
                assert refused["error"]["code"] == -32602
            # No answer to the question, and one of a wrong form: it is asked again.
            for wrong in ({}, {"question_9": {"action": "accept"}}, {"question_1": {"action": "accept", "content": 5}}):
                again = await ask_over_http(send, **order, inputResponses=wrong, requestState=state)
                if "error" in again:  # the SDK itself refuses it, before the state is used
                    assert again["error"]["code"] == -32602
                else:
                    assert list(again["result"]["inputRequests"]) == ["question_1"]
                    assert again["result"]["requestState"] != state
                    state = again["result"]["requestState"]
            second = (await ask_over_http(send, **order, inputResponses=size, requestState=state))["result"]
            assert list(second["inputRequests"]) == ["question_2"]
            used = await ask_over_http(send, **order, inputResponses=size, requestState=state)
            assert used["error"]["code"] == -32602
            colour = {"question_2": {"action": "accept", "content": {"colour": "red"}}}
            last = await ask_over_http(send, **order, inputResponses=colour, requestState=second["requestState"])
            assert last["result"]["content"][0]["text"] == "tie, L, red, begun 1"


@both_eras
async def test_a_call_is_cancelled_while_it_asks(mode: str) -> None:
    """A client that leaves its question open, or gives up, leaves no body behind when the server ends."""
    asked = anyio.Event()
    tools = ToolRegistry()
    ends: list[str] = []

    @tools.tool(context=True)
    async def ask(context: ToolContext) -> str:
        try:
            await context.get_state(REQUEST).session.elicit_form("Who?", {"type": "object", "properties": {}})
        except anyio.get_cancelled_exc_class():
            ends.append("cancelled")
            raise
        return "answered"

    async def never(_context: Any, _params: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    with suppress(Exception):
        async with (
            make_client(make_server(standard(tools)), mode, elicitation_callback=never) as client,
            anyio.create_task_group() as group,
        ):
            nothing: dict[str, Any] = {}
            group.start_soon(client.call_tool, "ask", nothing)
            await asked.wait()
            group.cancel_scope.cancel()
    assert ends == ["cancelled"]


def test_an_id_that_comes_twice_over_stdio() -> None:
    """While its request runs, the second is refused and the body runs once; afterwards the id is free."""
    with open_desk() as wire:
        wire.greet()
        call = {"name": "wait_for", "arguments": {"number": 5}}
        for number in ("a", "a", 5, "5"):
            wire.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call})
        _, refused = wire.read()
        assert (refused["id"], refused["error"]) == ("a", {"code": -32600, "message": REPEATED})
        wire.call("let", {"number": 5})
        wire.notes = [each for each in wire.notes if each]
        while len(wire.notes) < 3:
            wire.notes.append(wire.read()[1])
        ids = {each["id"]: each["result"]["content"][0]["text"].partition(",")[0] for each in wire.notes}
        assert ids == {
            "a": "waited for 5 as a",
            5: "waited for 5 as 5",
            "5": 'waited for 5 as "5"',
        }
        assert wire.notes[-1]["result"]["content"][0]["text"].endswith("begun 3")


async def test_an_id_that_comes_twice_over_http() -> None:
    """Both requests are answered: the second is refused, and the body runs once. Another session has ids of its own."""
    web: Any = import_module("httpx2")
    accept = {"accept": "application/json, text/event-stream"}
    with serve_http() as (_, url):
        async with web.AsyncClient(timeout=30) as client:

            async def greet() -> dict[str, str]:
                hello = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                }
                message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
                answer = await client.post(url, json=message, headers=accept)
                own = {**accept, "mcp-session-id": answer.headers["mcp-session-id"]}
                await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=own)
                return own

            one, other = await greet(), await greet()
            answers: list[str] = []

            async def call(session: dict[str, str], name: str, number: int, request_id: int) -> str:
                params = {"name": name, "arguments": {"number": number}}
                message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
                answer = await client.post(url, json=message, headers=session)
                text: str = answer.text
                answers.append(text)
                return text

            async with anyio.create_task_group() as group:
                group.start_soon(call, one, "wait_for", 7, 1)
                group.start_soon(call, one, "wait_for", 7, 1)
                group.start_soon(call, other, "wait_for", 7, 1)
                with anyio.fail_after(PATIENT):
                    while not answers:  # noqa: ASYNC110  # of the server
                        await anyio.sleep(0.01)
                assert json.loads(answers[0])["error"] == {"code": -32600, "message": REPEATED}
                await call(one, "let", 7, 2)
            assert len(answers) == 4
            assert sum("begun 2" in answer for answer in answers) == 2


@both_eras
async def test_conversations(mode: str) -> None:
    """Each connection is one, and no two have the same."""
    tools = ToolRegistry()
    seen: list[tuple[str, str, str]] = []

    async def note(call: Call, call_next: Any) -> Any:
        seen.append((call.id, call.conversation, call.reply))
        return await call_next(call)

    @tools.tool(effect="read")
    async def look() -> str:
        return "looked"

    server = make_server(standard(tools).before("resolve", note))
    for _ in range(2):
        async with make_client(server, mode) as client:
            for _ in range(2):
                await client.call_tool("look", {})
    ids, conversations = [each[0] for each in seen], [each[1] for each in seen]
    assert conversations[0] == conversations[1] != conversations[2] == conversations[3]
    assert all(conversations)
    assert len({*zip(ids, conversations, strict=True)}) == 4


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_conversations_over_http(mode: str) -> None:
    """That of a session is no secret with which somebody could act in it; a client without one has none."""
    tools = ToolRegistry()
    seen: list[tuple[str, str]] = []

    async def note(call: Call, call_next: Any) -> Any:
        seen.append((call.conversation, call.reply))
        return await call_next(call)

    @tools.tool(effect="read")
    async def look() -> str:
        return "looked"

    web: Any = import_module("httpx2")
    server = make_server(standard(tools).before("resolve", note))
    app = server.streamable_http_app()
    http = import_module("mcp.client.streamable_http").streamable_http_client
    async with server.session_manager.run():
        for _ in range(2):
            async with (
                web.AsyncClient(transport=web.ASGITransport(app=app)) as own,
                make_client(http("http://127.0.0.1:8000/mcp", http_client=own), mode) as client,
            ):
                for _ in range(2):
                    await client.call_tool("look", {})
    conversations, replies = [each[0] for each in seen], [each[1] for each in seen]
    if mode == "legacy":
        assert conversations[0] == conversations[1] != conversations[2] == conversations[3]
        assert all(each.startswith("mcp-") for each in conversations)
        assert replies == [""] * 4
    else:
        assert conversations == [""] * 4
        assert len({*replies}) == 4


def test_principals_are_joined_injectively() -> None:
    """Client, issuer and subject of two tokens are one principal only if each part is equal."""
    parts = ("a", "b", "a b", "b c", "a b c", "", '"', ",", "null", None)
    tokens = [(client, issuer, subject) for client in parts[:-1] for issuer in parts for subject in parts]
    assert len({join_principal(token) for token in tokens}) == len(tokens)


@both_eras
async def test_what_a_registry_offers_to_a_server(mode: str) -> None:
    """The callbacks of `add_server` answer the server's questions, and hear what it logs."""
    served = ToolRegistry()
    types: Any = import_module("mcp_types")
    heard: list[str] = []

    @served.tool(context=True)
    async def ask(context: ToolContext) -> list[str]:
        request = context.get_state(REQUEST)
        await request.session.send_log_message("info", "asking", related_request_id=request.request_id)
        schema: dict[str, Any] = {"type": "object", "properties": {"size": {"type": "string"}}}
        size = await request.session.elicit_form("Which size?", schema, related_request_id=request.request_id)
        said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Greet."))
        text = await request.session.create_message([said], max_tokens=10, related_request_id=request.request_id)
        roots = await request.session.list_roots()
        return [size.content["size"], text.content.text, str(roots.roots[0].uri)]

    async def log(params: Any) -> None:
        heard.append(params.data)

    given = answering()
    offered: dict[str, Any] = {
        "elicitation": given["elicitation_callback"],
        "sampling": given["sampling_callback"],
        "roots": given["list_roots_callback"],
        "log": log,
    }
    callbacks = Callbacks(**offered)
    server = make_server(standard(served))
    tools = ToolRegistry()
    async with add_server(tools, server, connect=connect_sdk(server, mode, callbacks)):
        outcome = await standard(tools).call("ask", {})
    assert outcome == Success({"result": ["a size", "hello", "file:///work"]})
    assert heard == ["asking"]
    tools = ToolRegistry()
    async with add_server(tools, server, **offered):
        assert await standard(tools).call("ask", {}) == outcome
    async with add_server(tools, server, prefix="mute_"):
        mute = await standard(tools).call("mute_ask", {})
        assert isinstance(mute, Failure)


async def test_callbacks_that_cannot_be_called() -> None:
    """They are refused at once."""
    given: Any = "yes"
    with pytest.raises(SetupError, match="elicitation"):
        async with add_server(ToolRegistry(), ["x"], elicitation=given):
            pass


@both_eras
@pytest.mark.parametrize(
    ("action", "content", "text"),
    [
        ("accept", {"decision": "approve"}, "paid Ann"),
        ("accept", {"decision": "reject", "message": "Too late."}, "Error: Too late."),
        ("decline", None, "Error: A person refused this call."),
        ("cancel", None, "Error: This call waits for a person's decision"),
    ],
)
async def test_a_person_at_the_client_approves(mode: str, action: str, content: Any, text: str) -> None:
    """The client shows the arguments; the decision is one as by any other way, and the call runs once."""
    types: Any = import_module("mcp_types")
    tools, store, heard, paid = ToolRegistry(), Memory(), list[str](), list[str]()

    @tools.tool
    async def pay(to: str, cents: int = 5) -> str:
        paid.append(to)
        return f"paid {to}"

    async def elicit(_context: Any, params: Any) -> Any:
        heard.append(params.message)
        return types.ElicitResult(action=action, content=content)

    pipeline = standard(tools, store=store).before("ledger", Approve(store, tools=["pay"]))
    async with make_client(make_server(pipeline), mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("pay", {"to": "Ann"})
        assert text_of(result).startswith(text.removeprefix("Error: ")) or text_of(result).startswith(text)
    assert paid == (["Ann"] if text == "paid Ann" else [])
    (question,) = heard
    assert question.startswith("Let the tool pay run with these arguments?\n{")
    assert json.loads(question.partition("\n")[2].rpartition("\n")[0]) == {"to": "Ann", "cents": 5}
    assert question.endswith("\nReason: the tool needs approval")
    (approval,) = await Approvals(store).list()
    assert (approval.state, approval.by) == {
        "paid Ann": ("approved", "the user of the MCP client"),
        "Error: This call waits for a person's decision": ("pending", ""),
    }.get(text, ("rejected", "the user of the MCP client"))


@both_eras
async def test_a_client_that_cannot_be_asked_reads_the_id(mode: str) -> None:
    """The result names the id for the model, and the command for a person, in its `_meta`."""
    tools, store = ToolRegistry(), Memory()

    @tools.tool
    async def pay(to: str) -> str:
        return f"paid {to}"

    pipeline = standard(tools, store=store).before("ledger", Approve(store, tools=["pay"]))
    async with make_client(make_server(pipeline), mode) as client:
        result = await client.call_tool("pay", {"to": "Ann"})
        (waiting,) = await Approvals(store).pending()
        assert kind_of(result) == "awaiting_approval"
        assert waiting.id in text_of(result)
        assert result.meta["toolcall/decide"] == f"toolcall approvals STORE approve|reject {waiting.id}"
        await Approvals(store).approve(waiting.id, by="boss")
        assert text_of(await client.call_tool("pay", {"to": "Ann"})) == "paid Ann"


POLICY = """
[renames]
send = "pay"
[[rules]]
tool = "pay"
arguments = {properties = {cents = {minimum = 100}}}
action = "deny"
[[rules]]
tool = "pay"
action = "approve"
"""
SHOP = """
from pathlib import Path
from toolcall_pipeline import ToolRegistry
registry = ToolRegistry()

@registry.tool
def pay(to: str, cents: int) -> str:
    with Path("paid").open("a") as file:
        file.write(f"{to} {cents}\\n")
    return f"paid {to} {cents}"
"""
TOOLCALL = [sys.executable, "-m", "toolcall_pipeline"]


@both_eras
@pytest.mark.parametrize("where", ["serve", "proxy"])
async def test_a_policy_and_a_store_in_real_processes(where: str, mode: str, tmp_path: Path) -> None:
    """The client is asked; after a restart a client that cannot be asked reads the id, and a command decides."""
    types: Any = import_module("mcp_types")
    stdio: Any = import_module("mcp.client.stdio")
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "shop_tools.py").write_text(SHOP)
    served = [*TOOLCALL, "serve", "shop_tools:registry"]
    decided = [*served, "--policy", "policy.toml", "--store", "calls.db"]
    if where == "proxy":
        decided = [*TOOLCALL, "proxy", "--config", "policy.toml", "--store", "calls.db", "--", *served]
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    parameters = stdio.StdioServerParameters(command=decided[0], args=decided[1:], cwd=str(tmp_path), env=env)
    heard: list[str] = []

    async def approve(_context: Any, params: Any) -> Any:
        heard.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async with make_client(stdio.stdio_client(parameters), mode, elicitation_callback=approve) as client:
        assert text_of(await client.call_tool("send", {"to": "Ann", "cents": "5"})) == "paid Ann 5"
        assert kind_of(await client.call_tool("pay", {"to": "Ann", "cents": 100})) == "permission"
    (question,) = heard
    assert '"cents": 5' in question
    async with make_client(stdio.stdio_client(parameters), mode) as client:
        result = await client.call_tool("pay", {"to": "Bob", "cents": 7})
        assert kind_of(result) == "awaiting_approval"
        command = [*TOOLCALL, "approvals", "calls.db", "approve", result.meta["toolcall/approval"], "--by", "boss"]
        await anyio.run_process(command, cwd=tmp_path)
        assert text_of(await client.call_tool("pay", {"to": "Bob", "cents": 7})) == "paid Bob 7"
        assert kind_of(await client.call_tool("pay", {"to": "Bob", "cents": 7})) == "awaiting_approval"  # used once
    assert (tmp_path / "paid").read_text() == "Ann 5\nBob 7\n"
