"""``toolcall ledger``: a person sees what is undecided, and decides it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from toolcall_pipeline import Call, ToolRegistry
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.stores import SQLite


def lose_a_call(path: Path, done: list[int]) -> ToolRegistry:
    """Lose a payment; returns the tools."""
    tools = ToolRegistry()

    @tools.tool
    async def pay(amount: int) -> str:
        done.append(amount)
        if len(done) == 1:
            raise ConnectionError
        return "paid"

    anyio.run(ask, tools, path)
    return tools


async def ask(tools: ToolRegistry, path: Path) -> str:
    """Deliver the payment; returns the text or the kind of the answer."""
    async with standard(tools, store=SQLite(path)) as pipeline:
        outcome = await pipeline(Call("pay", {"amount": 7}, "a", "Ann", conversation="c"))
    return str(outcome.value_or("outcome_unknown"))


@pytest.mark.parametrize(
    ("said", "then", "ran"), [(["landed", "--value", '"told"'], "told", 1), (["not-landed"], "paid", 2)]
)
def test_a_person_decides(tmp_path: Path, said: list[str], then: str, ran: int) -> None:
    """`list` shows the call, `show` what is kept of it, and `resolve` decides once what its next delivery gets."""
    path, done = tmp_path / "ledger.db", list[int]()
    tools = lose_a_call(path, done)
    run = CliRunner()
    listed = run.invoke(toolcall, ["ledger", str(path), "list"])
    assert listed.exit_code == 1
    id_, tool, *_, principal, conversation = listed.output.splitlines()[1].split()
    assert (tool, principal, conversation) == ("pay", "Ann", "c")
    shown = run.invoke(toolcall, ["ledger", str(path), "show", id_])
    assert (shown.exit_code, '"known": "lost"' in shown.output) == (0, True)
    assert anyio.run(ask, tools, path) == "outcome_unknown"
    codes = [run.invoke(toolcall, ["ledger", str(path), "resolve", id_, *said]).exit_code for _ in range(2)]
    assert codes == [0, 1]
    assert run.invoke(toolcall, ["ledger", str(path), "list"]).exit_code == 0
    assert (anyio.run(ask, tools, path), len(done)) == (then, ran)


def test_what_is_no_ledger(tmp_path: Path) -> None:
    """A file that is no store, and a value that is not JSON, are told."""
    path = tmp_path / "ledger.db"
    path.write_text("mine" * 100)
    run = CliRunner()
    assert run.invoke(toolcall, ["ledger", str(path), "list"]).exit_code == 2
    refused = run.invoke(toolcall, ["ledger", str(path), "resolve", "a", "landed", "--value", "{"])
    assert (refused.exit_code, "not JSON" in refused.output) == (2, True)
    assert path.read_text() == "mine" * 100
