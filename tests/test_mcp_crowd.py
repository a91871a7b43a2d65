"""The relay, in whatever order calls, answers, cancellations and deaths come: one answer a call, and no call twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_desk import TOOLS, Desk, ScriptedServer, call, open_desk, result
from support import PATIENT
from toolcall_pipeline.base import timing
from toolcall_pipeline.policies.relay_policy import RelayPolicy

STEPS = ("call", "read", "cancel", "answer", "answer twice", "garbage", "die", "deaf", "half", "batch")
HELLO = {"jsonrpc": "2.0", "method": "hello"}


class Crowd:
    """A client and a server that do what the steps say. The server answers the list of tools at once."""

    def __init__(self, desk: Desk, server: ScriptedServer) -> None:
        self.desk, self.server = desk, server
        self.number = 0
        self.asked: list[int] = []  # ids of the calls of the client
        self.cancelled: set[int] = set()
        self.made: Counter[int] = Counter()  # how often each payment reached a server
        self.open: list[dict[str, Any]] = []  # what the server has not answered
        self.done: set[int | None] = set()  # the payments that a server answered
        self.answers: dict[int, list[Any]] = {}

    async def serve(self) -> None:
        """Take what reaches each run of the server."""
        async with anyio.create_task_group() as group:
            while True:
                group.start_soon(self.take, self.server)
                self.server = await self.desk.next_server()
                self.server.say(HELLO)
                self.open = []

    async def take(self, server: ScriptedServer) -> None:
        while True:
            request = json.loads(await server.received.receive())
            if request.get("method") == "tools/list" and not server.dead:
                server.say({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": TOOLS}})
            elif request.get("method") == "tools/call":
                if request["params"]["name"] == "pay":
                    self.made[request["params"]["arguments"]["cents"]] += 1
                if server is self.server:
                    self.open.append(request)

    async def hear(self) -> None:
        """Take what the client gets."""
        while (line := await self.desk.replies.read()) is not None:
            assert isinstance(line, bytes)
            found: Any = json.loads(line)
            for each in cast("list[Any]", found) if isinstance(found, list) else [found]:
                if "method" not in each:
                    self.answers.setdefault(each["id"], []).append(each)

    def make_call(self, name: str) -> dict[str, Any]:
        self.number += 1
        self.asked.append(self.number)
        return call(self.number, name, {"cents": self.number} if name == "pay" else {"path": "x"})

    def do(self, step: str) -> None:  # a table
        server = self.server
        request = self.open[0] if self.open and not server.dead else None
        match step:
            case "call":
                self.desk.send(self.make_call("pay"))
            case "read":
                self.desk.send(self.make_call("read_file"))
            case "batch":
                self.desk.send([self.make_call("pay"), self.make_call("read_file")])
            case "cancel" if self.asked:
                self.cancelled.add(self.asked[-1])
                told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self.asked[-1]}}
                self.desk.send(told)
            case "die" | "deaf" if not server.dead and not server.deaf:
                if step == "deaf":
                    server.deaf = True
                else:
                    server.die()
            case "half" if request is not None:
                server.say(json.dumps(result(request)).encode()[:40])
                server.die()
            case "garbage" if request is not None:
                server.say(b'{"id":"%s","result":{,}}\n' % self.open.pop(0)["id"].encode())
            case "answer" | "answer twice" if request is not None:
                self.answer(self.open.pop(0), times=1 + (step == "answer twice"))
            case _:
                pass

    def answer(self, request: dict[str, Any], times: int = 1) -> None:
        """Let the server answer a call."""
        for _ in range(times):
            self.server.say(result(request))
        self.done.add(request["params"]["arguments"].get("cents"))

    def is_done(self) -> bool:
        """Whether each call that was not cancelled has its answer. What the server still holds, it answers."""
        while self.open and not self.server.dead:
            self.answer(self.open.pop(0))
        return set(self.asked) - self.cancelled <= self.answers.keys()


async def play(steps: list[tuple[str, int]]) -> Crowd:
    """Let the steps happen, each after the relay had some turns of the event loop."""
    policy = RelayPolicy(trust_annotations=True)
    crowd: Crowd | None = None
    async with open_desk(policy) as (desk, server), anyio.create_task_group() as group:
        crowd = Crowd(desk, server)
        server.say(HELLO)  # one that ends without a word is not started again
        group.start_soon(crowd.serve)
        group.start_soon(crowd.hear)
        for step, turns in steps:
            crowd.do(step)
            await take_turns(turns)
        with anyio.fail_after(PATIENT):
            while not crowd.is_done():  # of what goes through pipes
                await anyio.lowlevel.checkpoint()
        await take_turns(50)  # for an answer too many
        group.cancel_scope.cancel()
    assert crowd is not None
    return crowd


async def take_turns(turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()


async def sleep_short(_seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([0, 1, 3, 10, 40])), max_size=25))
def test_each_call_is_answered_once_and_none_is_made_twice(steps: list[tuple[str, int]]) -> None:
    """However a server dies and whatever it says, in whatever order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "sleep", sleep_short)
        crowd = anyio.run(play, steps)
    assert {1} >= {len(crowd.answers.get(each, [])) for each in set(crowd.asked) - crowd.cancelled}
    assert all(len(found) == 1 for found in crowd.answers.values())
    assert all(count == 1 for count in crowd.made.values())
    told = {number for number, found in crowd.answers.items() if not found[0]["result"].get("isError")}
    assert told & crowd.made.keys() == (crowd.done & crowd.answers.keys())
