"""The policy of a relay: what its file may say, and how a mistake in it is told."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcp_desk import call, open_desk, result
from toolcall_pipeline import SetupError
from toolcall_pipeline.base.toml_file import find_line
from toolcall_pipeline.policies.policy_file import read_policy
from toolcall_pipeline.policies.relay_policy import RelayLimits, RelayPolicy, TelemetryPolicy, ToolPolicy
from toolcall_pipeline.privacy import REDACTED

GUIDE = Path(__file__).parent.parent / "pipeline" / "mcp" / "PROXY.md"


def written(path: Path, text: str) -> Path:
    file = path / "policy.toml"
    file.write_text(text)
    return file


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    """The guide's policy names every option there is, and is read as it says."""
    found = re.search(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    policy = read_policy(written(tmp_path, found[1]))
    assert (
        policy.trust_annotations,
        policy.timeout,
        policy.attempts,
        policy.redact,
    ) == (True, 60, 3, ("token", "headers.authorization"))
    assert ToolPolicy(timeout=5, attempts=5) == policy.of_tool("read_text_file")
    assert ToolPolicy(effect="mutating", verify_with="list_directory") == policy.of_tool("move_file")
    assert policy.of_tool("edit_file").closed
    assert policy.renames == {"fetch_file": "read_text_file"}
    assert RelayLimits() == policy.limits
    assert TelemetryPolicy("http://localhost:4318", "notes", content=False) == policy.telemetry


def test_what_a_file_leaves_out_is_the_default(tmp_path: Path) -> None:
    """An option that a file does not name has its default."""
    assert RelayPolicy() == read_policy(written(tmp_path, "redact = []\n"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("attempts = 0\n", ":1: `attempts` must be an integer ≥ 1, not 0"),
        ("\n\nattempst = 2\n", ":3: unknown option `attempst`; known: default, rules, budgets, trust_annotations"),
        ("timeout = 'long'\n", ":1: `timeout` must be a number of seconds > 0, not 'long'"),
        ("timeout = inf\n", ":1: `timeout` must be a number of seconds > 0 and finite, not inf"),
        ("trust_annotations = 1\n", ":1: `trust_annotations` must be"),
        ("redact = 'x'\n", ":1: `redact` must be an array of names, not 'x'"),
        ("attempts = 2\nredact = [\n  1,\n]\n", ":2: `redact` must be an array of names, not [1]"),
        (
            "[tools.a]\n\n[tools.b]\neffect = 'keyed'\n",
            ":4: `effect` must be read, idempotent or mutating, not 'keyed'",
        ),
        ("[tools.a]\ntimout = 5\n", ":2: unknown option `timout`; known: effect"),
        ("tools = 5\n", ":1: `tools` must be a table, not 5"),
        ("[tools]\na = 5\n", ":2: `tools.a` must be a table, not 5"),
        ("[tools.'a.b']\nclosed = 1\n", ":2: `closed` must be"),
        ("tools.a.attempts = -1\n", ":1: `attempts` must be an integer ≥ 1, not -1"),
        ("[limits]\nline_bytes = 1\n", ":2: `line_bytes` must be an integer ≥ 1000, not 1"),
        ("[limits]\n# few\nargument_depth = 0\n", ":3: `argument_depth` must be an integer ≥ 1, not 0"),
        ("[telemetry]\nendpoint = 5\n", ":2: `endpoint` must be"),
        ("[telemetry]\n\nendpoint = ''\n", ":3: `endpoint` must be an http:// or https:// URL"),
        ("[telemetry]\nendpoint = 'http://localhost:x'\n", ":2: `endpoint` must be an http:// or https:// URL"),
        ("[limitz]\n", ":1: unknown option `limitz`"),
        ("attempts = \n", ":1: Invalid value"),
        ("a = 1\nb = [\n", ":2: Invalid value"),
        ("a = 1\na = 2\n", ":2: Cannot overwrite a value"),
        ("locate = 1\n", ":1: unknown option `locate`"),
        ("# one line\u2028\x85 for an editor\nattempts = 0\n", ":2: `attempts` must be"),
        (f"attempts = 2\n\ntimeout = {'9' * 5_000}\nredact = []\n", ":3: Exceeds the limit (4300 digits)"),
        (f"attempts = 2\nredact = [\n{'[' * 2_000}{']' * 2_000}]\n", ":2: the value is nested too deeply"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    """The text begins with the file and the line, and says what is allowed."""
    file = written(tmp_path, text)
    with pytest.raises(SetupError) as caught:
        read_policy(file)
    assert str(caught.value).startswith(f"{file}{told}")


@pytest.mark.parametrize("data", [b"a = '\xff'\n", b"# " + b"x" * 2_000_000])
def test_a_file_that_is_none(data: bytes, tmp_path: Path) -> None:
    """Bytes that are no text, and a file without end, are refused."""
    file = tmp_path / "policy.toml"
    file.write_bytes(data)
    with pytest.raises(SetupError, match=r"policy\.toml"):
        read_policy(file)


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("a = [\n 1,\n]\n\n# c\nb = '''\nx\n'''\n", ("b",), 6),
        ("[t.x]\na = 1\n[t.y]\na = 2\n", ("t", "y", "a"), 4),
        ("[t]\nx.a = 1\nx.b = 2\n", ("t", "x", "b"), 3),
        ("t = {x = {a = 1}}\n", ("t", "x", "a"), 1),
    ],
)
def test_the_line_of_a_key(text: str, keys: tuple[str, ...], line: int) -> None:
    """A key is found wherever TOML lets it stand."""
    assert line == find_line(text, keys)


def test_the_line_of_a_key_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file is not parsed once for each of its lines."""
    lines = [f"[tools.t{number}]\nredact = [\n  'a',\n]\n" for number in range(300)]
    parsed: list[str] = []
    loads = tomllib.loads

    def count(text: str) -> dict[str, Any]:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", count)
    assert find_line("".join(lines) + "[last]\na = 1\n", ("last", "a")) == 1_202
    assert find_line("".join(lines), ("tools", "t7", "redact")) == 30
    assert len(parsed) < 80


async def test_a_tool_that_the_server_does_not_have_is_told_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, when the server has listed its tools: a misspelt name, and that of a tool to check with."""
    file = written(tmp_path, "[tools.pay]\nverify_with = 'lst'\n\n[tools.read_fle]\nclosed = true\n[tools.read_file]\n")
    async with open_desk(read_policy(file)) as (desk, server):
        for number in range(2):
            desk.send(call(number, "pay"))
            server.say(result(await server.next_call()))
            await desk.receive()
            server.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await desk.receive()
    told = "the policy names a tool that the server does not have"
    assert [f"{file}:2: {told}: lst", f"{file}:4: {told}: read_fle"] == [
        record.getMessage() for record in caplog.records if told in record.getMessage()
    ]


async def test_a_further_name_of_a_tool_of_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server gets its own name. What means no tool of it, or two, is logged once it has listed them."""
    file = written(
        tmp_path,
        "[renames]\nsend = 'pay'\nfetch = 'red_file'\n\nread_file = 'pay'\n[[rules]]\ntool = 'pya'\naction = 'deny'\n",
    )
    async with open_desk(read_policy(file)) as (desk, server):
        for name in ("send", "read_file"):
            desk.send(call(1, name, {"path": "x"} if name == "read_file" else {"cents": 1}))
            request = await server.next_call()
            assert request["params"]["name"] == {"send": "pay"}.get(name, name)
            server.say(result(request))
            await desk.receive()
    why = "it may be one of a server that does not offer it now"
    assert sorted(record.getMessage() for record in caplog.records) == sorted(
        [
            f"policy.toml:6: the rule names 'pya', and there is no such tool; did you mean 'pay'?; {why}",
            f"resolve: `renames` names 'red_file', and there is no such tool; did you mean 'read_file'?; {why}",
            f"{file}:5: 'read_file' is the name of a tool already, and means that one",
        ]
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("token", REDACTED),
        ("filter.token", REDACTED),
        ("items[3].token", REDACTED),
        ("result.headers.authorization", REDACTED),
        ("headers.authorization", REDACTED),
        ("authorization", "value"),
        ("tokens", "value"),
        ("", "value"),
    ],
)
def test_what_is_redacted(path: str, expected: str) -> None:
    """A name is redacted wherever it stands, and a path at its place alone."""
    redact = RelayPolicy(redact=("token", "headers.authorization")).make_redact()
    assert redact is not None
    assert expected == redact(path, "value")
