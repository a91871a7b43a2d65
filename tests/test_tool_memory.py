"""What a stage knows of a tool, and the life of the tool."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from weakref import ref

import pytest

from support import a_tool
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.middlewares import Approve, Ledger, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.tools import Tool
from toolcall_pipeline.tools.tool_memory import ToolMemory


@pytest.fixture(autouse=True)
def _collect_only_what_is_made_here() -> Iterator[None]:
    """A collection of all that the other tests left takes a second."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_a_fact_goes_with_its_tool() -> None:
    """A memory holds no tool, and forgets a fact before another tool can get the id."""
    memory, tool = ToolMemory[str](), a_tool()
    assert memory.remember(tool, "a") == "a"
    assert memory.remember(tool, "b") == "b"
    assert list(memory.values()) == ["b"]
    del tool
    gc.collect()
    assert not memory
    assert not memory._tools  # pyright: ignore[reportPrivateUsage]  # what would fill up


def test_a_tool_holds_no_memory() -> None:
    """A memory ends with its pipeline, also where the tool lives on."""
    memory, tool = ToolMemory[str](), a_tool()
    memory.remember(tool, "a")
    alive = ref(memory)
    del memory
    gc.collect()
    assert alive() is None
    assert tool.name


def _send(memory: ToolMemory[str]) -> ToolMemory[str]:
    sent: ToolMemory[str] = pickle.loads(pickle.dumps(memory))
    return sent


COPIES: tuple[Callable[[ToolMemory[str]], ToolMemory[str]], ...] = (copy.copy, copy.deepcopy, _send)


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_is_empty(copied: Callable[[ToolMemory[str]], ToolMemory[str]]) -> None:
    """An id means another tool, or none, where a copy goes."""
    memory, tool = ToolMemory[str](), a_tool()
    memory.remember(tool, "a")
    assert copied(memory) == {}
    assert memory == {id(tool): "a"}


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
