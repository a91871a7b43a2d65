"""Host: the pipeline around calls that an agent framework runs itself."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import anyio
import pytest
import sniffio
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from toolcall_pipeline import (
    Call,
    Failure,
    Pipeline,
    SetupError,
    Success,
    ToolFailed,
    ToolRegistry,
    Unavailable,
    ValidCall,
    render,
)
from toolcall_pipeline.hosts import Host, HostTool
from toolcall_pipeline.hosts.framework import ObjectIds, requires
from toolcall_pipeline.hosts.framework_reading import (
    Accepted,
    ModelReader,
    ValidatorReader,
    checks_names,
    find_arguments_validator,
)
from toolcall_pipeline.hosts.framework_spans import below_openinference
from toolcall_pipeline.middlewares import Trace, standard

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
READ = {"count": HostTool("Count.", SCHEMA, "read")}


class Interrupt(Exception):
    """Control flow of a framework."""


class Framework:
    """Runs its tools itself, and counts how often."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers]
        self.ran: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, call: ValidCall) -> object:
        self.ran.append((call.tool.name, dict(call.params)))
        await anyio.lowlevel.checkpoint()
        answer = self.answers.pop(0) if self.answers else call.params["n"]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.mark.parametrize("per", ["conversation", "principal", "tool"])
@pytest.mark.parametrize("window", ["", "window = 60"])
async def test_a_budget_of_the_policy_is_one_for_all_tools_of_a_host(per: str, window: str, tmp_path: Path) -> None:
    """Whatever tools the framework offers from step to step, their calls take from one quota; each host has its own."""
    file = tmp_path / "policy.toml"
    file.write_text(f'[[budgets]]\ncalls = 2\nper = "{per}"\n{window}')
    sets = [READ, {**READ, "other": HostTool("Another.", SCHEMA, "read")}, READ]
    for _ in range(2):
        host, framework = Host(policy=file), Framework()
        outcomes = [
            await host.run(host.offer(tools), Call("count", {"n": 1}, principal="ann", conversation="talk"), framework)
            for tools in sets
        ]
        assert [render(outcome) for outcome in outcomes[:2]] == ["1", "1"]
        error = outcomes[2].failure()
        assert isinstance(error, Unavailable)
        assert error.reason == "quota"
        assert len(framework.ran) == 2


async def test_the_framework_runs_a_resolved_and_valid_call() -> None:
    """The body gets the name of the tool and params that its schema allows, however the model wrote them."""
    host, framework = Host(canonical_names=True), Framework()
    outcome = await host.run(host.offer(READ), Call("Count", '{"n": "3"}'), framework)
    assert outcome == Success(3)
    assert framework.ran == [("count", {"n": 3})]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (Call("cuont", {"n": 1}), "Did you mean: count?"),
        (Call("count", {}), "Missing required parameter: n"),
        (Call("count", {"n": [1, 2]}), "must be an integer"),
        (Call("count", "n is 3"), "JSON"),
    ],
    ids=["near name", "missing", "wrong type", "no JSON"],
)
async def test_a_mistake_of_the_model_never_reaches_the_framework(call: Call, told: str) -> None:
    """What the model can mend is told to it, and the framework runs nothing."""
    host, framework = Host(), Framework()
    outcome = await host.run(host.offer(READ), call, framework)
    assert told in render(outcome)
    assert framework.ran == []


@pytest.mark.parametrize(("effect", "runs"), [("read", 2), ("idempotent", 2), (None, 1), ("unheard of", 1)])
async def test_what_may_have_taken_effect_is_not_run_again(effect: str | None, runs: int) -> None:
    """A tool whose effect nobody names counts as mutating."""
    host, framework = Host(build=without_waits), Framework(ConnectionError())
    outcome = await host.run(host.offer({"count": HostTool("", SCHEMA, effect)}), Call("count", {"n": 1}), framework)
    assert len(framework.ran) == runs
    assert type(outcome) is (Success if runs == 2 else Failure)


@pytest.mark.parametrize(("effect", "runs"), [("read", 3), ("idempotent", 1), ("mutating", 1)])
async def test_a_body_that_was_left_behind_may_still_run(effect: str, runs: int) -> None:
    """Nobody knows whether a framework runs it in a thread, so only what may run beside itself is tried again."""
    ran: list[int] = []

    async def body(_call: ValidCall) -> object:
        ran.append(1)
        await anyio.sleep_forever()
        return None

    host = Host(build=without_waits, timeout=0.01)
    outcome = await host.run(host.offer({"count": HostTool("", SCHEMA, effect)}), Call("count", {"n": 1}), body)
    assert type(outcome) is Failure
    assert len(ran) == runs


async def test_the_users_effects_win() -> None:
    """What the user says of a tool stands above what the framework's metadata say."""
    host, framework = Host({"count": "mutating"}), Framework(ConnectionError())
    outcome = await host.run(host.offer(READ), Call("count", {"n": 1}), framework)
    assert type(outcome) is Failure
    assert outcome.failure().kind == "outcome_unknown"
    assert len(framework.ran) == 1


async def test_control_flow_of_the_framework_passes_untouched() -> None:
    """An interrupt leaves the pipeline as it was raised, and is repeated by nobody."""
    host, interrupt = Host(passes=(Interrupt,)), Interrupt("approve?")
    framework = Framework(interrupt)
    with pytest.raises(Interrupt) as raised:
        await host.run(host.offer(READ), Call("count", {"n": 1}), framework)
    assert raised.value is interrupt
    assert len(framework.ran) == 1


@pytest.mark.parametrize("bind", [False, True])
async def test_a_conversation_is_one_whatever_tools_are_offered(bind: bool) -> None:
    """A failure among other tools is compared with, counted and forgotten as if the tools had not changed."""

    def build(tools: ToolRegistry, **options: Any) -> Pipeline:
        made = standard(tools, **options)
        return made.with_(principal="p", conversation="c") if bind else made

    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}}
    two = {"both": HostTool("", {**schema, "required": ["n", "m"]}, "read")}
    host, framework = Host(build=build), Framework()
    asker: Any = {} if bind else {"principal": "p", "conversation": "c"}
    turn = iter(range(200))

    async def say(arguments: dict[str, Any]) -> str:
        offered = {**two, f"other_{next(turn)}": HostTool()}
        return str(render(await host.run(host.offer(offered), Call("both", arguments, **asker), framework)))

    first = await say({})
    assert (await say({"n": 1})).endswith("`n` is fixed, `m` is still wrong.")
    assert "same arguments as before" in await say({"n": 1})
    told = [await say({"n": 1}) for _ in range(120)]  # more sets than have a pipeline of their own
    assert "it was refused 122 times" in told[-1]
    assert await say({"n": 1, "m": 2}) == "1"
    assert await say({}) == first


async def test_a_crash_keeps_its_secret() -> None:
    """The text of an exception that nobody approved stays with the developer."""
    host, framework = Host(), Framework(ValueError("password=hunter2"))
    outcome = await host.run(host.offer(READ), Call("count", {"n": 1}), framework)
    assert "hunter2" not in render(outcome)


async def test_words_of_the_author_reach_the_model() -> None:
    """A ToolFailed of the user's tool, and a Failure that the adapter makes, say what they say."""
    host, framework = Host(), Framework(ToolFailed("Ask for fewer."))
    assert "Ask for fewer." in render(await host.run(host.offer(READ), Call("count", {"n": 1}), framework))


async def test_only_what_is_offered_may_be_called() -> None:
    """A tool that was offered before, and is not now, is closed; its name is not suggested."""
    host, framework = Host(), Framework()
    both = {**READ, "delete": HostTool("Delete.", SCHEMA)}
    everything, fewer = host.offer(both), host.offer(READ)
    assert everything is host.offer(dict(both))
    assert everything is not fewer
    assert type(await host.run(fewer, Call("delete", {"n": 1}), framework)) is Failure
    assert "delete" not in render(await host.run(fewer, Call("delte", {"n": 1}), framework))
    assert await host.run(everything, Call("delete", {"n": 1}), framework) == Success(1)


async def test_a_changed_definition_is_learnt() -> None:
    """A tool whose schema changed is validated by the new one."""
    host, framework = Host(), Framework("new")
    host.offer(READ)
    changed = {"count": HostTool("Count.", {"type": "object", "properties": {"m": {"type": "string"}}}, "read")}
    assert await host.run(host.offer(changed), Call("count", {"m": "x"}), framework) == Success("new")


async def test_a_schema_that_does_not_compile_is_left_to_the_framework() -> None:
    """Such a tool takes any object; the framework has the last word on it."""
    host, framework = Host(), Framework("ran")
    strange = {"count": HostTool("", {"type": "object", "properties": {"n": {"$ref": "#/nowhere"}}})}
    assert await host.run(host.offer(strange), Call("count", {"n": "x"}), framework) == Success("ran")


async def test_calls_at_once_keep_their_bodies() -> None:
    """Each call is run by the body that was handed over with it."""
    host = Host()
    pipeline, answers = host.offer(READ), dict[int, Any]()

    async def ask(number: int) -> None:
        async def body(call: ValidCall) -> object:
            await anyio.lowlevel.checkpoint()
            return number, call.params["n"]

        answers[number] = await host.run(pipeline, Call("count", {"n": number}), body)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(ask, number)
    assert answers == {number: Success((number, number)) for number in range(20)}


def run_here(host: Host, body: Callable[[ValidCall], object]) -> Any:
    """The outcome of a call in a framework without an event loop."""
    return host.run_sync(host.offer(READ), Call("count", {"n": 1}), body)


def run_asyncio(work: Any) -> object:
    """As `anyio.run`."""
    return asyncio.run(work())


LOOPS: dict[str, Callable[[Any], object]] = {"asyncio": run_asyncio, "anyio": anyio.run, "trio": trio.run}


@pytest.mark.parametrize("started", LOOPS)
def test_a_sync_body_runs_where_the_framework_would_run_it(started: str) -> None:
    """It is the thread that called, where no loop runs: a body may start one, and may run another host's call."""
    host = Host()

    async def work() -> object:
        await anyio.lowlevel.checkpoint()
        return threading.get_ident()

    def body(_call: ValidCall) -> object:
        inner = run_here(host, lambda _: LOOPS[started](work))
        return inner.unwrap(), LOOPS[started](work)

    assert run_here(host, body) == Success((threading.get_ident(), threading.get_ident()))


async def test_a_sync_body_may_run_where_a_loop_runs(anyio_backend: str) -> None:
    """The framework alone would block that loop: the body sees it, and no other one."""
    outcome = run_here(Host(), lambda _: (sniffio.current_async_library(), threading.get_ident()))
    assert outcome == Success((anyio_backend, threading.get_ident()))


def test_a_sync_body_may_run_in_the_loop_of_synchronous_calls() -> None:
    """An async tool of a synchronous call may block that loop by a framework without one."""
    tools = ToolRegistry()

    @tools.tool
    async def ask() -> object:
        return run_here(Host(), lambda _: threading.get_ident()).unwrap() == threading.get_ident()

    assert standard(tools).call_sync("ask", {}).unwrap() is True


@pytest.mark.parametrize("where", ["in the body", "before the body"])
def test_an_interrupt_leaves_a_sync_call(where: str) -> None:
    """One from the keyboard is raised in the thread that called: in a body it ends that, else no body begins."""
    ran: list[int] = []

    def body(call: ValidCall) -> object:
        ran.append(1)
        raise KeyboardInterrupt

    async def interrupt(call: Any, call_next: Any) -> Any:
        if where == "before the body":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await anyio.sleep_forever()
        return await call_next(call)

    def build(tools: ToolRegistry, **options: Any) -> Pipeline:
        return standard(tools, **options).before("retry", interrupt)

    with pytest.raises(KeyboardInterrupt):
        run_here(Host(build=build), body)
    assert len(ran) == (where == "in the body")


@pytest.mark.parametrize("raised", [StopIteration(), SystemExit(2), GeneratorExit(), asyncio.CancelledError()])
def test_what_a_sync_body_raises_is_the_failure_of_its_call(raised: BaseException) -> None:
    """So is what has a meaning of its own for the loop that waits."""

    def body(_call: ValidCall) -> object:
        raise raised

    if isinstance(raised, GeneratorExit):
        with pytest.raises(GeneratorExit):
            run_here(Host(), body)
    else:
        assert run_here(Host(), body).failure().kind in {"internal", "execution"}


def test_mistakes_of_the_programmer_are_told_at_once() -> None:
    """An effect that is none, and an option that makes no sense, are set-up errors."""
    with pytest.raises(SetupError, match="effects"):
        Host({"count": "reads"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    with pytest.raises(SetupError, match="timeout"):
        Host(timeout=-1)


def without_waits(tools: ToolRegistry, **options: Any) -> Pipeline:
    from toolcall_pipeline.middlewares import Retry

    return standard(tools, **options).replace("retry", Retry(first_delay=0))


PACKAGES = {
    "adk": "google-adk",
    "agent_framework": "agent-framework-core",
    "anthropic_runner": "anthropic",
    "fastmcp": "fastmcp",
    "langchain": "langchain",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
}
MISSING = """
import importlib, sys
for host, framework in (pair.split("=") for pair in sys.argv[1:]):
    sys.modules[framework] = None
    try:
        importlib.import_module("toolcall_pipeline.hosts." + host)
    except ImportError as error:
        print(type(error).__name__, error)
"""


def test_a_missing_framework_says_what_to_install() -> None:
    """The import fails at once, and the text names an extra that exists."""
    hidden = {"adk": "google", "anthropic_runner": "anthropic", "openai_agents": "agents"}
    pairs = [f"{host}={hidden.get(host, host)}" for host in PACKAGES]
    done = subprocess.run([sys.executable, "-c", MISSING, *pairs], capture_output=True, text=True, check=True)
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, told in zip(PACKAGES.values(), done.stdout.splitlines(), strict=True):
        assert told.startswith("ImportError ")
        assert f"pip install 'toolcall-pipeline[{package}]'" in told
        assert package in extras


def test_the_error_of_a_missing_framework() -> None:
    """It says what to install, and which module was not found."""
    missing = ModuleNotFoundError("No module named 'fast'", name="fast", path="here")
    with pytest.raises(ImportError) as raised, requires("fastmcp"):
        raise missing
    error = raised.value
    words = "this module needs fastmcp: pip install 'toolcall-pipeline[fastmcp]' (No module named 'fast')"
    assert (str(error), error.name, error.path, error.__cause__) == (words, "fast", "here", missing)


class Tree(BaseModel):
    branches: list[Tree] = []


def grow(n: int, tree: Tree) -> None:
    """Takes a model that holds itself, whose schema stands among definitions."""


def add(n: int, *, by: int = 1) -> None:
    """Takes plain values."""


def test_a_validator_reads_the_arguments_of_a_function() -> None:
    """Text is JSON, and none of it is none; an object is converted, but strictly it is not."""
    cases: list[tuple[Any, Any, Any]] = [
        (add, '{"n": "1", "by": 2}', ((), {"n": 1, "by": 2})),
        (add, {"n": "1"}, ((), {"n": 1, "by": 1})),
        (grow, {"n": 1, "tree": {"branches": [{}]}}, ((), {"n": 1, "tree": Tree(branches=[Tree()])})),
    ]
    for function, sent, read in cases:
        validator = find_arguments_validator(TypeAdapter[Any](function))
        assert validator is not None
        assert ValidatorReader(validator)(sent) == read
        assert checks_names(validator)
        with pytest.raises(ValidationError):
            ValidatorReader(validator)("")
        with pytest.raises(ValidationError, match="valid integer"):
            ValidatorReader(validator, strict=True)({"n": "1"})
    assert find_arguments_validator(TypeAdapter[Any](int)) is None
    assert find_arguments_validator(TypeAdapter[Any](Tree)) is None


def test_a_validator_may_read_anything() -> None:
    """Without a function it gives what it made; no text is an object without fields; the context reaches it."""
    seen: list[object] = []

    def keep(value: Any, info: ValidationInfo) -> Any:
        seen.append(info.context)
        return value

    validator: Any = TypeAdapter[Any](Annotated[dict[str, Any], AfterValidator(keep)]).validator
    for sent, read in (("", {}), ('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1})):
        assert ValidatorReader(validator, context="it")(sent) == read
    assert ValidatorReader(validator, context="it", strict=True)({"a": 1}) == {"a": 1}
    assert seen == ["it"] * 4
    assert not checks_names(validator)


def test_an_object_has_one_text_while_it_lives() -> None:
    """Another object has another text, one that cannot be followed has none, and nothing is kept of the dead."""
    ids, one, other = ObjectIds(), Framework(), Framework()
    first = ids.find(one)
    assert (ids.find(one), ids.find(5)) == (first, "")
    assert first != ids.find(other)
    before = len(vars(ids)["_known"])
    del one
    gc.collect()
    assert len(vars(ids)["_known"]) == before - 1


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"effects": ["read"]}, "`effects` must be a Mapping or None"),
        ({"effects": {"count": "keyed"}}, "must be one of read, idempotent, mutating, not 'keyed'"),
        ({"passes": [ValueError]}, "`passes` must be a tuple of classes of exceptions"),
        ({"passes": (1,)}, "`passes` must be a tuple of classes of exceptions"),
        ({"build": "standard"}, "Host: `build` must be a plain function"),
    ],
)
def test_a_wrong_option_is_told_when_the_host_is_made(option: Any, told: str) -> None:
    """The first call would be too late: it would end the run."""
    with pytest.raises(SetupError) as refused:
        Host(**option)
    assert told in str(refused.value)


async def test_metadata_that_ask_for_a_key_count_as_mutating() -> None:
    """No framework hands an idempotency key to its tools."""
    host, framework = Host(), Framework(ConnectionError())
    outcome = await host.run(host.offer({"count": HostTool("", SCHEMA, "keyed")}), Call("count", {"n": 1}), framework)
    assert type(outcome) is Failure
    assert outcome.failure().kind == "outcome_unknown"


async def test_two_definitions_of_one_name_stay_apart() -> None:
    """Two agents share a host; each call is validated by the schema of its own agent, whoever offered last."""
    host, framework = Host(), Framework("first", "second")
    text = {"count": HostTool("Count.", {"type": "object", "properties": {"n": {"type": "string"}}}, "read")}
    first, second = host.offer(READ), host.offer(text)
    assert await host.run(first, Call("count", {"n": 1}), framework) == Success("first")
    assert await host.run(second, Call("count", {"n": "x"}), framework) == Success("second")
    assert host.offer(dict(READ)) is first


class Query(BaseModel):
    """What a framework makes of the parameters of a function."""

    words: Annotated[list[str], BeforeValidator(lambda sent: sent.split(",") if isinstance(sent, str) else sent)]
    limit: int = 5
    when: Annotated[date | None, Field(validation_alias=AliasChoices("when", "day"))] = None


QUERY = {"search": HostTool("Search.", Query.model_json_schema(by_alias=True), "read", ModelReader(Query))}


@pytest.mark.parametrize(
    ("sent", "params"),
    [
        ({"words": "a,b"}, {"words": "a,b"}),  # a repair would make ["a,b"] of it
        ({"words": ["a"], "limit": "7"}, {"words": ["a"], "limit": 7}),  # it reads both alike: the repaired one
        ({"words": ["a"], "day": "2024-01-01"}, {"words": ["a"], "day": "2024-01-01"}),
        ('{"words": "a,b"}', {"words": "a,b"}),
        ({"words": ["a"], "limit": None}, {"words": ["a"]}),  # it refuses this one, and takes the repaired one
        ({"words": ["a"], "limt": 1}, {"words": ["a"], "limt": 1}),  # it leaves the name out
        (Accepted(words=("a",), when=date(2024, 1, 1)), {"words": ("a",), "when": date(2024, 1, 1)}),
    ],
)
async def test_what_the_framework_reads_runs_as_it_reads_it(sent: object, params: dict[str, Any]) -> None:
    """A call that the framework accepts is not refused, and no repair changes what it reads."""
    host, framework = Host(), Framework("ran")
    assert await host.run(host.offer(QUERY), Call("search", sent), framework) == Success("ran")
    assert framework.ran == [("search", params)]


async def test_what_the_framework_refuses_is_refused_in_our_words() -> None:
    """Neither the schema nor the framework takes it."""
    host, framework = Host(), Framework()
    outcome = await host.run(host.offer(QUERY), Call("search", {"words": 5}), framework)
    assert "words" in render(outcome)
    assert framework.ran == []


async def test_the_users_functions_say_who_asks() -> None:
    """They stand above what the adapter found; what they return is the call's principal and its conversation."""
    host = Host(principal=lambda context: context["user"], conversation=lambda context: context.get("thread"))
    seen: list[tuple[str, str]] = []

    async def body(call: ValidCall) -> object:
        seen.append((call.principal, call.conversation))
        return None

    call = Call("count", {"n": 1}, principal="found", conversation="found too")
    await host.run(host.offer(READ), call, body, {"user": "ann"})
    await Host().run(host.offer(READ), call, body, {"user": "ann"})
    assert seen == [("ann", ""), ("found", "found too")]
    outcome = await host.run(host.offer(READ), call, body, {})
    assert type(outcome) is Failure
    assert len(seen) == 2  # nothing runs for a caller whom the function did not find


@pytest.mark.parametrize("option", ["principal", "conversation"])
def test_a_function_that_says_who_asks_is_a_plain_one(option: Any) -> None:
    """Nobody would await an async one."""

    async def find(_context: object) -> str:
        await anyio.lowlevel.checkpoint()
        return ""

    options: dict[str, Any] = {option: find}
    with pytest.raises(SetupError, match=option):
        Host(**options)


@pytest.mark.parametrize("place", ["around", "inside", "none"])
async def test_each_call_is_counted_by_one_span(place: str) -> None:
    """Where the framework makes a span for a call, ours says `toolcall`. A call in the tool is counted by ours."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    theirs = provider.get_tracer("framework")

    def build(tools: ToolRegistry, **options: Any) -> Pipeline:
        return standard(tools, **options).replace("trace", Trace(tracer_provider=provider))

    host = Host(build=build)
    inner = host.offer(READ)

    async def body(_call: ValidCall) -> object:
        async def run(_call: ValidCall) -> object:
            await anyio.lowlevel.checkpoint()
            raise ValueError

        with theirs.start_as_current_span("execute_tool count") if place == "inside" else nullcontext():
            return await host.run(inner, Call("count", {"n": 2}), run)

    around = theirs.start_as_current_span("execute_tool count") if place == "around" else nullcontext()
    with around:
        await host.run(inner, Call("count", {"n": 1}), body, counts_inside=place == "inside")
    names = [span.name for span in exporter.get_finished_spans() if span.name.endswith(("call count", "tool count"))]
    assert names.count("execute_tool count") == (2 if place != "inside" else 1)
    assert names.count("toolcall count") == (0 if place == "none" else 1 if place == "around" else 2)
    if place == "around":
        outermost = next(span for span in exporter.get_finished_spans() if span.parent is None)
        assert outermost.status.status_code is StatusCode.ERROR


def test_a_run_that_openinference_traces_is_around_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its span, which is never the current one, is so for the call; a span that is the current one stays it."""
    tracer = TracerProvider().get_tracer("test")
    run, ours = tracer.start_span("run"), tracer.start_span("ours")
    known: list[Any] = [run]
    for module, found, around, seen in (
        (None, [run], None, trace.INVALID_SPAN),
        (SimpleNamespace(get_current_span=lambda: known[0]), [run], None, run),
        (SimpleNamespace(get_current_span=lambda: known[0]), [run], ours, ours),
        (SimpleNamespace(get_current_span=lambda: known[0]), [None], None, trace.INVALID_SPAN),
        (SimpleNamespace(), [run], None, trace.INVALID_SPAN),
    ):
        known[:] = found
        monkeypatch.setitem(sys.modules, "openinference.instrumentation.langchain", module)
        with nullcontext() if around is None else trace.use_span(around):
            before = trace.get_current_span()
            with below_openinference():
                assert trace.get_current_span() is seen
            assert trace.get_current_span() is before
