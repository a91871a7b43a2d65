"""``toolcall proxy`` as a process, in front of small servers: pipes, limits on memory, and what is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from cli_desk import until
from support import PATIENT, Child
from toolcall_pipeline.cli.proxy_command import proxy
from toolcall_pipeline.cli.terminal_text import CommandError

SERVER = Path(__file__).parent / "support" / "fake_mcp_server.py"


@attrs.define(eq=False)
class Proxy:
    """A proxy that runs, and the test as its client."""

    process: subprocess.Popen[bytes]
    server: int  # the process id of its server

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def call(self, request_id: int, name: str, **arguments: object) -> None:
        params = {"name": name, "arguments": arguments}
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}).encode() + b"\n"
        )

    def ask(self, request_id: int, name: str, **arguments: object) -> Any:
        """The result of a call; what the server tells besides is left out."""
        self.call(request_id, name, **arguments)
        while (answer := self.read()).get("id") != request_id:
            pass
        return answer["result"]


@contextmanager
def open_proxy(mode: str, *options: str, dashes: bool = True, server: Path = SERVER) -> Generator[Proxy]:
    """A proxy whose server runs."""
    command = [sys.executable, "-m", "toolcall_pipeline", "proxy", *options, *(["--"] if dashes else [])]
    command += [sys.executable, "-S", str(server), mode]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        proxy = Proxy(process, 0)
        hello = proxy.read()
        proxy.server = hello["params"]["pid"]
        yield proxy
        with suppress(BrokenPipeError):
            process.communicate(timeout=PATIENT)


def is_running(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("dashes", [True, False])
def test_a_call_passes_with_and_without_dashes(dashes: bool) -> None:
    """The command of the server may follow ``--``, which some clients swallow, or not."""
    with open_proxy("good", dashes=dashes) as proxy:
        result = proxy.ask(1, "Echo", n="5")
        assert json.loads(result["content"][0]["text"])["n"] == 5
    assert proxy.process.returncode == 0
    until(lambda: not is_running(proxy.server))


@pytest.mark.long
def test_a_killed_server_comes_back() -> None:
    """A read is repeated on the next run of a server whose annotations are trusted, and a write is told as lost."""
    with open_proxy("good", "--trust-annotations") as proxy:
        proxy.ask(1, "echo", n=1)
        os.kill(proxy.server, signal.SIGKILL)
        result = proxy.ask(2, "echo", n=2)
        assert proxy.server != json.loads(result["content"][0]["text"])["pid"]
        assert proxy.ask(3, "write", text="die")["_meta"] == {"toolcall/kind": "outcome_unknown"}
        assert "content" in proxy.ask(4, "write", n=4)


@pytest.mark.parametrize(
    ("mode", "number"),
    [("good", signal.SIGTERM), ("good", signal.SIGKILL), ("stubborn", signal.SIGKILL), ("stubborn", signal.SIGTERM)],
)
@pytest.mark.long
def test_no_server_is_left(mode: str, number: signal.Signals) -> None:
    """The server ends with the proxy, also if the proxy is killed and if the server ignores SIGTERM and its stdin."""
    with open_proxy(mode) as proxy:
        proxy.process.send_signal(number)
        until(lambda: not is_running(proxy.server))
    assert (-9 if number is signal.SIGKILL else 143) == proxy.process.returncode


@pytest.mark.long
def test_what_the_server_started_ends_too() -> None:
    """A process that the server left behind ends with the proxy."""
    with open_proxy("child") as proxy:  # its first message has the process id of that one
        assert is_running(proxy.server)
    until(lambda: not is_running(proxy.server))


@pytest.mark.long
def test_a_killed_server_whose_stdout_is_held_open() -> None:
    """A server that is killed comes back, although a process that it left behind holds its stdout."""
    with open_proxy("child", "--trust-annotations") as proxy:
        server = json.loads(proxy.ask(1, "echo", n=1)["content"][0]["text"])["pid"]
        os.kill(server, signal.SIGKILL)
        assert server != json.loads(proxy.ask(2, "echo", n=2)["content"][0]["text"])["pid"]
    until(lambda: not is_running(proxy.server))


@pytest.mark.long
def test_a_flood_on_stderr_stops_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """What the server writes to stderr goes to the proxy's stderr, and calls go on."""
    with open_proxy("flood") as proxy:
        assert "content" in proxy.ask(1, "echo", n=1)


@pytest.mark.long
def test_a_gigabyte_in_one_line_takes_little_memory() -> None:
    """A line of 1 GB is refused, and the proxy has never held more than a fraction of it."""
    with open_proxy("good") as proxy:
        proxy.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"')
        block = b"x" * 1_000_000
        for _ in range(1_000):
            proxy.write(block)
        proxy.write(b'"}}}\n')
        answer = proxy.read()
        assert (answer["id"], answer["error"]["code"]) == (1, -32600)
        status = Path(f"/proc/{proxy.process.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0])  # kB
        assert peak < 200_000
        assert "content" in proxy.ask(2, "echo", n=1)


@pytest.mark.long
def test_three_megabytes_pass_and_two_hundred_calls_are_paired() -> None:
    """Through real pipes, which hold 64 kB."""
    text = "x" * 3_000_000
    with open_proxy("good") as proxy:
        assert json.loads(proxy.ask(1, "echo", text=text)["content"][0]["text"])["text"] == text
        for number in range(200):
            proxy.call(number, "echo", n=number)
        answers = [proxy.read() for _ in range(200)]
    found = {each["id"]: json.loads(each["result"]["content"][0]["text"])["n"] for each in answers}
    assert found == {number: number for number in range(200)}


@pytest.mark.long
def test_each_call_reaches_the_server_once(tmp_path: Path) -> None:
    """Of 300 writes with a kill after each 50th none is lost without a word, and none is made twice."""
    log = tmp_path / "log"
    told: dict[int, bool] = {}
    with open_proxy(f"log:{log}") as proxy:
        server = proxy.server
        for number in range(300):
            result = proxy.ask(number, "write", n=number)
            told[number] = not result.get("isError")
            if told[number]:
                server = json.loads(result["content"][0]["text"])["pid"]
            if number % 50 == 49:
                os.kill(server, signal.SIGKILL)
    written = [int(line) for line in log.read_text().split()]
    assert sorted(set(written)) == sorted(written)
    assert {number for number, succeeded in told.items() if succeeded} <= set(written)
    assert sum(told.values()) >= 290


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--", "/nowhere/server"], "the server cannot be started"),
        ([], "give either the command of a server or --url"),
        (["--config", "{policy}", "--", "server"], "policy.toml:2: unknown option `attempst`"),
    ],
)
def test_what_cannot_start(arguments: list[str], told: str, tmp_path: Path) -> None:
    """A mistake is one line on stderr, with exit code 2."""
    policy = tmp_path / "policy.toml"
    policy.write_text("# mine\nattempst = 2\n")
    command = [sys.executable, "-m", "toolcall_pipeline", "proxy", *(each.format(policy=policy) for each in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("url", "header", "told"),
    [
        ("file:///secret", None, "--url must be a URL with http:// or https:// and a host"),
        ("http://", None, "--url must be a URL"),
        ("http://[secret", None, "--url must be a URL"),
        ("http://localhost:99999/secret", None, "--url must be a URL"),
        ("http://localhost", "secret", "--header must be 'Name: value'"),
        ("http://localhost", "a secret: x", "--header must be 'Name: value'"),
        ("http://localhost", "X: ${NO_SUCH}", "--header X: the environment has no variable NO_SUCH"),
        ("http://localhost", "X: ${ODD}", "--header X: the value must be ASCII, and one line"),
        ("http://localhost", "X: secret\xe9", "--header X: the value must be ASCII, and one line"),
    ],
)
def test_addresses_and_headers_that_are_none(
    url: str, header: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told before anything is connected, and not shown, since they may hold a secret."""
    monkeypatch.setenv("ODD", "secret\r\nY: z")
    with pytest.raises(CommandError) as caught:
        proxy([], config=None, trust_annotations=False, url=url, headers=[header] if header else [])
    assert str(caught.value).startswith(told)
    assert "secret" not in str(caught.value)


@pytest.mark.long
def test_the_exit_code_of_a_server_that_does_not_start() -> None:
    """A server that ends at once ends the proxy with its exit code: it is a mistake in the settings."""
    command = [
        sys.executable,
        "-m",
        "toolcall_pipeline",
        "proxy",
        sys.executable,
        "-S",
        "-c",
        "import sys; sys.exit(7)",
    ]
    with Child(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        told = process.stderr.read()  # until it ends, for its client has not hung up
    assert (process.returncode, b"ended before it answered" in told) == (7, True)


POLICY = """
[renames]
record = "write"
[[budgets]]
calls = 2
per = "tool"
[[rules]]
tool = "write"
arguments = {properties = {n = {minimum = 100}}, required = ["n"]}
action = "deny"
[[rules]]
tool = "write"
action = "approve"
"""


def toolcall(*words: str) -> str:
    """The output of a command, in a process of its own."""
    command = [sys.executable, "-m", "toolcall_pipeline", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENT).stdout


@pytest.mark.long
def test_a_policy_and_a_store_outlive_the_proxy(tmp_path: Path) -> None:
    """The client is asked, or a command decides; each approved call reaches the server once, within one budget."""
    policy, store, log = tmp_path / "policy.toml", str(tmp_path / "calls.db"), tmp_path / "log"
    policy.write_text(POLICY)
    options = ("--config", str(policy), "--store", store)
    with open_proxy(f"log:{log}", *options) as proxy:
        able: dict[str, Any] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t"},
        }
        proxy.write(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": able}).encode() + b"\n")
        assert proxy.read()["id"] == 0
        assert proxy.ask(1, "write", n=100)["_meta"]["toolcall/kind"] == "permission"
        proxy.call(2, "record", n="1")
        while (question := proxy.read()).get("method") != "elicitation/create":
            pass
        assert '"n": 1' in question["params"]["message"]
        said = {"action": "accept", "content": {"decision": "approve"}}
        proxy.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": said}).encode() + b"\n")
        assert json.loads(proxy.read()["result"]["content"][0]["text"])["n"] == 1
    with open_proxy(f"log:{log}", *options) as proxy:
        for request_id, number in ((1, 2), (3, 3)):
            waiting = proxy.ask(request_id, "write", n=number)["_meta"]["toolcall/approval"]
            assert f'{{"n": {number}}}' in toolcall("approvals", store, "approve", waiting, "--by", "boss")
            result = proxy.ask(request_id + 1, "write", n=number)
        assert result["_meta"]["toolcall/kind"] == "unavailable"  # the third within the budget of two
    assert log.read_text() == "1\n2\n"
