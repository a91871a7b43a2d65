"""LangChain's own control flow, with the pipeline around its tools. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent, middleware
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ToolCallLimitMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langchain_core.tools import Tool as SingleInputTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, ValidationError

from host_approvals import Bank
from host_comparison import MINE, TOLD_OF_AD, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import SetupError, Tool, ToolFailed, ToolRegistry
from toolcall_pipeline.hosts.langchain import ToolcallMiddleware, export_tools
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.stores import SQLite
from turns import OTHER, RUNS, check_turns, send


@pytest.fixture
def anyio_backend() -> str:
    """LangGraph needs asyncio."""
    return "asyncio"


class Model(GenericFakeChatModel):
    """Says what it is given."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """It needs to know none."""
        return self


def saying(*turns: list[tuple[str, dict[str, Any]]]) -> Model:
    """A model that makes these calls, a list a turn, and is done then."""
    made = [
        AIMessage(
            content="",
            tool_calls=[
                {"name": name, "args": args, "id": f"{turn}.{number}"} for number, (name, args) in enumerate(calls)
            ],
        )
        for turn, calls in enumerate(turns)
    ]
    return Model(messages=iter([*made, AIMessage(content="done")]))


def told(result: Any) -> list[str]:
    """What the model was told of its calls."""
    return [message.text for message in result["messages"] if message.type == "tool"]


GO = {"messages": [("user", "go")]}


@pytest.mark.parametrize("run_async", [True, False])
def test_an_interrupt_stops_the_run_and_goes_on_with_the_answer(run_async: bool) -> None:
    """`interrupt()` in a tool passes the pipeline; the tool that is resumed gets the answer."""
    begun: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        begun.append(amount)
        return f"paid {amount}" if interrupt(f"pay {amount}?") == "yes" else "refused"

    agent = create_agent(
        saying([("pay", {"amount": "5"})]), [pay], middleware=[ToolcallMiddleware()], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}

    def run(sent: Any) -> Any:
        return asyncio.run(agent.ainvoke(sent, config)) if run_async else agent.invoke(sent, config)

    stopped = run(GO)
    assert stopped["__interrupt__"][0].value == "pay 5?"
    assert told(stopped) == []
    assert told(run(Command(resume="yes"))) == ["paid 5"]
    assert begun == [5, 5]  # LangGraph runs the tool again from its start; nobody else does


def test_a_command_reaches_the_graph() -> None:
    """A `Command` that a tool returns updates the state."""

    @tool
    def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note."""
        return Command(update={"messages": [ToolMessage(f"noted {text}", tool_call_id=call_id)]})

    agent = create_agent(saying([("note", {"text": "x"})]), [note], middleware=[ToolcallMiddleware()])
    assert told(agent.invoke(GO)) == ["noted x"]


def test_injected_state_and_runtime_stay_the_graphs() -> None:
    """What the model sends in their place is not used, and the schema does not ask for it."""

    @tool
    def look(n: int, state: Annotated[dict[str, Any], InjectedState], runtime: ToolRuntime) -> str:
        """Look."""
        return f"{n} {len(state['messages'])} {runtime.tool_call_id}"

    calls = [("look", {"n": "1"}), ("look", {"n": 1, "state": {"messages": []}})]
    agent = create_agent(saying(calls), [look], middleware=[ToolcallMiddleware()])
    assert told(agent.invoke(GO)) == ["1 2 0.0", "1 2 0.1"]


def test_a_person_is_asked_before_the_pipeline_runs_anything() -> None:
    """LangChain's own approval middleware still stops the run."""
    ran: list[int] = []

    @tool
    def drop(n: int) -> str:
        """Drop."""
        ran.append(n)
        return "dropped"

    ask: Any = HumanInTheLoopMiddleware(interrupt_on={"drop": True})
    agent = create_agent(
        saying([("drop", {"n": 1})]), [drop], middleware=[ask, ToolcallMiddleware()], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    assert "__interrupt__" in agent.invoke(GO, config)
    assert ran == []
    assert told(agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)) == ["dropped"]
    assert ran == [1]


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("drop", {"path": "/etc"}),
        ("functions.drop", {"path": "/etc"}),
        ('"drop"', {"path": "/etc"}),
        ("drop", {"arguments": {"path": "/etc"}}),
        ("drop", {"Path": "/etc"}),
    ],
)
def test_no_way_to_write_a_call_passes_the_person(
    name: str, args: dict[str, Any], run_async: bool, ours_first: bool
) -> None:
    """The approval judges the name and the arguments that will run, whatever the order of the two."""
    ran: list[str] = []

    @tool
    def drop(path: str) -> str:
        """Drop."""
        ran.append(path)
        return "dropped"

    def is_etc(request: Any) -> bool:
        return request.tool_call["args"].get("path") == "/etc"

    ask: Any = HumanInTheLoopMiddleware(interrupt_on={"drop": {"allowed_decisions": ["approve"], "when": is_etc}})
    order = [ToolcallMiddleware(), ask] if ours_first else [ask, ToolcallMiddleware()]
    agent = create_agent(saying([(name, args)]), [drop], middleware=order, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    stopped = asyncio.run(agent.ainvoke(GO, config)) if run_async else agent.invoke(GO, config)
    assert "__interrupt__" in stopped
    assert ran == []


@pytest.mark.parametrize("run_async", [True, False])
def test_a_tool_node_on_its_own(run_async: bool) -> None:
    """`ToolNode` takes the two functions of the middleware; unknown names get our text."""

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    ours = ToolcallMiddleware(tools=[add])
    node = ToolNode([add], wrap_tool_call=ours.wrap_tool_call, awrap_tool_call=ours.awrap_tool_call)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    made = [{"name": "add", "args": {"a": "1", "b": 2}, "id": "1"}, {"name": "ad", "args": {}, "id": "2"}]
    sent: Any = {"messages": [AIMessage(content="", tool_calls=made)]}
    result = asyncio.run(graph.ainvoke(sent)) if run_async else graph.invoke(sent)
    right, unknown = told(result)
    assert right == "3"
    assert "Did you mean: add?" in unknown


def test_further_tools_are_tools() -> None:
    """A function would be found in no call; it is refused when the middleware is made."""
    with pytest.raises(SetupError, match="`tools` must be a BaseTool"):
        ToolcallMiddleware(tools=[print])


async def test_calls_at_once_run_at_once() -> None:
    """Two calls of one message wait for each other, so both have to be under way."""
    both = asyncio.Barrier(2)

    @tool
    async def meet(n: int) -> int:
        """Meet."""
        await both.wait()
        return n

    agent = create_agent(saying([("meet", {"n": 1}), ("meet", {"n": 2})]), [meet], middleware=[ToolcallMiddleware()])
    assert told(await asyncio.wait_for(agent.ainvoke(GO), 20)) == ["1", "2"]


async def test_a_sync_run_inside_of_a_running_loop() -> None:
    """As in a notebook."""

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    agent = create_agent(saying([("add", {"a": "1", "b": 2})]), [add], middleware=[ToolcallMiddleware(timeout=20)])
    assert told(agent.invoke(GO)) == ["3"]


async def test_a_tool_writes_to_the_stream() -> None:
    """The writer of the stream is the graph's, and the messages come as they do without the pipeline."""

    @tool
    def work(n: int, runtime: ToolRuntime) -> int:
        """Work."""
        runtime.stream_writer(f"at {n}")
        return n

    agent = create_agent(saying([("work", {"n": 1})]), [work], middleware=[ToolcallMiddleware()])
    seen = [part async for part in agent.astream(GO, stream_mode=["custom", "updates"])]
    assert ("custom", "at 1") in seen
    assert any(mode == "updates" and "tools" in part for mode, part in seen)


async def test_two_agents_with_two_tools_of_one_name_share_a_middleware() -> None:
    """Each call runs the tool of its own agent, by its own schema, and hears of no other agent's tools."""
    ours = ToolcallMiddleware()
    go_on = asyncio.Event()

    @tool("find")
    def by_number(n: int) -> str:
        """Find."""
        return f"number {n}"

    @tool("find")
    def by_text(text: str) -> str:
        """Find."""
        return f"text {text}"

    @tool
    async def wait() -> str:
        """Wait until the other agent is done."""
        await go_on.wait()
        return "waited"

    @tool
    def delete_all() -> str:
        """Delete."""
        return "gone"

    first = create_agent(
        saying([("wait", {})], [("find", {"n": "1"}), ("delete_al", {})]), [by_number, wait], middleware=[ours]
    )
    second = create_agent(saying([("find", {"text": "x"})]), [by_text, delete_all], middleware=[ours])
    task = asyncio.create_task(first.ainvoke(GO))
    assert told(await second.ainvoke(GO)) == ["text x"]
    go_on.set()
    _, found, unknown = told(await asyncio.wait_for(task, 20))
    assert found == "number 1"
    assert "not found" in unknown
    assert "delete_all" not in unknown


@pytest.mark.parametrize(("effect", "runs"), [("read", 2), ("mutating", 1)])
async def test_what_may_have_taken_effect_is_run_once(effect: str, runs: int) -> None:
    """A lost call of a tool that changes something is not repeated."""
    ran: list[int] = []

    @tool
    def send(n: int) -> str:
        """Send."""
        ran.append(n)
        raise ConnectionError("503")

    send.metadata = {"effect": effect}
    agent = create_agent(saying([("send", {"n": 1})]), [send], middleware=[ToolcallMiddleware(attempts=2)])
    await agent.ainvoke(GO)
    assert len(ran) == runs


async def test_a_time_limit_and_a_cancelled_run_end_the_tool() -> None:
    """The tool's task is cancelled, and a run that was cancelled stays so."""
    begun, ended = asyncio.Event(), []

    @tool
    async def hang(n: int) -> str:
        """Hang."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)
        return "never"

    def make(**options: Any) -> Any:
        return create_agent(
            saying([("hang", {"n": len(ended)})]), [hang], middleware=[ToolcallMiddleware({"hang": "read"}, **options)]
        )

    assert "did not finish" in told(await make(timeout=0.05, attempts=1).ainvoke(GO))[0]
    assert ended == [0]
    begun.clear()
    task = asyncio.create_task(make().ainvoke(GO))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_a_registry_as_tools_of_langchain() -> None:
    """Repaired, refused and failed calls, sync and async; the failures are messages of status error."""
    registry = ToolRegistry()

    @registry.tool(effect="read")
    def double(n: int) -> int:
        """Double."""
        return n * 2

    @registry.tool
    def fail(n: int) -> int:
        """Fail."""
        if n:
            raise ToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    @registry.tool
    def draw() -> list[Any]:
        """Draw."""
        return ["see", b"\x89PNG\r\n\x1a\n"]

    tools = export_tools(registry, standard(registry))
    calls = [("double", {"n": "2"}), ("double", {}), ("fail", {"n": 1}), ("fail", {"n": 0}), ("draw", {})]
    for result in (await create_agent(saying(calls), tools).ainvoke(GO), create_agent(saying(calls), tools).invoke(GO)):
        right, missing, failed, crashed, _ = told(result)
        assert right == "4"
        assert "Missing required parameter: n" in missing
        assert "Ask for fewer." in failed
        assert "hunter2" not in crashed
        drawn = next(message for message in result["messages"] if message.name == "draw")
        assert [block["type"] for block in drawn.content] == ["text", "image"]
        statuses = [message.status for message in result["messages"] if message.type == "tool"]
        assert statuses == ["success", "error", "error", "error", "success"]


@pytest.mark.parametrize("parameter", ["config", "run_manager", "self", "args", "runtime"])
def test_an_exported_tool_takes_parameters_of_any_name(parameter: str) -> None:
    """LangChain hands some names to functions that take them; ours takes what the model sent."""
    registry = ToolRegistry()
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    registry.register(Tool.from_schema(name="echo", parameters=schema, handler=lambda **sent: sent[parameter]))
    tools = export_tools(registry, standard(registry))
    calls = [("echo", {parameter: "mine"})]
    assert told(create_agent(saying(calls), tools).invoke(GO)) == ["mine"]
    assert told(asyncio.run(create_agent(saying(calls), tools).ainvoke(GO))) == ["mine"]


async def test_an_authors_words_and_parts_reach_the_model() -> None:
    """The text of a ToolException, and an error message with its parts, come as they do without the pipeline."""
    words = "Order 7 is in /srv/orders, ask ann@example.com."

    @tool
    def raises(n: int) -> str:
        """Raise."""
        raise ToolException(words)

    @tool
    def draws(call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Draw."""
        picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
        content: Any = [{"type": "text", "text": words}, picture]
        return ToolMessage(content, tool_call_id=call_id, status="error", artifact={"a": 1}, id="mine", name="draws")

    raises.handle_tool_error = True
    told_twice: list[Any] = []
    for ours in ([], [ToolcallMiddleware()]):
        agent = create_agent(saying([("raises", {"n": 1}), ("draws", {})]), [raises, draws], middleware=ours)
        messages = [each for each in (await agent.ainvoke(GO))["messages"] if each.type == "tool"]
        told_twice.append([(each.content, each.status, each.artifact, each.name) for each in messages])
        assert messages[1].id == "mine"
    assert told_twice[0] == told_twice[1]


@pytest.mark.parametrize("words", ["Use a number, as in /srv/ids.", lambda error: f"{len(error.errors())} of yours."])
async def test_an_authors_words_for_wrong_arguments_reach_the_model(words: Any) -> None:
    """A text or a function in `handle_validation_error` answers arguments that are refused, as without the pipeline."""
    ran: list[int] = []

    @tool
    def pay(amount: int) -> None:
        """Pay."""
        ran.append(amount)

    pay.handle_validation_error = words
    told_twice: list[Any] = []
    for ours in ([], [ToolcallMiddleware()]):
        agent = create_agent(saying([("pay", {"amount": "much"}), ("pay", {})]), [pay], middleware=ours)
        told_twice.append([(m.content, m.status) for m in (await agent.ainvoke(GO))["messages"] if m.type == "tool"])
    assert told_twice[0] == told_twice[1]
    assert (ran, [status for _, status in told_twice[1]]) == ([], ["error", "error"])


@pytest.mark.parametrize("run_async", [True, False])
def test_a_tool_exception_that_nothing_handles_is_told(run_async: bool) -> None:
    """It ends the run without the pipeline; with it the model reads its words, which are the author's."""

    @tool
    def pay(amount: int) -> None:
        """Pay."""
        raise ToolException("Order 7 is in /srv/orders.")

    agent = create_agent(saying([("pay", {"amount": 1})]), [pay], middleware=[ToolcallMiddleware()])
    answer = asyncio.run(agent.ainvoke(GO)) if run_async else agent.invoke(GO)
    assert [m.content for m in answer["messages"] if m.type == "tool"] == ["Error: Order 7 is in /srv/orders."]


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize(
    ("limits", "steps", "runs"),
    [([ToolCallLimitMiddleware(run_limit=2)], 100, 2), ([ModelCallLimitMiddleware(run_limit=3)], 100, 3), ([], 6, 3)],
)
async def test_the_limits_of_a_run_hold(limits: list[Any], steps: int, runs: int, ours: bool) -> None:
    """Limits of tool calls, of model calls and of steps count what they count without the pipeline."""
    ran: list[int] = []

    @tool
    def look(n: int) -> None:
        """Look."""
        ran.append(n)

    middleware = [*limits, *([ToolcallMiddleware()] if ours else [])]
    agent = create_agent(saying(*[[("look", {"n": 1})]] * 9), [look], middleware=middleware)
    with suppress(GraphRecursionError):
        await agent.ainvoke(GO, {"recursion_limit": steps})
    assert len(ran) == runs


async def test_a_tool_of_one_input_takes_it_under_any_name() -> None:
    """LangChain does: the name in its schema is none that the author chose. Two inputs are refused."""
    ran: list[str] = []
    look = SingleInputTool(name="look", description="Look.", func=lambda text: ran.append(text) or "ok")
    calls = [("look", {"__arg1": "a"}), ("look", {"query": "b"}), ("look", {"a": "c", "b": "d"}), ("look", {})]
    agent = create_agent(saying(calls), [look], middleware=[ToolcallMiddleware()])
    answer = await agent.ainvoke(GO)
    assert sorted(ran) == ["a", "b"]
    assert [m.status for m in answer["messages"] if m.type == "tool"] == ["success", "success", "error", "error"]


@pytest.mark.parametrize("run_async", [True, False])
def test_arguments_that_are_no_json_are_told(run_async: bool) -> None:
    """LangChain keeps such a call apart and ends the run: the model neither hears of it nor answers."""
    ran: list[int] = []

    @tool
    def add(n: int) -> int:
        """Add."""
        ran.append(n)
        return n

    def unread(text: str, number: str) -> AIMessage:
        call: Any = {"type": "invalid_tool_call", "name": "add", "args": text, "id": number, "error": "no JSON"}
        return AIMessage(content="", invalid_tool_calls=[call])

    model = Model(messages=iter([unread('{"n": 5,}', "1"), unread('{"n": five', "2"), AIMessage(content="done")]))
    agent = create_agent(model, [add], middleware=[ToolcallMiddleware()])
    result = asyncio.run(agent.ainvoke(GO)) if run_async else agent.invoke(GO)
    right, wrong = told(result)
    assert (right, ran) == ("5", [5])
    assert "not a JSON object" in wrong
    assert result["messages"][-1].text == "done"


def run(agent: Any, run_async: bool, sent: Any = None, config: Any = None) -> Any:
    """The state in which a run ends."""
    return asyncio.run(agent.ainvoke(sent or GO, config)) if run_async else agent.invoke(sent or GO, config)


PER_CALL: Any = {"interrupt_mode": "per_call"}
SCHEMA: Any = {"response_schema": int}


class Found(BaseModel):
    """A structured answer."""

    n: int


def unread(name: str, number: int | None) -> AIMessage:
    """A reply with a call that nobody can read."""
    id_ = None if number is None else f"u{number}"
    call: Any = {"type": "invalid_tool_call", "name": name, "args": '{"n": five', "id": id_, "error": "no JSON"}
    return AIMessage(content="", invalid_tool_calls=[call])


@pytest.mark.parametrize("run_async", [True, False])
def test_arguments_that_are_never_json_end_the_run(run_async: bool) -> None:
    """The model is told of three such replies in a row; after these LangChain ends the run, as it does alone."""

    @tool
    def add(n: int) -> int:
        """Add."""
        return n

    right = AIMessage(content="", tool_calls=[{"name": "add", "args": {"n": 1}, "id": "r"}])
    replies = [unread("add", 0), unread("add", 1), right, *(unread("add", number) for number in range(2, 100))]
    agent = create_agent(Model(messages=iter(replies)), [add], middleware=[ToolcallMiddleware()])
    result = run(agent, run_async)
    assert [text for text in told(result) if "not a JSON object" not in text] == ["1"]
    assert len(told(result)) == 2 + 1 + 3
    assert [each["id"] for each in result["messages"][-1].invalid_tool_calls] == ["u5"]
    agent = create_agent(Model(messages=iter([unread("add", None)])), [add], middleware=[ToolcallMiddleware()])
    assert told(run(agent, run_async)) == []  # a call without an id has no answer


@pytest.mark.parametrize("form", [Found, ToolStrategy(Found)])
@pytest.mark.parametrize("run_async", [True, False])
def test_a_structured_answer_stays_langchains(form: Any, run_async: bool) -> None:
    """A call of it that nobody can read is left to LangChain, and its name is not taken for the one of a tool."""

    @tool
    def found(n: int) -> int:
        """Find."""
        return n

    def asked(*replies: AIMessage) -> list[AIMessage]:
        model = Model(messages=iter(replies))
        agent = create_agent(model, [found], middleware=[ToolcallMiddleware()], response_format=form)
        return [each for each in run(agent, run_async)["messages"] if each.type == "ai"]

    wrong, right = (
        AIMessage(content="", tool_calls=[{"name": "Found", "args": {"n": n}, "id": str(n)}]) for n in ("five", 5)
    )
    assert [each.tool_calls[0]["name"] for each in asked(wrong, right)] == ["Found", "Found"]
    first, *_ = asked(unread("Found", 0), right)
    assert (first.tool_calls, [each["id"] for each in first.invalid_tool_calls]) == ([], ["u0"])
    first, *_ = asked(unread("found", 0), right)
    assert (len(first.tool_calls), first.invalid_tool_calls) == (1, [])


@pytest.mark.parametrize("run_async", [True, False])
def test_a_parameter_that_langgraph_fills_in_by_its_name(run_async: bool) -> None:
    """Nobody asks the model for it, whatever its type says, and what it sends is not used."""

    @tool
    def look(n: int, runtime: Any) -> str:
        """Look."""
        return f"{n} {runtime.tool_call_id}"

    calls = [("look", {"n": "1"}), ("look", {"n": 1, "runtime": "x"}), ("look", {"m": 1})]
    agent = create_agent(saying(calls), [look], middleware=[ToolcallMiddleware()])
    *right, wrong = told(run(agent, run_async))
    assert right == ["1 0.0", "1 0.1"]
    assert "runtime" not in wrong


class Refused(Exception):
    """Of a middleware."""


class Behind(AgentMiddleware[Any, Any, Any]):
    """Raises before the tool runs, or after it, or never."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self._when = when

    def _raise(self, when: str) -> None:
        if self._when == when:
            raise Refused

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run one call."""
        self._raise("before")
        answer = handler(request)
        self._raise("after")
        return answer

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run one call."""
        self._raise("before")
        answer = await handler(request)
        self._raise("after")
        return answer


BEHIND: dict[str, Any] = {
    "before": lambda: Behind("before"),
    "after": lambda: Behind("after"),
    "retry": lambda: middleware.ToolRetryMiddleware(max_retries=0, on_failure="error"),
}
if hasattr(middleware, "ToolErrorMiddleware"):  # of newer releases
    BEHIND["error"] = lambda: middleware.ToolErrorMiddleware(lambda exc, request: None)


@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize("kind", BEHIND)
@pytest.mark.parametrize("effect", ["read", "mutating"])
def test_an_exception_of_a_middleware_behind_ours_ends_the_run_as_it_came(
    kind: str, run_async: bool, effect: Any
) -> None:
    """It is no failure of the tool; so does one of the tool that the author of the middleware lets end the run."""
    ran: list[int] = []

    @tool
    def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        if kind in {"error", "retry"}:
            raise Refused
        return "paid"

    ours = ToolcallMiddleware(effects={"pay": effect})
    agent = create_agent(saying([("pay", {"n": 1})]), [pay], middleware=[ours, BEHIND[kind]()])
    with pytest.raises(Refused):
        run(agent, run_async)
    assert len(ran) == (kind != "before")


@pytest.mark.parametrize("run_async", [True, False])
def test_a_failure_of_a_tool_behind_another_middleware_is_told(run_async: bool) -> None:
    """Its exception passes the other middleware, and ours answers it; words that another one has for it stay."""

    @tool
    def pay(n: int) -> str:
        """Pay."""
        raise RuntimeError("secret")

    def run_with(behind: Any) -> str:
        agent = create_agent(saying([("pay", {"n": 1})]), [pay], middleware=[ToolcallMiddleware(), behind])
        (text,) = told(run(agent, run_async))
        return text

    assert "secret" not in run_with(Behind("never"))
    assert run_with(middleware.ToolRetryMiddleware(max_retries=0, on_failure=lambda exc: "my words")) == "my words"


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("run_async", [True, False])
def test_an_answer_of_a_person_that_does_not_fit_may_be_given_again(ours_first: bool, run_async: bool) -> None:
    """It ends the run as LangGraph says, and does not count as the answer: the same call runs with a later one."""
    ran: list[int] = []

    @tool
    def drop(n: int) -> str:
        """Drop."""
        ran.append(n)
        return "dropped"

    @tool
    def hold(n: int) -> str:
        """Ask a person itself."""
        return f"{interrupt(n, **SCHEMA)} {n}"

    ask: Any = HumanInTheLoopMiddleware(interrupt_on={"drop": True}, **PER_CALL)
    ours = ToolcallMiddleware()
    agent = create_agent(
        saying([("drop", {"n": 1})], [("hold", {"n": 2})]),
        [drop, hold],
        middleware=[ours, ask] if ours_first else [ask, ours],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "1"}}

    def answer(value: Any) -> Any:
        return run(agent, run_async, Command(resume=value), config)

    run(agent, run_async, None, config)
    with pytest.raises(ValidationError):
        answer({"type": "perhaps"})
    assert ran == []
    assert told(answer({"type": "approve"})) == ["dropped"]
    with pytest.raises(ValidationError):
        answer("five")
    assert told(answer(5)) == ["dropped", "5 2"]
    assert ran == [1]


@pytest.mark.parametrize("run_async", [True, False])
def test_a_call_that_stands_twice_in_a_reply_runs_once(run_async: bool) -> None:
    """With one id it is one call; equal calls with ids of their own are two."""
    ran: list[int] = []

    @tool
    def pay(n: int) -> str:
        """Pay."""
        ran.append(n)
        return f"paid {len(ran)}"

    asked = (({"n": 1}, "a"), ({"n": "1"}, "a"), ({"n": 1}, "b"))
    calls: Any = [{"name": "pay", "args": args, "id": number} for args, number in asked]
    model = Model(messages=iter([AIMessage(content="", tool_calls=calls), AIMessage(content="done")]))
    result = run(create_agent(model, [pay], middleware=[ToolcallMiddleware()]), run_async)
    assert ran == [1, 1]
    assert sorted(told(result)) == ["paid 1", "paid 2"]


@pytest.mark.parametrize("run_async", [True, False])
def test_a_sync_tool_may_start_a_loop(run_async: bool) -> None:
    """LangChain runs it where none runs; so it may run an agent of its own, sync or not."""

    @tool
    def add(n: int) -> str:
        """Add."""
        return str(asyncio.run(asyncio.sleep(0, n)))

    @tool
    def ask(n: int) -> str:
        """Ask another agent."""
        inner = create_agent(saying([("add", {"n": n})]), [add], middleware=[ToolcallMiddleware()])
        return " ".join([*told(inner.invoke(GO)), str(asyncio.run(asyncio.sleep(0, 7)))])

    agent = create_agent(saying([("ask", {"n": 5})]), [ask], middleware=[ToolcallMiddleware()])
    assert told(run(agent, run_async)) == ["5 7"]


async def test_a_thread_is_a_conversation_and_the_user_a_principal() -> None:
    """A run without a thread is a conversation of its own; a function of the user's stands above both."""
    seen: list[tuple[str, str]] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.principal, call.conversation))
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).before("retry", note)

    @tool
    def add(n: int) -> int:
        """Add."""
        return n

    async def run(config: Any, **options: Any) -> None:
        calls = [("add", {"n": 1}), ("add", {"n": 2})]
        agent = create_agent(saying(calls), [add], middleware=[ToolcallMiddleware(build=build, **options)])
        await agent.ainvoke(GO, config)

    await run({"configurable": {"thread_id": "t", "user_id": "ann"}})
    assert set(seen) == {("ann", "t")}
    seen.clear()
    await run({})
    await run({})
    assert len(seen) == 4
    assert len({conversation for _, conversation in seen if conversation}) == 2
    seen.clear()
    await run({}, conversation=lambda request: request.tool_call["name"], principal=lambda _request: "bob")
    assert set(seen) == {("bob", "add")}


@pytest.mark.parametrize("run_async", [True, False])
def test_an_exported_tool_knows_the_call_and_who_asks(run_async: bool) -> None:
    """The pipeline of a registry has the id of the call, the user and the thread; a function stands above them."""
    registry, seen = ToolRegistry(), list[Any]()

    @registry.tool(effect="read")
    def add(n: int) -> int:
        """Add."""
        return n

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.id, call.principal, call.conversation))
        return await call_next(call)

    pipeline = standard(registry).before("retry", note)
    for options in ({}, {"principal": lambda config: f"not {config['configurable']['user_id']}"}):
        agent = create_agent(saying([("add", {"n": 1})]), export_tools(registry, pipeline, **options))
        config: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}
        result = asyncio.run(agent.ainvoke(GO, config)) if run_async else agent.invoke(GO, config)
        assert told(result) == ["1"]
    (call_id,) = {each.tool_call_id for each in result["messages"] if each.type == "tool"}
    assert seen == [(call_id, "ann", "t"), (call_id, "not ann", "t")]


@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize("exported", [True, False])
def test_a_run_that_openinference_traces_is_one_trace(exported: bool, run_async: bool) -> None:
    """Its spans are never the current one, so ours are put below the run that is under way."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).replace("trace", Trace(tracer_provider=provider))

    @tool
    def add(n: int) -> int:
        """Add."""
        return n

    registry = ToolRegistry()
    registry.register(Tool.from_schema(name="add", parameters=None, effect="read", handler=lambda **sent: sent["n"]))
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        calls = [("add", {"n": 1}), ("add", {"n": 2})]
        tools = export_tools(registry, build(registry)) if exported else [add]
        agent = create_agent(saying(calls), tools, middleware=[] if exported else [ToolcallMiddleware(build=build)])
        asyncio.run(agent.ainvoke(GO)) if run_async else agent.invoke(GO)
    finally:
        instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    assert len([span for span in spans if span.parent is None]) == 1
    assert [span.name for span in spans if span.name.startswith(("execute_tool", "toolcall"))] == [
        "execute_tool add"
    ] * 2


@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize("exported", [True, False])
def test_a_text_says_what_changed_since_the_last_failure(run_async: bool, exported: bool) -> None:
    """Throughout the runs of a thread, and in no other one."""
    registry = ToolRegistry()
    registry.tool(effect="read")(send)
    tools = export_tools(registry, standard(registry)) if exported else [tool(send)]
    ours, saver = [] if exported else [ToolcallMiddleware()], InMemorySaver()

    def play(thread: str, turns: Any) -> list[str]:
        model = saying(*([("send", turn.sent)] for turn in turns))
        agent: Any = create_agent(model, tools, middleware=ours, checkpointer=saver)
        config = {"configurable": {"thread_id": thread}}
        return told(asyncio.run(agent.ainvoke(GO, config)) if run_async else agent.invoke(GO, config))

    play("mine", RUNS[0])
    check_turns(play("other", OTHER), OTHER)
    check_turns(play("mine", RUNS[1]))


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option words what the model is told of its calls."""

    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    agent = create_agent(saying([("add", {}), ("ad", {})]), [add], middleware=[ToolcallMiddleware(wording=MINE)])
    assert told(await agent.ainvoke(GO)) == [TOLD_OF_ADD, TOLD_OF_AD]
    registry = ToolRegistry()
    registry.register(Tool("add", add.func, "read"))
    exported = create_agent(saying([("add", {})]), export_tools(registry, standard(registry, wording=MINE)))
    assert told(await exported.ainvoke(GO)) == [TOLD_OF_ADD]


@pytest.mark.long
async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """Of 60 signatures with 30 calls none that ran is refused, or runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        made = tool(function)
        convert_to_openai_tool(made)

        model = saying()
        agents: list[Any] = [create_agent(model, [made], middleware=each) for each in ([], [ToolcallMiddleware()])]

        async def run(sent: dict[str, Any], ours: bool) -> None:
            model.messages = saying([("work", sent)]).messages
            await agents[ours].ainvoke(GO)

        return run

    found = await compare(make_runner)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_call_that_waits_interrupts_the_graph(tmp_path: Path, decision: str, run_async: bool) -> None:
    """The page of LangGraph has the arguments that will run; after a restart its answer decides, and it runs once."""
    bank, saver = Bank(tmp_path), InMemorySaver()  # the saver stands for a database
    config: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}

    async def go(agent: Any, given: Any) -> Any:
        if run_async:
            return await agent.ainvoke(given, config)
        return await asyncio.to_thread(agent.invoke, given, config)

    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, ask=True)
        agent = create_agent(saying([("pay", {"to": "Bob", "cents": "5"})]), tools, checkpointer=saver)
        (stopped,) = (await go(agent, GO))["__interrupt__"]
        assert (stopped.value["tool"], stopped.value["arguments"]) == ("pay", {"to": "Bob", "cents": 5})
    assert bank.paid == []
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, ask=True)
        agent = create_agent(saying(), tools, checkpointer=saver)
        wrong = await go(agent, Command(resume={"decision": decision, "approval": "another"}))
        assert "waits for a person" in told(wrong)[-1]  # it is for another call
    assert bank.paid == []
    bank, saver = Bank(tmp_path), InMemorySaver()
    config = {"configurable": {"thread_id": "u", "user_id": "ann"}}
    for model, given in ((saying([("pay", {"to": "Eve", "cents": 7})]), GO), (saying(), None)):
        async with bank.start() as (registry, pipeline):
            agent = create_agent(model, export_tools(registry, pipeline, ask=True), checkpointer=saver)
            answer: Any = {"decision": decision, "message": "Not now.", "by": "boss"}
            result = await go(agent, given or Command(resume=answer))
    assert told(result) == (["paid Eve 7"] if decision == "approve" else ["Error: Not now."])
    assert bank.paid == (["Eve 7"] if decision == "approve" else [])
    assert [each.by for each in await bank.list()] == ["", "boss"]


@pytest.mark.parametrize("given", ["yes", True, {"decision": "yes"}, {"decisions": [{"type": "approve"}]}])
async def test_an_answer_of_another_form_is_logged(
    tmp_path: Path, given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The call waits on, and the log names the forms that decide."""
    bank = Bank(tmp_path)
    config: Any = {"configurable": {"thread_id": "talk"}}
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, ask=True)
        agent = create_agent(saying([("pay", {"to": "Bob", "cents": 5})]), tools, checkpointer=InMemorySaver())
        await agent.ainvoke(GO, config)
        assert [each for each in caplog.messages if "Command(resume=" in each] == []
        assert "waits for a person" in told(await agent.ainvoke(Command(resume=given), config))[-1]
    (warning,) = [each for each in caplog.messages if "Command(resume=" in each]
    assert '{"decision": "approve"}' in warning
    assert '{"decision": "reject", "message": "…"}' in warning
    assert (bank.paid, [each.state for each in await bank.list()]) == ([], ["pending"])


async def test_the_program_of_the_guide_runs(tmp_path: Path) -> None:
    """The lines for LangGraph ask a person, and run the call that this person approved."""
    guide = (Path(__file__).parent.parent / "pipeline/approvals/README.md").read_text()
    program = guide.partition("### LangGraph")[2].partition("```py\n")[2].partition("```")[0]
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        model = saying([("pay", {"to": "Bob", "cents": 5})])
        names: dict[str, Any] = {"tools": registry, "pipeline": pipeline, "model": model}
        await asyncio.to_thread(exec, program, names)
    assert bank.paid == ["Bob 5"]
    assert told(names["result"]) == ["paid Bob 5"]


async def test_a_consent_to_what_changed_since(tmp_path: Path) -> None:
    """The answer is for the call as it was shown: under another policy the model reads that the call waits."""
    bank, saver = Bank(tmp_path), InMemorySaver()
    config: Any = {"configurable": {"thread_id": "talk"}}
    for given in (GO, Command(resume={"decision": "approve"})):
        async with bank.start() as (registry, pipeline):
            tools = export_tools(registry, pipeline, ask=True)
            agent = create_agent(saying([("pay", {"to": "Bob", "cents": 5})]), tools, checkpointer=saver)
            result = await agent.ainvoke(given, config)
        bank.version = "2"
    first, second = await bank.list()
    assert (bank.paid, first.state, second.state) == ([], "pending", "pending")
    assert any(second.id in text for text in told(result))


async def test_a_kept_answer_is_the_message_that_it_was(tmp_path: Path) -> None:
    """A call that a new process makes again gets the message of its tool from the store, with what belongs to it."""
    paid: list[int] = []

    @tool(response_format="content_and_artifact")
    def pay(n: int) -> tuple[str, dict[str, int]]:
        """Pay."""
        paid.append(n)
        return f"paid {n}", {"receipt": n}

    @tool
    def note(n: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note."""
        paid.append(n)
        return Command(update={"messages": [ToolMessage(f"noted {n}", tool_call_id=tool_call_id)]})

    config: Any = {"configurable": {"thread_id": "one"}}
    found: list[list[ToolMessage]] = []
    for _ in range(2):
        ours = ToolcallMiddleware(store=SQLite(tmp_path / "calls.db"))
        agent = create_agent(saying([("pay", {"n": 1}), ("note", {"n": 2})]), [pay, note], middleware=[ours])
        state = await agent.ainvoke({"messages": [("user", "go")]}, config)
        found.append([each for each in state["messages"] if isinstance(each, ToolMessage)])
    first, again = ({each.tool_call_id: each for each in messages} for messages in found)
    assert sorted(paid) == [1, 2]
    assert [(each.content, each.artifact) for each in (first["0.0"], again["0.0"])] == [("paid 1", {"receipt": 1})] * 2
    assert "noted 2" in str(again["0.1"].content)  # a Command is not done again, but the model reads of it


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("langchain", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
