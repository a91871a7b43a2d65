"""What a stage knows of tools, and tools that are replaced."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import pytest
from returns.pipeline import is_successful

from support import a_tool
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.middlewares import Approve, Ledger, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.tools import Tool, tool_memory
from toolcall_pipeline.tools.tool_memory import ToolMemory
from toolcall_pipeline.tools.tool_options import Effect


@pytest.fixture(autouse=True)
def _collect_only_what_is_made_here() -> Iterator[None]:
    """A collection of all that the other tests left takes a second."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_no_memory_is_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many names of one effect, it forgets them, and those of no other effect."""
    monkeypatch.setattr(tool_memory, "_REMEMBERED", 2)
    memory = ToolMemory[str]()
    memory.remember(a_tool("w", "mutating"), "w")
    for name in "abc":
        assert memory.remember(a_tool(name), name) == name
    assert memory["read"] == {"c": "c"}
    assert memory["mutating"] == {"w": "w"}


READS_PASS: tuple[RuleSet, ...] = (
    RuleSet((PolicyRule("deny", effect="mutating"),)),
    RuleSet((PolicyRule("allow", effect="read"),), default="deny"),
)
TURNS: tuple[tuple[Effect, bool], ...] = (("read", True), ("mutating", False), ("read", True), ("mutating", False))


@pytest.mark.parametrize("rules", READS_PASS)
async def test_a_tool_is_judged_by_its_own_effect(rules: RuleSet) -> None:
    """A tool that takes the place of another one of its name is judged anew."""
    registry = ToolRegistry()
    pipeline = standard(registry, policy=rules)
    for effect, passes in TURNS:
        registry.register(a_tool("probe", effect))
        assert is_successful(await pipeline.call("probe", {})) is passes
        registry.unregister("probe")


RULES = {
    "of all calls": (PolicyRule("allow"),),
    "by principal": (PolicyRule("deny", principal="a*"), PolicyRule("allow")),
    "by arguments": (PolicyRule("deny", arguments={"required": ["x"]}), PolicyRule("allow")),
}


@pytest.mark.parametrize("case", RULES)
async def test_a_server_that_changes_its_tools_fills_no_memory(case: str) -> None:
    """No stage keeps a tool that was replaced."""
    registry = ToolRegistry()
    store = Memory()
    approve = Approve(store, tools={"pay*"})
    pipeline = standard(registry, policy=RuleSet(RULES[case])).after("policy", Ledger(store)).after("policy", approve)
    gone: list[ref[Tool[..., object]]] = []
    for _ in range(5):
        tool = a_tool()
        registry.register(tool)
        outcome = await pipeline.call(tool.name, {})
        outcome.unwrap()
        registry.unregister(tool.name)
        gone.append(ref(tool))
        del tool, outcome
    gc.collect()
    assert [each() for each in gone] == [None] * 5
