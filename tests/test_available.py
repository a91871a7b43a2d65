"""Available: a tool that is open goes on, one that is closed is refused with the reason."""

from __future__ import annotations

import pytest
from returns.result import Failure

from support import a_tool
from toolcall_pipeline import Call, ResolvedCall, ToolRegistry, Unavailable, render
from toolcall_pipeline.middlewares import Available


def calling(tools: ToolRegistry, name: str) -> ResolvedCall:
    return Call(name).resolved(tools.tools[name])


def holding(*names: str) -> ToolRegistry:
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name, aliases=(f"{name}_alias",)))
    return tools


def test_an_open_tool_goes_on_as_it_came() -> None:
    """Nothing of the call is changed, nor copied, whether or not another tool is closed."""
    tools = holding("a", "b")
    call = calling(tools, "a")
    assert Available(tools)(call) is call
    tools.disable("b")
    assert Available(tools)(call) is call


def test_a_valid_call_stays_one() -> None:
    """The check may stand behind any other: it gives back the phase that it was given."""
    tools = holding("a")
    call = calling(tools, "a").validated({})
    assert Available(tools)(call) is call


@pytest.mark.parametrize(
    ("why", "told"),
    [
        (Unavailable("a", "disabled"), None),
        (Unavailable("a", "paused", 3.0), 3.0),
        (Unavailable("a", "a reason of somebody's own"), None),
    ],
    ids=lambda each: getattr(each, "reason", ""),
)
def test_a_closed_tool_is_refused_with_the_reason(why: Unavailable, told: float | None) -> None:
    """Whoever closed it says why and for how long; of a tool that is off the model reads one constant text."""
    tools = holding("a")
    tools.close(why)
    found = Available(tools)(calling(tools, "a"))
    assert isinstance(found, Failure)
    assert found.failure() is why
    assert found.failure().retry_after == told
    assert render(found.failure()) == "This tool is not available"


def test_it_asks_at_every_call() -> None:
    """A tool may be closed and opened between two calls of one pipeline."""
    tools = holding("a")
    check, call = Available(tools), calling(tools, "a")
    seen: list[bool] = []
    for change in (tools.disable, tools.pause, tools.enable, tools.resume):
        change("a")
        seen.append(check(call) is call)
    assert seen == [False, False, False, True]


def test_it_goes_by_the_tool_and_not_by_the_name_that_was_written() -> None:
    """A closed tool is closed under its aliases too."""
    tools = holding("a")
    tools.disable("a")
    assert isinstance(Available(tools)(Call("a_alias").resolved(tools.tools["a"])), Failure)


def test_a_view_is_asked_for_itself() -> None:
    """What a view leaves out, or has closed, is closed for those who come through it, and for no others."""
    tools = holding("a", "b")
    view = tools.view({"a"})
    assert isinstance(Available(view)(calling(tools, "b")), Failure)
    assert not isinstance(Available(view)(calling(tools, "a")), Failure)
    assert not isinstance(Available(tools)(calling(tools, "b")), Failure)
    view.pause("a", 1.0)
    assert Available(view)(calling(tools, "a")) == Failure(Unavailable("a", "paused", 1.0))
