"""``toolcall approvals`` and ``toolcall policy``: the commands of the person who decides."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

from toolcall_pipeline import Approvals, Call, ToolRegistry
from toolcall_pipeline.cli import main
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.middlewares import Approve, standard
from toolcall_pipeline.stores import SQLite

HOSTILE = "\x1b[2J[red]Bob[/red]\u202e"


def run(*command: str) -> Result:
    return CliRunner().invoke(toolcall, command)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in which two calls wait."""
    path = tmp_path / "calls.db"

    async def ask() -> None:
        tools = ToolRegistry()

        @tools.tool
        async def pay(to: str, cents: int = 5) -> str:
            return "paid"

        kept = SQLite(path)
        pipeline = standard(tools, store=kept).before("ledger", Approve(kept, effects=["mutating"]))
        async with pipeline:
            await pipeline(Call("pay", {"to": HOSTILE}, "1", "ann"))
            await pipeline(Call("pay", {"to": "Al"}, "2", "ann"))

    anyio.run(ask)
    return path


def list_ids(path: Path) -> list[str]:
    async def read() -> list[str]:
        async with Approvals(SQLite(path)) as approvals:
            return [each.id for each in await approvals.pending()]

    return anyio.run(read)


def test_what_waits_is_listed_and_decided(store: Path) -> None:
    """A list, one call, an approval with other arguments, a rejection; a second decision changes nothing."""
    first, second = list_ids(store)
    listed = run("approvals", str(store), "list")
    assert (listed.exit_code, listed.output.count("pending")) == (0, 2)
    shown = run("approvals", str(store), "show", second)
    assert '"to": "Al"' in shown.output
    assert "asked by     ann" in shown.output
    done = run("approvals", str(store), "approve", first, "--by", "boss", "--arguments", '{"to": "Eve", "cents": 1}')
    assert (done.exit_code, done.output) == (0, 'approved by boss: pay {"to": "Eve", "cents": 1}\n')
    late = run("approvals", str(store), "reject", first, "--by", "chief")
    assert (late.exit_code, late.output.partition(":")[0]) == (1, "already decided by boss")
    assert run("approvals", str(store), "reject", second, "--message", "No.").exit_code == 0
    assert run("approvals", str(store), "list").output == "no call waits\n"
    assert run("approvals", str(store), "list", "--all").output.count("rejected") == 1


def test_standing_grants(store: Path) -> None:
    """Given, listed and revoked by the beginning of an id; what only reads writes nothing."""
    words = ("--by", "boss", "--principal", "ann", "--until", "2999-12-31T18:00Z", "--json")
    given = json.loads(run("approvals", str(store), "grant", "pay*", *words).output)
    assert (given["tool"], given["by"], given["principal"], given["conversation"]) == ("pay*", "boss", "ann", None)
    assert datetime.fromtimestamp(given["until"], UTC).isoformat() == "2999-12-31T18:00:00+00:00"
    before = store.read_bytes()
    listed = run("approvals", str(store), "grants")
    assert (listed.exit_code, given["id"] in listed.output, "everywhere" in listed.output) == (0, True, True)
    assert json.loads(run("approvals", str(store), "grants", "--json").output) == [given]
    assert store.read_bytes() == before
    for command, told in (
        (("revoke", "none"), "there is no grant 'none'"),
        (("grant", "x", "--until", "soon"), "no time"),
    ):
        done = run("approvals", str(store), *command)
        assert (done.exit_code, told in done.output) == (2, True)
    assert run("approvals", str(store), "revoke", given["id"][:6]).exit_code == 0
    assert run("approvals", str(store), "grants").output == "there are no grants\n"


def test_a_hostile_argument_is_shown_as_text(store: Path) -> None:
    """No escape, no markup and no invisible character of an argument reaches the terminal."""
    for command in ((str(store), "list"), (str(store), "show", list_ids(store)[0])):
        output = run("approvals", *command).output
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert "[red]" in output.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("STORE", "show", "none.1"), "there is no approval 'none.1'"),
        (("STORE", "approve", "none.1"), "there is no approval 'none.1'"),
        (("STORE", "approve", "ID", "--arguments", "{"), "--arguments is not JSON"),
        (("STORE", "approve", "ID", "--arguments", "[]"), "`arguments` must be a mapping"),
        (("STORE", "approve", "ID", "--arguments", "{}"), "`arguments` must fit the tool"),
        (("absent.db", "list"), "absent.db: no such file"),
        ((__file__, "list"), "test_cli_approvals.py"),
    ],
)
def test_bad_input_is_one_clear_line(command: tuple[str, ...], expected: str, store: Path) -> None:
    """The exit code is 2, and the line says what is wrong."""
    words = [str(store) if word == "STORE" else list_ids(store)[1] if word == "ID" else word for word in command]
    done = run("approvals", *words)
    assert (done.exit_code, expected in done.output) == (2, True), done.output
    assert len(list_ids(store)) == 2


def test_a_policy_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decisions for each tool, the rule for one call, and a mistake with its line."""
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_tools.py").write_text(
        "from toolcall_pipeline import ToolRegistry\n"
        "registry = ToolRegistry()\n"
        "@registry.tool\n"
        "def pay(cents: int) -> str:\n"
        "    '''Pay.'''\n"
        "    return 'paid'\n"
    )
    policy = tmp_path / "policy.toml"
    policy.write_text("[[rules]]\ntool = 'pay'\narguments = {properties = {cents = {minimum = 9}}}\naction = 'deny'\n")
    policy.write_text(
        policy.read_text() + "message = 'At most 8.'\n[[budgets]]\ncalls = 100\nper = 'principal'\nwindow = 60\n"
        "[renames]\nsend = 'pay'\n[limits]\nargument_bytes = 2000\n"
    )
    policy.write_text("timeout = 5\nprofile = 'structured'\n" + policy.read_text())
    assert run("policy", "check", str(policy), "shop_tools:registry").output.splitlines()[:-1] == [
        "pay (mutating)",
        "  rule     deny by policy.toml:3 if the arguments fit, with the words 'At most 8.'",
        "           allow by default",
        "  limits   5 s for each attempt; attempts: 3; arguments: 2,000 bytes, 64 levels, 50,000 keys",
        "  budget   100 calls in 60 s, for each principal",
        "  rename   send",
        "  wording  profile: structured, verbosity: normal",
    ]
    renamed = run("policy", "check", str(policy), "shop_tools:registry", "--call", "send", '{"cents": "9"}')
    assert renamed.output.startswith("pay: deny by policy.toml:3 of policy ")
    denied = run("policy", "check", str(policy), "shop_tools:registry", "--call", "pay", '{"cents": "9"}')
    assert denied.output.startswith("deny by policy.toml:3 of policy ")
    assert "the model reads: At most 8." in denied.output
    refused = run("policy", "check", str(policy), "shop_tools:registry", "--call", "pay", "{}")
    assert (refused.exit_code, "refused before the policy" in refused.output) == (1, True)
    policy.write_text("[[rules]]\ntool = 'pya'\naction = 'deny'\n")
    wrong = run("policy", "check", str(policy), "shop_tools:registry")
    assert (wrong.exit_code, "policy.toml:1: the rule names 'pya'" in wrong.output) == (2, True)
    assert callable(main)
