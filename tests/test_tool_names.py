"""Names of tools in options: one that no registry has is refused at set-up, and logged once where tools come later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from support import a_tool
from toolcall_pipeline import Failure, SetupError, ToolRegistry, Wording
from toolcall_pipeline.middlewares import Approve, DryRun, Policy, Resolve, Retry, Shape, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Memory


def a_rule(tool: str) -> RuleSet:
    return RuleSet((PolicyRule("deny", (tool,)),))


GUARDS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Approve(Memory(), tools=["serach"]), "approve: `tools` names 'serach'.*did you mean 'search'"),
    (lambda: Shape(hints={"serach": "Ask for less."}), "shape: `hints` names 'serach'"),
    (lambda: Shape(tools={"serach": 500}), "shape: `tools` names 'serach'"),
    (lambda: Policy(a_rule("serach")), "rule 1: the rule names 'serach'"),
    (lambda: DryRun(a_rule("serach")), "rule 1: the rule names 'serach'"),
]


@pytest.mark.parametrize(("make", "text"), GUARDS, ids=[text[:24] + str(n) for n, (_, text) in enumerate(GUARDS)])
def test_a_tool_that_a_guard_names_exists(make: Callable[[], Any], text: str) -> None:
    """So is such a name in what guards a tool, which else guards nothing. A pattern is no name."""
    tools = ToolRegistry()
    tools.register(a_tool("search"))
    with pytest.raises(SetupError, match=text):
        standard(tools, store=Memory()).after("validate", make())
    standard(tools, store=Memory()).before("ledger", Approve(Memory(), tools=["dele*"]))


def test_a_tool_that_something_else_names_exists() -> None:
    """So is one that a rename means, that shows a lost effect, or that the key of a template names."""
    tools = ToolRegistry()
    tools.register(a_tool("search"))
    with pytest.raises(SetupError, match="resolve: `renames` names 'serach'"):
        standard(tools).replace("resolve", Resolve(tools, renames={"find": "serach"}))
    for key in ("serach:validation", "serach:provider=Mail:validation.required:to"):
        with pytest.raises(SetupError, match=rf"`templates`: the key '{key}' names 'serach'"):
            standard(tools, wording=Wording(templates={key: "No."}))
    standard(tools, wording=Wording(templates={"gmail_*:validation": "No.", "search:validation": "No."}))
    lost = a_tool("pay")
    lost.verify_with = "serach"
    tools.register(lost)
    with pytest.raises(SetupError, match="tool 'pay': `verify_with` names 'serach'"):
        standard(tools)


async def test_tools_that_come_later(caplog: pytest.LogCaptureFixture) -> None:
    """A pipeline that is built before its tools logs a wrong name once, at a call, and guards the tool of that name."""
    tools = ToolRegistry()
    pipeline = standard(tools, store=Memory()).before("ledger", Approve(Memory(), tools=["serach"]))
    bound = pipeline.with_(principal="ann")
    async with pipeline:
        tools.register(a_tool("search"))
        for each in (bound, pipeline, bound):
            await each.call("search")
        told = [record for record in caplog.records if "names 'serach'" in record.getMessage()]
        assert [record.levelname for record in told] == ["ERROR"]
        tools.register(a_tool("serach"))
        outcome = await pipeline.call("serach")
    assert isinstance(outcome, Failure)
    assert outcome.failure().kind == "awaiting_approval"


def test_a_tool_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    """A name that is nearest to that of a server's tool, or near to none, is a warning: the server may offer it yet."""
    tools = ToolRegistry()
    tools.register(a_tool("search"))
    remote = a_tool("github_create_issue")
    remote.is_remote = True
    tools.register(remote)
    for name in ("github_create_isue", "nothing_like_it"):
        standard(tools, store=Memory()).before("ledger", Approve(Memory(), tools=[name]))
        assert f"names '{name}'" in caplog.text
    with pytest.raises(SetupError, match="did you mean 'search'"):
        standard(tools, store=Memory()).before("ledger", Approve(Memory(), tools=["serach"]))


@pytest.mark.parametrize(
    ("given", "text", "kind"),
    [({"attempts": 3}, "attempts = 7", 3), ({}, "attempts = 7", 7), ({"timeout": None}, "timeout = 9.0", None)],
)
def test_an_option_that_was_given(given: dict[str, Any], text: str, kind: object, tmp_path: Path) -> None:
    """It counts as given, whatever its value, and a policy file says nothing about it."""
    (tmp_path / "policy.toml").write_text(text + "\n")
    pipeline = standard(ToolRegistry(), policy=tmp_path / "policy.toml", **given)
    if "timeout" in text:
        assert "timeout" not in pipeline.stages
    else:
        retry = cast("Retry", next(each.obj for each in pipeline.entries if each.name == "retry"))
        assert retry.attempts == kind
