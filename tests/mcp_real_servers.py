"""``toolcall proxy`` in front of real servers of MCP. ``make test-mcp`` runs it; it installs them.

With ``--short`` in the variable TOOLCALL_MCP only the servers in Python. ``python tests/mcp_real_servers.py`` prints
the table of bad calls.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from cli_desk import until
from mcp_wire import open_wire, text_of

BIN = Path(sys.executable).parent
NODE = BIN.parent / "node_modules" / ".bin"
HELPERS = Path(__file__).parent / "support"
ROOMS = tempfile.mkdtemp(prefix="toolcall-mcp-")
SERVERS: Mapping[str, list[str]] = {
    "time": [str(BIN / "mcp-server-time")],
    "git": [str(BIN / "mcp-server-git")],
    "fetch": [str(BIN / "mcp-server-fetch")],
    "everything": [str(NODE / "mcp-server-everything")],
    "filesystem": [str(NODE / "mcp-server-filesystem"), ROOMS],
    "memory": [str(NODE / "mcp-server-memory")],
    "sequential-thinking": [str(NODE / "mcp-server-sequential-thinking")],
}
PROXY = [sys.executable, "-m", "toolcall_pipeline", "proxy"]
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping", "no/such/method")
needs_npm = pytest.mark.skipif("--short" in os.environ.get("TOOLCALL_MCP", ""), reason="the short form")
NPM = {"everything", "filesystem", "memory", "sequential-thinking"}
every_server = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_npm if name in NPM else ()) for name in SERVERS]
)
NOTE = str(Path(ROOMS) / "note.txt")
Path(NOTE).write_text("first\nsecond\n")
UTC = "Etc/UTC"
TIME = {"source_timezone": UTC, "time": "16:30", "target_timezone": "Asia/Tokyo"}

# what a model sends, and what it is to get through the proxy: a kind, or a part of the answer
BAD_CALLS: list[tuple[str, str, str, object, str]] = [
    ("time", "wrong name", "get_curent_time", {"timezone": UTC}, "unknown_tool"),
    ("time", "name in camel case", "getCurrentTime", {"timezone": UTC}, "datetime"),
    ("time", "arguments as JSON text", "get_current_time", '{"timezone": "Etc/UTC"}', "datetime"),
    ("time", "missing parameter", "convert_time", {"time": "16:30"}, "validation"),
    ("git", "number as text", "git_log", {"repo_path": "{repo}", "max_count": "1"}, "Commit"),
    ("git", "null for an optional parameter", "git_log", {"repo_path": "{repo}", "max_count": None}, "Commit"),
    ("git", "JSON text for an array", "git_add", {"repo_path": "{repo}", "files": '["a.txt"]'}, "staged"),
    ("fetch", "number as text", "fetch", {"url": "http://127.0.0.1:9/", "max_length": "many"}, "validation"),
    ("filesystem", "wrong name", "read_txt_file", {"path": NOTE}, "unknown_tool"),
    ("filesystem", "name in camel case", "readTextFile", {"path": NOTE}, "first"),
    ("filesystem", "JSON text for an array", "read_multiple_files", {"paths": json.dumps([NOTE])}, "first"),
    ("filesystem", "null for an optional parameter", "read_text_file", {"path": NOTE, "head": None}, "second"),
    ("filesystem", "number as text", "read_text_file", {"path": NOTE, "head": "1"}, "first"),
    ("filesystem", "missing parameter", "read_text_file", {}, "validation"),
    ("everything", "number as text", "get-sum", {"a": "1", "b": 2}, "3"),
    ("memory", "name in camel case", "readGraph", {}, "entities"),
    (
        "sequential-thinking",
        "name of the server",
        "sequential-thinking",
        {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtHistoryLength",
    ),
    (
        "sequential-thinking",
        "name with its server",
        "sequential-thinking__sequentialthinking",
        {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "Did you mean: sequentialthinking?",
    ),
]


def make_repo() -> str:
    """A repository with one commit and one new file."""
    repo = Path(tempfile.mkdtemp(dir=ROOMS))
    git = partial(subprocess.run, cwd=repo, check=True, capture_output=True)
    git(["git", "init", "--quiet"])
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    git(["git", *who, "commit", "--quiet", "--allow-empty", "--message", "one"])
    (repo / "a.txt").write_text("a")
    return str(repo)


def play(command: list[str], name: str, arguments: object) -> Any:
    """The answer of a fresh server to one call."""
    if '"{repo}"' in (text := json.dumps(arguments)):
        arguments = json.loads(text.replace("{repo}", make_repo()))
    with open_wire(command) as wire:
        wire.greet()
        return wire.call(name, arguments)


@every_server
def test_lists_are_equal_byte_for_byte(name: str) -> None:
    """The greeting and all lists are the same bytes with and without the proxy."""

    def listing(command: list[str]) -> list[bytes]:
        with open_wire(command) as wire:
            return [wire.greet(), *(wire.ask(method) for method in LISTS)]

    assert listing(SERVERS[name]) == listing([*PROXY, "--", *SERVERS[name]])


@pytest.mark.parametrize(
    ("server", "what", "name", "arguments", "expected"),
    [pytest.param(*case, marks=needs_npm if case[0] in NPM else ()) for case in BAD_CALLS],
    ids=[f"{case[0]}: {case[1]}" for case in BAD_CALLS],
)
def test_bad_calls_get_what_was_meant_or_the_reason(
    server: str, what: str, name: str, arguments: object, expected: str
) -> None:
    """Each mistake of the table is repaired, or told with what is wrong."""
    answer = play([*PROXY, "--", *SERVERS[server]], name, arguments)
    kind = answer["result"].get("_meta", {}).get("toolcall/kind", "")
    assert expected in (f"{kind} {text_of(answer)}")


@pytest.mark.parametrize(("options", "expected"), [([], "outcome_unknown"), (["--trust-annotations"], "")])
@pytest.mark.parametrize("server", ["time", pytest.param("filesystem", marks=needs_npm)])
def test_a_server_that_is_killed_in_a_call(server: str, options: list[str], expected: str) -> None:
    """A lost read is repeated if the annotations are trusted. If they are not it is lost, and so is an equal call."""
    calls = {"time": ("get_current_time", {"timezone": UTC}), "filesystem": ("read_text_file", {"path": NOTE})}
    stopper = HELPERS / "mcp_stopper.py"
    with open_wire([*PROXY, *options, "--", sys.executable, str(stopper), *SERVERS[server]]) as wire:
        wire.greet()
        wire.ask("tools/list")
        name, arguments = calls[server]
        answer = wire.call(name, arguments)
        assert expected == answer["result"].get("_meta", {}).get("toolcall/kind", "")
        again = wire.call(name, arguments)
        assert expected == again["result"].get("_meta", {}).get("toolcall/kind", "")


@needs_npm
def test_sampling_elicitation_and_progress_pass() -> None:
    """What the server asks the client passes both ways, and so does progress."""
    with open_wire([*PROXY, "--", *SERVERS["everything"]]) as wire:
        wire.greet(sampling={}, elicitation={}, roots={})
        listed = json.loads(wire.ask("tools/list"))["result"]["tools"]
        assert "trigger-sampling-request" in {each["name"] for each in listed}
        wire.number += 1
        params = {"name": "trigger-sampling-request", "arguments": {"prompt": "hi", "maxTokens": 5}}
        wire.send({"jsonrpc": "2.0", "id": wire.number, "method": "tools/call", "params": params})
        while True:
            _, message = wire.read()
            if message.get("method") == "sampling/createMessage":
                said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "the model's words"}}
                wire.send({"jsonrpc": "2.0", "id": message["id"], "result": said})
            elif message.get("method") == "roots/list":
                wire.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})
            elif message.get("id") == wire.number:
                assert "the model's words" in text_of(message)
                break
        wire.notes.clear()
        wire.call("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, _meta={"progressToken": "p"})
        steps = [each["params"]["progress"] for each in wire.notes if each["method"] == "notifications/progress"]
        assert steps == [1, 2]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", ["time", pytest.param("filesystem", marks=needs_npm)])
def test_the_client_of_the_sdk(name: str, mode: str) -> None:
    """The official client gets equal lists through the proxy, in both eras, and 200 calls at once are paired."""

    async def use(command: list[str], calls: int) -> tuple[Any, list[Any]]:
        client = import_module("mcp.client.client").Client
        parameters = import_module("mcp.client.stdio").StdioServerParameters(command=command[0], args=command[1:])
        found: list[Any] = [None] * calls
        async with client(parameters, mode=mode) as session:
            listed = (await session.list_tools()).model_dump_json()

            async def one(number: int) -> None:
                zone = f"Etc/GMT-{number % 14}"
                arguments = {"timezone": zone} if name == "time" else {"path": NOTE, "head": 1}
                tool = "get_current_time" if name == "time" else "read_text_file"
                result = await session.call_tool(tool, arguments)
                text: str = result.content[0].text
                found[number] = zone in text if name == "time" else text.startswith("first")

            async with anyio.create_task_group() as group:
                for number in range(calls):
                    group.start_soon(one, number)
        return listed, found

    before, _ = anyio.run(use, SERVERS[name], 1)
    after, found = anyio.run(use, [*PROXY, "--", *SERVERS[name]], 200)
    assert before == after
    assert found == [True] * 200


@needs_npm
@every_server
def test_lists_through_the_sdk_without_a_handshake(name: str) -> None:
    """The official client, in the newest era that the server speaks, gets equal lists and an equal greeting."""

    async def listing(command: list[str]) -> tuple[Any, ...]:
        client = import_module("mcp.client.client").Client
        parameters = import_module("mcp.client.stdio").StdioServerParameters(command=command[0], args=command[1:])
        async with client(parameters) as session:
            return session.protocol_version, (await session.list_tools()).model_dump_json()

    assert anyio.run(listing, SERVERS[name]) == anyio.run(listing, [*PROXY, "--", *SERVERS[name]])


def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    """A server made with the SDK hears of a cancellation through the proxy, and the call gets no answer."""
    with open_wire([*PROXY, "--", sys.executable, str(HELPERS / "mcp_changing_server.py")]) as wire:
        wire.greet()
        wire.ask("tools/list")
        params: dict[str, Any] = {"name": "hang", "arguments": {}}
        request = {"jsonrpc": "2.0", "id": "h", "method": "tools/call", "params": params}
        wire.send(request)
        wire.call("pid")  # begun after it, on the same server
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "h"}})
        until(lambda: "hang" in text_of(wire.call("list_cancelled")), 30)
        assert "h" not in [note.get("id") for note in wire.notes if note]


@needs_npm
@every_server
def test_the_inspector(name: str) -> None:
    """The Inspector, which takes ``--`` for itself, prints the same list with and without the proxy."""

    def listing(command: list[str]) -> str:
        inspector = [str(NODE / "mcp-inspector"), "--cli", *command, "--method", "tools/list"]
        return subprocess.run(inspector, check=True, capture_output=True, text=True, timeout=120).stdout

    assert listing(SERVERS[name]) == listing([str(BIN / "toolcall"), "proxy", *SERVERS[name]])


@contextmanager
def serve_http(port: int) -> Generator[subprocess.Popen[bytes]]:
    """A server over HTTP that answers."""
    with subprocess.Popen([sys.executable, str(HELPERS / "mcp_http_server.py"), str(port)]) as process:
        until(lambda: _answers(port), 60)
        try:
            yield process
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_over_http_comes_back() -> None:
    """Through ``--url`` names and arguments are repaired, and a server that was away is greeted again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with serve_http(port), open_wire([*PROXY, "--url", f"http://127.0.0.1:{port}/mcp"]) as wire:
        wire.greet()
        assert text_of(wire.call("Add", {"a": "1", "b": 2})) == "3"
        first = text_of(wire.call("pid"))
        with ExitStack() as stack:
            os.kill(int(first), signal.SIGKILL)
            until(lambda: not _answers(port))
            answer = wire.call("pid")
            assert answer["result"]["_meta"]["toolcall/kind"] in ("outcome_unknown", "unavailable")
            stack.enter_context(serve_http(port))
            until(lambda: text_of(wire.call("Add", {"a": "1", "b": 2})) == "3", 60)
            again = wire.call("pid")  # it may have run: an equal one does not, until somebody has looked
            assert text_of(again).isdigit() or again["result"]["_meta"]["toolcall/kind"] == "outcome_unknown"


def print_table() -> None:
    """Print what a model is told before and after."""
    print("| server | what the model sends | without the proxy | through the proxy |\n|---|---|---|---|")
    for server, what, name, arguments, _ in BAD_CALLS:
        commands = SERVERS[server], [*PROXY, "--", *SERVERS[server]]
        cells = [" ".join(text_of(play(command, name, arguments)).split())[:150] for command in commands]
        print(f"| {server} | {what}: `{name}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    print_table()
