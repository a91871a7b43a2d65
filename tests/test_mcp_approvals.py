"""A relay asks the person at its client to approve a call, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_desk import MODERN, Desk, ScriptedServer, as_line, call, open_desk, result
from toolcall_pipeline import Approvals
from toolcall_pipeline.mcp import asking_person
from toolcall_pipeline.mcp.asking_person import takes_forms
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.policies.relay_policy import RelayPolicy
from toolcall_pipeline.stores import SQLite

ASKS = RelayPolicy(rules=RuleSet((PolicyRule("approve", "pay"),)))
ABLE: dict[str, Any] = {"elicitation": {}}
MODERN_ABLE = {**MODERN, "io.modelcontextprotocol/clientCapabilities": ABLE}


@asynccontextmanager
async def open_asking(tmp_path: Path, **capabilities: Any) -> AsyncGenerator[tuple[Desk, ScriptedServer, Approvals]]:
    """A relay whose policy asks, a client with these capabilities, and what waits."""
    path = tmp_path / "calls.db"
    async with open_desk(ASKS, store=path) as (desk, server):
        await desk.greet(server, capabilities=capabilities)
        async with Approvals(SQLite(path)) as approvals:
            yield desk, server, approvals


def kind_of(answer: dict[str, Any]) -> str:
    kind: str = answer["result"]["_meta"]["toolcall/kind"]
    return kind


def says(question: dict[str, Any], action: str, **content: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": action, "content": content}}


async def ask(desk: Desk, server: ScriptedServer, request: dict[str, Any]) -> dict[str, Any]:
    """Send a call that waits; returns what the client gets."""
    desk.send(request)
    await server.list_tools()
    found: dict[str, Any] = await desk.receive()
    return found


async def test_the_person_at_the_client_approves(tmp_path: Path) -> None:
    """The client shows the arguments, the decision is one as by any other way, and the server gets the call once."""
    async with open_asking(tmp_path, **ABLE) as (desk, server, approvals):
        question = await ask(desk, server, call(1, "pay", {"cents": 5}))
        assert question["method"] == "elicitation/create"
        text = 'Let the tool pay run with these arguments?\n{\n  "cents": 5\n}\nReason: approve by rule 1'
        assert question["params"]["message"] == text
        assert question["params"]["requestedSchema"]["required"] == ["decision"]
        desk.send(says(question, "accept", decision="approve"))
        request = await server.next_call()
        assert request["params"] == {"name": "pay", "arguments": {"cents": 5}}
        server.say(result(request, "paid"))
        assert (await desk.receive())["result"]["content"][0]["text"] == "paid"
        (approval,) = await approvals.list()
        assert (approval.state, approval.by) == ("approved", "the user of the MCP client")


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"result": {"action": "accept", "content": {"decision": "reject", "message": "No."}}}, "rejected"),
        ({"result": {"action": "decline"}}, "rejected"),
        ({"result": {"action": "cancel"}}, "pending"),
        ({"result": {"action": "accept"}}, "pending"),
        ({"result": {"action": "accept", "content": {"decision": ["approve"]}}}, "pending"),
        ({"result": "approve"}, "pending"),
        ({"error": {"code": -1, "message": "approve"}}, "pending"),
    ],
)
async def test_any_other_answer_runs_nothing(answer: dict[str, Any], state: str, tmp_path: Path) -> None:
    """A person who refuses is a decision; a client that says nothing of one leaves the call waiting."""
    async with open_asking(tmp_path, **ABLE) as (desk, server, approvals):
        question = await ask(desk, server, call(1, "pay", {"cents": 5}))
        said = {"jsonrpc": "2.0", "id": question["id"], **answer}
        desk.send([said] if state == "rejected" else said)  # alone, or in a batch
        assert kind_of(await desk.receive()) == {"rejected": "permission"}.get(state, "awaiting_approval")
        assert [each.state for each in await approvals.list()] == [state]
        line = desk.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert line == await server.next_line()  # neither the call nor the answer has passed


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": True}])
async def test_a_client_that_shows_no_form_reads_the_id(capabilities: dict[str, Any], tmp_path: Path) -> None:
    """Its model gets the id, and a person the command; the repetition of what was approved runs."""
    async with open_asking(tmp_path, **capabilities) as (desk, server, approvals):
        answer = await ask(desk, server, call(1, "pay", {"cents": 5}))
        (waiting,) = await approvals.pending()
        assert waiting.id in answer["result"]["content"][0]["text"]
        assert answer["result"]["_meta"]["toolcall/decide"] == f"toolcall approvals STORE approve|reject {waiting.id}"
        await approvals.approve(waiting.id, by="boss")
        desk.send(call(2, "pay", {"cents": 5}))
        server.say(result(await server.next_call(), "paid"))
        assert (await desk.receive())["result"]["content"][0]["text"] == "paid"


@pytest.mark.parametrize(
    ("elicitation", "shows"),
    [({}, True), ({"form": {}}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False), (None, False)],
)
def test_which_clients_show_forms(elicitation: object, shows: bool) -> None:
    """One that names modes has to name forms; one that names none shows them."""
    assert takes_forms({"elicitation": elicitation}) == shows


async def test_a_call_that_is_cancelled_takes_its_question_back(tmp_path: Path) -> None:
    """The client is told not to show it any more, and an answer that comes all the same decides nothing."""
    async with open_asking(tmp_path, **ABLE) as (desk, server, approvals):
        question = await ask(desk, server, call(1, "pay", {"cents": 5}))
        desk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        told = await desk.receive()
        assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", question["id"])
        desk.send(says(question, "accept", decision="approve"))
        line = desk.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert line == await server.next_line()
        assert [each.state for each in await approvals.list()] == ["pending"]


async def test_a_person_who_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is answered with its id, the question is taken back, and the command still decides."""
    monkeypatch.setattr(asking_person, "PATIENCE", 0.0)
    async with open_asking(tmp_path, **ABLE) as (desk, server, _):
        found = [await ask(desk, server, call(1, "pay", {"cents": 5}))]
        while found[-1].get("id") != 1:
            found.append(await desk.receive())
        assert kind_of(found[-1]) == "awaiting_approval"


async def test_a_client_without_a_handshake_is_asked_in_a_result(tmp_path: Path) -> None:
    """Its next request has the answer, which is not passed on, and the server gets the call once."""
    async with open_desk(ASKS, store=tmp_path / "calls.db") as (desk, server):
        pay = call(1, "pay", {"cents": 5}, _meta=MODERN_ABLE)
        asked = (await ask(desk, server, pay))["result"]
        assert (asked["resultType"], list(asked["inputRequests"])) == ("input_required", ["approval"])
        assert asked["inputRequests"]["approval"]["params"]["message"].startswith("Let the tool pay run")
        answer = {"approval": {"action": "accept", "content": {"decision": "approve"}}}
        sent = {"inputResponses": answer, "requestState": asked["requestState"]}
        desk.send(call(2, "pay", {"cents": 5}, _meta=MODERN_ABLE, **sent))
        request = await server.next_call()
        assert set(request["params"]) == {"name", "arguments", "_meta"}
        server.say(result(request, "paid", resultType="complete"))
        assert (await desk.receive())["result"]["content"][0]["text"] == "paid"
        desk.send(call(3, "pay", {"cents": 5}, _meta=MODERN_ABLE, **sent))  # the state is used up: a new question
        assert (await desk.receive())["result"]["requestState"] != asked["requestState"]


@pytest.mark.parametrize("answers", [{}, {"approval": {"action": "cancel"}}, {"approval": 5}, 5])
async def test_a_client_without_a_handshake_that_decides_nothing(answers: Any, tmp_path: Path) -> None:
    """The call still waits, and its model reads the id instead of the same question again."""
    async with open_desk(ASKS, store=tmp_path / "calls.db") as (desk, server):
        asked = (await ask(desk, server, call(1, "pay", {"cents": 5}, _meta=MODERN_ABLE)))["result"]
        sent = {"inputResponses": answers, "requestState": asked["requestState"]}
        desk.send(call(2, "pay", {"cents": 5}, _meta=MODERN_ABLE, **sent))
        assert kind_of(await desk.receive()) == "awaiting_approval"


async def test_a_consent_is_for_the_call_that_was_shown(tmp_path: Path) -> None:
    """The answer to one question, sent with another call, lets that other call wait for a decision of its own."""
    async with open_desk(ASKS, store=tmp_path / "calls.db") as (desk, server):
        asked = (await ask(desk, server, call(1, "pay", {"cents": 5}, _meta=MODERN_ABLE)))["result"]
        answer = {"approval": {"action": "accept", "content": {"decision": "approve"}}}
        sent = {"inputResponses": answer, "requestState": asked["requestState"]}
        desk.send(call(2, "pay", {"cents": 5_000}, _meta=MODERN_ABLE, **sent))
        again = (await desk.receive())["result"]
        assert '"cents": 5000' in again["inputRequests"]["approval"]["params"]["message"]


async def test_states_of_the_server_pass(tmp_path: Path) -> None:
    """The state of a question that the server itself asked is the server's, also if it is a pipeline of ours."""
    async with open_desk(ASKS, store=tmp_path / "calls.db") as (desk, server):
        sent = {"inputResponses": {"question_1": {"action": "accept"}}, "requestState": "toolcall-x"}
        desk.send(call(1, "read_file", {"path": "x"}, _meta=MODERN_ABLE, **sent))
        params = (await server.next_call())["params"]
        assert {name: params[name] for name in sent} == sent


async def test_an_answer_with_an_id_of_ours_as_bytes(tmp_path: Path) -> None:
    """An answer that no parser reads does not pass, and leaves the call waiting."""
    async with open_asking(tmp_path, **ABLE) as (desk, server, _):
        question = await ask(desk, server, call(1, "pay", {"cents": 5}))
        desk.send(as_line(says(question, "accept", decision="approve"))[:-2] + b"]\n")
        assert kind_of(await desk.receive()) == "awaiting_approval"
