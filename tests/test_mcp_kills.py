"""A server that is killed in a call: who says what about the tool decides whether the call is made again."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mcp_desk import ScriptedServer, call, open_desk, result
from toolcall_pipeline import Effect
from toolcall_pipeline.policies.relay_policy import RelayPolicy, ToolPolicy

pytestmark = pytest.mark.long  # each test starts processes

HINTS: dict[str, dict[str, bool]] = {
    "none": {},
    "read": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True, "destructiveHint": True},
    "both": {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": True},
    "neither": {"readOnlyHint": False, "idempotentHint": False},
}
SAID: tuple[Effect | None, ...] = (None, "read", "idempotent", "mutating")


async def next_of_client(server: ScriptedServer, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """What comes after the greeting and the list, which the relay asks for itself."""
    while (request := await server.next())["method"] not in ("tools/call", "ping"):
        if "id" in request:
            server.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": tools}})
    return request


CASES: list[tuple[str, bool, Effect | None, int, int | None]] = [
    *((hints, True, said, 3, None) for hints, said in product(HINTS, SAID)),
    *((hints, False, said, 3, None) for hints, said in product(("none", "both"), SAID)),
    ("read", True, None, 1, None),
    ("none", False, "idempotent", 1, None),
    ("read", True, None, 3, 1),
    ("none", False, "read", 1, 2),
]


@pytest.mark.parametrize(("hints", "trusted", "said", "of_all", "of_tool"), CASES)
async def test_a_call_is_made_again_only_if_somebody_who_counts_says_so(
    hints: str, trusted: bool, said: Effect | None, of_all: int, of_tool: int | None
) -> None:
    """The operator, or a server that is trusted; within the attempts for all tools, or for this one."""
    policy = RelayPolicy(
        trust_annotations=trusted, attempts=of_all, tools={"do": ToolPolicy(effect=said, attempts=of_tool)}
    )
    tools: list[dict[str, Any]] = [{"name": "do", "inputSchema": {"type": "object"}, "annotations": HINTS[hints]}]
    is_safe = said in ("read", "idempotent") if said else trusted and hints in ("read", "idempotent", "both")
    async with open_desk(policy) as (desk, server):
        await desk.greet(server)
        desk.send(call(1, "do"))
        await server.list_tools(tools)
        assert (await server.next())["params"]["name"] == "do"
        server.die()
        second = await desk.next_server()
        if is_safe and (of_tool or of_all) > 1:
            request = await next_of_client(second, tools)
            assert (request["method"], request["params"]["name"]) == ("tools/call", "do")
            second.say(result(request))
            assert "_meta" not in (await desk.receive())["result"]
        else:
            told = (await desk.receive())["result"]["_meta"]["toolcall/kind"]
            assert told == ("transient" if is_safe else "outcome_unknown")
            desk.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
            assert (await next_of_client(second, tools))["method"] == "ping"
