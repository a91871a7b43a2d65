"""Pydantic AI's own control flow, with the pipeline around its tools. Run by `make test-hosts`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolFailed,
    UsageLimits,
)
from pydantic_ai import (
    Tool as AgentTool,
)
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    RunCancelled,
    RunTimedOut,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.output import ToolOutput

from host_approvals import Bank
from host_comparison import MINE, TOLD_OF_AD, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import Tool, ToolContext, ToolRegistry
from toolcall_pipeline import ToolFailed as OurToolFailed
from toolcall_pipeline.hosts.pydantic_ai import ToolcallCapability, export_tools
from toolcall_pipeline.messages import Image
from toolcall_pipeline.middlewares import Trace, standard
from turns import OTHER, RUNS, check_turns, send


@pytest.fixture
def anyio_backend() -> str:
    """One of the loops is enough."""
    return "asyncio"


def saying(*turns: list[tuple[str, Any]]) -> FunctionModel:
    """A model that makes these calls, a list a turn, and is done then."""
    left = list(enumerate(turns))

    def answer(_messages: Any, _info: Any) -> ModelResponse:
        if not left:
            return ModelResponse(parts=[TextPart("done")])
        turn, calls = left.pop(0)
        parts = [ToolCallPart(name, args, tool_call_id=f"{turn}.{i}") for i, (name, args) in enumerate(calls)]
        return ModelResponse(parts=parts)

    return FunctionModel(answer)


def told(result: Any) -> list[Any]:
    """What the model was told of its calls."""
    parts = (part for message in result.all_messages() for part in message.parts)
    return [part.content for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart)) and part.tool_name]


def make(model: Any, *tools: Any, effects: Any = None, options: Any = None, **more: Any) -> Agent[Any, Any]:
    return Agent(model, tools=tools, capabilities=[ToolcallCapability(effects, **(options or {}))], **more)


@pytest.mark.parametrize("marked", [True, False])
async def test_an_approval_stops_the_run_and_the_approved_call_runs_once(marked: bool) -> None:
    """`requires_approval=True` and `ApprovalRequired` pass; nothing runs before a person has said yes."""
    ran: list[int] = []
    agent = make(saying([("pay", '{"amount": "5"}')]), output_type=[str, DeferredToolRequests])

    @agent.tool(requires_approval=marked)
    def pay(ctx: RunContext[Any], amount: int) -> str:
        if not marked and not ctx.tool_call_approved:
            raise ApprovalRequired
        ran.append(amount)
        return f"paid {amount}"

    stopped = await agent.run("go")
    assert [call.tool_call_id for call in stopped.output.approvals] == ["0.0"]
    assert ran == []
    for answer, became in ((False, []), (True, [5])):
        results = DeferredToolResults(approvals={"0.0": answer})
        done = await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)
        assert ran == became
        assert ("paid 5" in told(done)) is answer


async def test_a_repaired_name_is_still_asked_for_approval() -> None:
    """A call that only noise kept from its tool waits for the person as the tool does."""
    ran: list[int] = []
    agent = make(saying([("functions.pay", {"amount": 5})]), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> None:
        ran.append(amount)

    stopped = await agent.run("go")
    assert [call.tool_name for call in stopped.output.approvals] == ["pay"]
    assert ran == []


async def test_a_deferred_call_is_answered_from_outside() -> None:
    """`CallDeferred` ends the run; its result comes with the next one."""

    def later(n: int) -> str:
        raise CallDeferred

    agent = make(saying([("later", {"n": 1})]), later, output_type=[str, DeferredToolRequests])
    stopped = await agent.run("go")
    assert [call.tool_name for call in stopped.output.calls] == ["later"]
    results = DeferredToolResults(calls={"0.0": "now"})
    assert told(await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)) == ["now"]


async def test_the_authors_words_reach_the_model() -> None:
    """`ModelRetry` and `ToolFailed` are written for the model; neither runs the tool again."""
    ran: list[str] = []

    def ask(n: int) -> str:
        ran.append("ask")
        raise ModelRetry("Name a date.")

    def fail(n: int) -> str:
        ran.append("fail")
        raise ToolFailed("No such order.")

    result = await make(saying([("ask", {"n": 1}), ("fail", {"n": 1})]), ask, fail, effects={"ask": "read"}).run("go")
    asked, failed = told(result)
    assert "Name a date." in asked
    assert "No such order." in failed
    assert ran == ["ask", "fail"]


@pytest.mark.parametrize("stop", [UsageLimitExceeded("enough"), None])
async def test_what_ends_a_run_ends_it(stop: Exception | None) -> None:
    """A limit that the user set, also one of an agent inside of the tool, and `RunContext.cancel`."""

    async def spend(ctx: RunContext[Any]) -> None:
        if stop is not None:
            raise stop
        ctx.cancel()
        await asyncio.Event().wait()

    agent = make(saying([("spend", {})]), spend, effects={"spend": "read"})
    with pytest.raises(RunCancelled if stop is None else UsageLimitExceeded):
        await agent.run("go")


async def test_an_agent_in_a_tool_that_was_cancelled_is_told_by_pydantic_ai() -> None:
    """It is no crash, and it is not run again."""
    ran: list[int] = []

    def ask() -> None:
        ran.append(1)
        raise RunTimedOut("late")

    assert told(await make(saying([("ask", {})]), ask, effects={"ask": "read"}).run("go")) == [
        "The sub-agent run was cancelled: late"
    ]
    assert ran == [1]


@pytest.mark.parametrize("ours", [True, False])
async def test_wrong_arguments_spend_the_retries_of_pydantic_ai(ours: bool) -> None:
    """A bound that the user set ends the run after as many mistakes as without the pipeline; one less does not."""

    def add(a: int) -> int:
        return a

    mistakes: list[Any] = [[("add", {})], [("add", {"a": [1]})], [("add", {"b": 1})]]
    for retries, is_ended in ((2, True), (3, False)):
        model = saying(*mistakes, [("add", {"a": 4})])
        agent = Agent(model, tools=[add], retries=retries, capabilities=[ToolcallCapability()] if ours else [])
        if is_ended:
            with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries"):
                await agent.run("go")
        else:
            assert told(await agent.run("go"))[-1] == 4


@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_tool_that_asks_again_too_often_ends_the_run(effect: Any) -> None:
    """`UnexpectedModelBehavior` passes, and is no crash of the tool."""
    ran: list[int] = []

    def ask(n: int) -> str:
        ran.append(n)
        raise ModelRetry("Name a date.")

    agent = make(saying(*[[("ask", {"n": 1})]] * 9), ask, effects={"ask": effect}, retries=1)
    with pytest.raises(UnexpectedModelBehavior):
        await agent.run("go")
    assert len(ran) == 2


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("limits", [UsageLimits(tool_calls_limit=2), UsageLimits(request_limit=2)])
async def test_the_limits_of_usage_hold(limits: UsageLimits, ours: bool) -> None:
    """They count what they count without the pipeline."""
    ran: list[int] = []

    def look(n: int) -> None:
        ran.append(n)

    model = saying(*[[("look", {"n": number})] for number in range(5)])
    agent = Agent(model, tools=[look], capabilities=[ToolcallCapability()] if ours else [])
    with pytest.raises(UsageLimitExceeded):
        await agent.run("go", usage_limits=limits)
    assert ran == [0, 1]


async def test_deps_and_context_stay_the_users() -> None:
    """The tool gets the very object, the id of its call and the count of retries."""
    deps = object()

    def look(ctx: RunContext[Any], n: int) -> str:
        assert ctx.deps is deps
        return f"{n} {ctx.tool_call_id} {ctx.retry}"

    agent = make(saying([("look", '{"n": "1"}')]), look, deps_type=object)
    assert told(await agent.run("go", deps=deps)) == ["1 0.0 0"]


async def test_a_streamed_run_and_a_sync_run() -> None:
    """Both go through the pipeline."""

    def add(a: int) -> int:
        return a

    async def stream(messages: Any, _info: Any) -> Any:
        if len(messages) == 1:
            yield {0: DeltaToolCall(name="add", json_args='{"a": ', tool_call_id="0")}
            yield {0: DeltaToolCall(json_args='"1"}')}
        else:
            yield "done"

    async with make(FunctionModel(stream_function=stream), add).run_stream("go") as result:
        assert await result.get_output() == "done"
        assert told(result) == [1]
    synced = await asyncio.to_thread(make(saying([("add", {"a": "1"})]), add).run_sync, "go")
    assert told(synced) == [1]


async def test_output_tools_stay_with_the_framework() -> None:
    """The call that ends the run is no tool of the pipeline, and what was wrong with it is told in their words."""

    def final(n: int) -> int:
        return n + 1

    told: list[str] = []

    def answer(messages: Any, _info: Any) -> ModelResponse:
        told.append(str(messages[-1].parts[0].content))
        return ModelResponse(parts=[ToolCallPart("final_result", {"n": 1} if len(told) == 2 else {}, tool_call_id="1")])

    def unused() -> None:
        """Be a tool."""

    assert (await make(FunctionModel(answer), unused, output_type=ToolOutput(final)).run("go")).output == 2
    assert "not found" not in told[1]
    assert "missing" in told[1]


async def test_agents_that_share_a_capability_keep_their_tools() -> None:
    """Two tools of one name, two runs at once: each call goes to its own, and no other agent's tool is named."""
    ours, go_on = ToolcallCapability(), asyncio.Event()

    async def wait() -> str:
        await go_on.wait()
        return "waited"

    def delete_all() -> None:
        """Delete."""

    first = Agent(
        saying([("wait", {})], [("find", {"n": "1"})], [("delete_al", {})]), tools=[wait], capabilities=[ours]
    )
    second = Agent(saying([("find", {"text": "x"})]), tools=[delete_all], capabilities=[ours])

    @first.tool_plain(name="find")
    def by_number(n: int) -> str:
        return f"number {n}"

    @second.tool_plain(name="find")
    def by_text(text: str) -> str:
        return f"text {text}"

    task = asyncio.create_task(first.run("go"))
    assert told(await second.run("go")) == ["text x"]
    go_on.set()
    _, found, unknown = told(await asyncio.wait_for(task, 20))
    assert found == "number 1"
    assert "delete_all" not in str(unknown)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_unknown_name_is_told_in_the_same_words_throughout_a_run(stream: bool) -> None:
    """The pipeline's, in each request; what another tool returned stays, also once that tool is gone."""
    requests: list[list[str]] = []
    turns = [[("zebra", {}), ("once", {})], [("add", {"n": 1})], [("add", {"n": 2})]]

    def answer(messages: Any) -> list[ToolCallPart]:
        requests.append([str(part.content) for each in messages for part in each.parts if hasattr(part, "outcome")])
        return [ToolCallPart(name, args, f"{len(requests)}.{name}") for name, args in (turns.pop(0) if turns else [])]

    def model(messages: Any, _info: Any) -> ModelResponse:
        return ModelResponse(answer(messages) or [TextPart("done")])

    async def streamed(messages: Any, _info: Any) -> Any:
        calls = answer(messages)
        for index, each in enumerate(calls):
            yield {index: DeltaToolCall(each.tool_name, json.dumps(each.args), tool_call_id=each.tool_call_id)}
        if not calls:
            yield "done"

    async def prepare(context: Any, definition: Any) -> Any:
        return definition if context.run_step == 1 else None

    def once() -> str:
        return "gone"

    def add(n: int) -> int:
        return n

    agent = make(FunctionModel(model, stream_function=streamed), AgentTool(once, prepare=prepare), add)
    if stream:
        async with agent.run_stream("go") as running:
            history = await running.get_output() and running.all_messages()
    else:
        history = (await agent.run("go")).all_messages()
    first, _, last = requests[1:]
    assert first[0].startswith("Error: Tool 'zebra' not found.")
    assert first[1:] == ["gone"]
    assert last == [*first, "1", "2"]
    assert "Unknown tool name" in str(history)  # as Pydantic AI writes it


@pytest.mark.parametrize("declared", ["metadata", "effects"])
@pytest.mark.parametrize(("effect", "runs"), [("read", 2), (None, 1)])
async def test_what_may_have_taken_effect_is_run_once(effect: Any, runs: int, declared: str) -> None:
    """A lost call is repeated only if metadata or ``effects=`` declares that its tool changes nothing."""
    ran: list[int] = []

    def send(n: int) -> str:
        ran.append(n)
        raise ConnectionError("503")

    in_metadata = AgentTool(send, metadata={"effect": effect} if effect and declared == "metadata" else None)
    effects = {"send": effect} if effect and declared == "effects" else None
    agent = make(saying([("send", {"n": 1})]), in_metadata, effects=effects, options={"attempts": 2})
    await agent.run("go")
    assert len(ran) == runs


async def test_a_time_limit_and_a_cancelled_run_end_the_tool() -> None:
    """The tool's task is cancelled, and a run that was cancelled stays so."""
    begun, ended = asyncio.Event(), []

    async def hang(n: int) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)
        return "never"

    slow = make(saying([("hang", {"n": 0})]), hang, effects={"hang": "read"}, options={"timeout": 0.05, "attempts": 1})
    assert "did not finish" in str(told(await slow.run("go"))[0])
    begun.clear()
    task = asyncio.create_task(make(saying([("hang", {"n": 1})]), hang).run("go"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_calls_at_once_run_at_once() -> None:
    """Two calls of one message wait for each other."""
    both = asyncio.Barrier(2)

    async def meet(n: int) -> int:
        await both.wait()
        return n

    assert told(await asyncio.wait_for(make(saying([("meet", {"n": 1}), ("meet", {"n": 2})]), meet).run("go"), 20)) == [
        1,
        2,
    ]


async def test_a_registry_as_a_toolset() -> None:
    """Repaired, refused and failed calls; deps and the id of the call reach the tool."""
    registry = ToolRegistry()

    @registry.tool(effect="read", context=True)
    def double(context: ToolContext[Any], n: int) -> str:
        """Double."""
        return f"{n * 2} {context.deps} {context.call_id}"

    @registry.tool
    def fail(n: int) -> int:
        """Fail."""
        if n:
            raise OurToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    @registry.tool
    def draw() -> Image:
        """Draw."""
        return Image("image/png", b"\x89PNG\r\n\x1a\n")

    @registry.tool
    def strange() -> object:
        """Return what nobody can write as JSON."""
        return object()

    calls = [
        ("double", {"n": "2"}),
        ("double", {}),
        ("fail", {"n": 1}),
        ("fail", {"n": 0}),
        ("draw", {}),
        ("strange", {}),
    ]
    agent = Agent(saying(calls), toolsets=[export_tools(registry, standard(registry))], deps_type=str)
    result = await agent.run("go", deps="mine")
    right, missing, failed, crashed, drawn, odd = told(result)
    assert result.all_messages_json()
    assert drawn == [BinaryContent(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")]
    assert "cannot be shown" in odd
    assert right == "4 mine 0.0"
    assert "Missing required parameter: n" in missing
    assert "Ask for fewer." in failed
    assert "hunter2" not in crashed


@pytest.mark.parametrize("parameter", ["ctx", "self", "arguments"])
async def test_an_exported_tool_takes_parameters_of_any_name(parameter: str) -> None:
    """The context of the run has no name that a parameter could take."""
    registry = ToolRegistry()
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    registry.register(Tool.from_schema(name="echo", parameters=schema, handler=lambda **sent: sent[parameter]))
    agent = Agent(saying([("echo", {parameter: "mine"})]), toolsets=[export_tools(registry, standard(registry))])
    assert told(await agent.run("go")) == ["mine"]


async def test_a_conversation_of_pydantic_ai_is_one_of_the_pipeline() -> None:
    """Runs that share their history are one conversation, and others are not."""
    seen: list[str] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append(call.conversation)
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).before("retry", note)

    def add(a: int) -> int:
        return a

    agent = make(None, add, options={"build": build})
    first = await agent.run("go", model=saying([("add", {"a": 1})]))
    await agent.run("on", model=saying([("add", {"a": 1})]), message_history=first.all_messages())
    await agent.run("go", model=saying([("add", {"a": 1})]))
    assert seen[0] == seen[1] != seen[2]
    assert all(seen)


async def test_each_call_has_one_span_that_counts_it() -> None:
    """Pydantic AI's own span ``execute_tool`` stands around ours."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).replace("trace", Trace(tracer_provider=provider))

    def add(a: int) -> int:
        return a

    ours, theirs = ToolcallCapability(build=build), Instrumentation(InstrumentationSettings(tracer_provider=provider))
    registry = ToolRegistry()
    registry.tool(effect="read")(add)
    exported = export_tools(registry, build(registry))
    for order, has in (
        ([ours, theirs], {"tools": [add]}),
        ([theirs, ours], {"tools": [add]}),
        ([theirs], {"toolsets": [exported]}),
    ):
        exporter.clear()
        agent: Any = Agent(saying([("add", {"a": 1})]), capabilities=order, **has)
        await agent.run("go")
        spans = exporter.get_finished_spans()
        assert (
            len([span for span in spans if (span.attributes or {}).get("gen_ai.operation.name") == "execute_tool"]) == 1
        )
        assert len([span for span in spans if span.parent is None]) == 1


async def test_an_exported_tool_knows_the_conversation_and_who_asks() -> None:
    """The pipeline of a registry has the run's conversation; a function of the user's says who asks."""
    registry, seen = ToolRegistry(), list[Any]()

    @registry.tool(effect="read")
    def add(a: int) -> int:
        """Add."""
        return a

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.conversation, call.principal))
        return await call_next(call)

    tools = export_tools(registry, standard(registry).before("retry", note), principal=lambda ctx: ctx.deps)
    agent = Agent(saying([("add", {"a": 1}), ("add", {"a": 2})]), toolsets=[tools], deps_type=str)
    result = await agent.run("go", deps="ann")
    assert seen == [(result.conversation_id, "ann")] * 2


@pytest.mark.parametrize("exported", [True, False])
async def test_a_text_says_what_changed_since_the_last_failure(exported: bool) -> None:
    """Throughout the runs that share their history, and in no other one."""
    registry = ToolRegistry()
    registry.tool(effect="read")(send)
    toolset = export_tools(registry, standard(registry))
    agent = Agent[Any, Any](toolsets=[toolset], retries=3) if exported else make(None, send, retries=3)

    async def play(turns: Any, history: Any = None) -> Any:
        model = saying(*([("send", turn.sent)] for turn in turns))
        return await agent.run("go", model=model, message_history=history)

    first = await play(RUNS[0])
    check_turns(told(await play(OTHER)), OTHER)
    check_turns(told(await play(RUNS[1], first.all_messages())))


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option words what the model is told of its calls."""

    def add(a: int) -> int:
        return a

    seen: list[Any] = []

    def answer(messages: Any, _info: Any) -> ModelResponse:
        seen.extend(part.content for part in messages[-1].parts if getattr(part, "tool_name", None))
        calls = [ToolCallPart("add", {}, tool_call_id="1"), ToolCallPart("ad", {}, tool_call_id="2")]
        return ModelResponse(parts=[TextPart("done")] if seen else calls)

    await make(FunctionModel(answer), add, options={"wording": MINE}).run("go")
    assert seen == [TOLD_OF_ADD, TOLD_OF_AD]


@pytest.mark.long
async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """Of 60 signatures with 30 calls none that ran is refused, or runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        made = AgentTool(function)
        agents = [Agent(tools=[made], capabilities=each, retries=3) for each in ([], [ToolcallCapability()])]

        async def run(sent: dict[str, Any], ours: bool) -> None:
            for arguments in (sent, json.dumps(sent)):
                await agents[ours].run("go", model=saying([("work", arguments)]))

        return run

    found = await compare(make_runner)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


async def test_a_call_that_waits_is_deferred(tmp_path: Path) -> None:
    """The run ends with it; after a restart the approval of Pydantic AI decides, and it runs once."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, conversation=lambda _: "talk", ask=True)
        agent: Any = Agent(
            saying([("pay", {"to": "Bob", "cents": "5"})]), toolsets=[tools], output_type=[str, DeferredToolRequests]
        )
        stopped = await agent.run("go")
        history = stopped.all_messages_json()
        (waiting,) = await bank.list()
        assert stopped.output.metadata["0.0"]["approval"] == waiting.id
        assert stopped.output.metadata["0.0"]["arguments"] == {"to": "Bob", "cents": 5}
    assert bank.paid == []
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, conversation=lambda _: "talk", ask=True)
        agent = Agent(saying(), toolsets=[tools], output_type=[str, DeferredToolRequests])
        result = await agent.run(
            message_history=ModelMessagesTypeAdapter.validate_json(history),
            deferred_tool_results=DeferredToolResults(approvals={"0.0": True}),
        )
    assert told(result) == ["paid Bob 5"]
    assert bank.paid == ["Bob 5"]
    assert [(each.id, each.state, each.by) for each in await bank.list()] == [
        (waiting.id, "approved", "the user of Pydantic AI")
    ]


async def test_a_consent_to_what_changed_since(tmp_path: Path) -> None:
    """The approval is for the call as it was shown: under another policy the model reads that the call waits."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, conversation=lambda _: "talk", ask=True)
        turn = [("pay", {"to": "Bob", "cents": 5})]
        agent: Any = Agent(saying(turn), toolsets=[tools], output_type=[str, DeferredToolRequests])
        stopped = await agent.run("go")
    bank.version = "2"
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, conversation=lambda _: "talk", ask=True)
        agent = Agent(saying(), toolsets=[tools], output_type=[str, DeferredToolRequests])
        answers = DeferredToolResults(approvals={"0.0": True})
        result = await agent.run(message_history=stopped.all_messages(), deferred_tool_results=answers)
    first, second = await bank.list()
    assert (bank.paid, first.state, second.state) == ([], "pending", "pending")
    assert any(second.id in str(each) for each in told(result))


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("pydantic_ai", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
