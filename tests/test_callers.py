"""Who asks: principal, deps and conversation of a call, of all calls of a reply, a gather, a turn or a pipeline."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from returns.result import Success

from toolcall_pipeline import (
    Call,
    Handler,
    Outcome,
    Pipeline,
    ResolvedCall,
    SetupError,
    Stack,
    ToolContext,
    ToolRegistry,
    gather,
    gather_sync,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.builtin import install
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.messages.wording import Wording
from toolcall_pipeline.middlewares import standard


def asking() -> Pipeline:
    """A pipeline with one tool that says who asks."""
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def who(context: ToolContext[str | None], times: int = 1) -> str:
        return f"{context.principal} {context.deps}" * times

    return standard(tools)


CHAT = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "who", "arguments": "{}"}}]}
BLOCKS: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "who", "input": {}}]}


@pytest.mark.parametrize(
    ("calls", "reply"),
    [pytest.param(openai.calls, CHAT, id="openai"), pytest.param(anthropic.calls, BLOCKS, id="anthropic")],
)
def test_the_calls_of_a_reply_have_one_caller(calls: Callable[..., list[Call]], reply: object) -> None:
    """An adapter knows neither principal nor deps, so it is told for all calls of the reply."""
    deps = object()
    (call,) = calls(reply, principal="ann", deps=deps)
    assert (call.name, call.id, call.principal) == ("who", "1", "ann")
    assert call.deps is deps
    (call,) = calls(reply)
    assert (call.principal, call.deps) == ("", None)


async def test_the_calls_of_a_gather_have_one_caller() -> None:
    """What a call says itself stays; the caller's own list and calls are not changed."""
    calls = [Call("who"), Call("who", principal="bob"), Call("who", deps="own")]
    before = list(calls)
    outcomes = await gather(asking(), calls, principal="ann", deps="books")
    assert outcomes == [Success("ann books"), Success("bob books"), Success("ann own")]
    assert all(mine is theirs for mine, theirs in zip(calls, before, strict=True))
    assert await gather(asking(), calls) == [Success(" None"), Success("bob None"), Success(" own")]


async def test_the_calls_of_a_turn_have_one_caller() -> None:
    """Those that the model makes when it is asked again too."""

    async def model(*_: Any) -> Sequence[Call]:
        return [Call("who", {"times": 1}, id="2")]

    turn = await run_turn(model, [Call("who", {"times": "many"}, id="1")], asking(), principal="ann", deps="books")
    assert [each.outcome for each in turn.answered] == [Success("ann books")]


def showing() -> ToolRegistry:
    """A tool that says who asks in full, and one that calls it as often as it is given a call."""
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def who(context: ToolContext[object], reply: bool = False) -> str:
        return f"{context.principal}/{context.deps}/{context.conversation}"

    @tools.tool(effect="read", context=True)
    async def ask(context: ToolContext[object], principal: str = "") -> object:
        assert context.caller is not None
        return (await context.caller(Call("who", principal=principal))).unwrap()

    return tools


ALL = "ada/books/t1"


async def test_a_bound_pipeline_asks_for_each_call() -> None:
    """Whichever way a call is run; the values of a call win, and those of a later `with_` win over the earlier ones."""
    tools = showing()
    base = standard(tools)
    who = tools["who"]
    bound = base.with_(deps="books", principal="ada").with_(conversation="t1")
    assert await bound.call("who") == Success(ALL)
    assert await bound(Call("who")) == Success(ALL)
    assert await bound.run(who) == Success(ALL)
    assert (await bound.report(Call("who"))).outcome == Success(ALL)
    assert (await bound.report(Call("who"))).call.principal == "ada"
    assert await gather(bound, [Call("who"), Call("who", principal="bob")]) == [Success(ALL), Success("bob/books/t1")]
    assert (await run_turn(no_model, [Call("who")], bound)).answered[0].outcome == Success(ALL)
    assert await bound.call("who", principal="bob", deps="own", conversation="t2") == Success("bob/own/t2")
    assert await bound.with_(principal="eve").call("who") == Success("eve/books/t1")
    assert await base.call("who") == Success("/None/")
    call = Call("who")
    await bound(call)
    assert call == Call("who")


async def no_model(*_: Any) -> Sequence[Call]:
    return []


def test_a_bound_pipeline_asks_without_a_loop() -> None:
    """As `call`, `run` and `gather` do in one."""
    tools = showing()
    bound = standard(tools).with_(deps="books", principal="ada", conversation="t1")
    assert bound.call_sync("who") == bound.run_sync(tools["who"]) == Success(ALL)
    assert gather_sync(bound, [Call("who")]) == [Success(ALL)]


async def test_an_edited_pipeline_stays_bound() -> None:
    """So does one that ends in it."""

    async def passes(call: Call, call_next: Handler[Call]) -> Outcome:
        return await call_next(call)

    bound = standard(showing()).with_(deps="books", principal="ada", conversation="t1")
    for edited in (bound.before("retry", passes), bound.without("retry"), Stack().wrap(passes).end(bound)):
        assert await edited.call("who") == Success(ALL)


async def test_a_bound_pipeline_is_opened_with_its_own() -> None:
    """One of the two is opened, and both can be used."""

    class Opened:
        async def __aenter__(self) -> None:
            return None

        async def __aexit__(self, *_: object) -> None:
            return None

        async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
            return await call_next(call)

    base = standard(showing()).before("retry", Opened())
    bound = base.with_(principal="ada")
    async with base:
        assert await bound.call("who") == Success("ada/None/")
        with pytest.raises(SetupError, match="open already"):
            await bound.__aenter__()
    async with bound as entered:
        assert entered is bound
        assert await base.call("who") == Success("/None/")


def test_a_bound_pipeline_is_freed_at_once() -> None:
    """It holds no cycle, as a pipeline holds none."""
    gc.disable()
    try:
        base = standard(showing())
        held = weakref.ref(base), weakref.ref(bound := base.with_(principal="ada"))
        del base, bound
        assert [each() for each in held] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("wrong", [{"principal": 5}, {"conversation": None}])
def test_who_asks_is_text(wrong: dict[str, Any]) -> None:
    """Anything else is refused when the pipeline is bound."""
    with pytest.raises(SetupError, match=f"with_: `{next(iter(wrong))}` must be a str"):
        standard(showing()).with_(**wrong)


async def test_a_call_of_a_tool_is_asked_by_its_caller() -> None:
    """Where it does not say itself who asks; in a batch too, and the provider's reply is the same one."""
    tools = showing()
    replies: list[str] = []

    async def note(call: Call, call_next: Handler[Call]) -> Outcome:
        replies.append(call.reply)
        return await call_next(call)

    pipeline = standard(tools).before("retry", note)
    install(tools, pipeline)
    call = Call("ask", principal="ada", deps="books", conversation="t1", reply="r1")
    assert await pipeline(call) == Success(ALL)
    assert await pipeline(attrs.evolve(call, arguments={"principal": "bob"})) == Success("bob/books/t1")
    batch = attrs.evolve(call, name="batch", arguments={"calls": [{"tool": "who", "args": {}}]})
    found: Any = (await pipeline(batch)).unwrap()
    assert [each["output"] for each in found["results"]] == [ALL]
    assert set(replies) == {"r1"}


async def test_the_calls_of_a_turn_have_one_conversation() -> None:
    """Those that the model makes when it is asked again too."""

    async def model(*_: Any) -> Sequence[Call]:
        return [Call("who", id="2")]

    pipeline = standard(showing())
    turn = await run_turn(model, [Call("who", {"reply": "many"}, id="1")], pipeline, principal="ada", conversation="t1")
    assert [each.outcome for each in turn.answered] == [Success("ada/None/t1")]


def phases() -> list[Call]:
    """A call in each phase."""
    tools = showing()
    call = Call("who", {"reply": True}, "c1", "ada", conversation="t1", reply="r1", wording=Wording("rfc015"))
    resolved = call.resolved(tools["who"])
    return [call, resolved, resolved.validated({"reply": True})]


@pytest.mark.parametrize("phase", range(3))
def test_a_wording_is_no_part_of_a_call(phase: int) -> None:
    """It is in no ``repr``, comparison or pickle, in none of the phases; each later phase has it."""
    call = phases()[phase]
    assert call.wording == Wording("rfc015")
    assert "rfc015" not in repr(call)
    assert call == attrs.evolve(call, wording=None)
    no_tool: Any = None  # the tool of this test is a function in a function, which does not pickle
    stripped = attrs.evolve(call, tool=no_tool) if isinstance(call, ResolvedCall) else call
    assert b"rfc015" not in pickle.dumps(stripped)
    again = pickle.loads(pickle.dumps(stripped))  # our own
    assert again == stripped
    assert again.wording is None
