"""Several servers behind one FastMCP server, with one pipeline. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp.types import ToolListChangedNotification

from toolcall_pipeline import Approvals, Switchboard
from toolcall_pipeline.hosts import gateway
from toolcall_pipeline.hosts.gateway import make_gateway
from toolcall_pipeline.middlewares import Policy
from toolcall_pipeline.policies import PolicyRule, RelayPolicy, RuleSet
from toolcall_pipeline.policies.relay_policy import ToolPolicy
from toolcall_pipeline.stores import SQLite

SERVER = Path(__file__).parent / "support" / "fake_mcp_server.py"
HTTP_SERVER = """
import os, sys
from fastmcp import Context, FastMCP
server = FastMCP("remote")

@server.tool
async def order(ctx: Context) -> str:
    return str((await ctx.elicit("How many?", response_type=int)).data)

@server.tool
def greet(who: str) -> str:
    return f"Hello {who}"

@server.tool
def die() -> str:
    os._exit(1)

server.run(transport=sys.argv[2], port=int(sys.argv[1]), show_banner=False)
"""


@pytest.fixture
def anyio_backend() -> str:
    """FastMCP runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away is tried again at each call, and FastMCP writes no stack traces."""
    monkeypatch.setattr(gateway, "_FIRST_REST", 0.0)
    monkeypatch.setattr(logging.getLogger("fastmcp"), "level", logging.CRITICAL)


def local(mode: str, server: Path = SERVER, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", str(server), mode], **more}


def servers(folder: Path, *names: str, **more: dict[str, Any]) -> dict[str, Any]:
    """Local servers that write down their calls of ``write``, each in a file of its own name."""
    return {"mcpServers": {**{each: local(f"log:{folder / each}") for each in names}, **more}}


async def ask(client: Client[Any], name: str, **arguments: Any) -> Any:
    return await client.call_tool(name, arguments, raise_on_error=False)


def text(result: Any) -> str:
    return str(result.content[0].text)


def kind(result: Any) -> Any:
    return (result.meta or {}).get("toolcall/kind")


def written(folder: Path, name: str) -> list[str]:
    file = folder / name
    return file.read_text().split() if file.exists() else []


async def names(client: Client[Any]) -> set[str]:
    return {tool.name for tool in await client.list_tools()}


async def until(client: Client[Any], name: str, *, listed: bool) -> None:
    """Wait until a switch has reached the gateway, which asks the store several times a second."""
    with anyio.fail_after(60):
        while (name in await names(client)) is not listed:  # noqa: ASYNC110  # a client can only ask
            await anyio.sleep(0.05)


async def test_names_that_meet_are_told_apart_by_their_servers(tmp_path: Path) -> None:
    """Three servers with the same tools: each is called PREFIX_NAME, and a repaired call runs at its own server."""
    config = servers(tmp_path, "one", "two", **{"The third": local(f"log:{tmp_path / 'three'}")})
    async with Client(make_gateway(config)) as client:
        prefixes = ("one", "two", "The_third")
        assert await names(client) == {f"{each}_{tool}" for each in prefixes for tool in ("echo", "write")}
        assert json.loads(text(await ask(client, "oneWrite", n="1")))["n"] == 1
        await ask(client, "The_third_write", n=3)
        assert "Did you mean" in text(await ask(client, "write", n=3))
        assert kind(await ask(client, "two_write", n="many")) == "validation"
    assert [written(tmp_path, each) for each in ("one", "two", "three")] == [["1"], [], ["3"]]


async def test_one_server_and_one_of_several_may_keep_their_names(tmp_path: Path) -> None:
    """A single server has no prefix; of several one may say that it has none, and another which it has."""
    async with Client(make_gateway(servers(tmp_path, "one"))) as client:
        assert await names(client) == {"echo", "write"}
    config = servers(tmp_path, one=local("good", prefix=""), two=local("good", prefix="second"))
    async with Client(make_gateway(config)) as client:
        assert await names(client) == {"echo", "write", "second_echo", "second_write"}
        assert not (await ask(client, "echo", n=1)).is_error


async def test_a_call_whose_server_was_killed_is_never_made_twice(tmp_path: Path) -> None:
    """It may have taken effect: the model reads so, an equal call is refused, another one runs, and so do others."""
    async with Client(make_gateway(servers(tmp_path, "one", "two"))) as client:
        for _ in range(2):
            lost = await ask(client, "one_write", n=1, text="die")
            assert kind(lost) == "outcome_unknown"
            assert "onnection" not in text(lost)
        assert not (await ask(client, "one_write", n=2)).is_error
        assert not (await ask(client, "two_write", n=1)).is_error
    assert written(tmp_path, "one") == ["1", "2"]


async def test_a_read_whose_server_was_killed_is_repeated(tmp_path: Path) -> None:
    """What the operator or a trusted server calls a read runs again; if it is lost each time, it may pass."""
    policy = RelayPolicy(tools={"two_echo": ToolPolicy(effect="read")})
    for trust, tool in ((True, "one_echo"), (False, "two_echo")):
        async with Client(
            make_gateway(servers(tmp_path, "one", "two"), policy=policy, trust_annotations=trust)
        ) as client:
            once = await ask(client, tool, text=f"once:{tmp_path / tool}")
            assert not once.is_error
            lost = await ask(client, tool, text="die")
            assert kind(lost) == "transient"
            assert "onnection closed" not in text(lost)


async def test_annotations_are_not_believed(tmp_path: Path) -> None:
    """A server calls its tool a read: nobody has said that it is to be trusted, so a lost call is not repeated."""
    async with Client(make_gateway(servers(tmp_path, "one"))) as client:
        assert kind(await ask(client, "echo", text=f"once:{tmp_path / 'died'}")) == "outcome_unknown"


async def test_a_server_that_is_away_closes_its_own_tools_alone(tmp_path: Path) -> None:
    """The others are listed and work; its own are unavailable, and are there again with it, which the client hears."""
    late, told = tmp_path / "late.py", anyio.Event()

    async def listen(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    config = servers(tmp_path, "one", late=local("good", late), gone={"command": str(tmp_path / "no")})
    async with Client(make_gateway(config), message_handler=listen, mode="legacy") as client:
        assert await names(client) == {"one_echo", "one_write"}
        for tool in ("late_echo", "gone_echo"):
            away = await ask(client, tool, n=1)
            assert (kind(away), text(away)) == (
                "unavailable",
                "Error: The server of this tool is not connected. Try again later.",
            )
        assert not (await ask(client, "one_echo", n=1)).is_error
        assert kind(await ask(client, "one_ecko_x", n=1)) == "unknown_tool"

        shutil.copy(SERVER, late)
        assert not (await ask(client, "late_echo", n=1)).is_error
        with anyio.fail_after(60):
            await told.wait()
        assert await names(client) == {"one_echo", "one_write", "late_echo", "late_write"}

        late.unlink()  # it dies in a call, and cannot be started again
        assert kind(await ask(client, "late_write", n=1, text="die")) == "outcome_unknown"
        assert kind(await ask(client, "late_write", n=2)) == "unavailable"
        assert await names(client) == {"one_echo", "one_write"}
        shutil.copy(SERVER, late)
        assert not (await ask(client, "late_write", n=2)).is_error


async def test_a_server_that_rests_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is tried again its tools are closed without another try; then the first call finds it."""
    monkeypatch.setattr(gateway, "_FIRST_REST", 1_000.0)
    late = tmp_path / "late.py"
    async with Client(make_gateway(servers(tmp_path, "one", late=local("good", late)))) as client:
        assert kind(await ask(client, "late_echo", n=1)) == "unavailable"
        shutil.copy(SERVER, late)
        assert kind(await ask(client, "late_echo", n=1)) == "unavailable"
        assert await names(client) == {"one_echo", "one_write"}


async def test_policy_and_configuration_hide_and_rename_tools(tmp_path: Path) -> None:
    """What a policy lets nobody call, and what is not enabled, is not listed and does not run; a new name counts."""
    file = tmp_path / "policy.toml"
    file.write_text(
        """
        [[rules]]
        tool = "one_write"
        action = "deny"
        [[rules]]
        tool = "three_*"
        arguments = {required = ["text"]}
        action = "deny"
        message = "No texts."
        [tools.two_write]
        closed = true
        """
    )
    shown: dict[str, Any] = {"echo": {"name": "say"}, "write": {"enabled": False}}
    config = servers(tmp_path, "one", "two", three=local("good", tools=shown))
    async with Client(make_gateway(config, policy=file)) as client:
        assert await names(client) == {"one_echo", "two_echo", "three_say"}
        assert kind(await ask(client, "one_write", n=1)) == "permission"
        assert text(await ask(client, "two_write", n=1)) == "This tool is not available"
        assert kind(await ask(client, "three_write", n=1)) == "unknown_tool"
        assert kind(await ask(client, "three_echo", n=1)) == "unknown_tool"
        assert not (await ask(client, "three_say", n=1)).is_error
        assert "No texts." in text(await ask(client, "three_say", text="a"))
    assert written(tmp_path, "one") == written(tmp_path, "two") == []


async def test_a_policy_for_a_tool_that_no_server_has_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once all servers have been there: a name without its prefix would guard nothing in silence."""
    policy = RelayPolicy(tools={"write": ToolPolicy(closed=True), "one_echo": ToolPolicy(verify_with="one_write")})
    async with Client(make_gateway(servers(tmp_path, "one", "two"), policy=policy)) as client:
        for _ in range(2):
            await names(client)
    assert [each.getMessage() for each in caplog.records if "policy names" in each.getMessage()] == [
        "the policy names a tool that the server does not have: write"
    ]


async def test_a_person_approves_and_the_repeated_call_runs(tmp_path: Path) -> None:
    """One store for all: a call waits, is approved, runs once when it is repeated, and the next one waits again."""
    file, store = tmp_path / "policy.toml", tmp_path / "calls.db"
    file.write_text('[[rules]]\ntool = "*_write"\naction = "approve"\n')
    server = make_gateway(
        servers(tmp_path, "one", "two"), policy=file, store=SQLite(store), conversation=lambda _: "c1"
    )
    async with Client(server) as client:
        for name in ("one", "two"):
            assert kind(await ask(client, f"{name}_write", n=1)) == "awaiting_approval"
        assert written(tmp_path, "one") == []
        async with Approvals(SQLite(store)) as approvals:
            waiting = {record.tool: record.id for record in await approvals.pending()}
            assert set(waiting) == {"one_write", "two_write"}
            await approvals.approve(waiting["one_write"], by="Ada")
            await approvals.reject(waiting["two_write"], by="Ada", message="Not now.")
        assert not (await ask(client, "one_write", n=1)).is_error
        assert "Not now." in text(await ask(client, "two_write", n=1))
        assert kind(await ask(client, "one_write", n=1)) == "awaiting_approval"
    assert written(tmp_path, "one") == ["1"]
    assert written(tmp_path, "two") == []


async def test_an_operator_pauses_a_tool_of_one_server(tmp_path: Path) -> None:
    """A switch in the store closes it for the gateway's clients and takes it off the list, until it is taken back."""
    path = tmp_path / "calls.db"
    gateway = make_gateway(servers(tmp_path, "one", "two"), store=SQLite(path))
    async with Client(gateway) as client, Switchboard(SQLite(path)) as board:
        await ask(client, "one_write", n=1)
        await board.pause("one_write", by="ann", why="wrong amounts")
        await until(client, "one_write", listed=False)
        assert text(await ask(client, "one_write", n=2)) == "This tool is not available"
        await ask(client, "two_write", n=3)
        await board.resume("one_write", by="ann")
        await until(client, "one_write", listed=True)
        await ask(client, "one_write", n=4)
    assert [written(tmp_path, each) for each in ("one", "two")] == [["1", "4"], ["3"]]


async def test_one_journal_has_the_calls_of_all_servers(tmp_path: Path) -> None:
    """Also those that were refused because a server is away."""
    journal = tmp_path / "journal.db"
    config = servers(tmp_path, "one", "two", gone={"command": str(tmp_path / "no")})
    async with Client(make_gateway(config, journal=journal)) as client:
        for tool in ("one_echo", "two_echo", "gone_echo"):
            await ask(client, tool, n=1)
    with sqlite3.connect(journal) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(calls)")]
        assert "tool" in columns, columns
        assert {row[0] for row in db.execute("SELECT tool FROM calls")} == {"one_echo", "two_echo", "gone_echo"}


async def test_tools_that_a_server_adds_and_removes_are_followed(tmp_path: Path) -> None:
    """After the list is asked for again a new tool runs, and a removed one is no tool any more."""
    async with Client(make_gateway(servers(tmp_path, "one", "two"))) as client:
        assert "one_extra" not in await names(client)
        (tmp_path / "one.tools").write_text("extra")
        assert "one_extra" in await names(client)
        assert not (await ask(client, "one_extra", n="1")).is_error
        (tmp_path / "one.tools").write_text("")
        assert "one_extra" not in await names(client)
        assert kind(await ask(client, "one_extra", n=1)) == "unknown_tool"


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def remote(folder: Path, transport: str, port: int) -> AsyncGenerator[None]:
    """A server over HTTP that answers, in a process of its own."""
    program = folder / "remote.py"
    program.write_text(HTTP_SERVER)
    command = [sys.executable, str(program), str(port), transport]
    async with await anyio.open_process(command, stdout=None, stderr=subprocess.DEVNULL) as process:
        try:
            with anyio.fail_after(120):
                while True:
                    with suppress(OSError):
                        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                        break
                    await anyio.sleep(0.05)
            yield
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@pytest.mark.parametrize(("transport", "path"), [("http", "/mcp"), ("sse", "/sse")])
async def test_a_remote_server_that_dies_and_comes_back(tmp_path: Path, transport: str, path: str) -> None:
    """Over HTTP and SSE: a lost call is told as lost, the tools are closed while it is away, and come back with it."""
    port = find_port()
    config = servers(tmp_path, "one", far={"url": f"http://127.0.0.1:{port}{path}", "headers": {"X-Who": "me"}})
    async with Client(make_gateway(config)) as client:
        assert kind(await ask(client, "far_greet", who="a")) == "unavailable"
        async with remote(tmp_path, transport, port):
            assert text(await ask(client, "farGreet", who="a")) == "Hello a"
            lost = await ask(client, "far_die")
            assert kind(lost) == "outcome_unknown"
        assert kind(await ask(client, "far_greet", who="a")) == "unavailable"
        assert not (await ask(client, "one_echo", n=1)).is_error
        async with remote(tmp_path, transport, port):
            assert text(await ask(client, "far_greet", who="a")) == "Hello a"


async def test_what_a_remote_server_asks_reaches_the_client(tmp_path: Path) -> None:
    """A client with a handshake is asked by a server with a ``url``, through a connection of its own."""
    port = find_port()
    config = servers(tmp_path, "one", far={"url": f"http://127.0.0.1:{port}/mcp"})

    async def answer(*_: Any) -> Any:
        return {"value": 3}

    client = Client(make_gateway(config), mode="legacy", elicitation_handler=answer)
    async with remote(tmp_path, "http", port), client:
        assert text(await ask(client, "far_order")) == "3"


def wait_for_end(pid: int) -> None:
    """Wait for a process of another one's: only its parent would be told of its end."""
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_the_command_serves_one_client_and_leaves_no_process(tmp_path: Path) -> None:
    """``toolcall gateway``: a call runs, the servers end with the client, and the store has what is undecided."""
    config, store = tmp_path / "servers.json", tmp_path / "calls.db"
    config.write_text(json.dumps(servers(tmp_path, "one", "two")))
    command = ["-m", "toolcall_pipeline", "gateway", str(config), "--store", str(store)]
    transport = StdioTransport(sys.executable, command, cwd=str(Path(__file__).parent.parent))
    async with Client(transport) as client:
        pid = json.loads(text(await ask(client, "one_echo", n="1")))["pid"]
        assert kind(await ask(client, "two_write", n=1, text="die")) == "outcome_unknown"
    await transport.disconnect()
    wait_for_end(pid)
    assert store.exists()


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    """A wrong configuration ends it with 2 and its place; FastMCP's own options are checked as well."""
    for entry, told in (
        ({"comand": "x"}, "give either `command` or `url`"),
        ({"command": "x", "tools": {"a": {"nme": "b"}}}, "nme"),
    ):
        config = tmp_path / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"one": entry}}))
        command = [sys.executable, "-m", "toolcall_pipeline", "gateway", str(config)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert f"{config}: mcpServers.one" in ended.stderr
        assert told in ended.stderr


async def test_rules_that_are_read_again_hide_what_they_deny_now(tmp_path: Path) -> None:
    """Rules from code and from a file that is read again are those of `standard`; the list follows them."""
    rules = RuleSet((PolicyRule("deny", tool="*_write"),))
    file = tmp_path / "policy.toml"
    file.write_text('[[rules]]\ntool = "*_write"\naction = "deny"\n')
    for policy in (rules, Policy(file, reload=True)):
        async with Client(make_gateway(servers(tmp_path, "one", "two"), policy=policy)) as client:
            assert await names(client) == {"one_echo", "two_echo"}
            assert kind(await ask(client, "two_write", n=1)) == "permission"
