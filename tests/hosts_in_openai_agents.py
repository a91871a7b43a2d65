"""Control flow of the OpenAI Agents SDK, with the pipeline around its tools. Run by `make test-hosts`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import mcp
import pytest
from agents import (
    Agent,
    FunctionSpanData,
    FunctionTool,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    Span,
    ToolGuardrailFunctionOutput,
    TracingProcessor,
    default_tool_error_function,
    function_tool,
    set_trace_processors,
    tool_input_guardrail,
    tool_namespace,
)
from agents.exceptions import AgentsException, MaxTurnsExceeded, ToolInputGuardrailTripwireTriggered, UserError
from agents.items import ModelResponse
from agents.mcp import MCPServer
from agents.models.interface import Model
from agents.tool_context import ToolContext
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import AfterValidator, BaseModel, field_validator

from host_approvals import Bank
from host_comparison import MINE, TOLD_OF_AD, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import Failure, SetupError, ToolFailed, ToolRegistry, Unavailable
from toolcall_pipeline import ToolContext as OurContext
from toolcall_pipeline.hosts import Host
from toolcall_pipeline.hosts.openai_agents import export_tools, pipelined, run_config
from toolcall_pipeline.hosts.openai_names import describe, wrap_model
from toolcall_pipeline.middlewares import Retry, standard
from turns import OTHER, RUNS, TURNS, check_turns, send

QUIET: Any = {"tracing_disabled": True}


@pytest.fixture
def anyio_backend() -> str:
    """The SDK needs asyncio."""
    return "asyncio"


class Saying(Model):
    """Makes these calls, a list a turn, and is done then."""

    def __init__(self, *turns: list[tuple[str, str]], end: str = "done", prefix: str = "") -> None:
        self.prefix = prefix
        self.turns = list(enumerate(turns))
        self.end = end

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        return ModelResponse(output=self.answer(), usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **more: Any) -> Any:
        response = Response(
            id="1", created_at=0, model="fake", object="response", output=self.answer(),
            parallel_tool_calls=True, tool_choice="auto", tools=[],
        )  # fmt: skip
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")

    def answer(self) -> list[Any]:
        if self.turns:
            turn, calls = self.turns.pop(0)
            return [
                ResponseFunctionToolCall(
                    type="function_call", name=name, arguments=sent, call_id=f"{self.prefix}{turn}.{number}"
                )
                for number, (name, sent) in enumerate(calls)
            ]
        text = ResponseOutputText(text=self.end, type="output_text", annotations=[])
        return [ResponseOutputMessage(id="1", role="assistant", status="completed", type="message", content=[text])]


def without_waits(tools: Any, **options: Any) -> Any:
    """The pipeline, with no pause between attempts."""
    return standard(tools, **options).replace("retry", Retry(first_delay=0))


def told(result: Any) -> list[str]:
    """What the model was told of its calls."""
    sent = result.to_input_list()
    return [str(item["output"]) for item in sent if item.get("type") == "function_call_output"]


async def run(agent: Agent[Any], sent: Any = "go", **more: Any) -> Any:
    return await Runner.run(agent, sent, run_config=run_config(agent, **QUIET), **more)


@pytest.mark.parametrize("approve", [True, False])
async def test_an_approval_stops_the_run_and_the_approved_call_runs_once(approve: bool) -> None:
    """`needs_approval` is asked before the pipeline runs anything; a rejected call never runs."""
    ran: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        ran.append(amount)
        return f"paid {amount}"

    agent = pipelined(Agent(name="a", model=Saying([("pay", '{"amount": "5"}')]), tools=[pay]))
    stopped = await run(agent)
    assert [item.name for item in stopped.interruptions] == ["pay"]
    assert ran == []
    state = stopped.to_state()
    (state.approve if approve else state.reject)(stopped.interruptions[0])
    result = await run(agent, state)
    assert ran == ([5] if approve else [])
    assert ("paid 5" in told(result)) is approve


async def test_guardrails_still_decide() -> None:
    """One that refuses keeps the tool from running; one that trips ends the run."""
    ran: list[int] = []

    @tool_input_guardrail
    def refuse(data: Any) -> ToolGuardrailFunctionOutput:
        if "13" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.reject_content("Not that one.")

    @function_tool(tool_input_guardrails=[refuse])
    def drop(n: int) -> str:
        ran.append(n)
        return "dropped"

    assert told(await run(pipelined(Agent(name="a", model=Saying([("drop", '{"n": 1}')]), tools=[drop])))) == [
        "Not that one."
    ]
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        await run(pipelined(Agent(name="a", model=Saying([("drop", '{"n": 13}')]), tools=[drop])))
    assert ran == []


async def test_a_hand_over_reaches_the_other_agent() -> None:
    """Each agent has its own pipeline; an unknown name after the hand-over names none of the first agent's tools."""

    @function_tool
    def delete_all() -> str:
        """Delete."""
        return "gone"

    @function_tool
    def add(a: int) -> int:
        return a

    other = pipelined(
        Agent(name="other", model=Saying([("add", '{"a": "2"}'), ("delete_al", "{}")], prefix="b"), tools=[add])
    )
    first = Agent(name="first", model=Saying([("transfer_to_other", "{}")]), tools=[delete_all], handoffs=[other])
    result = await run(pipelined(first))
    assert result.last_agent.name == "other"
    _, right, unknown = told(result)
    assert right == "2"
    assert "delete_all" not in unknown.replace("delete_al'", "")


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_model_puts_the_names_of_tools_and_hand_offs_right(by_name: bool) -> None:
    """It knows what is offered, however the SDK hands that over, in a reply and in the events of one."""

    @function_tool
    def add(a: int) -> int:
        return a

    calls = [("functions.add", "{}"), ("Transfer_to_other", "{}"), ("weather", "{}")]
    given: dict[str, Any] = {
        "system_instructions": None,
        "input": "go",
        "model_settings": ModelSettings(),
        "tools": [add],
        "output_schema": None,
        "handoffs": [Agent(name="other")],
    }
    args, options = ((), given) if by_name else (tuple(given.values()), {})
    model: Any = wrap_model(Saying(calls, calls), Host(canonical_names=True))
    replies = [(await model.get_response(*args, **options)).output]
    replies += [event.response.output async for event in model.stream_response(*args, **options)]
    assert [[item.name for item in each] for each in replies] == [["add", "transfer_to_other", "weather"]] * 2


class Spans(TracingProcessor):
    """Keeps the errors of the spans of functions."""

    def __init__(self) -> None:
        self.errors: list[Any] = []

    def on_span_end(self, span: Span[Any]) -> None:
        if isinstance(span.span_data, FunctionSpanData):
            self.errors.append(span.error)

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


async def test_the_span_of_a_call_that_failed_says_so() -> None:
    """As the SDK says it of its own tools, with the kind of the error, and none of a call that succeeded."""

    @function_tool
    def add(a: int) -> int:
        return a

    agent = pipelined(Agent(name="a", model=Saying([("add", '{"a": 1}')], [("add", '{"a": "x"}')]), tools=[add]))
    spans = Spans()
    set_trace_processors([spans])
    await Runner.run(agent, "go", run_config=run_config(agent))
    set_trace_processors([])
    data = {"tool_name": "add", "error": "validation"}
    assert spans.errors == [None, {"message": "Error running tool (non-fatal)", "data": data}]


async def test_an_agent_as_a_tool() -> None:
    """It runs as a tool does, and its own agent keeps its own pipeline."""

    @function_tool
    def add(a: int) -> int:
        return a

    inner = pipelined(Agent(name="inner", model=Saying([("add", '{"a": "2"}')], end="inner done"), tools=[add]))
    tool = inner.as_tool("ask", "Ask.", run_config=RunConfig(tracing_disabled=True))
    agent = pipelined(Agent(name="outer", model=Saying([("ask", '{"input": "x"}')]), tools=[tool]))
    assert told(await run(agent)) == ["inner done"]


async def test_an_approval_inside_of_an_agent_as_a_tool_stops_the_outer_run() -> None:
    """The inner interruption is the outer run's, and goes on with it."""
    ran: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    inner = pipelined(Agent(name="inner", model=Saying([("pay", '{"amount": 5}')], end="inner done"), tools=[pay]))
    tool = inner.as_tool("ask", "Ask.", run_config=RunConfig(tracing_disabled=True))
    agent = pipelined(Agent(name="outer", model=Saying([("ask", '{"input": "x"}')]), tools=[tool]))
    stopped = await run(agent)
    assert [item.name for item in stopped.interruptions] == ["pay"]
    assert ran == []
    state = stopped.to_state()
    state.approve(stopped.interruptions[0])
    assert told(await run(agent, state)) == ["inner done"]
    assert ran == [5]


async def test_a_clone_and_a_second_time_around() -> None:
    """A clone keeps its pipeline; the agent that was given is not changed."""

    @function_tool
    def add(a: int) -> int:
        return a

    given = Agent(name="a", model=Saying([("add", '{"a": "2"}')]), tools=[add])
    ours = pipelined(given)
    assert given.tools == [add]
    assert told(await run(ours.clone(name="b"))) == ["2"]
    with pytest.raises(SetupError, match="pipelined"):
        run_config(given)


async def test_a_disabled_tool_is_not_named() -> None:
    """A tool that `is_enabled` hides in this run does not exist for the model."""

    @function_tool(is_enabled=lambda context, _agent: context.context == "admin")
    def delete_all() -> str:
        """Delete."""
        return "gone"

    @function_tool
    def add(a: int) -> int:
        return a

    def make() -> Agent[Any]:
        return pipelined(
            Agent(name="a", model=Saying([("delete_all", "{}"), ("delete_al", "{}")]), tools=[add, delete_all])
        )

    same, near = told(await run(make(), context="guest"))
    assert "gone" not in same
    assert "delete_all" not in near.replace("delete_al'", "")
    assert told(await run(make(), context="admin"))[0] == "gone"


async def test_the_context_stays_the_users_and_streams_work() -> None:
    """The tool gets the run's own context, in a streamed run as well."""
    mine = object()

    @function_tool
    def look(context: ToolContext[Any], n: int) -> str:
        assert context.context is mine
        return f"{n} {context.tool_call_id}"

    @function_tool
    def also(context: RunContextWrapper[Any]) -> bool:
        return context.context is mine

    def make() -> Agent[Any]:
        return pipelined(Agent(name="a", model=Saying([("look", '{"n": "1"}'), ("also", "")]), tools=[look, also]))

    assert told(await run(make(), context=mine)) == ["1 0.0", "True"]
    agent = make()
    streamed = Runner.run_streamed(agent, "go", run_config=run_config(agent, **QUIET), context=mine)
    events = [event.type async for event in streamed.stream_events()]
    assert "run_item_stream_event" in events
    assert told(streamed) == ["1 0.0", "True"]


@pytest.mark.parametrize(("effect", "runs"), [("read", 2), (None, 1)])
async def test_what_may_have_taken_effect_is_run_once(effect: Any, runs: int) -> None:
    """A lost call of a tool that changes something is not repeated."""
    ran: list[int] = []

    @function_tool
    def send(n: int) -> str:
        ran.append(n)
        raise ConnectionError("503")

    agent = Agent(name="a", model=Saying([("send", '{"n": 1}')]), tools=[send])
    await run(pipelined(agent, {"send": effect} if effect else None, attempts=2))
    assert len(ran) == runs


async def test_a_time_limit_and_a_cancelled_run_end_the_tool() -> None:
    """The tool's task is cancelled, and a run that was cancelled stays so."""
    begun, ended = asyncio.Event(), []

    @function_tool
    async def hang(n: int) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)
        return "never"

    def make(n: int, **options: Any) -> Agent[Any]:
        agent = Agent(name="a", model=Saying([("hang", f'{{"n": {n}}}')]), tools=[hang])
        return pipelined(agent, {"hang": "read"}, **options)

    assert "did not finish" in told(await run(make(0, timeout=0.05, attempts=1)))[0]
    begun.clear()
    task = asyncio.create_task(run(make(1)))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_calls_at_once_run_at_once() -> None:
    """Two calls of one message wait for each other."""
    both = asyncio.Barrier(2)

    @function_tool
    async def meet(n: int) -> int:
        await both.wait()
        return n

    agent = pipelined(Agent(name="a", model=Saying([("meet", '{"n": 1}'), ("meet", '{"n": 2}')]), tools=[meet]))
    assert told(await asyncio.wait_for(run(agent), 20)) == ["1", "2"]


def not_negative(value: int) -> int:
    if value < 0:
        raise ValueError("must not be negative")
    return value


async def test_what_a_model_did_never_ends_the_run() -> None:
    """A validator of the function refuses, or an agent as a tool gives up: the SDK tells the model, and so do we."""

    @function_tool
    def add(n: Annotated[int, AfterValidator(not_negative)]) -> int:
        return n

    loops = Agent(name="loops", model=Saying(*[[("add", '{"n": 1}')]] * 5), tools=[add])
    agent = pipelined(
        Agent(
            name="agent",
            model=Saying([("add", '{"n": -1}'), ("loops", '{"input": "x"}')]),
            tools=[add, loops.as_tool("loops", "Loop.", max_turns=2)],
        )
    )
    refused, gave_up = told(await run(agent))
    assert "does not take these arguments" in refused
    assert "unexpected error" in gave_up


@pytest.mark.parametrize(
    "raised", [MaxTurnsExceeded("enough"), ConnectionError("away"), KeyError("k"), asyncio.CancelledError("own")]
)
@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_tool_that_asks_for_it_ends_the_run(raised: BaseException, effect: Any) -> None:
    """`failure_error_function=None` lets exceptions out once they were tried again; wrong arguments are told."""
    ran: list[int] = []

    @function_tool(failure_error_function=None)
    def stop(n: int) -> None:
        ran.append(n)
        raise raised

    calls = [("stop", '{"n": "x"}')], [("stop", '{"n": 1}')]
    agent = pipelined(Agent(name="agent", model=Saying(*calls), tools=[stop]), {"stop": effect}, build=without_waits)
    with pytest.raises((AgentsException, asyncio.CancelledError)) as caught:
        await run(agent)
    assert type(raised) in (
        type(caught.value),
        type(caught.value.__cause__),
    )  # the SDK wraps those that are not its own
    assert len(ran) == (3 if effect == "read" and isinstance(raised, ConnectionError) else 1)


class Answer(BaseModel):
    """What a tool returns."""

    n: int


@pytest.mark.parametrize("effect", ["read", "mutating"])
async def test_a_tool_with_a_declared_output_may_fail(effect: Any) -> None:
    """The model reads why, and the text is not taken for a value of that type; a right answer still has it."""

    @function_tool(output_type=Answer)
    def find(n: int) -> Answer:
        if n:
            raise ConnectionError("secret")
        return Answer(n=n)

    def build(tools: Any, **options: Any) -> Any:
        return without_waits(tools, **options).before("retry", refuse)

    async def refuse(call: Any, call_next: Any) -> Any:
        return Failure(Unavailable("find", "quota")) if call.params["n"] == 2 else await call_next(call)

    calls = [("find", '{"n": 1}'), ("find", '{"n": "x"}'), ("find", '{"n": 2}'), ("find", '{"n": 0}')]
    agent = pipelined(Agent(name="a", model=Saying(calls), tools=[find]), {"find": effect}, build=build)
    *wrong, right = told(await run(agent))
    assert right == '{"n":0}'
    assert all(wrong)
    assert "secret" not in str(wrong)


async def test_a_formatter_of_the_run_is_asked_as_by_the_sdk_alone() -> None:
    """About an exception of a tool and about wrong arguments, unless the tool has words of its own."""
    asked: list[tuple[str, str, str]] = []

    def say(args: Any) -> str | None:
        asked.append((args.kind, args.tool_name, type(args.error).__name__))
        return f"approved {args.call_id}" if args.tool_name != "hush" else None

    @function_tool
    def fail(n: int) -> str:
        raise ConnectionError("secret")

    @function_tool
    def hush(n: int) -> str:
        raise ConnectionError("secret")

    @function_tool(failure_error_function=lambda _context, error: f"own {type(error).__name__}")
    def own(n: int) -> str:
        raise ConnectionError("secret")

    calls = [(name, sent) for name in ("fail", "hush", "own") for sent in ('{"n": 1}', '{"n": "x"}')]
    agent = Agent(name="a", model=Saying(calls), tools=[fail, hush, own])

    async def ask(agent: Agent[Any]) -> Any:
        asked.clear()
        config = run_config(agent, **QUIET, tool_error_formatter=say)
        return told(await Runner.run(agent, "go", run_config=config)), sorted(asked)

    texts, ours = await ask(pipelined(agent, build=without_waits))
    agent.model = Saying(calls)
    config = RunConfig(**QUIET, tool_error_formatter=say)
    asked.clear()
    alone = told(await Runner.run(agent, "go", run_config=config))
    assert ours == sorted(asked)
    assert [text for index, text in enumerate(texts) if index not in {2, 3}] == [*alone[:2], *alone[4:]]
    assert "must be an integer" in texts[3]
    assert "secret" not in str(texts)


async def test_an_agent_as_a_tool_goes_on_where_it_was_cut_off() -> None:
    """The SDK resumes it after an approval and a cancellation: what has had its effect does not run again."""
    ran: list[str] = []
    waits, goes_on = asyncio.Event(), asyncio.Event()

    class Waiting(Saying):
        async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
            if ran and not waits.is_set():
                waits.set()
                await goes_on.wait()
            return await super().get_response(*args, **more)

    @function_tool(needs_approval=True)
    def pay() -> str:
        ran.append("pay")
        return "paid"

    inner = pipelined(Agent(name="inner", model=Waiting([("pay", "{}")], end="inner done"), tools=[pay]))
    outer = Agent(name="outer", model=Saying([("ask", '{"input": "x"}')]), tools=[inner.as_tool("ask", "Ask.")])
    agent = pipelined(outer)
    stopped = await run(agent)
    state = stopped.to_state()
    state.approve(stopped.interruptions[0])
    going = asyncio.create_task(run(agent, state))
    await waits.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert told(await run(agent, state)) == ["inner done"]
    assert ran == ["pay"]


@pytest.mark.parametrize("raised", [ConnectionError("away"), MaxTurnsExceeded("enough")])
async def test_an_agent_as_a_tool_is_not_tried_again(raised: Exception) -> None:
    """Its tools may have had effects."""
    asked: list[int] = []

    class Failing(Saying):
        async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
            asked.append(1)
            raise raised

    tool = Agent(name="inner", model=Failing()).as_tool("ask", "Ask.", failure_error_function=None)
    agent = pipelined(Agent(name="a", model=Saying([("ask", '{"input": "x"}')]), tools=[tool]), build=without_waits)
    with pytest.raises(AgentsException):
        await run(agent)
    assert asked == [1]


async def test_a_tool_of_a_class_of_its_own() -> None:
    """Its class may take other arguments than `FunctionTool`."""

    class Adding(FunctionTool):
        def __init__(self) -> None:
            async def invoke(_context: Any, sent: str) -> str:
                return sent

            super().__init__("add", "Add.", {"type": "object", "properties": {"n": {"type": "integer"}}}, invoke)

    calls = [("add", '{"n": "5"}')]
    assert told(await run(pipelined(Agent(name="a", model=Saying(calls), tools=[Adding()])))) == ['{"n": 5}']


@pytest.mark.parametrize("sent", ['{"n": "5"}', '{"arguments": {"n": 5}}', '"{\\"n\\": 5}"', '{"n": 5}'])
async def test_no_way_to_write_a_call_passes_an_approval_or_a_guardrail(sent: str) -> None:
    """Both judge the arguments as they will run."""
    ran: list[int] = []

    @function_tool(needs_approval=lambda _context, params, _id: params.get("n") == 5)
    def pay(n: int) -> None:
        ran.append(n)

    def reject_five(data: Any) -> ToolGuardrailFunctionOutput:
        five = json.loads(data.context.tool_arguments).get("n") == 5
        return ToolGuardrailFunctionOutput.reject_content("No.") if five else ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[tool_input_guardrail(reject_five)])
    def send(n: int) -> None:
        ran.append(n)

    agent = pipelined(Agent(name="agent", model=Saying([("pay", sent), ("send", sent)]), tools=[pay, send]))
    result = await run(agent)
    assert ran == []
    assert [item.tool_name for item in result.interruptions][:1] == ["pay"]


class Many(BaseModel):
    """Its validator reads more than was sent."""

    count: int

    @field_validator("count")
    @classmethod
    def double(cls, count: int) -> int:
        return count * 2


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("name", ["pay", "send", "tell"])
async def test_an_approval_by_arguments_is_asked_for_what_the_function_adds_to_them(name: str, ours: bool) -> None:
    """A default, a conversion and a validator are not in what the policy is shown: a person decides, as without us."""
    ran: list[object] = []

    def is_large(_context: Any, params: dict[str, Any], _id: str) -> bool:
        return any(value not in ("a", 1, {"count": 1}) for value in params.values())

    @function_tool(needs_approval=is_large, strict_mode=False)
    def pay(to: str, amount: int = 1_000) -> None:
        ran.append((to, amount))

    @function_tool(needs_approval=is_large)
    def send(amount: Decimal) -> None:
        ran.append(amount)

    @function_tool(needs_approval=is_large)
    def tell(many: Many) -> None:
        ran.append(many)

    sent = {"pay": '{"to": "a"}', "send": '{"amount": 1}', "tell": '{"many": {"count": 1}}'}[name]
    plain = Agent(name="agent", model=Saying([(name, sent)]), tools=[pay, send, tell])
    result = await run(pipelined(plain)) if ours else await Runner.run(plain, "go", run_config=RunConfig(**QUIET))
    assert ([item.tool_name for item in result.interruptions], ran) == ([name], [])


EVENTS: list[str] = []


def note(value: int) -> int:
    EVENTS.append("validator")
    return value


@pytest.mark.parametrize("ours", [True, False])
async def test_a_person_decides_before_validators_of_the_author_run(ours: bool) -> None:
    """And no policy is asked: it would judge what they may change."""
    events = EVENTS
    events.clear()

    async def policy(_context: Any, _params: Any, _call_id: str) -> bool:
        events.append("policy")
        return False

    @function_tool(needs_approval=policy)
    def pay(n: Annotated[int, AfterValidator(note)]) -> str:
        events.append("pay")
        return "paid"

    agent = Agent(name="a", model=Saying([("pay", '{"n": 1}')]), tools=[pay])
    agent = pipelined(agent) if ours else agent
    stopped = await Runner.run(agent, "go", run_config=RunConfig(**QUIET))
    assert (len(stopped.interruptions), events) == (1, [])
    state = stopped.to_state()
    state.approve(stopped.interruptions[0])
    assert told(await Runner.run(agent, state, run_config=RunConfig(**QUIET))) == ["paid"]
    assert events[-1] == "pay"
    assert "policy" not in events


async def test_tools_of_two_namespaces_may_share_a_name() -> None:
    """Each is validated by its own schema."""

    @function_tool(name_override="find")
    def by_number(n: int) -> str:
        return f"number {n}"

    @function_tool(name_override="find")
    def by_text(text: str) -> str:
        return f"text {text}"

    class Spaces(Saying):
        def answer(self) -> list[Any]:
            items = super().answer()
            for item, space in zip(items, ("one", "two"), strict=False):
                item.namespace = space
            return items

    spaces = [
        *tool_namespace(name="one", description="One.", tools=[by_number]),
        *tool_namespace(name="two", description="Two.", tools=[by_text]),
    ]
    model = Spaces([("find", '{"n": "3"}'), ("find", '{"text": "x"}')])
    agent = pipelined(Agent(name="agent", model=model, tools=spaces))
    assert told(await run(agent)) == ["number 3", "text x"]


async def test_a_registry_as_function_tools() -> None:
    """Repaired, refused and failed calls; the context of the run is the tool's deps."""
    registry = ToolRegistry()

    @registry.tool(effect="read", context=True)
    def double(context: OurContext[Any], n: int) -> str:
        """Double."""
        return f"{n * 2} {context.deps} {context.call_id}"

    @registry.tool
    def fail(n: int) -> int:
        """Fail."""
        if n:
            raise ToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    @registry.tool
    def draw() -> list[Any]:
        """Draw."""
        return ["see", b"\x89PNG\r\n\x1a\n", b"%PDF-1.7"]

    calls = [("double", '{"n": "2"}'), ("double", '{"n"'), ("fail", '{"n": 1}'), ("fail", '{"n": 0}'), ("draw", "{}")]
    tools: list[Any] = export_tools(registry, standard(registry))
    assert all(isinstance(tool, FunctionTool) for tool in tools)
    agent = Agent[Any](name="a", model=Saying(calls), tools=tools)
    result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True), context="mine")
    right, cut, failed, crashed, _ = told(result)
    drawn = result.to_input_list()[-2]["output"]
    assert [part["type"] for part in drawn] == ["input_text", "input_image", "input_file"]
    assert right == "4 mine 0.0"
    assert "not a JSON object" in cut or "cut off" in cut
    assert "Ask for fewer." in failed
    assert "hunter2" not in crashed


class Server(MCPServer):
    """An MCP server in this process, with two tools."""

    name = "remote"

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        schema = {"type": "object", "properties": {}}
        return [mcp.types.Tool(name=name, input_schema=schema) for name in ("fetch_page", "read_mail")]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        self.called.append(tool_name)
        return mcp.types.CallToolResult(content=[mcp.types.TextContent(type="text", text="fetched")])


@pytest.mark.parametrize("own", [True, False])
async def test_an_unknown_name_is_told_all_that_the_agent_has(own: bool) -> None:
    """Tools of MCP servers and hand-offs are listed, and noise is cut; an agent without function tools is one too."""

    @function_tool
    def add(a: int) -> int:
        return a

    server = Server()
    calls = [[("fetch_pag", "{}"), ("functions.fetch_page", "{}"), *([("functions.add", '{"a": 1}')] if own else [])]]
    agent = pipelined(
        Agent(
            name="a",
            model=Saying(*calls),
            tools=[add] if own else [],
            mcp_servers=[server],
            handoffs=[Agent(name="other")],
        )
    )
    answers = told(await run(agent))
    [unknown] = [each for each in answers if "not found" in each]
    assert "fetch_page" in unknown
    assert server.called == ["fetch_page"]
    assert any("fetched" in each for each in answers)
    assert ("1" in answers) is own
    offered = describe((await agent.get_all_tools(RunContextWrapper(None))), agent.handoffs)
    assert offered.keys() >= {"fetch_page", "read_mail", "transfer_to_other", *(["add"] if own else [])}


async def test_a_default_of_a_strict_schema_is_filled() -> None:
    """The strict schema requires every parameter; the SDK fills a missing one, and null for it is left out."""
    ran: list[Any] = []

    @function_tool
    def search(q: str, limit: int = 5, tags: list[str] | None = None) -> str:
        ran.append((q, limit, tags))
        return "ok"

    calls = [("search", '{"q": "x"}'), ("search", '{"q": "x", "limit": null}'), ("search", '{"q": "x", "limit": 1}')]
    await run(pipelined(Agent(name="a", model=Saying(calls), tools=[search])))
    assert ran == [("x", 5, None), ("x", 5, None), ("x", 1, None)]


async def test_the_authors_own_words_for_an_exception_are_told() -> None:
    """A `failure_error_function` that an author names is asked, the SDK's own too; else the pipeline has words."""

    def fail(n: int) -> str:
        raise ValueError("seven")

    named = function_tool(fail, name_override="named", failure_error_function=default_tool_error_function)
    own = function_tool(fail, name_override="own", failure_error_function=lambda _context, error: f"Fewer: {error}")
    helper = Agent(name="helper", model=Saying([("fail", "{}")]))
    ends = helper.as_tool("agent", "Help.", max_turns=1)  # the SDK names its own function for it
    tools: list[Any] = [function_tool(fail), named, own, ends]
    calls = [(each.name, '{"input": "x"}' if each.name == "agent" else '{"n": 1}') for each in tools]
    ours = "An unexpected error occurred while executing this tool"
    sdk = default_tool_error_function(RunContextWrapper(None), ValueError())
    texts = told(await run(pipelined(Agent(name="a", model=Saying(calls), tools=tools))))
    assert texts == [ours, sdk, "Fewer: seven", ours]


async def test_a_run_is_a_conversation_unless_it_has_a_group() -> None:
    """The group of the run's configuration is the conversation of its calls."""
    seen: list[str] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append(call.conversation)
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).before("retry", note)

    @function_tool
    def add(a: int) -> int:
        return a

    for group in (None, None, "g"):
        model = Saying([("add", '{"a": 1}')], [("add", '{"a": 2}')])
        agent = pipelined(Agent(name="a", model=model, tools=[add]), build=build)
        await Runner.run(agent, "go", run_config=run_config(agent, group_id=group, **QUIET))
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert all(seen)
    assert seen[4:] == ["g", "g"]


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

    pipeline = standard(registry).before("retry", note)
    for group in (None, "g"):
        tools: list[Any] = export_tools(registry, pipeline, principal=lambda context: context.context)
        agent = Agent[Any](name="a", model=Saying([("add", '{"a": 1}')], [("add", '{"a": 2}')]), tools=tools)
        config = RunConfig(tracing_disabled=True, group_id=group)
        await Runner.run(agent, "go", run_config=config, context="ann")
    assert [principal for _, principal in seen] == ["ann"] * 4
    assert seen[0][0]
    assert seen[0] == seen[1]
    assert [conversation for conversation, _ in seen[2:]] == ["g", "g"]


@pytest.mark.parametrize("exported", [True, False])
async def test_a_text_says_what_changed_since_the_last_failure(exported: bool) -> None:
    """Throughout the runs of a group, or a run that has none, and in no other one."""
    registry = ToolRegistry()
    registry.tool(effect="read")(send)
    tools: Any = export_tools(registry, standard(registry)) if exported else [function_tool(send)]
    plain = Agent[Any](name="a", tools=tools)
    agent = plain if exported else pipelined(plain)

    async def play(group: str | None, turns: Any) -> list[str]:
        model: Any = Saying(*([("send", json.dumps(turn.sent))] for turn in turns))
        config = RunConfig(**QUIET) if exported else run_config(agent, **QUIET)
        config.group_id = group
        return told(await Runner.run(agent.clone(model=model), "go", run_config=config))

    first = await play("mine", RUNS[0])
    check_turns(await play("other", OTHER), OTHER)
    check_turns(first + await play("mine", RUNS[1]))
    check_turns(await play(None, TURNS))
    check_turns(await play(None, OTHER), OTHER)


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option words what the model is told of its calls."""

    @function_tool
    def add(a: int) -> int:
        return a

    agent = pipelined(Agent[Any](name="a", model=Saying([("add", "{}"), ("ad", "{}")]), tools=[add]), wording=MINE)
    result = await Runner.run(agent, "go", run_config=run_config(agent, **QUIET))
    told = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert told == [TOLD_OF_ADD, TOLD_OF_AD]


@pytest.mark.long
async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """Of 60 signatures with 30 calls none that ran is refused, or runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        try:
            made = function_tool(function)
        except UserError:  # an open object has no strict schema
            made = function_tool(function, strict_mode=False)

        model = Saying()
        plain = Agent[Any](name="a", model=model, tools=[made])
        agents, configs = [plain, pipelined(plain)], [RunConfig(**QUIET)]
        configs.append(run_config(agents[1], **QUIET))

        async def run(sent: dict[str, Any], ours: bool) -> None:
            model.turns = [(0, [("work", json.dumps(sent))])]
            await Runner.run(agents[ours], "go", run_config=configs[ours])

        return run

    found = await compare(make_runner)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_that_waits_interrupts_the_run(tmp_path: Path, approve: bool) -> None:
    """The SDK asks before the call; after a restart its state has the decision, and the call runs once."""
    bank = Bank(tmp_path)

    def make(turns: list[list[tuple[str, str]]], registry: ToolRegistry, pipeline: Any) -> Agent[Any]:
        return Agent("a", model=Saying(*turns), tools=[*export_tools(registry, pipeline, ask=True)])

    async with bank.start() as (registry, pipeline):
        agent = make([[("pay", '{"to": "Bob", "cents": "5"}')]], registry, pipeline)
        stopped = await Runner.run(agent, "go", run_config=RunConfig(**QUIET))
        kept = stopped.to_state().to_string()
        (waiting,) = await bank.list()
        assert (len(stopped.interruptions), waiting.state, waiting.arguments) == (
            1,
            "pending",
            {"to": "Bob", "cents": 5},
        )
    assert bank.paid == []
    async with bank.start() as (registry, pipeline):
        agent = make([], registry, pipeline)
        state = await RunState.from_string(agent, kept)
        (state.approve if approve else state.reject)(state.get_interruptions()[0])
        result = await Runner.run(agent, state, run_config=RunConfig(**QUIET))
    assert ("paid Bob 5" in told(result)) is approve
    assert bank.paid == (["Bob 5"] if approve else [])
    assert [each.state for each in await bank.list()] == ["approved" if approve else "pending"]


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("openai_agents", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
