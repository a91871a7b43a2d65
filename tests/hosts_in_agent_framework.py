"""Agent Framework's own control flow, with the pipeline around its tools. Run by `make test-hosts`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    MiddlewareTermination,
    ResponseStream,
    UserInputRequiredException,
    tool,
)
from agent_framework.observability import enable_instrumentation
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import AfterValidator

from host_approvals import Bank
from host_comparison import MINE, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import ToolContext, ToolRegistry
from toolcall_pipeline.hosts.agent_framework import ApprovalMiddleware, ToolcallMiddleware, export_tools
from toolcall_pipeline.messages import Image
from toolcall_pipeline.middlewares import standard
from turns import OTHER, RUNS, check_turns, send


@pytest.fixture
def anyio_backend() -> str:
    """The framework needs asyncio."""
    return "asyncio"


class Saying(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Makes these calls, a list a turn, and is done then; keeps what it was told."""

    def __init__(self, *turns: list[tuple[str, str]]) -> None:
        super().__init__()
        self.turns = list(enumerate(turns))
        self.told: dict[str, str] = {}

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        for content in (each for message in messages for each in message.contents):
            if content.type == "function_result":
                self.told[content.call_id] = str(content.result)
        turn, calls = self.turns.pop(0) if self.turns else (0, [])
        parts = [
            Content.from_function_call(f"{turn}.{i}", name, arguments=sent) for i, (name, sent) in enumerate(calls)
        ]
        said = parts or [Content.from_text("done")]
        if stream:

            async def updates() -> Any:
                yield ChatResponseUpdate(contents=said, role="assistant")

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", said)])

        return answer()


def make(model: Saying, *tools: Any, effects: Any = None, **options: Any) -> Agent:
    return Agent(model, tools=list(tools), middleware=[ToolcallMiddleware(effects, **options)])


@pytest.mark.parametrize("approved", [True, False])
async def test_an_approval_stops_the_run_and_the_approved_call_runs_once(approved: bool) -> None:
    """`always_require` is asked before the pipeline runs anything; a rejected call never runs."""
    ran: list[int] = []

    @tool(approval_mode="always_require")
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return f"paid {amount}"

    model = Saying([("pay", '{"amount": "5"}')])
    agent = make(model, pay)
    session = agent.create_session()
    stopped = await agent.run("go", session=session)
    assert len(stopped.user_input_requests) == 1
    assert ran == []
    answer = stopped.user_input_requests[0].to_function_approval_response(approved)
    await agent.run(Message("user", [answer]), session=session)
    assert ran == ([5] if approved else [])
    assert ("paid 5" in model.told.values()) is approved


async def test_a_repaired_call_is_approved_as_it_will_run() -> None:
    """The person approved what the model wrote; the framework asks again with what it means, and runs that."""
    ran: list[Any] = []

    @tool(approval_mode="always_require")
    def pay(amounts: list[int]) -> str:
        ran.append(amounts)
        return "paid"

    model = Saying([("pay", '{"amounts": "[5]"}')])
    agent = make(model, pay)
    session = agent.create_session()
    answer = await agent.run("go", session=session)
    asked: list[Any] = []
    while answer.user_input_requests and len(asked) < 3:
        [request] = answer.user_input_requests
        asked.append(request.function_call.parse_arguments()["amounts"])
        assert ran == []
        answer = await agent.run(Message("user", [request.to_function_approval_response(True)]), session=session)
    assert asked == ["[5]", [5]]
    assert ran == [[5]]


@pytest.mark.parametrize("detailed", [True, False])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_the_author_lets_the_model_read_exceptions(detailed: bool, stream: bool, effect: Any) -> None:
    """By `include_detailed_errors` of the client; else they stay private. The pipeline's words are told in any case."""

    @tool
    def fail(n: int) -> str:
        """Fail."""
        raise ConnectionError("the printer is on fire")

    model = Saying([("fail", '{"n": 1}'), ("fail", '{"n": "x"}')])
    model.function_invocation_configuration["include_detailed_errors"] = detailed
    agent = make(model, fail, effects={"fail": effect}, attempts=1)
    if stream:
        async for _ in agent.run("go", stream=True):
            pass
    else:
        await agent.run("go")
    failed, wrong = model.told["0.0"], model.told["0.1"]
    assert ("on fire" in failed) is detailed
    assert failed.startswith("Error: ")
    assert "n" in wrong
    assert "Exception" not in wrong


def not_negative(value: int) -> int:
    if value < 0:
        raise ValueError("must not be negative")
    return value


async def test_a_validator_of_the_function_tells_what_is_wrong() -> None:
    """It knows more than the schema says; what it refuses is the model's to mend."""

    @tool
    def add(n: Annotated[int, AfterValidator(not_negative)]) -> int:
        return n

    model = Saying([("add", '{"n": -1}')])
    await make(model, add).run("go")
    assert "must not be negative" in model.told["0.0"]


class Box:
    """An object that only the validator of a function makes."""

    def __init__(self, held: object) -> None:
        self.held = held


async def test_a_validator_of_the_function_runs_once() -> None:
    """The arguments reach the function as the framework has made them."""
    ran: list[Any] = []

    @tool
    def work(a: Annotated[Any, AfterValidator(Box)], b: Annotated[str, AfterValidator("{}!".format)]) -> str:
        ran.append((a.held, b))
        return "done"

    model = Saying([("work", '{"a": 5, "b": "x"}')])
    await make(model, work).run("go")
    assert (ran, model.told) == ([(5, "x!")], {"0.0": "done"})


async def test_what_only_the_framework_refuses_is_told() -> None:
    """A schema that does not compile allows all, so the framework checks the arguments."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"$ref": "#/nowhere"}}, "required": ["n"]}
    ran: list[Any] = []
    odd = FunctionTool(name="odd", description="Odd.", func=lambda **named: ran.append(named), input_model=schema)
    model = Saying([("odd", '{"n": "x"}'), ("odd", "{}")])
    await make(model, odd).run("go")
    assert "Invalid type for 'n'" in model.told["0.0"]
    assert "Missing required argument(s) for 'odd'" in model.told["0.1"]
    assert ran == []


async def test_a_parameter_may_have_the_name_that_the_framework_gives_to_text() -> None:
    """`raw` stands for text that is no JSON, unless the tool takes it."""

    @tool
    def echo(raw: str) -> str:
        return raw

    @tool
    def other(n: int) -> int:
        return n

    model = Saying([("echo", '{"raw": "{}"}'), ("other", "n is 1")])
    await make(model, echo, other).run("go")
    assert model.told["0.0"] == "{}"
    assert "not a JSON object" in model.told["0.1"]


async def test_what_ends_the_run_passes() -> None:
    """`MiddlewareTermination` of a tool ends the run, and is no failure of the tool."""

    @tool
    def stop() -> str:
        """Stop."""
        raise MiddlewareTermination(result="over")

    model = Saying([("stop", "{}")], [("stop", "{}")])
    await make(model, stop, effects={"stop": "read"}).run("go")
    assert len(model.turns) == 1


@pytest.mark.parametrize("ours", [False, True])
async def test_what_a_tool_asks_the_user_reaches_the_user(ours: bool) -> None:
    """A request for input that a tool raises is no failure, and keeps its contents."""

    @tool
    def ask() -> str:
        """Ask."""
        raise UserInputRequiredException([Content.from_text("Who are you?"), Content.from_data(b"1", "image/png")])

    model = Saying([("ask", "{}")])
    answer = await (make(model, ask) if ours else Agent(model, tools=[ask])).run("go")
    asked = [each for message in answer.messages for each in message.contents if each.type != "function_call"]
    assert [each.type for each in asked[:2]] == ["text", "data"]
    assert asked[0].text == "Who are you?"


@pytest.mark.parametrize("sent", ["[1]", "5", '"n"', "n is 1"])
async def test_arguments_that_are_no_object_are_called_that(sent: str) -> None:
    """The name that the framework gives to them is no parameter that the model sent."""
    model = Saying([("add", sent)])
    await make(model, tool(add)).run("go")
    assert "not a JSON object" in model.told["0.0"]
    assert "raw" not in model.told["0.0"]


async def test_the_context_and_streams_stay_the_frameworks() -> None:
    """The tool gets the arguments of the run, in a streamed run as well."""

    @tool
    def look(n: int, ctx: FunctionInvocationContext) -> str:
        """Look."""
        return f"{n} {ctx.kwargs['user']}"

    for stream in (False, True):
        model = Saying([("look", '{"n": "1"}')])
        agent = make(model, look)
        if stream:
            texts = [
                update.text async for update in agent.run("go", stream=True, function_invocation_kwargs={"user": "me"})
            ]
            assert "done" in texts
        else:
            await agent.run("go", function_invocation_kwargs={"user": "me"})
        assert model.told == {"0.0": "1 me"}


async def test_an_agent_as_a_tool() -> None:
    """It runs as a tool does."""
    inner = make(Saying([("add", '{"a": "2"}')]), FunctionTool(name="add", description="", func=add))
    model = Saying([("ask", '{"task": "x"}')])
    await make(model, inner.as_tool(name="ask")).run("go")
    assert model.told == {"0.0": "done"}


def add(a: int) -> int:
    """Add."""
    return a


async def test_agents_that_share_a_middleware_keep_their_tools() -> None:
    """Two tools of one name, two runs at once."""
    ours, go_on = ToolcallMiddleware(), asyncio.Event()

    @tool(name="find")
    def by_number(n: int) -> str:
        """Find."""
        return f"number {n}"

    @tool(name="find")
    def by_text(text: str) -> str:
        """Find."""
        return f"text {text}"

    @tool
    async def wait() -> str:
        """Wait."""
        await go_on.wait()
        return "waited"

    one, two = Saying([("wait", "{}")], [("find", '{"n": "1"}')]), Saying([("find", '{"text": "x"}')])
    task = asyncio.ensure_future(Agent(one, tools=[by_number, wait], middleware=[ours]).run("go"))
    await Agent(two, tools=[by_text], middleware=[ours]).run("go")
    go_on.set()
    await asyncio.wait_for(task, 20)
    assert two.told == {"0.0": "text x"}
    assert one.told["1.0"] == "number 1"


@pytest.mark.parametrize(("effect", "runs"), [("read", 2), (None, 1)])
async def test_what_may_have_taken_effect_is_run_once(effect: Any, runs: int) -> None:
    """A lost call of a tool that changes something is not repeated."""
    ran: list[int] = []

    @tool
    def send(n: int) -> str:
        """Send."""
        ran.append(n)
        raise ConnectionError("503")

    await make(Saying([("send", '{"n": 1}')]), send, effects={"send": effect} if effect else None, attempts=2).run("go")
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

    reads: Any = {"hang": "read"}
    slow = Saying([("hang", '{"n": 0}')])
    await make(slow, hang, effects=reads, timeout=0.05, attempts=1).run("go")
    assert "did not finish" in slow.told["0.0"]
    begun.clear()
    task = asyncio.ensure_future(make(Saying([("hang", '{"n": 1}')]), hang, effects=reads).run("go"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_calls_at_once_run_at_once() -> None:
    """Two calls of one message wait for each other."""
    both = asyncio.Barrier(2)

    @tool
    async def meet(n: int) -> int:
        """Meet."""
        await both.wait()
        return n

    model = Saying([("meet", '{"n": 1}'), ("meet", '{"n": 2}')])
    await asyncio.wait_for(make(model, meet).run("go"), 20)
    assert model.told == {"0.0": "1", "0.1": "2"}


@pytest.mark.parametrize("ours", [True, False])
async def test_errors_in_a_row_end_the_calls_of_a_run(ours: bool) -> None:
    """`max_consecutive_errors_per_request` stops a run after as many failures as without the pipeline."""
    ran: list[int] = []

    @tool
    def fail(n: int) -> str:
        ran.append(n)
        raise ValueError("password=hunter2")

    model = Saying(*[[("fail", '{"n": 1}')]] * 6)
    model.function_invocation_configuration["max_consecutive_errors_per_request"] = 2
    answer = await Agent(model, tools=[fail], middleware=[ToolcallMiddleware()] if ours else []).run("go")
    assert ran == [1, 1]
    results = [each for message in answer.messages for each in message.contents if each.type == "function_result"]
    assert all(each.exception for each in results)
    assert "hunter2" not in str(model.told)


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("limit", ["max_function_calls", "max_iterations", "max_invocations"])
async def test_the_limits_of_a_run_and_of_a_tool_hold(limit: str, ours: bool) -> None:
    """They count what they count without the pipeline, failures included."""
    ran: list[int] = []

    @tool(max_invocations=2 if limit == "max_invocations" else None)
    def look(n: int) -> str:
        ran.append(n)
        if len(ran) == 1:
            raise ValueError("broken")
        return "seen"

    model = Saying(*[[("look", f'{{"n": {number}}}')] for number in range(5)])
    if limit != "max_invocations":
        model.function_invocation_configuration[limit] = 2  # type: ignore[literal-required]  # a name of a table
    await Agent(model, tools=[look], middleware=[ToolcallMiddleware()] if ours else []).run("go")
    assert ran == [0, 1]


async def test_a_failure_says_why() -> None:
    """Its text is the pipeline's, though an exception of the framework's own would say nothing."""

    @tool
    def add(n: int) -> int:
        return n

    model = Saying([("add", '{"n": [1]}')])
    await make(model, add).run("go")
    assert "must be an integer" in model.told["0.0"]


async def test_a_session_is_a_conversation() -> None:
    """Without a function of the user's, the id of the session is the conversation of a call."""
    seen: list[tuple[str, str]] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.principal, call.conversation))
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).before("retry", note)

    @tool
    def add(n: int) -> int:
        return n

    for principal in (None, lambda context: context.kwargs["user"]):
        model = Saying([("add", '{"n": 1}')])
        agent = make(model, add, build=build, principal=principal)
        session = agent.create_session()
        await agent.run("go", session=session, function_invocation_kwargs={"user": "ann"})
        assert seen.pop() == ("ann" if principal else "", session.session_id)


async def test_each_call_has_one_span_that_counts_it() -> None:
    """Agent Framework's own span ``execute_tool`` stands inside of ours."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    enable_instrumentation()

    @tool
    def add(n: int) -> int:
        return n

    await make(Saying([("add", '{"n": 1}')]), add).run("go")
    spans = exporter.get_finished_spans()
    counted = [span.name for span in spans if (span.attributes or {}).get("gen_ai.operation.name") == "execute_tool"]
    assert counted == ["execute_tool add"]
    assert [span.name for span in spans if span.name.startswith("toolcall")] == ["toolcall add"]
    assert len([span for span in spans if span.parent is None]) == 1


@pytest.mark.parametrize("exported", [True, False])
async def test_a_text_says_what_changed_since_the_last_failure(exported: bool) -> None:
    """Throughout the runs of a session, and in no other one."""
    registry = ToolRegistry()
    registry.tool(effect="read")(send)
    tools: Any = export_tools(registry, standard(registry)) if exported else [tool(send)]
    ours = [] if exported else [ToolcallMiddleware()]
    mine, other = AgentSession(), AgentSession()

    async def play(session: AgentSession, turns: Any) -> list[str]:
        model = Saying(*([("send", json.dumps(turn.sent))] for turn in turns))
        answer = await Agent(model, tools=tools, middleware=ours).run("go", session=session)
        contents = [each for message in answer.messages for each in message.contents]
        return [str(each.result) for each in contents if each.type == "function_result"]

    first = await play(mine, RUNS[0])
    check_turns(await play(other, OTHER), OTHER)
    check_turns(first + await play(mine, RUNS[1]))


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option words what the model is told of its calls."""

    @tool
    def add(a: int) -> int:
        return a

    model = Saying([("add", "{}")])
    await make(model, add, wording=MINE).run("go")
    assert [*model.told.values()] == [TOLD_OF_ADD]


@pytest.mark.long
async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """Of 60 signatures with 30 calls none that ran is refused, or runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        made = tool(function)
        made.parameters()

        model = Saying()
        agents = [Agent(model, tools=[made], middleware=each) for each in ([], [ToolcallMiddleware()])]

        async def run(sent: dict[str, Any], ours: bool) -> None:
            model.turns = [(0, [("work", json.dumps(sent))])]
            await agents[ours].run("go")

        return run

    found = await compare(make_runner)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


PAY = [("pay", '{"to": "Bob", "cents": "5"}')]


def start(
    bank_tools: ToolRegistry, pipeline: Any, *turns: list[tuple[str, str]], **options: Any
) -> tuple[Agent, Saying]:
    """An agent with exported tools, as a process makes it."""
    model = Saying(*turns)
    middleware = options.pop("middleware", [ApprovalMiddleware()])
    return Agent(model, tools=export_tools(bank_tools, pipeline, ask=True), middleware=middleware), model


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_that_waits_is_approved(approved: bool, tmp_path: Path) -> None:
    """The run ends with it; after a restart the approval of the framework decides, and it runs once."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        agent, _ = start(registry, pipeline, PAY)
        session = agent.create_session()
        stopped = await agent.run("go", session=session)
        (request,) = stopped.user_input_requests
        (waiting,) = await bank.list()
        assert request.function_call.parse_arguments() == {"to": "Bob", "cents": "5"}
        kept = json.dumps([session.to_dict(), request.to_function_approval_response(approved).to_dict()])
    assert bank.paid == []
    async with bank.start() as (registry, pipeline):
        agent, model = start(registry, pipeline)
        session_dict, answer = json.loads(kept)
        session = AgentSession.from_dict(session_dict)
        for _ in range(2):  # the same answer again runs nothing again
            with suppress(Exception):
                await agent.run(Message("user", [Content.from_dict(answer)]), session=session)
    assert bank.paid == (["Bob 5"] if approved else [])
    assert ("paid Bob 5" in model.told.values()) is approved
    assert [(each.id, each.state, each.by) for each in await bank.list()] == [
        (waiting.id, "approved", "the user of Agent Framework") if approved else (waiting.id, "pending", "")
    ]


async def test_a_consent_to_what_changed_since(tmp_path: Path) -> None:
    """The approval is for the call as it was shown: under another policy the model reads that the call waits."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        agent, _ = start(registry, pipeline, PAY)
        session = agent.create_session()
        (request,) = (await agent.run("go", session=session)).user_input_requests
    bank.version = "2"
    async with bank.start() as (registry, pipeline):
        agent, model = start(registry, pipeline)
        await agent.run(Message("user", [request.to_function_approval_response(True)]), session=session)
    assert bank.paid == []
    first, second = await bank.list()
    assert (first.state, second.state) == ("pending", "pending")
    assert any(second.id in text for text in model.told.values())


async def test_without_a_middleware_the_model_reads_that_it_waits(tmp_path: Path) -> None:
    """The framework hands its approvals to middleware alone."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        agent, model = start(registry, pipeline, PAY, middleware=[])
        assert not (await agent.run("go")).user_input_requests
    (waiting,) = await bank.list()
    assert waiting.id in model.told["0.0"]


async def test_what_is_exported() -> None:
    """Values, images and failures in the framework's form, for the session's conversation."""
    registry = ToolRegistry()
    seen: list[Any] = []

    @registry.tool(effect="read", context=True)
    async def twice(context: ToolContext, n: int) -> Any:
        seen.append(context.call_id)
        return Image("image/png", b"x") if n == 0 else n * 2

    turns = [[("twice", '{"n": "4"}'), ("twice", '{"n": 0}'), ("twice", '{"n": "x"}'), ("twice", "[1]")]]
    model = Saying(*turns)
    tools = export_tools(registry, standard(registry))
    assert [(each.name, each.description) for each in tools] == [("twice", "")]
    result = await Agent(model, tools=tools).run("go")
    parts = [each for message in result.messages for each in message.contents if each.type == "function_result"]
    assert [each.exception for each in parts] == [None, None, "validation", "malformed_call"]
    assert model.told["0.0"] == "8"
    assert [item.type for item in parts[1].items] == ["data"]
    assert model.told["0.2"].startswith("Error: Invalid parameter value for n")
    assert seen == ["0.0", "0.1"]


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("agent_framework", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
