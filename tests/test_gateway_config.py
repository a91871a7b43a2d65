"""The configuration of a gateway: which servers it has, by which prefixes, and what is wrong with it, by its place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import SetupError
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.hosts.gateway_config import read_servers

A: Any = {"command": "a"}


def read(**servers: Any) -> dict[str, str]:
    """The prefixes by the names of the servers."""
    return {each.name: each.prefix for each in read_servers({"mcpServers": servers})}


@pytest.mark.parametrize(
    ("servers", "prefixes"),
    [
        ({"one": A}, {"one": ""}),
        ({"one": {**A, "prefix": "p"}}, {"one": "p"}),
        ({"one": A, "My Server": A}, {"one": "one", "My Server": "My_Server"}),
        ({"one": {**A, "prefix": ""}, "two": A}, {"one": "", "two": "two"}),
        ({"one": A, "two": {**A, "disabled": True}}, {"one": ""}),
        ({"one": A, "two": {"url": "http://a.example/mcp", "prefix": "b-2"}}, {"one": "one", "two": "b-2"}),
    ],
)
def test_prefixes(servers: dict[str, Any], prefixes: dict[str, str]) -> None:
    """A single server has none; of several each has its name in the form of a tool's name, unless it says another."""
    assert read(**servers) == prefixes


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "config: it must be an object with the servers"),
        ({"servers": {"a": A}}, "config: it must be an object with the servers"),
        ({"mcpServers": {"a": A}, "mcpservers": {}}, "config: unknown key `mcpservers`; known: mcpServers"),
        ({"mcpServers": {}}, "config: mcpServers must be an object with at least one server"),
        ({"mcpServers": [A]}, "config: mcpServers must be an object with at least one server"),
        ({"mcpServers": {"a": "npx a"}}, "config: mcpServers.a: it must be an object with `command` or `url`"),
        ({"mcpServers": {"a": {}}}, "config: mcpServers.a: give either `command` or `url`"),
        ({"mcpServers": {"a": {**A, "url": "http://a.example"}}}, "config: mcpServers.a: give either"),
        ({"mcpServers": {"a": {**A, "arg": []}}}, "config: mcpServers.a: unknown key `arg`; known: command, args"),
        ({"mcpServers": {"a": {**A, "headers": {}}}}, "config: mcpServers.a: unknown key `headers`"),
        ({"mcpServers": {"a": {"command": " "}}}, "config: mcpServers.a.command: it must name a program"),
        ({"mcpServers": {"a": {"command": 1}}}, "config: mcpServers.a.command: it must be a text"),
        ({"mcpServers": {"a": {**A, "args": "x"}}}, "config: mcpServers.a.args: it must be an array"),
        ({"mcpServers": {"a": {**A, "args": [1]}}}, "config: mcpServers.a.args: it must be an array of texts"),
        ({"mcpServers": {"a": {**A, "env": {"N": 1}}}}, "config: mcpServers.a.env: it must be an object of texts"),
        ({"mcpServers": {"a": {**A, "timeout": True}}}, "config: mcpServers.a.timeout: it must be a whole number"),
        ({"mcpServers": {"a": {**A, "timeout": -1}}}, "config: mcpServers.a.timeout: it must be 0 or more"),
        ({"mcpServers": {"a": {**A, "disabled": "no"}}}, "config: mcpServers.a.disabled: it must be true or false"),
        ({"mcpServers": {"a": {**A, "disabled": True}}}, "config: each of mcpServers is disabled"),
        ({"mcpServers": {"a": {**A, "type": "http"}}}, "config: mcpServers.a: a server with `command` speaks stdio"),
        ({"mcpServers": {"a": {"url": "http://a.example", "type": "stdio"}}}, "config: mcpServers.a: `type` must be"),
        ({"mcpServers": {"a": {"url": "a.example"}}}, "config: mcpServers.a.url: it must begin with http://"),
        ({"mcpServers": {"a": {**A, "env": {"N": "${NOT_THERE}"}}}}, "config: mcpServers.a.env.N: the environment has"),
        ({"mcpServers": {"a": {**A, "prefix": "a b"}}}, "config: mcpServers.a.prefix: it may have letters"),
        ({"mcpServers": {"é": A, "b": A}}, "config: mcpServers.é: its name makes no prefix"),
        ({"mcpServers": {"a b": A, "a-b": A, "a_b": A}}, "config: mcpServers.a_b: the prefix 'a_b', as a b has"),
        (
            {"mcpServers": {"a": {**A, "prefix": ""}, "b": {**A, "prefix": ""}}},
            "config: mcpServers.b: no prefix, as a has",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(config: dict[str, Any], told: str) -> None:
    """Nothing is left out in silence: a wrong key, type, server or prefix is a mistake of the set-up."""
    with pytest.raises(SetupError) as caught:
        read_servers(config)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: it is empty"),
        ("\n{", ":2: it is no JSON"),
        ('{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}', ": the key `a` stands twice in one object"),
        ("[1]", ": it must be an object with the servers"),
        ("[" * 100_000, ": "),
    ],
)
def test_a_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    """What is no configuration is told with the file, and with the line where JSON says it."""
    file = tmp_path / "servers.json"
    file.write_text(text)
    with pytest.raises(SetupError) as caught:
        read_servers(file)
    assert str(caught.value).startswith(f"{file}{told}")
    with pytest.raises(SetupError, match="cannot be read"):
        read_servers(tmp_path / "missing.json")


def test_variables_are_filled_in_and_secrets_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``${NAME}`` in env, headers, url and auth is a variable of the environment; an error and a repr show none."""
    monkeypatch.setenv("TOKEN", "s3cret")
    server = {"url": "https://a.example/${TOKEN}", "headers": {"X": "a ${TOKEN}"}, "auth": "${TOKEN}", "type": "sse"}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"a": server}}))
    (read,) = read_servers(file)
    assert read.facts == {
        "url": "https://a.example/s3cret",
        "headers": {"X": "a s3cret"},
        "auth": "s3cret",
        "transport": "sse",
    }
    assert "s3cret" not in repr(read)
    with pytest.raises(SetupError) as caught:
        read_servers({"mcpServers": {"a": {"url": "ftp://${TOKEN}"}}})
    assert "s3cret" not in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ("command", "url", "args", "env", "headers", "type", "prefix", "timeout", "tools", "disabled", "x")
)


@given(st.dictionaries(st.text(max_size=4), st.dictionaries(_KEYS, _JSON, max_size=4) | _JSON, max_size=3))
def test_whatever_stands_there_is_read_or_refused(servers: dict[str, Any]) -> None:
    """Nothing but SetupError is raised, and what is read has prefixes that differ."""
    try:
        read = read_servers({"mcpServers": servers})
    except SetupError:
        return
    assert len({each.prefix for each in read}) == len(read)


def test_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without FastMCP ``toolcall gateway`` names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "fastmcp", None)
    monkeypatch.delitem(sys.modules, "toolcall_pipeline.hosts.gateway", raising=False)
    config = tmp_path / "servers.json"
    config.write_text('{"mcpServers": {"a": {"command": "a"}}}')
    ended = CliRunner().invoke(toolcall, ["gateway", str(config)])
    assert ended.exit_code == 2
    assert "pip install 'toolcall-pipeline[fastmcp]'" in ended.output
