"""A registry that changes while it is used: tools replaced, removed, overridden, merged, and who is told."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from returns.result import Failure, Success

from support import a_tool
from toolcall_pipeline import (
    Call,
    Handler,
    Outcome,
    SetupError,
    ToolContext,
    ToolRegistry,
    ToolView,
    Unavailable,
    render,
    tool,
)
from toolcall_pipeline.middlewares import standard


def elsewhere(**_: object) -> None: ...


def say(text: str) -> str:
    return text


def holding(*names: str, **aliases: str) -> ToolRegistry:
    """A registry with tools of those names; ``alias="name"`` is a tool with an alias."""
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    for alias, name in aliases.items():
        tools.register(a_tool(name, aliases=(alias,)))
    return tools


def told(tools: ToolRegistry) -> list[int]:
    """The versions of the registry of which a listener was told."""
    versions: list[int] = []
    tools.on_change(lambda: versions.append(tools.version))
    return versions


def test_a_tool_is_replaced() -> None:
    """The new tool has the place of the old one, its lock and none of its aliases."""
    tools = holding("a", old="b", other="c")
    tools.disable("b")
    before, versions = tools.version, told(tools)
    tools.replace(a_tool("b", aliases=("new",), fn=elsewhere))
    assert sorted(tool.name for tool in tools) == ["a", "b", "c"]
    assert tools.tools["b"].fn is elsewhere
    assert set(tools.aliases) == {"new", "other"}
    assert set(tools.closed) == {"b"}
    assert tools.version > before
    assert versions == [tools.version]
    with pytest.raises(SetupError, match="two tools are called 'other'"):
        tools.replace(a_tool("b", aliases=("other",)))
    with pytest.raises(SetupError, match="unknown tool 'd'"):
        tools.replace(a_tool("d"))
    assert set(tools.aliases) == {"new", "other"}


async def test_a_tool_is_unregistered() -> None:
    """It is unknown then, with its aliases and locks, and its name is free again."""
    tools = holding("a", alias="b")
    tools.disable("b")
    run, view = standard(tools), tools.view({"a", "b"})
    tools.unregister("b")
    names = [each["name"] for each in tools.definitions()]
    assert (len(tools), dict(tools.aliases), dict(tools.closed), names) == (1, {}, {}, ["a"])
    assert list(view.closed) == []
    for name in ("b", "alias"):
        assert (await run.call(name)).failure().kind == "unknown_tool"
    tools.register(a_tool("b", aliases=("alias",)))
    assert await run.call("b") == Success("done")
    with pytest.raises(SetupError, match="unknown tool 'alias'"):
        tools.unregister("alias")


@pytest.mark.parametrize("effect", ["read", "idempotent", "keyed", "mutating"])
@pytest.mark.parametrize("shown", [False, True], ids=["registry", "view"])
async def test_a_call_that_waits_does_not_begin_once_its_tool_is_unregistered(effect: Any, shown: bool) -> None:
    """The guards ask right before the body; a tool of that name that is registered later is another one."""
    tools, ran = ToolRegistry(), list[str]()

    async def act(_context: ToolContext[Any]) -> None:
        ran.append("old")

    async def act_again(_context: ToolContext[Any]) -> None:
        ran.append("new")

    tools.register(tool(name="act", effect=effect, context=True)(act))
    tools.register(a_tool("other"))

    async def wait(call: Call, call_next: Handler[Call]) -> Outcome:
        if call.name == "act" and not ran:
            tools.unregister("act")
        return await call_next(call)

    run = standard(tools.view({"act", "other"}) if shown else tools).before("retry", wait)
    outcome = await run.call("act")
    assert (outcome, ran) == (Failure(Unavailable("act", "unregistered")), [])
    assert render(outcome) == "This tool is not available"
    assert (await run.call("act")).failure().kind == "unknown_tool"
    assert await run.call("other") == Success("done")
    ran.append("again")
    tools.register(tool(name="act", effect=effect, context=True)(act_again))
    assert (await run.call("act"), ran) == (Success(None), ["again", "new"])


async def test_a_retry_does_not_begin_again_once_the_tool_is_unregistered() -> None:
    """What was tried once is not tried a second time."""
    tools, tries = ToolRegistry(), list[int]()

    @tools.tool(effect="read")
    async def act() -> None:
        tries.append(1)
        tools.unregister("act")
        raise ConnectionError

    outcome = await standard(tools, attempts=3).call("act")
    assert (outcome.failure().kind, len(tries)) == ("unavailable", 1)


def test_a_gate_asks_for_nothing_once_nobody_holds_what_was_removed() -> None:
    """Tools come and go, as those of a server do: the gate is empty again, and nothing is kept."""
    tools = holding("a")
    for number in range(3):
        tools.register(a_tool(f"tool_{number}"))
        tools.unregister(f"tool_{number}")
    gc.collect()
    assert not tools.closed
    tools.disable("a")
    assert tools.closed
    assert dict(tools.closed) == {"a": Unavailable("a", "disabled")}


async def test_a_tool_is_overridden_in_a_test() -> None:
    """The fake gets what the tool would get; the block ends with the tool's own function, also by an exception."""
    tools = ToolRegistry()
    own = tools.tool(effect="read")(say)
    run, view = standard(tools), standard(tools.view({"say"}))

    async def fake(text: str) -> str:
        return f"fake {text}"

    def inner(text: str) -> str:
        return f"inner {text}"

    with tools.override("say", fake) as stand_in:
        assert stand_in.effect == "read"
        assert await run.call("say", {"text": "a"}) == Success("fake a")
        assert await view.call("say", {"text": "a"}) == Success("fake a")
        assert await run.run(own, text="a") == Success("fake a")
        assert (await run.call("say", {"text": [], "b": 2})).failure().kind == "validation"
        with tools.override("say", inner):
            assert await run.run(own, text="a") == Success("inner a")
        assert await run.call("say", {"text": "b"}) == Success("fake b")
    assert tools.tools["say"] is own
    with pytest.raises(KeyError), tools.override("say", fake):
        raise KeyError
    assert await run.call("say", {"text": "a"}) == Success("a")
    wrong: list[Any] = [("say", own), ("say", 3), ("sya", fake)]
    for name, function in wrong:
        with pytest.raises(SetupError), tools.override(name, function):
            pass


async def test_registries_are_merged() -> None:
    """All tools, or none, come with a prefix; what a prefixed tool is checked with gets the prefix as well."""
    tools, billing = holding("a"), ToolRegistry()
    billing.tool(name="pay", aliases=("transfer",), verify_with="paid")(say)
    billing.tool(name="paid", verify_with="a")(say)
    versions = told(tools)
    tools.merge(billing, prefix="billing_")
    assert [tool.name for tool in tools] == ["a", "billing_pay", "billing_paid"]
    assert set(tools.aliases) == {"billing_transfer"}
    assert [tools.tools[name].verify_with for name in ("billing_pay", "billing_paid")] == ["billing_paid", "a"]
    assert len(versions) == 1
    assert await standard(tools).call("billing_pay", {"text": "1"}) == Success("1")
    before = list(tools.tools)
    clash = ToolRegistry()
    for name in ("new", "a"):
        clash.tool(name=name)(say)
    with pytest.raises(SetupError, match="two tools are called 'a'"):
        tools.merge(clash)
    assert list(tools.tools) == before
    tools.merge(clash.view({"new"}))
    assert tools.tools["new"] is clash.tools["new"]
    wrong: Any = [say]
    with pytest.raises(SetupError, match="takes a ToolRegistry"):
        tools.merge(wrong)


def test_listeners_are_told_of_each_change(caplog: pytest.LogCaptureFixture) -> None:
    """A listener is called after the change; one that fails is logged; that of a view is told of its registry too."""
    tools = holding("a")
    view = tools.view({"a"})
    seen: list[str] = []

    def fail() -> None:
        raise RuntimeError("listener")

    tools.on_change(fail)
    stop = tools.on_change(lambda: seen.append(f"tools {sorted(tools.closed)} {len(tools)}"))
    stop_view = view.on_change(lambda: seen.append(f"view {sorted(view.closed)}"))
    view.disable("a")
    assert seen == ["view ['a']"]
    tools.disable("a")
    tools.enable("a")
    tools.register(a_tool("b"))
    assert seen[1:] == ["tools ['a'] 1", "view ['a']", "tools [] 1", "view ['a']", "tools [] 2", "view ['a', 'b']"]
    stop()
    stop_view()
    tools.unregister("b")
    assert len(seen) == 7
    assert "a listener of ToolRegistry.on_change failed" in caplog.text


def test_a_view_reads_and_closes() -> None:
    """A view is no registry: it has none of the methods that change the registered tools."""
    own = {name for name in vars(ToolRegistry) | vars(ToolRegistry()) if not name.startswith("_")}
    view = holding("a").view({"a"})
    assert isinstance(view, ToolView)
    assert not isinstance(view, ToolRegistry)
    assert {name for name in own if not hasattr(view, name)} == {
        *("merge", "override", "register", "replace", "tool", "unregister")
    }


CELL = """
@tools.tool(aliases=("s",))
def say(text: str) -> str:
    return {text!r}
"""


def test_a_cell_that_is_run_again_replaces_its_tool() -> None:
    """In a notebook and at a prompt a function replaces its own tool; another one's, or in a file, it does not."""
    for file in ("<ipython-input-3-ab>", "ipykernel_7/123.py", "<stdin>"):
        tools = ToolRegistry()
        space: dict[str, Any] = {"tools": tools, "__name__": "__main__"}
        for text in ("first", "second"):
            exec(compile(CELL.format(text=text), file, "exec"), space)
        assert tools.tools["say"].fn(text="") == "second"
        assert (len(tools), set(tools.aliases)) == (1, {"s"})
        with pytest.raises(SetupError, match="two tools are called 'say'"):
            tools.tool(say)
    for file, module in (("app.py", "__main__"), ("<stdin>", "app")):
        space = {"tools": ToolRegistry(), "__name__": module}
        exec(compile(CELL.format(text="first"), file, "exec"), space)
        with pytest.raises(SetupError, match="two tools are called 'say'"):
            exec(compile(CELL.format(text="second"), file, "exec"), space)
