"""ADK's own control flow, with the pipeline around its tools. Run by `make test-hosts` with the real package."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import StreamingMode
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.sessions import Session as ADKSession
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import TypeAdapter

from host_approvals import Bank
from host_comparison import MINE, TOLD_OF_AD, TOLD_OF_ADD, RunCall, compare
from killed_host import kill_and_ask_again
from toolcall_pipeline import ToolContext as ToolcallContext
from toolcall_pipeline import ToolRegistry
from toolcall_pipeline.hosts.adk import ToolcallPlugin, export_tools
from toolcall_pipeline.middlewares import standard
from turns import OTHER, RUNS, TURNS, check_turns, send


@pytest.fixture
def anyio_backend() -> str:
    """ADK needs asyncio."""
    return "asyncio"


class Saying(BaseLlm):
    """Makes these calls, a list a turn, and is done then."""

    turns: list[list[tuple[str, dict[str, Any]]]]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        calls = self.turns.pop(0) if self.turns else []
        parts = [types.Part.from_function_call(name=name, args=args) for name, args in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part.from_text(text="done")]))


def saying(*turns: list[tuple[str, dict[str, Any]]]) -> Saying:
    return Saying(model="fake", turns=list(turns))


class Session:
    """One session of a user with an agent."""

    def __init__(self, agent: LlmAgent, *plugins: BasePlugin) -> None:
        self.runner = InMemoryRunner(agent=agent, plugins=[*plugins])
        self.id = ""
        self.answers: list[Any] = []  # of the tools, as the model is told
        self.asked: list[Any] = []  # calls that ask the user for a confirmation

    async def send(self, part: Any = None, **options: Any) -> Session:
        if not self.id:
            sessions = self.runner.session_service
            self.id = (await sessions.create_session(app_name=self.runner.app_name, user_id="user")).id
        message = types.Content(role="user", parts=[part or types.Part.from_text(text="go")])
        async for event in self.runner.run_async(user_id="user", session_id=self.id, new_message=message, **options):
            self.answers += [each.response for each in event.get_function_responses()]
            self.asked += [each for each in event.get_function_calls() if each.name == "adk_request_confirmation"]
        return self

    async def dump(self) -> str:
        """The session as text, as a service keeps it."""
        sessions = self.runner.session_service
        found = await sessions.get_session(app_name=self.runner.app_name, user_id="user", session_id=self.id)
        return str(found.model_dump_json())

    async def load(self, text: str) -> None:
        """Go on with a session of another process."""
        kept, sessions = ADKSession.model_validate_json(text), self.runner.session_service
        made = await sessions.create_session(app_name=self.runner.app_name, user_id="user", session_id=kept.id)
        for event in kept.events:
            await sessions.append_event(made, event)
            self.asked += [each for each in event.get_function_calls() if each.name == "adk_request_confirmation"]
        self.id = kept.id

    async def answer(self, *, confirmed: bool) -> Session:
        response = types.FunctionResponse(
            id=self.asked[0].id, name=self.asked[0].name, response={"confirmed": confirmed}
        )
        return await self.send(types.Part(function_response=response))


def make(model: Saying, *tools: Any, effects: Any = None, **options: Any) -> Session:
    return Session(LlmAgent(name="agent", model=model, tools=list(tools)), ToolcallPlugin(effects, **options))


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("forget", [True, False])
async def test_a_confirmation_is_waited_for(confirmed: bool, forget: bool) -> None:
    """Nothing runs before the user has confirmed, and once then; by another process as well, which saw no model."""
    ran: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    plugin = ToolcallPlugin()
    agent = LlmAgent(
        name="agent", model=saying([("pay", {"amount": 5})]), tools=[FunctionTool(pay, require_confirmation=True)]
    )
    session = await Session(agent, plugin).send()
    assert len(session.asked) == 1
    assert ran == []
    if forget:
        session.runner.plugin_manager.plugins[:] = [ToolcallPlugin()]
    session.answers.clear()
    await session.answer(confirmed=confirmed)
    assert ran == ([5] if confirmed else [])
    assert ({"result": "paid"} in session.answers) is confirmed


@pytest.mark.parametrize("name", ["pay", "functions.pay", "Pay", "pya"])
async def test_no_other_way_to_write_a_call_skips_the_confirmation(name: str) -> None:
    """Neither a repaired name nor repaired arguments run a tool that the user has to confirm."""
    ran: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    def is_large(amount: int) -> bool:
        return amount == 5000

    tool = FunctionTool(pay, require_confirmation=is_large)
    for amount in (5000, "5000", 5000.0):
        session = await make(saying([(name, {"amount": amount})]), tool, canonical_names=True).send()
        assert ran == []
        if name == "pay":
            assert len(session.asked) == 1


@pytest.mark.parametrize("sent", [{"n": 5}, {"n": "5"}, {"arguments": {"n": 5}}, {"n": "many"}, {"n": None}])
async def test_a_condition_of_a_confirmation_judges_what_will_run(sent: dict[str, Any]) -> None:
    """It is asked about repaired arguments; wrong ones neither end the run nor run."""
    ran: list[int] = []

    def pay(n: int) -> None:
        ran.append(n)

    session = await make(saying([("pay", sent)]), FunctionTool(pay, require_confirmation=lambda n: n > 3)).send()
    assert ran == []
    assert len(session.asked) == (0 if sent["n" if "n" in sent else "arguments"] in ("many", None) else 1)


@pytest.mark.parametrize("name", ["drop", "functions.drop", '"drop"'])
@pytest.mark.parametrize("args", [{"n": 5}, {"n": "5"}, {"arguments": {"n": 5}}])
async def test_no_way_to_write_a_call_passes_another_plugin(name: str, args: dict[str, Any]) -> None:
    """A plugin before ours that decides by the name and the arguments sees those that will run."""
    ran: list[int] = []

    class Guard(BasePlugin):
        async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
            return {"error": "forbidden"} if (tool.name, tool_args) == ("drop", {"n": 5}) else None

    def drop(n: int) -> None:
        ran.append(n)

    agent = LlmAgent(name="agent", model=saying([(name, args)]), tools=[drop])
    session = Session(agent, Guard("guard"), ToolcallPlugin())
    assert (await session.send()).answers == [{"error": "forbidden"}]
    assert ran == []


async def test_a_tool_that_leaves_the_gate_to_adk() -> None:
    """A tool of a class of its own, whose run does not look at the confirmation."""
    ran: list[Any] = []

    class Gate(BaseTool):
        def __init__(self) -> None:
            super().__init__(name="gate", description="Gate.")

        def _get_declaration(self) -> Any:
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            return types.FunctionDeclaration(name="gate", description="Gate.", parameters_json_schema=schema)

        async def check_require_confirmation(self, args: Any, tool_context: Any) -> bool:
            return args["n"] == 5

        async def run_async(self, *, args: Any, tool_context: Any) -> Any:
            ran.append(args)
            return "ran"

    session = await make(saying([("gate", {"n": "5"})]), Gate()).send()
    assert ran == []
    assert len(session.asked) == 1


async def test_a_long_running_tool_stays_with_adk() -> None:
    """It answers later; what it returns at once is told as ADK tells it."""

    def order(n: int) -> dict[str, Any]:
        """Order."""
        return {"status": "pending"}

    session = await make(saying([("order", {"n": 1})]), LongRunningFunctionTool(order)).send()
    assert session.answers == [{"status": "pending"}]


async def test_a_callback_of_the_agent_is_asked() -> None:
    """A guard that the user gave the agent still decides, and sees the repaired arguments."""
    ran, seen = [], []

    def drop(n: int) -> str:
        """Drop."""
        ran.append(n)
        return "dropped"

    def guard(tool: Any, args: Any, tool_context: Any) -> Any:
        seen.append((tool.name, args))
        return {"result": "refused"} if args["n"] == 1 else None

    model = saying([("drop", {"n": "1"})], [("drop", {"n": 2})])
    agent = LlmAgent(name="agent", model=model, tools=[drop], before_tool_callback=guard)
    session = await Session(agent, ToolcallPlugin()).send()
    assert session.answers == [{"result": "refused"}, {"result": "dropped"}]
    assert seen == [("drop", {"n": 1}), ("drop", {"n": 2})]
    assert ran == [2]


@pytest.mark.parametrize("ours", [False, True])
async def test_callbacks_are_called_as_adk_calls_them(ours: bool) -> None:
    """By the names of their parameters, each until one answers, and about a name that no tool has."""
    asked: list[Any] = []

    def fail(n: int) -> str:
        """Fail."""
        raise ValueError("no")

    def before(*, tool_context: Any, tool: Any, args: Any) -> Any:
        asked.append(("before", tool.name, dict(args)))

    async def also(args: Any, **more: Any) -> Any:
        asked.append(("also", sorted(more)))
        return {"result": "found"} if more["tool"].name == "zebra" else None

    def about(error: Any, tool_context: Any, args: Any, tool: Any) -> Any:
        asked.append(("error", str(error)))
        return {"result": "mended"}

    model = saying([("fail", {"n": 1})], [("zebra", {"n": 2})])
    around: Any = {"before_tool_callback": [before, also], "on_tool_error_callback": [about]}
    agent = LlmAgent(name="agent", model=model, tools=[fail], **around)
    session = await Session(agent, *([ToolcallPlugin()] if ours else [])).send()
    assert session.answers == [{"result": "mended"}, {"result": "found"}]
    also_asked = ("also", ["tool", "tool_context"])
    failed = [("before", "fail", {"n": 1}), also_asked, ("error", "no")]
    assert asked == [*failed, ("before", "zebra", {"n": 2}), also_asked]


async def test_a_callback_may_fill_in_an_argument() -> None:
    """It is asked before the arguments are validated, and again about a call that is repaired after that."""
    ran: list[tuple[int, str]] = []
    seen: list[dict[str, Any]] = []

    def drop(n: int, user: str) -> str:
        """Drop."""
        ran.append((n, user))
        return "dropped"

    def fill(tool: Any, args: Any, tool_context: Any) -> Any:
        args["user"] = "ann"
        seen.append(dict(args))
        return {"result": "refused"} if args["n"] == 13 else None

    calls = [[("drop", {"n": 1})], [("drop", {"n": "2"})], [("drop", {"n": "13"})], [("drop", {})]]
    agent = LlmAgent(name="agent", model=saying(*calls), tools=[drop], before_tool_callback=fill)
    *answers, wrong = (await Session(agent, ToolcallPlugin()).send()).answers
    assert answers == [{"result": "dropped"}, {"result": "dropped"}, {"result": "refused"}]
    assert "n" in wrong["error"]
    assert ran == [(1, "ann"), (2, "ann")]
    assert [each["n"] for each in seen if "n" in each] == [1, "2", 2, "13", 13]


async def test_a_callback_that_raises_ends_the_run() -> None:
    """As with ADK alone: nothing runs. What it cannot read because the model got it wrong is told."""
    ran: list[int] = []

    def drop(n: int) -> None:
        """Drop."""
        ran.append(n)

    def guard(tool: Any, args: Any, tool_context: Any) -> Any:
        raise KeyError(args["n"])

    agent = LlmAgent(name="agent", model=saying([("drop", {})], [("drop", {"n": 5})]), tools=[drop])
    agent.before_tool_callback = guard
    session = Session(agent, ToolcallPlugin())
    with pytest.raises(RuntimeError, match="5"):
        await session.send()
    assert ran == []


@pytest.mark.parametrize("of_plugin", [None, {"result": "by the plugin"}])
@pytest.mark.parametrize("of_agent", [None, {"result": "by the agent"}])
async def test_callbacks_are_asked_about_an_exception(of_plugin: Any, of_agent: Any) -> None:
    """First those of the plugins and then those of the agent, as ADK asks them; else the model reads our text."""
    asked: list[str] = []

    class Mending(BasePlugin):
        async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Any) -> Any:
            asked.append(f"plugin {tool.name} {tool_args} {error}")
            return of_plugin

    def mend(tool: Any, args: Any, tool_context: Any, error: Any) -> Any:
        asked.append(f"agent {tool.name} {args} {error}")
        return of_agent

    def drop(n: int) -> str:
        """Drop."""
        raise ValueError("no")

    agent = LlmAgent(name="agent", model=saying([("drop", {"n": "1"})]), tools=[drop], on_tool_error_callback=mend)
    session = await Session(agent, ToolcallPlugin(), Mending("mending")).send()
    told = of_plugin or of_agent
    assert session.answers == [told] if told else "error" in session.answers[0]
    assert asked == ["plugin drop {'n': 1} no", *([] if of_plugin else ["agent drop {'n': 1} no"])]


class Declared(BaseTool):
    """A tool that declares its parameters in the classes of Google."""

    def _get_declaration(self) -> types.FunctionDeclaration:
        number, color = (
            types.Schema(type=types.Type.INTEGER),
            types.Schema(type=types.Type.STRING, enum=["red", "blue"]),
        )
        schema = types.Schema(type=types.Type.OBJECT, properties={"n": number, "color": color}, required=["n"])
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return {"args": args}


async def test_parameters_in_the_classes_of_google_are_validated() -> None:
    """They are as good as a JSON Schema: what has one reading is read, and the model is told of the rest."""
    calls = [("paint", {"n": "5", "color": "red"}), ("paint", {"n": 5, "color": "green"}), ("paint", {"n": "x"})]
    session = await make(saying(calls), Declared(name="paint", description="Paint.")).send()
    assert session.answers[0] == {"args": {"n": 5, "color": "red"}}
    assert "red" in session.answers[1]["error"]
    assert "must be an integer" in session.answers[2]["error"]


@pytest.mark.parametrize("ours", [False, True])
async def test_what_adk_accepts_runs_as_adk_reads_it(ours: bool) -> None:
    """A name that it leaves out is not taken for one that it knows, where the call is complete without."""

    def work(a: int = 0, b: float = 1) -> str:
        """Work."""
        return f"{a} {b}"

    agent = LlmAgent(name="agent", model=saying([("work", {"A": 5, "b": 2})], [("work", {"a": 5})]), tools=[work])
    session = await Session(agent, *[ToolcallPlugin()] * ours).send()
    assert session.answers == [{"result": "0 2"}, {"result": "5 1"}]


@pytest.mark.parametrize("ours", [False, True])
async def test_callbacks_after_a_tool_see_what_ran_and_what_it_gave(ours: bool) -> None:
    """The arguments as a callback before it left them, and any value that is not None as it is; an image stays one."""
    seen: list[Any] = []
    image = types.Part.from_bytes(data=b"1", mime_type="image/png")
    values: list[Any] = [7, "", [], 0, False, [{"a": 1}, {"image": image}]]

    def give(n: int) -> Any:
        """Give."""
        return values[n]

    def change(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
        args["n"] -= 10

    def see(tool: Any, args: dict[str, Any], tool_context: Any, tool_response: Any) -> None:
        seen.append((args["n"], tool_response))

    model = saying([("give", {"n": 10 + number}) for number in range(len(values))])
    around: Any = {"before_tool_callback": change, "after_tool_callback": see}
    session = Session(
        LlmAgent(name="agent", model=model, tools=[give], **around), *([ToolcallPlugin()] if ours else [])
    )
    await session.send()
    assert seen == list(enumerate(values))
    assert session.answers[0] == {"result": 7}
    assert session.answers[5] == {"result": [{"a": 1}]}


@pytest.mark.parametrize("ours", [False, True])
async def test_the_limit_of_model_calls_holds(ours: bool) -> None:
    """ADK ends the run after as many calls of the model as without the pipeline."""
    ran: list[int] = []

    def look(n: int) -> None:
        """Look."""
        ran.append(n)

    model = saying(*[[("look", {"n": number})] for number in range(5)])
    session = Session(LlmAgent(name="agent", model=model, tools=[look]), *([ToolcallPlugin()] if ours else []))
    with pytest.raises(LlmCallsLimitExceededError):
        await session.send(run_config=RunConfig(max_llm_calls=2))
    assert ran == [0, 1]


async def test_a_hand_over_and_state_stay_adks() -> None:
    """`transfer_to_agent` reaches the other agent, and a tool's context is its own."""

    def look(n: int, tool_context: ToolContext) -> str:
        """Look."""
        tool_context.state["seen"] = n
        return f"{n} {tool_context.agent_name}"

    other = LlmAgent(name="other", description="Looks.", model=saying([("look", {"n": "1"})]), tools=[look])
    first = LlmAgent(name="first", model=saying([("transfer_to_agent", {"agent_name": "other"})]), sub_agents=[other])
    session = await Session(first, ToolcallPlugin()).send()
    assert {"result": "1 other"} in session.answers
    stored = await session.runner.session_service.get_session(
        app_name=session.runner.app_name, user_id="user", session_id=session.id
    )
    assert stored is not None
    assert stored.state["seen"] == 1


async def test_agents_of_one_name_that_share_a_plugin_keep_their_tools() -> None:
    """Each call runs the tool of its own agent, and hears of no other agent's tools."""
    plugin, go_on = ToolcallPlugin(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        await go_on.wait()
        return "waited"

    def by_number(n: int) -> str:
        """Find."""
        return f"number {n}"

    def by_text(text: str) -> str:
        """Find."""
        return f"text {text}"

    def delete_all() -> None:
        """Delete."""

    by_number.__name__ = by_text.__name__ = "find"
    first = LlmAgent(
        name="agent", model=saying([("wait", {})], [("find", {"n": "1"}), ("delete_al", {})]), tools=[by_number, wait]
    )
    second = LlmAgent(name="agent", model=saying([("find", {"text": "x"})]), tools=[by_text, delete_all])
    task = asyncio.create_task(Session(first, plugin).send())
    assert (await Session(second, plugin).send()).answers == [{"result": "text x"}]
    go_on.set()
    _, found, unknown = (await asyncio.wait_for(task, 20)).answers
    assert found == {"result": "number 1"}
    assert "delete_all" not in unknown["error"]


@pytest.mark.parametrize(("effect", "runs"), [("read", 2), (None, 1)])
async def test_what_may_have_taken_effect_is_run_once(effect: Any, runs: int) -> None:
    """A lost call of a tool that changes something is not repeated."""
    ran: list[int] = []

    def send(n: int) -> str:
        """Send."""
        ran.append(n)
        raise ConnectionError("503")

    await make(saying([("send", {"n": 1})]), send, effects={"send": effect} if effect else None, attempts=2).send()
    assert len(ran) == runs


async def test_a_time_limit_and_a_cancelled_run_end_the_tool() -> None:
    """The tool's task is cancelled, and a run that was cancelled stays so."""
    begun, ended = asyncio.Event(), []

    async def hang(n: int) -> str:
        """Hang."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)
        return "never"

    reads: Any = {"hang": "read"}
    slow = make(saying([("hang", {"n": 0})]), hang, effects=reads, timeout=0.05, attempts=1)
    assert "did not finish" in (await slow.send()).answers[0]["error"]
    begun.clear()
    task = asyncio.create_task(make(saying([("hang", {"n": 1})]), hang, effects=reads).send())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_calls_at_once_run_at_once_and_streams_work() -> None:
    """Two calls of one message wait for each other, in a streamed run."""
    both = asyncio.Barrier(2)

    async def meet(n: int) -> int:
        """Meet."""
        await both.wait()
        return n

    session = make(saying([("meet", {"n": 1}), ("meet", {"n": 2})]), meet)
    await asyncio.wait_for(session.send(run_config=RunConfig(streaming_mode=StreamingMode.SSE)), 20)
    assert session.answers == [{"result": 1}, {"result": 2}]


async def test_an_authors_error_reaches_the_model_as_it_is() -> None:
    """So does what the ``on_tool_error_callback`` of the agent makes of an exception."""
    words = {"error": "Order 7 is in /srv/orders, ask ann@example.com."}

    def find(n: int) -> dict[str, str]:
        """Find."""
        return words

    def fail(n: int) -> None:
        """Fail."""
        raise ValueError("password=hunter2")

    def explain(tool: Any, args: Any, tool_context: Any, error: Exception) -> Any:
        return {"error": f"{tool.name}: {type(error).__name__}"}

    calls = [("find", {"n": 1}), ("fail", {"n": 1})]
    agent = LlmAgent(name="agent", model=saying(calls), tools=[find, fail], on_tool_error_callback=explain)
    session = await Session(agent, ToolcallPlugin()).send()
    assert session.answers == [words, {"error": "fail: ValueError"}]


async def test_the_user_is_a_principal_and_the_session_a_conversation() -> None:
    """Each call has those of its session."""
    seen: list[tuple[str, str]] = []

    async def note(call: Any, call_next: Any) -> Any:
        seen.append((call.principal, call.conversation))
        return await call_next(call)

    def build(tools: Any, **options: Any) -> Any:
        return standard(tools, **options).before("retry", note)

    def add(n: int) -> int:
        """Add."""
        return n

    for _ in range(2):
        await make(saying([("add", {"n": 1})]), add, build=build).send()
    assert [principal for principal, _ in seen] == ["user", "user"]
    assert seen[0] != seen[1]


async def test_each_call_has_one_span_that_counts_it() -> None:
    """ADK's own span stands around ours, and is red where the call failed."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    def fail(n: int) -> None:
        """Fail."""
        raise ValueError

    await make(saying([("fail", {"n": 1})]), fail).send()
    spans = exporter.get_finished_spans()
    counted = [span for span in spans if (span.attributes or {}).get("gen_ai.operation.name") == "execute_tool"]
    assert [span.name for span in counted] == ["execute_tool fail"]
    assert counted[0].status.status_code is trace.StatusCode.ERROR
    assert [span.name for span in spans if span.name.startswith("toolcall")] == ["toolcall fail"]


@pytest.mark.parametrize("exported", [True, False])
async def test_a_text_says_what_changed_since_the_last_failure(exported: bool) -> None:
    """Throughout the runs of a session, and in no other one."""
    registry = ToolRegistry()
    registry.tool(effect="read")(send)
    tools = export_tools(registry, standard(registry)) if exported else [send]
    plugins = [] if exported else [ToolcallPlugin()]

    def start(*turns: Any) -> Session:
        model = saying(*([("send", turn.sent)] if turn else [] for turn in turns))
        return Session(LlmAgent(name="agent", model=model, tools=tools), *plugins)

    mine, other = start(*RUNS[0], None, *RUNS[1]), start(*OTHER)
    await mine.send()
    await other.send()
    await mine.send()
    for session, turns in ((mine, TURNS), (other, OTHER)):
        check_turns([next(iter(answer.values())) for answer in session.answers], turns)


async def test_the_texts_are_those_of_a_profile_of_ones_own() -> None:
    """One option words what the model is told of its calls."""

    def add(a: int) -> int:
        """Add."""
        return a

    session = await make(saying([("add", {}), ("ad", {})]), add, wording=MINE).send()
    assert [TOLD_OF_ADD in str(session.answers[0]), TOLD_OF_AD in str(session.answers[1])] == [True, True]


@pytest.mark.long
async def test_what_runs_without_the_pipeline_runs_with_it() -> None:
    """Of 60 signatures with 30 calls none that ran is refused, or runs with other values or another number of times."""

    async def make_runner(function: Any) -> RunCall:
        made = FunctionTool(function)
        made._get_declaration()

        model = saying()
        agent = LlmAgent(name="agent", model=model, tools=[made])
        plugins: list[list[BasePlugin]] = [[], [ToolcallPlugin()]]

        async def run(sent: dict[str, Any], ours: bool) -> None:
            model.turns = [[("work", sent)]]
            await Session(agent, *plugins[ours]).send()

        return run

    def breaks_types(function: Any, sent: dict[str, Any]) -> bool:
        hints = get_type_hints(function, include_extras=True)
        for name, value in sent.items():
            try:
                TypeAdapter(hints.get(name, Any)).validate_json(json.dumps(value), strict=True)
            except ValueError:
                return True
        return False

    found = await compare(make_runner, breaks_types=breaks_types)
    sys.stdout.write(f"\n{found}\n")
    assert not found.refused, found.refused[:20]
    assert not found.differ, found.differ[:20]
    assert found.calls >= 1_000


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_call_that_waits_is_confirmed(confirmed: bool, tmp_path: Path) -> None:
    """ADK asks its user; after a restart the confirmation decides, and the call runs once."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, ask=True)
        agent = LlmAgent(name="agent", model=saying([("pay", {"to": "Bob", "cents": "5"})]), tools=tools)
        first = await Session(agent).send()
        (waiting,) = await bank.list()
        (asked,) = first.asked
        assert asked.args["toolConfirmation"]["payload"] == {"approval": waiting.id}
        assert waiting.id in first.answers[0]["error"]
        kept = await first.dump()
    assert bank.paid == []
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, ask=True)
        again = Session(LlmAgent(name="agent", model=saying(), tools=tools))
        await again.load(kept)
        await again.answer(confirmed=confirmed)
    assert again.answers == [{"result": "paid Bob 5"} if confirmed else {"error": "Error: A person refused this call."}]
    assert bank.paid == (["Bob 5"] if confirmed else [])
    assert [(each.id, each.state, each.by) for each in await bank.list()] == [
        (waiting.id, "approved" if confirmed else "rejected", "user")
    ]


async def test_a_consent_to_what_changed_since(tmp_path: Path) -> None:
    """The confirmation is for the call as it was shown: under another policy the model reads that the call waits."""
    bank = Bank(tmp_path)
    async with bank.start() as (registry, pipeline):
        tools = export_tools(registry, pipeline, ask=True)
        agent = LlmAgent(name="agent", model=saying([("pay", {"to": "Bob", "cents": 5})]), tools=tools)
        session = await Session(agent).send()
    bank.version = "2"
    async with bank.start() as (registry, pipeline):
        agent.tools = [*export_tools(registry, pipeline, ask=True)]
        await session.answer(confirmed=True)
    assert bank.paid == []
    first, second = await bank.list()
    assert (first.state, second.state) == ("pending", "pending")
    assert second.id in session.answers[-1]["error"]


async def test_what_is_exported() -> None:
    """A value and a failure, in ADK's form, for the caller and the conversation of the session."""
    registry = ToolRegistry()
    seen: list[tuple[str | None, str]] = []

    @registry.tool(effect="read", context=True)
    async def twice(context: ToolcallContext, n: int) -> dict[str, int] | int:
        seen.append((context.principal, context.call_id))
        return {"n": n * 2} if n > 5 else n * 2

    turns = [[("twice", {"n": "4"}), ("twice", {"n": 6}), ("twice", {"n": "x"})]]
    agent = LlmAgent(name="agent", model=saying(*turns), tools=export_tools(registry, standard(registry)))
    session = await Session(agent).send()
    assert session.answers[:2] == [{"result": 8}, {"n": 12}]
    assert session.answers[2]["error"].startswith("Error: Invalid parameter value for n")
    assert [who for who, _ in seen] == ["user", "user"]
    assert all(id_ for _, id_ in seen)


def test_a_call_that_killed_its_process_is_not_made_again(tmp_path: Path) -> None:
    """With a store, two further processes of the same conversation tell the model to check first."""
    codes, texts, effects = kill_and_ask_again("adk", tmp_path)
    assert (codes, effects) == ([-signal.SIGKILL, 0, 0], ["1 2"])
    assert len(texts) == 2
    assert all("may have taken effect" in text for text in texts)
