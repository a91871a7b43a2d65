"""The registry: each name and alias once, and one gate for everybody who asks whether a tool is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support import a_tool, nothing
from toolcall_pipeline import SetupError, ToolRegistry, ToolView, Unavailable


def holding(*names: str, **aliases: str) -> ToolRegistry:
    """A registry with tools of those names; ``alias="name"`` is a tool with an alias."""
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    for alias, name in aliases.items():
        tools.register(a_tool(name, aliases=(alias,)))
    return tools


def offered(tools: ToolView) -> list[str]:
    return [each["name"] for each in tools.definitions()]


def test_a_registry_begins_empty() -> None:
    """A new registry has no tools."""
    tools = ToolRegistry()
    assert (len(tools), list(tools), tools.definitions(), tools.callable_names()) == (0, [], [], [])
    assert "read" not in tools


def test_a_registry_holds_its_tools_by_name() -> None:
    """Tools are iterated in the order of registration, and a tool with aliases counts once."""
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
    """A second tool with a name or alias that is taken is refused, with both origins; nothing of it is kept."""
    tools = holding(rd="read")
    before = dict(tools.tools), dict(tools.aliases), tools.version
    with pytest.raises(SetupError) as raised:
        tools.register(a_tool(fn=elsewhere, **second))
    assert str(raised.value).startswith(f"two tools are called '{taken}': ")
    assert f"{nothing.__module__}.nothing (line " in str(raised.value)
    assert f"{__name__}.elsewhere (line " in str(raised.value)
    assert (dict(tools.tools), dict(tools.aliases), tools.version) == before


def test_only_tools_are_registered() -> None:
    """A plain function is refused: it has to be made a tool first."""
    unchecked: Any = nothing
    with pytest.raises(SetupError, match=r"register\(\) takes a Tool, not <function nothing"):
        ToolRegistry().register(unchecked)


ACTIONS: dict[str, Callable[[ToolView], None]] = {
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
    """A tool is open when its last lock is gone, in whatever order locks come and go; other tools stay open."""
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


def test_the_gate_says_why_and_when() -> None:
    """The gate holds the reason why a tool is closed, and the seconds to wait if they are known."""
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
    "item": lambda tools: tools["read"],
    "item by an alias": lambda tools: tools["alias"],
    "view of an alias": lambda tools: tools.view({"alias"}),
}


@pytest.mark.parametrize("act", [pytest.param(act, id=name) for name, act in UNKNOWN.items()])
def test_an_unknown_name_is_a_setup_error(act: Callable[[ToolRegistry], object]) -> None:
    """An unknown tool is a SetupError that lists the known ones; an alias is not a tool's name here."""
    with pytest.raises(SetupError, match=r"unknown tool '(read|alias)'; known: raed, other"):
        act(holding("raed", alias="other"))
    with pytest.raises(SetupError, match=r"unknown tool '(read|alias)'; known: none"):
        act(ToolRegistry())


def test_a_tool_is_found_by_its_name() -> None:
    """`tools["raed"]` is the tool that was registered, in a view too."""
    tools = holding("raed")
    (tool,) = tools
    assert tools["raed"] is tool
    assert tools.view({"raed"})["raed"] is tool


def test_definitions_are_of_open_tools() -> None:
    """A model is offered name, description and schema of the tools that it may call now."""
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
    """Each change raises the version of the registry and of its views, so older answers count as stale."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    inner = view.view({"a"})
    before = tools.version, view.version, inner.version
    change(tools)
    assert all(new > old for new, old in zip((tools.version, view.version, inner.version), before, strict=True))


def test_a_change_in_a_view_is_a_new_version_of_it() -> None:
    """A change in a view raises the version of the view, and not that of the registry."""
    tools = holding("a")
    view = tools.view({"a"})
    before = tools.version, view.version
    view.disable("a")
    assert tools.version == before[0]
    assert view.version > before[1]


# --- views ------------------------------------------------------------------------------------------------------------


def test_a_view_shares_tools_and_leaves_others_closed() -> None:
    """A view has the same tools; those that it leaves out are disabled in it and not offered."""
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
    """What is closed in the registry is closed in its view; what is closed in a view is closed there alone."""
    tools = holding("a", "b", "c")
    view = tools.view(shown)
    alone = holding("a", "b", "c")  # has the view's own locks alone
    for inside, action in actions:
        ACTIONS[action](view if inside else tools)
        if inside:
            ACTIONS[action](alone)
    assert view.callable_names() == [
        name for name in "abc" if name in shown and name not in tools.closed and name not in alone.closed
    ]
    assert set(tools.closed) <= {"a"}


def test_a_view_follows_its_registry() -> None:
    """A view sees what is closed or opened in the registry later; it leaves new tools closed."""
    tools = holding("a", "b")
    view = tools.view({"a", "b"})
    tools.pause("a", 3.0)
    assert view.closed["a"] == Unavailable("a", "paused", 3.0)
    tools.resume("a")
    tools.register(a_tool("c"))
    assert offered(view) == ["a", "b"]
    assert view.closed["c"] == Unavailable("c", "disabled")


def test_a_views_own_reason_comes_first() -> None:
    """A view gives its own lock as the reason, then that it leaves the tool out, then the lock of the registry."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    tools.pause("a")
    tools.pause("b")
    assert (view.closed["a"].reason, view.closed["b"].reason) == ("paused", "disabled")
    view.close(Unavailable("a", "quota"))
    assert (view.closed["a"].reason, tools.closed["a"].reason) == ("quota", "paused")


def test_enabling_in_a_view_shows_nothing_more() -> None:
    """A view cannot open a tool that it leaves out, nor one that its registry has closed."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    tools.disable("a")
    view.enable("a")
    view.enable("b")
    assert offered(view) == []


def test_a_view_of_a_view_shows_less() -> None:
    """A view of a view has at most the tools of both."""
    tools = holding("a", "b", "c")
    inner = tools.view({"a", "b"}).view({"b", "c"})
    assert offered(inner) == ["b"]


# --- locks that open by themselves ----------------------------------------------------------------------------------


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def until(self, end: float) -> Callable[[], float]:
        """The seconds until a lock ends; below zero after that."""
        return lambda: end - self.now


def breaker(name: str, seconds: float | None = None) -> Unavailable:
    return Unavailable(name, "breaker_open", seconds)


@pytest.mark.parametrize(("now", "left"), [(0.0, 30.0), (29.5, 0.5), (30.0, None), (99.0, None)])
def test_a_lock_may_open_by_itself(now: float, left: float | None) -> None:
    """The gate says how long such a lock still holds, whatever ``retry_after`` it came with; at 0 the tool is open."""
    tools, clock = holding("a", "b"), Clock()
    tools.close(breaker("a", 5.0), clock.until(30.0))
    clock.now = now
    assert tools.closed == ({} if left is None else {"a": breaker("a", left)})
    assert offered(tools) == tools.callable_names() == (["a", "b"] if left is None else ["b"])


@pytest.mark.parametrize("lapses_first", [True, False])
@pytest.mark.parametrize("closed_first", [True, False])
def test_other_locks_still_hold(closed_first: bool, lapses_first: bool) -> None:
    """The oldest lock is the reason; when it is gone the other one still closes the tool. Other tools keep theirs."""
    tools, clock = holding("a", "b", "c"), Clock()
    tools.disable("b")
    closing: list[Callable[[], None]] = [
        lambda: tools.close(breaker("a"), clock.until(30.0)),
        lambda: tools.pause("a", 3.0),
    ]
    both = [breaker("a", 30.0), Unavailable("a", "paused", 3.0)]
    for close in closing if closed_first else reversed(closing):
        close()
    assert tools.closed == {"b": Unavailable("b", "disabled"), "a": both[0 if closed_first else 1]}
    if lapses_first:
        clock.now = 30.0
    else:
        tools.resume("a")
    assert tools.closed == {"b": Unavailable("b", "disabled"), "a": both[1 if lapses_first else 0]}
    clock.now = 30.0
    tools.resume("a")
    assert tools.closed == {"b": Unavailable("b", "disabled")}


def test_a_lock_is_renewed_by_the_same_reason() -> None:
    """The same reason again replaces the lock, with or without an end; `reopen` removes it before its end."""
    tools, clock = holding("a"), Clock()
    tools.close(breaker("a"), clock.until(10.0))
    tools.close(breaker("a"), clock.until(30.0))
    assert tools.closed == {"a": breaker("a", 30.0)}
    tools.close(breaker("a"))
    clock.now = 99.0
    assert tools.closed == {"a": breaker("a")}
    tools.close(breaker("a"), clock.until(100.0))
    assert tools.closed == {"a": breaker("a", 1.0)}
    tools.reopen("a", "breaker_open")
    assert tools.closed == {}


def test_a_view_has_such_locks_of_its_own() -> None:
    """A lock of the view holds there alone and comes first; a lock of the registry holds in its views too."""
    tools, clock = holding("a", "b"), Clock()
    view = tools.view({"a", "b"})
    inner = view.view({"a", "b"})
    tools.close(Unavailable("a", "quota"), clock.until(50.0))
    tools.close(breaker("b"), clock.until(20.0))
    view.close(breaker("a"), clock.until(30.0))
    assert dict(tools.closed) == {"a": Unavailable("a", "quota", 50.0), "b": breaker("b", 20.0)}
    assert dict(view.closed) == dict(inner.closed) == {"a": breaker("a", 30.0), "b": breaker("b", 20.0)}
    clock.now = 30.0
    for each in (tools, view, inner):
        assert dict(each.closed) == {"a": Unavailable("a", "quota", 20.0)}
        assert offered(each) == ["b"]
    clock.now = 50.0
    for each in (tools, view, inner):
        assert dict(each.closed) == {}
        assert offered(each) == ["a", "b"]


def in_the_whole(tools: ToolRegistry) -> tuple[ToolView, ToolView]:
    return tools, tools


def in_a_view(tools: ToolRegistry) -> tuple[ToolView, ToolView]:
    view = tools.view({*"abcd"})
    return view, view


def seen_in_a_view(tools: ToolRegistry) -> tuple[ToolView, ToolView]:
    return tools, tools.view({*"abcd"}).view({*"abcd"})


@pytest.mark.parametrize("where", [in_the_whole, in_a_view, seen_in_a_view])
@pytest.mark.parametrize(("now", "shut"), [(0.0, "abc"), (9.0, "abc"), (10.0, "bc"), (20.0, "c"), (99.0, "c")])
def test_the_gate_is_a_mapping_at_any_time(
    where: Callable[[ToolRegistry], tuple[ToolView, ToolView]], now: float, shut: str
) -> None:
    """Iteration, length, ``in`` and ``[]`` agree with `get`, while locks hold and after they have opened."""
    clock = Clock()
    closing, asked = where(holding("a", "b", "c", "d"))
    closing.close(breaker("a"), clock.until(10.0))
    closing.close(breaker("b"), clock.until(20.0))
    closing.disable("c")
    clock.now = now
    gate, otherwise = asked.closed, object()
    assert "".join(gate) == "".join(gate.keys()) == shut
    assert len(gate) == len(shut)
    for name in ("a", "b", "c", "d", "unknown"):
        assert (name in gate) == (name in shut)
        if name in shut:
            assert gate[name] == gate.get(name) == gate.get(name, otherwise) == dict(gate)[name]
        else:
            assert gate.get(name) is None
            assert gate.get(name, otherwise) is otherwise
            with pytest.raises(KeyError, match=name):
                gate[name]
    no_text: Any = 7
    assert no_text not in gate


Step = tuple[str, str, float]
STEPS = st.one_of(
    st.tuples(st.sampled_from(["quota", "breaker_open"]), st.sampled_from("ab"), st.sampled_from([1.0, 2.0, 5.0])),
    st.tuples(st.sampled_from(["pause", "resume", "reopen"]), st.sampled_from("ab"), st.just(0.0)),
    st.tuples(st.just("wait"), st.just(""), st.sampled_from([0.5, 1.0, 3.0])),
    st.tuples(st.just("register"), st.just(""), st.just(0.0)),
)


def take(tools: ToolRegistry, clock: Clock, ends: dict[tuple[str, str], float], step: Step) -> None:
    """Take a step, and note when each lock ends."""
    act, name, seconds = step
    if act == "wait":
        clock.now += seconds
    elif act == "register":
        tools.register(a_tool(f"new{len(tools)}"))
    elif act == "pause":
        tools.pause(name)
        ends[name, "paused"] = float("inf")
    elif act == "resume":
        tools.resume(name)
        ends.pop((name, "paused"), None)
    elif act == "reopen":
        tools.reopen(name, "breaker_open")
        ends.pop((name, "breaker_open"), None)
    else:
        tools.close(Unavailable(name, act), clock.until(clock.now + seconds))
        ends[name, act] = clock.now + seconds


@given(st.lists(STEPS, max_size=12))
@example([("quota", "a", 1.0), ("wait", "", 1.0), ("quota", "a", 1.0)])
def test_the_end_of_a_lock_is_a_change(steps: list[Step]) -> None:
    """No version comes back after a lock was set, removed or has ended, here or in a view; time alone changes none."""
    tools, clock = holding("a", "b"), Clock()
    view = tools.view({"a"})
    ends: dict[tuple[str, str], float] = {}
    holding_on: set[tuple[str, str]] = set()
    versions = tools.version, view.version
    offers = offered(tools)
    for step in steps:
        take(tools, clock, ends, step)
        holding_before, holding_on = holding_on, {lock for lock, end in ends.items() if end > clock.now}
        assert set(tools.closed) == {name for name, _ in holding_on}
        assert all((name, why.reason) in holding_on for name, why in tools.closed.items())
        versions_before, versions = versions, (tools.version, view.version)
        offers_before, offers = offers, offered(tools)
        if offers != offers_before or holding_on != holding_before:
            assert all(new > old for new, old in zip(versions, versions_before, strict=True))
        elif step[0] == "wait":
            assert versions == versions_before
        else:
            assert all(new >= old for new, old in zip(versions, versions_before, strict=True))


def add_a_lock_that_ends(tools: ToolRegistry) -> None:
    tools.close(breaker("a"), lambda: 1.0)


@pytest.mark.parametrize("change", [one_more, add_a_lock_that_ends])
def test_a_change_exceeds_all_earlier_versions(change: Callable[[ToolRegistry], None]) -> None:
    """No older version comes back even if a lock holds again that had opened, as that of a circuit breaker does."""
    tools, left = holding("a"), [1.0]
    tools.close(Unavailable("a", "quota"), lambda: left[0])
    before = {tools.version}
    left[0] = 0.0
    before.add(tools.version)
    assert len(before) == 2
    change(tools)
    left[0] = 1.0
    assert tools.version > max(before)


def test_an_alias_that_is_paused_names_no_hidden_tool() -> None:
    """The error lists the tools that a view shows, and none that is hidden or left out."""
    tools = ToolRegistry()
    tools.tool(name="concealed", hidden=True, aliases=("alias",))(lambda: None)
    tools.tool(name="shown")(lambda: None)
    tools.tool(name="left_out")(lambda: None)
    with pytest.raises(SetupError, match=r"unknown tool 'alias'; known: shown, left_out$"):
        tools.pause("alias")
    with pytest.raises(SetupError, match=r"unknown tool 'alias'; known: shown$"):
        tools.view({"shown"}).pause("alias")
