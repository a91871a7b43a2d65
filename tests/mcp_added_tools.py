"""The tools of real servers of MCP in a registry. ``make test-mcp`` runs it, where the package mcp is.

With ``--short`` in the variable TOOLCALL_MCP on asyncio alone, and without the servers of npm.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from benchmarks.scale.servers import HOST, hold_port
from scripted_mcp import add
from support import PATIENT
from toolcall_pipeline import Call, Outcome, SetupError, ToolRegistry
from toolcall_pipeline.mcp import add_server
from toolcall_pipeline.mcp.sdk_session import connect_sdk
from toolcall_pipeline.mcp.server_session import ServerSession
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.telemetry import Events
from toolcall_pipeline.testing import FakeClock

BIN = Path(sys.executable).parent
NODE = BIN.parent / "node_modules" / ".bin"
ROOM = tempfile.mkdtemp(prefix="toolcall-mcp-")
HERE = Path(__file__).parent
CHANGING = [sys.executable, str(HERE / "support" / "mcp_changing_server.py")]
SHORT = "--short" in os.environ.get("TOOLCALL_MCP", "")
both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])
pytestmark = pytest.mark.filterwarnings("default")  # those of the packages of others
UTC = "Etc/UTC"


@pytest.fixture(params=["asyncio"] if SHORT else ["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The short form has one event loop."""
    return str(request.param)


@pytest.fixture(scope="module")
def repo() -> Iterator[str]:
    """A repository with one commit."""
    with tempfile.TemporaryDirectory() as folder:
        git = partial(subprocess.run, cwd=folder, check=True, capture_output=True)
        git(["git", "init", "--quiet"])
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        git(["git", *who, "commit", "--quiet", "--allow-empty", "--message", "one"])
        yield folder


async def until(holds: Callable[[], object]) -> None:
    """Wait for a server."""
    with anyio.fail_after(PATIENT):
        while not holds():  # noqa: ASYNC110  # of a process
            await anyio.sleep(0.02)


def kind_of(outcome: Outcome) -> str:
    return outcome.failure().kind if isinstance(outcome, Failure) else "success"


def find_children() -> set[int]:
    """The processes that this one has started."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends
            found |= set(map(int, (task / "children").read_text().split()))
    return found


SERVERS = {
    "filesystem": [str(NODE / "mcp-server-filesystem"), ROOM],
    **{name: [str(NODE / f"mcp-server-{name}")] for name in ("everything", "memory", "sequential-thinking")},
    **{name: [str(BIN / f"mcp-server-{name}")] for name in ("time", "git", "fetch")},
}
NPM = {"everything", "filesystem", "memory", "sequential-thinking"}
THOUGHT = {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("everything", "get-sum", {"a": 1, "b": 2}, "success"),
    ("everything", "get-structured-content", {"location": "Chicago"}, "success"),
    ("filesystem", "read_text_file", {"path": f"{ROOM}/none.txt"}, "execution"),
    ("filesystem", "list_directory", {"path": ROOM}, "success"),
    ("memory", "read_graph", {}, "success"),
    ("sequential-thinking", "sequentialthinking", THOUGHT, "success"),
    ("time", "get_current_time", {"timezone": "Nowhere/X"}, "execution"),
    (
        "time",
        "convert_time",
        {"source_timezone": "Etc/UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"},
        "success",
    ),
    ("git", "git_log", {"repo_path": "{repo}", "max_count": 1}, "success"),
    ("git", "git_status", {"repo_path": "{repo}"}, "success"),
    ("git", "git_show", {"repo_path": "{repo}", "revision": "nonsense"}, "execution"),
    ("fetch", "fetch", {"url": "http://127.0.0.1:9/"}, "execution"),
]


@pytest.mark.parametrize(("server", "name", "arguments", "kind"), [c for c in CALLS if not SHORT or c[0] not in NPM])
async def test_results_are_those_of_the_server(
    server: str, name: str, arguments: dict[str, Any], kind: str, repo: str
) -> None:
    """Value or text, and whether it failed: the same as the client of the SDK gets. The list is the same too."""
    arguments = json.loads(json.dumps(arguments).replace("{repo}", repo))
    command = SERVERS[server]
    client_class: Any = import_module("mcp.client.client").Client
    parameters = import_module("mcp.client.stdio").StdioServerParameters(command=command[0], args=command[1:])
    async with client_class(parameters) as client:
        direct = await client.call_tool(name, arguments)
        listed = {each.name: each for each in (await client.list_tools()).tools}
    tools = ToolRegistry()
    async with add_server(tools, command, prefix="x_", text="tell"):
        outcome = await standard(tools).call(f"x_{name}", arguments)
        assert {f"x_{own}": each.input_schema for own, each in listed.items()} == {
            tool.name: tool.schema for tool in tools
        }
        assert [tool.description for tool in tools] == [each.description or "" for each in listed.values()]
    texts = [each.text for each in direct.content]
    assert direct.is_error is (kind != "success")
    assert kind_of(outcome) == kind
    if isinstance(outcome, Success):
        plain = texts[0] if len(texts) == 1 else texts
        assert outcome.unwrap() == (direct.structured_content if listed[name].output_schema else plain)
    else:
        assert str(getattr(outcome.failure(), "message", "")) == "\n".join(texts).strip()


class Watched:
    """Opens sessions with a server over stdio, and knows when each has ended."""

    def __init__(self) -> None:
        self.ended: list[anyio.Event] = []
        self._open = connect_sdk(CHANGING)

    @asynccontextmanager
    async def connect(self, changed: Callable[[], object]) -> AsyncGenerator[ServerSession, None]:
        """Open one."""
        self.ended.append(anyio.Event())
        async with self._open(changed) as session:
            try:
                yield session
            finally:
                self.ended[-1].set()


async def hear_progress(events: Events) -> int:
    """The number of the process in which ``hang`` says next that it began."""
    async for event in events:
        if event.name == "tool.progress":
            return int(event.data["message"].removeprefix("hanging in "))
    raise AssertionError


@pytest.mark.parametrize("trust", [True, False])
async def test_a_server_over_stdio_that_is_killed(trust: bool) -> None:
    """In a call: a read is made again, a mutating one is told as lost. Between calls nobody notices. None is left."""
    tools, watched = ToolRegistry(), Watched()
    before = find_children()
    options: Any = {"effects": {"hang": "read"} if trust else None, "connecting": 60, "patience": 60}
    async with add_server(tools, CHANGING, trust=trust, connect=watched.connect, **options):
        pipeline = standard(tools, timeout=100)
        first = pid_in((await pipeline.call("pid", {})).unwrap())
        outcomes: list[Outcome] = []
        with Events() as events, anyio.fail_after(PATIENT):
            heard = pipeline.replace("trace", Trace(sinks=[events]))
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    outcomes.append(await heard.call("hang", {}))

                group.start_soon(call)
                assert await hear_progress(events) == first
                os.kill(first, signal.SIGKILL)
                if trust:
                    assert await hear_progress(events) != first
                    assert outcomes == []
                    group.cancel_scope.cancel()
        assert [kind_of(outcome) for outcome in outcomes] == ([] if trust else ["outcome_unknown"])
        second = pid_in((await pipeline.call("pid", {})).unwrap())
        assert second != first
        os.kill(second, signal.SIGKILL)
        await watched.ended[-1].wait()
        assert kind_of(await pipeline.call("pid", {})) == "success"
    assert find_children() <= before


def test_the_guide_runs(tmp_path: Path) -> None:
    """Its server and its program print what it says; the test of the other guides has no package mcp."""
    guide = (HERE.parent / "pipeline" / "mcp" / "CLIENT.md").read_text()
    server, program, *_ = re.findall(r"^```py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "clock.py").write_text(server)
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(HERE.parent)}
    run = partial(subprocess.run, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    printed = run([sys.executable, "-c", program]).stdout
    assert printed.splitlines() == re.findall(r"^\s*#> ?(.*)$", program, re.MULTILINE)


def pid_in(value: Any) -> int:
    """The number that the tool ``pid`` gave: its SDK wraps it."""
    return int(value["result"])


@contextmanager
def serve_http(port: int) -> Generator[None]:
    """The changing server over HTTP."""
    with subprocess.Popen([*CHANGING, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


async def answers(port: int) -> bool:
    try:
        async with await anyio.connect_tcp("127.0.0.1", port):
            return True
    except OSError:
        return False


async def wait_for(port: int) -> None:
    with anyio.fail_after(PATIENT):
        while not await answers(port):  # noqa: ASYNC110  # a process
            await anyio.sleep(0.05)


@both_eras
async def test_a_server_over_http_that_is_killed(mode: str) -> None:
    """Its tools are unavailable until it is back."""
    tools, port = ToolRegistry(), hold_port()
    url = f"http://{HOST}:{port}/mcp"
    played: Any = type("Played", (), {"connect": staticmethod(connect_sdk(url, mode))})
    with serve_http(port):
        await wait_for(port)
        entered = add(tools, played, trust=True, patience=0.5)
        server = await entered.__aenter__()
        first = pid_in((await standard(tools).call("pid", {})).unwrap())
    try:
        outcome = await standard(tools, timeout=30).call("pid", {})
        assert kind_of(outcome) in ("transient", "unavailable")
        await until(lambda: not tools.callable_names())
        assert kind_of(await standard(tools).call("pid", {})) == "unavailable"
        with serve_http(port):
            await until(lambda: server.is_connected and tools.callable_names())
            assert pid_in((await standard(tools).call("pid", {})).unwrap()) != first
            await entered.__aexit__(None, None, None)
    finally:
        if list(tools):
            await entered.__aexit__(None, None, None)
    assert list(tools) == []


class StandingClock(FakeClock):
    """It is moved by the test alone, and not by the client of a server, which waits before it asks for a list again."""

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


@both_eras
async def test_progress_cancellation_and_changes(mode: str) -> None:
    """Progress is live, a time-out reaches the server, a new tool comes, and a changed one is held back."""
    tools = ToolRegistry()
    played: Any = type("Played", (), {"connect": staticmethod(connect_sdk(CHANGING, mode))})
    async with add(tools, played) as server:
        report = await standard(tools).report(Call("work", {"steps": 3}))
        assert [(step.done, step.total, step.message) for step in report.progress] == [
            (1, 3, "step 1"),
            (2, 3, "step 2"),
            (3, 3, "step 3"),
        ]
        outcomes: list[Outcome] = []
        with StandingClock() as clock, Events() as events, anyio.fail_after(PATIENT):
            limited = standard(tools, timeout=0.5).replace("trace", Trace(sinks=[events]))

            async def call() -> None:
                outcomes.append(await limited.call("hang", {}))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await hear_progress(events)
                clock.advance(0.5)
            while "hang" not in json.dumps((await standard(tools).call("list_cancelled", {})).unwrap()):  # noqa: ASYNC110
                await anyio.sleep(0.02)
        assert [kind_of(each) for each in outcomes] == ["outcome_unknown"]
        assert kind_of(await standard(tools).call("change", {})) == "success"
        await until(lambda: "added" in tools)
        assert server.held_back == ["pid"]
        assert kind_of(await standard(tools).call("pid", {})) == "unavailable"
        server.accept("pid")
        assert tools["pid"].description == "Another text."
        assert kind_of(await standard(tools).call("pid", {})) == "success"


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ([], r"`target` must be a command of at least one text, not \[\]"),
        (["python", 5], r"`target` must be a command of at least one text, not \['str', 'int'\]"),
        ("python tools.py", "`target` must be a URL with http or https; a command is a list"),
        (5, "`target` must be a URL, a command as a list, a StdioServerParameters"),
    ],
)
def test_what_is_no_server_is_refused_at_once(target: object, told: str) -> None:
    """The words of a command are not in the error, because one may be a secret."""
    with pytest.raises(SetupError, match=told):
        connect_sdk(target)
