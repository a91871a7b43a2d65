"""``toolcall serve``: what is refused before anything is served. The server itself needs the package ``mcp``."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from toolcall_pipeline import SetupError
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.cli.serve_command import read_address
from toolcall_pipeline.mcp.http_transport import HttpTransport, is_local

free_of_effects = "benchmarks.scale.mcp_served_sum:tools"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("8000", ("127.0.0.1", 8000)),
        (":0", ("127.0.0.1", 0)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:8000", ("::1", 8000)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """A port alone is one of this machine."""
    assert read_address(text) == address


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "here"], "must be HOST:PORT or PORT"),
        (["--http", "1.2.3.4:65536"], "must be HOST:PORT or PORT"),
        (["--http", "1.2.3.4:-1"], "must be HOST:PORT or PORT"),
        (["--http", "1.2.3.4:٣"], "must be HOST:PORT or PORT"),
        (["--allow-host", "a"], "--allow-host is for --http"),
    ],
)
def test_options_that_are_refused(arguments: list[str], told: str) -> None:
    """The exit code is 2, and stderr has one line."""
    result = CliRunner().invoke(toolcall, ["serve", free_of_effects, *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.1", False),
        ("example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_addresses_that_others_can_reach(host: str, local: bool) -> None:
    """They are refused unless somebody has said by which names clients may come."""
    assert is_local(host) is local
    if local:
        HttpTransport(host, 0)
    else:
        with pytest.raises(SetupError, match="--allow-host"):
            HttpTransport(host, 0)
        HttpTransport(host, 0, ["tools.example.com"])


def test_the_port_is_told() -> None:
    """With port 0 it is the one that was found; one that is taken is an OSError; asyncio is told of the protocol."""
    first = HttpTransport("127.0.0.1", 0)
    first.open()
    try:
        port = int(first.url.removeprefix("http://127.0.0.1:").removesuffix("/mcp"))
        assert port > 0
        with pytest.raises(OSError, match="in use"):
            HttpTransport("127.0.0.1", port).open()
        assert first.listening.proto == socket.IPPROTO_TCP
    finally:
        first.listening.close()
