"""``toolcall improve``: proposals from a journal, each with its evidence, and as a patch that does what it says."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from toolcall_pipeline import Call, Tool, ToolRegistry
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.journal import Proposal, improve, make_patch, read_forms, replay
from toolcall_pipeline.journal.recovery import Share
from toolcall_pipeline.middlewares import standard

CODE = '''
from typing import Annotated

from pydantic import Field

from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()


@tools.tool
async def send_mail(to: str, text: str = "") -> str:
    """Send."""
    return "é"


@tools.tool(effect="read", aliases=("look",))
def find_payment(id: int) -> str:
    """Find."""
    if id < 0:
        raise ValueError("an id is positive")
    return "paid"


@tools.tool(
    effect="mutating",
)
async def pay(amount: int) -> str:
    """Pay."""
    raise ConnectionError


@tools.tool()
async def get_rate(currency: str) -> float:
    """Get."""
    raise ConnectionError


@tools.tool(effect="read")
async def comment(text: str) -> str:
    """Comment."""
    return text
'''
MAIL = {"to": "ann", "text": "hi"}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return load(tmp_path, "desk_0", CODE)


def load(folder: Path, name: str, code: str) -> ModuleType:
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


async def record(tools: ToolRegistry, path: Path, talks: list[list[tuple[str, Any]]]) -> None:
    async with standard(tools, journal=path, attempts=1) as pipeline:
        for talk, calls in enumerate(talks):
            for turn, (name, sent) in enumerate(calls):
                await pipeline(Call(name, sent, f"{talk}.{turn}", conversation=f"c{talk}", reply=f"r{talk}.{turn}"))


TALKS: list[list[tuple[str, Any]]] = [
    *[[("mail", MAIL), ("send_mail", MAIL)]] * 4,
    [("mail", {"subject": 1})],
    *[[("both", MAIL), ("send_mail", MAIL)], [("both", {"text": "a"}), ("comment", {"text": "a"})]] * 3,
    *[[("coment", {"text": "a"})]] * 5,  # near, and never meant
    *[[("send_mail", {"text": "a"}), ("send_mail", MAIL)]] * 6,
    *[[("find_payment", {"id": -1})]] * 3,
    *[[("pay", {"amount": n}), ("find_payment", {"id": n})] for n in range(1, 4)],
    *[[("get_rate", {"currency": "EUR"})]] * 3,
    [("comment", {}), ("comment", {"text": "a"})],
]


async def test_each_proposal_has_its_evidence(module: ModuleType, tmp_path: Path) -> None:
    """An alias is tried; of two tools that a name meant, and of a name that is only near, there is none."""
    path, tools = tmp_path / "calls.db", module.tools
    await record(tools, path, TALKS)
    before = dict(tools.tools), dict(tools.aliases)
    found = await improve(standard(tools), read_forms(path)[0])
    assert (dict(tools.tools), dict(tools.aliases)) == before
    assert {(each.tool, each.option, each.value, each.calls.part, each.calls.of) for each in found} == {
        ("send_mail", "aliases", "'mail'", 5, 16),
        ("send_mail", "examples", "['ann']", 6, 19),
        ("find_payment", "reveal", "ValueError", 3, 6),
        ("pay", "verify_with", "'find_payment'", 3, 3),
        ("get_rate", "effect", "'read'", 3, 3),
    }
    (alias,) = (each for each in found if each.option == "aliases")
    assert alias.trial is not None
    assert (alias.trial.saved.part, alias.trial.saved.of) == (4, 11)
    assert (alias.trial.broken.part, alias.trial.broken.of) == (0, 13)
    (example,) = (each for each in found if each.option == "examples")
    assert example.recovery is not None
    assert str(example.recovery.at_2) == "6 of 6 = 100% [61%, 100%]"
    assert await improve(standard(tools), read_forms(path)[0], at_least=7) == []


async def test_a_patch_does_what_it_says(module: ModuleType, tmp_path: Path) -> None:
    """Applied to the code, it loads, and a replay saves as many calls as the trial counted."""
    path = tmp_path / "calls.db"
    await record(module.tools, path, TALKS)
    found = await improve(standard(module.tools), read_forms(path)[0])
    code = CODE
    for number, each in enumerate(found):
        made = load(tmp_path, f"desk_{number + 1}", code)
        code = apply(code, make_patch(each, made.tools[each.tool]))
    tools = load(tmp_path, "desk_9", code).tools
    assert tools["send_mail"].aliases == ("mail",)
    assert tools["send_mail"].parameters.schema["properties"]["to"]["examples"] == ["ann"]
    assert tools["find_payment"].reveal == (ValueError,)
    assert tools["find_payment"].aliases == ("look",)
    assert (tools["pay"].verify_with, tools["get_rate"].effect) == ("find_payment", "read")
    changed = await replay(standard(tools), read_forms(path)[0])
    saved = sum(n for (then, _), n in changed.tools["?"].changes.items() if then == "unknown_tool")
    assert saved == 5  # one of them is refused by the tool now
    assert changed.tools["?"].changes["unknown_tool", "validation"] == 1


def apply(code: str, patch: str) -> str:
    """Apply a unified diff."""
    lines, place = code.splitlines(keepends=True), 0
    made: list[str] = []
    for line in patch.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0][1:]) - 1
            made += lines[place:start]
            place = start
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert lines[place] == line[1:]
            made += [line[1:]] if line.startswith(" ") else []
            place += 1
    return "".join([*made, *lines[place:]])


def test_the_command(module: ModuleType, tmp_path: Path) -> None:
    """It prints the proposals with their patches, and writes nothing."""
    path, run = tmp_path / "calls.db", CliRunner()
    anyio.run(record, module.tools, path, TALKS)
    told = run.invoke(toolcall, ["improve", str(path), "desk_0:tools"])
    assert told.exit_code == 0
    assert told.output.startswith("5 proposals; nothing is applied\n")
    assert "it would have saved 4 of 11 failed calls\n  and broken 0 of 13 that succeeded" in told.output
    assert "+@tools.tool(aliases=('mail',))" in told.output
    rows = json.loads(run.invoke(toolcall, ["improve", str(path), "desk_0:tools", "--json"]).output)
    assert [row["trial"] is None for row in rows].count(False) == 1
    assert Path(str(module.__file__)).read_text(encoding="utf-8") == CODE
    assert run.invoke(toolcall, ["improve", str(tmp_path / "none.db"), "desk_0:tools"]).exit_code == 2
    assert run.invoke(toolcall, ["improve", str(path), "desk_0:none"]).exit_code == 2


@pytest.mark.parametrize("name", ["a\nb", "' + boom() + '", "é" * 300])
async def test_a_name_of_a_model_is_no_code(name: str, module: ModuleType, tmp_path: Path) -> None:
    """It stands in the patch as a string."""
    await record(module.tools, tmp_path / "calls.db", [[(name, MAIL), ("send_mail", MAIL)]] * 3)
    found = await improve(standard(module.tools), read_forms(tmp_path / "calls.db")[0])
    (each,) = found
    code = apply(CODE, make_patch(each, module.tools["send_mail"]))
    assert load(tmp_path, "desk_1", code).tools["send_mail"].aliases == (name,)


def test_a_tool_without_code_is_told_what_to_write() -> None:
    """As one that was made of a schema."""
    tool: Tool[..., Any] = Tool.from_schema(name="ask", parameters={"type": "object"}, handler=print, effect="read")
    each = Proposal("ask", "aliases", "'question'", "", Share(3, 3))
    assert make_patch(each, tool).endswith("aliases=('question',)\n")
