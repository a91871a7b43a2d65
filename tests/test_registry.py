"""The registry: names and aliases taken once, and one gate that all who ask for a tool look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import SetupError, Tool, ToolRegistry, Unavailable
from support import a_tool, nothing


def holding(*names: str, **aliases: str) -> ToolRegistry:
    """A registry with tools of those names; ``alias="name"`` is a tool with an alias."""
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    for alias, name in aliases.items():
        tools.register(a_tool(name, aliases=(alias,)))
    return tools


def offered(tools: ToolRegistry) -> list[str]:
    return [each["name"] for each in tools.definitions()]


def test_a_registry_begins_empty() -> None:
    """Nothing is installed that nobody asked for."""
    tools = ToolRegistry()
    assert (len(tools), list(tools), tools.definitions(), tools.callable_names()) == (0, [], [], [])
    assert "read" not in tools


def test_a_registry_holds_what_it_was_given() -> None:
    """Tools come in the order of their registration, by name, and once for all their names."""
    tools = holding("b", "a", other="c")
    assert [tool.name for tool in tools] == ["b", "a", "c"]
    assert len(tools) == 3
    assert "c" in tools
    assert "other" not in tools
    assert tools.aliases == {"other": tools.tools["c"]}


def elsewhere(**_: object) -> None: ...


@pytest.mark.parametrize(
    ("second", "taken"),
    [
        pytest.param({"name": "read"}, "read", id="name, name"),
        pytest.param({"name": "rd"}, "rd", id="alias, name"),
        pytest.param({"name": "new", "aliases": ("read",)}, "read", id="name, alias"),
        pytest.param({"name": "new", "aliases": ("rd",)}, "rd", id="alias, alias"),
        pytest.param({"name": "new", "aliases": ("good", "rd")}, "rd", id="one of several"),
    ],
)
def test_a_name_is_taken_once(second: dict[str, Any], taken: str) -> None:
    """Two tools of one name or alias are refused, with both origins; nothing of the second is kept."""
    tools = holding(rd="read")
    before = dict(tools.tools), dict(tools.aliases), tools.version
    with pytest.raises(SetupError) as raised:
        tools.register(a_tool(fn=elsewhere, **second))
    assert str(raised.value).startswith(f"two tools are called '{taken}': ")
    assert f"{nothing.__module__}.nothing (line " in str(raised.value)
    assert f"{__name__}.elsewhere (line " in str(raised.value)
    assert (dict(tools.tools), dict(tools.aliases), tools.version) == before


def test_only_tools_are_registered() -> None:
    """A plain function is made a tool first."""
    unchecked: Any = nothing
    with pytest.raises(SetupError, match=r"nothing.* is no Tool"):
        ToolRegistry().register(unchecked)


ACTIONS: dict[str, Callable[[ToolRegistry], None]] = {
    "disable": lambda tools: tools.disable("a"),
    "enable": lambda tools: tools.enable("a"),
    "pause": lambda tools: tools.pause("a", 3.0),
    "resume": lambda tools: tools.resume("a"),
    "break": lambda tools: tools.close(Unavailable("a", "breaker_open", 5.0)),
    "mend": lambda tools: tools.reopen("a", "breaker_open"),
}
LOCKS = {"disable": ("enable", "disabled"), "pause": ("resume", "paused"), "break": ("mend", "breaker_open")}


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=8))
def test_each_reason_is_a_lock_of_its_own(actions: list[str]) -> None:
    """A tool is open when the last lock is gone, in whatever order they came and went; others are not touched."""
    tools = holding("a", "b")
    locks: dict[str, str] = {}
    for action in actions:
        ACTIONS[action](tools)
        if action in LOCKS:
            locks.setdefault(action, LOCKS[action][1])
        for lock, (key, _) in LOCKS.items():
            if action == key:
                locks.pop(lock, None)
    assert offered(tools) == tools.callable_names() == (["b"] if locks else ["a", "b"])
    assert set(tools.closed) == ({"a"} if locks else set())
    if locks:
        assert tools.closed["a"].reason == next(iter(locks.values()))


def test_the_gate_tells_why_and_when() -> None:
    """What shut the gate stands in it: the reason, and how long to wait where that is known."""
    tools = holding("a", "b")
    tools.pause("a", 3.0)
    tools.disable("b")
    assert tools.closed == {"a": Unavailable("a", "paused", 3.0), "b": Unavailable("b", "disabled")}
    tools.pause("a", 9.0)
    assert tools.closed["a"].retry_after == 9.0


UNKNOWN: dict[str, Callable[[ToolRegistry], object]] = {
    "disable": lambda tools: tools.disable("read"),
    "enable": lambda tools: tools.enable("read"),
    "pause": lambda tools: tools.pause("read"),
    "resume": lambda tools: tools.resume("read"),
    "close": lambda tools: tools.close(Unavailable("read", "quota")),
    "reopen": lambda tools: tools.reopen("read", "quota"),
    "view": lambda tools: tools.view({"read"}),
    "view of an alias": lambda tools: tools.view({"alias"}),
}


@pytest.mark.parametrize("act", [pytest.param(act, id=name) for name, act in UNKNOWN.items()])
def test_an_unknown_name_is_a_setup_error(act: Callable[[ToolRegistry], object]) -> None:
    """Closing what is not there is a mistake, and says what is there."""
    with pytest.raises(SetupError, match=r"there is no tool '(read|alias)' here; there are raed, other"):
        act(holding("raed", alias="other"))
    with pytest.raises(SetupError, match=r"there is no tool '(read|alias)' here; there are none"):
        act(ToolRegistry())


def test_definitions_are_what_is_open_now() -> None:
    """A model is offered name, description and schema of what it may call at this moment."""
    tools = holding("a", "b")
    tools.disable("a")
    assert tools.definitions() == [{"name": "b", "description": "", "parameters": {"type": "object"}}]
    tools.enable("a")
    assert offered(tools) == ["a", "b"]


def one_more(tools: ToolRegistry) -> None:
    tools.register(a_tool("new"))


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(act, id=name) for name, act in ACTIONS.items()),
        pytest.param(one_more, id="register"),
    ],
)
def test_every_change_is_a_new_version(change: Callable[[ToolRegistry], None]) -> None:
    """What was computed for an older version is known to be stale, in the registry and in its views."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    inner = view.view({"a"})
    before = tools.version, view.version, inner.version
    change(tools)
    assert all(new > old for new, old in zip((tools.version, view.version, inner.version), before, strict=True))


def test_a_change_in_a_view_is_a_new_version_of_it() -> None:
    """And not of the whole registry."""
    tools = holding("a")
    view = tools.view({"a"})
    before = tools.version, view.version
    view.disable("a")
    assert tools.version == before[0]
    assert view.version > before[1]


# --- views ------------------------------------------------------------------------------------------------------------


def test_a_view_shares_tools_and_leaves_others_closed() -> None:
    """The same tools, of which one caller may use some: the others are disabled, and offered to nobody."""
    tools = holding("a", "b", alias="c")
    view = tools.view(["a", "c"])
    assert view.tools is tools.tools
    assert view.aliases is tools.aliases
    assert offered(view) == view.callable_names() == ["a", "c"]
    assert dict(view.closed) == {"b": Unavailable("b", "disabled")}
    assert len(view.closed) == 1
    assert "b" in view.closed
    assert "a" not in view.closed
    with pytest.raises(KeyError):
        view.closed["a"]
    assert offered(tools) == ["a", "b", "c"]


@given(
    shown=st.sets(st.sampled_from("abc")),
    actions=st.lists(st.tuples(st.booleans(), st.sampled_from(["disable", "enable", "pause", "resume"])), max_size=6),
)
def test_a_view_is_closed_where_either_is(shown: set[str], actions: list[tuple[bool, str]]) -> None:
    """What is closed in the whole is closed in a view, what is closed in a view is closed there alone."""
    tools = holding("a", "b", "c")
    view = tools.view(shown)
    alone = holding("a", "b", "c")  # what the view's own locks would do by themselves
    for inside, action in actions:
        ACTIONS[action](view if inside else tools)
        if inside:
            ACTIONS[action](alone)
    assert view.callable_names() == [
        name for name in "abc" if name in shown and name not in tools.closed and name not in alone.closed
    ]
    assert set(tools.closed) <= {"a"}


def test_what_comes_later_is_seen() -> None:
    """A view follows its registry: what is closed or opened there later, and new tools, which it leaves closed."""
    tools = holding("a", "b")
    view = tools.view({"a", "b"})
    tools.pause("a", 3.0)
    assert view.closed["a"] == Unavailable("a", "paused", 3.0)
    tools.resume("a")
    tools.register(a_tool("c"))
    assert offered(view) == ["a", "b"]
    assert view.closed["c"] == Unavailable("c", "disabled")


def test_a_views_own_reason_is_told_first() -> None:
    """Its own lock, then what it leaves out, then the whole registry's."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    tools.pause("a")
    tools.pause("b")
    assert (view.closed["a"].reason, view.closed["b"].reason) == ("paused", "disabled")
    view.close(Unavailable("a", "quota"))
    assert (view.closed["a"].reason, tools.closed["a"].reason) == ("quota", "paused")


def test_enabling_in_a_view_shows_nothing_more() -> None:
    """A view cannot open what it leaves out, nor what the whole has closed."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    tools.disable("a")
    view.enable("a")
    view.enable("b")
    assert offered(view) == []


def test_a_view_of_a_view_shows_less() -> None:
    """Views nest: each can only take away."""
    tools = holding("a", "b", "c")
    inner = tools.view({"a", "b"}).view({"b", "c"})
    assert offered(inner) == ["b"]


def test_a_view_takes_no_tools_of_its_own() -> None:
    """A tool is registered with the whole registry, in every way in which it can be registered."""
    view = holding("a").view({"a"})
    with pytest.raises(SetupError, match="b: a view shares tools"):
        view.register(a_tool("b"))
    with pytest.raises(SetupError, match="nothing: a view shares tools"):
        view.tool(nothing)
    assert isinstance(view.tools["a"], Tool)
    assert list(view.tools) == ["a"]
